"""A server without room, without a cache, with probes that die: the editor hears of it once, and all else goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.language_client import Json, LanguageClient, start_process
from tests.test_faults_disk import CODE_IS_NOT_KEPT, LOOP, no_room
from tests.test_faults_signals import KILLED, STARVED, nobody_stays_in
from tests.test_faults_signals import LOOP as FAULTY

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full and /proc")

MISTAKE = LOOP.replace("    optimizer.zero_grad()\n", "")

Start = Callable[..., LanguageClient]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server in the folder, which ends with the test and leaves no process."""
    started: list[tuple[subprocess.Popen[bytes], LanguageClient]] = []

    def connect(cache: str, limit: Callable[[], None] | None = None) -> LanguageClient:
        started.append(start_process(tmp_path, {**CODE_IS_NOT_KEPT, "LINTRAIN_CACHE_DIR": cache}, limit))
        started[-1][1].start([tmp_path])
        return started[-1][1]

    yield connect
    for process, client in started:
        client.stop()
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()
    assert nobody_stays_in(tmp_path)


def opened(client: LanguageClient, folder: Path, text: str) -> str:
    (folder / "train.py").write_text(text)
    return client.open(folder / "train.py")


def rules(client: LanguageClient, uri: str) -> list[str]:
    return [each["code"] for each in client.diagnostics(uri)]


def probed(client: LanguageClient, uri: str) -> str:
    """What the editor shows when a probe has ended."""
    client.ask("workspace/executeCommand", {"command": "lintrain.probe", "arguments": [uri]})
    told: Json = client.wait_for(lambda each: each["method"] == "window/showMessage")
    return str(told["params"]["message"])


@pytest.mark.turns(one_in=3, of="file")
def test_a_server_on_a_full_disk_checks_and_says_that_it_cannot_probe(start: Start, tmp_path: Path) -> None:
    client = start(str(tmp_path / "cache"), no_room)
    uri = opened(client, tmp_path, MISTAKE)
    assert rules(client, uri) == ["missing-zero-grad"]
    said = "lintrain: probing train.py failed: could not judge: no disk space for the probe's files: "
    assert probed(client, uri).startswith(said)
    client.change(uri, 2, {"text": LOOP})
    assert client.diagnostics(uri, 2) == []
    assert client.messages() == []


@pytest.mark.turns(one_in=3, of="file")
def test_verdicts_that_a_server_cannot_keep_are_told_once(start: Start, tmp_path: Path) -> None:
    client = start("/proc/lintrain")
    uri = opened(client, tmp_path, MISTAKE)
    assert rules(client, uri) == ["missing-zero-grad"]
    assert probed(client, uri) == "lintrain: train.py: 1 mistake confirmed"
    told = client.wait_for(lambda each: each["method"] == "window/showMessage")["params"]["message"]
    assert told.startswith("lintrain: the verdicts are not cached for later checks: ")
    assert probed(client, uri) == "lintrain: train.py: 1 mistake confirmed"
    assert (
        client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}})
        is None
    )
    assert client.messages() == []


@pytest.mark.turns(one_in=2)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (KILLED, "could not judge: the process was killed by signal 9 (SIGKILL) while measuring"),
        (STARVED, "could not judge the step stage: the machine has too little memory"),
    ],
)
def test_a_probed_script_that_dies_is_told_once_and_the_next_probe_works(
    start: Start, tmp_path: Path, fault: str, said: str
) -> None:
    client = start(str(tmp_path / "cache"))
    uri = opened(client, tmp_path, FAULTY.replace("FAULT", fault))
    assert probed(client, uri) == f"lintrain: train.py: {said}"
    assert client.messages() == []
    client.close(uri)
    uri = opened(client, tmp_path, LOOP)
    assert probed(client, uri) == "lintrain: train.py: 1 step ran, nothing confirmed"
    assert client.messages() == []
