"""The numbers of SECURITY.md are those of the code, and its table those of what the commands start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.check import one_file
from lintrain.installed import process, reading, trees
from lintrain.knowledge import parquet_files
from lintrain.settings import loading
from lintrain.source import git, notebook, source
from tests.attacks.attack import all_attacks
from tests.conftest import ROOT

PAGE = " ".join((ROOT / "SECURITY.md").read_text(encoding="utf-8").split())

KIB, MIB = 1024, 1024 * 1024
PROMISES = re.findall(r"\| `([a-z-]+)` \|$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE)
NUMBERS = {
    f"code of more than {'two million' if source.LARGEST_CODE == 2 * MIB else '?'} characters": "the largest code",
    f"configuration has at most {loading.LARGEST_FILE // MIB} MiB": "the largest configuration",
    f"its keys at most {loading.DEEPEST_KEY} parts": "the longest key",
    f"given up after {'a minute' if git.MOST_SECONDS == 60 else '?'}": "git's time",
    f"it gets at most {git.MOST_MEMORY // MIB} MiB": "git's memory",
    f"Parquet files of at most {parquet_files.LARGEST // MIB} MiB": "the largest Parquet file",
    f"with at most {parquet_files.LARGEST_END // KIB} KiB about themselves": "its metadata",
    f"Each file has {one_file.SECONDS:g} seconds of CPU time": "the clock of a file",
    f"A notebook of more than {notebook.SMALL // MIB} MiB": "the smallest large notebook",
    f"hold {'two million' if notebook.MOST_VALUES == 2_000_000 else '?'} JSON values": "the values of a notebook",
    f"({parquet_files.SAFE_VERSION} or newer)": "the oldest pyarrow",
    f"{trees.MOST_FILES} modules, {trees.LARGEST_FILE // MIB} MiB each and {trees.MOST_BYTES // MIB} MiB": "a package",
    f"has {process.SECONDS:g} seconds for one script and {process.SECONDS_OF_RUN:g} for a run": "the time for packages",
    f"{reading.MOST_SECONDS} seconds of CPU time, and {reading.MOST_MEMORY // 2**30} GiB": "the process that reads",
    f"promise at most {parquet_files.MOST_UNFOLDED // MIB} MiB": "what is decompressed",
}


def test_every_promise_is_attacked_and_every_attack_is_on_a_promise() -> None:
    assert sorted(PROMISES) == sorted({each.promise for each in all_attacks().values()})
    assert len(PROMISES) == len(set(PROMISES))


@pytest.mark.parametrize("said", NUMBERS, ids=list(NUMBERS.values()))
def test_a_number_of_the_page_is_that_of_the_code(said: str) -> None:
    assert said in PAGE


STARTED = """
import os, sys

LOCAL = 1  # a socket that is a file, over which parts of a probe speak with one another

def hear(event, values):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        os.write(2, f"started {os.path.basename(str(values[0]))}\\n".encode())
    elif event == "socket.getaddrinfo" or (event in ("socket.connect", "socket.bind") and values[0].family != LOCAL):
        os.write(2, f"network {values}\\n".encode())

sys.addaudithook(hear)
from lintrain.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "started"),
    [
        (["check", "--no-cache", "."], {"ruff"}),
        (["check", "--no-cache", "--fix", "--diff", "."], {"ruff"}),
        (["check", "--no-cache", "--changed-since", "HEAD", "."], {"ruff", "sh"}),
        (["baseline"], {"ruff"}),
        (["rules"], set[str]()),
        (["explain", "raw-dataset"], set[str]()),
        (["probe", "--no-cache", "train.py"], {"ruff", Path(sys.executable).name}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_starts_only_what_the_page_says(tmp_path: Path, words: list[str], started: set[str]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x", "--allow-empty"],
        cwd=tmp_path,
        check=True,
    )
    (tmp_path / "train.py").write_text("import torch\nif False:\n    print(nowhere)\n")
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    heard = [line.split(" ", 1) for line in done.stderr.splitlines() if line.startswith(("started ", "network "))]
    assert {name for kind, name in heard if kind == "started"} == started, done.stderr
    assert [name for kind, name in heard if kind == "network"] == []
