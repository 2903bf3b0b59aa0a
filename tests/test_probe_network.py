"""What a probe lets out: which requests read, which variables are keys, which Pythons are watched, what is reported."""

from __future__ import annotations

import json
import os
import platform
import ssl
import sys
from pathlib import Path

import pytest

from lintrain.runtime.parent.launcher import notes_of_stopped
from lintrain.runtime.sandbox.network import gate, network
from lintrain.runtime.sandbox.network.gate import FILE, Gate, StoppedError, is_secret, refusal, without_secrets
from lintrain.runtime.sandbox.network.programs import is_watched
from lintrain.runtime.sandbox.network.sockets import Stream

HUB = "huggingface.co"
GUARDED = {"LINTRAIN_PROBE_REQUEST": "request.json", "PYTHONPATH": "site"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "CONNECT"])
def test_what_reads_passes(method: str) -> None:
    assert gate.only_reads(method, HUB, "/api/models/user/repo")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "MKCOL", "get", "PROPFIND", "POST", "TRACE", ""])
def test_every_other_method_is_stopped(method: str) -> None:
    assert not gate.only_reads(method, HUB, "/api/models/user/repo")


@pytest.mark.parametrize(
    ("host", "target"),
    [
        (HUB, "/api/models/user/repo/paths-info/main"),
        (HUB, "/api/datasets/glue/paths-info/refs%2Fpr%2F1?expand=1"),
        (HUB, "https://huggingface.co/api/spaces/user/repo/paths-info/main"),
        ("hub.example:8080", "/mirror/api/models/user/repo/paths-info/main"),
        (HUB, "/api/buckets/user/bucket/paths-info"),
        ("github.com", "/user/repo.git/git-upload-pack"),
        ("oauth2.googleapis.com", "/token"),
        ("sts.eu-west-1.amazonaws.com", "/"),
    ],
)
def test_the_posts_that_read_are_listed(host: str, target: str) -> None:
    assert gate.only_reads("POST", host, target)


@pytest.mark.parametrize(
    ("host", "target"),
    [
        (HUB, "/api/models/user/repo/commit/main"),
        (HUB, "/api/models/user/repo/preupload/main"),
        (HUB, "/api/models/user/repo/paths-info/main/../../commit/main"),
        (HUB, "/api/models/user/repo/paths-info/%2e%2e"),
        (HUB, "/api/repos/create?x=/api/models/user/repo/paths-info/main"),
        (HUB, "/user/repo.git/git-receive-pack"),
        (HUB, "/user/repo.git/info/lfs/objects/batch"),
        ("api.wandb.ai", "/graphql"),
        ("token.example", "/token"),
        ("sts.amazonaws.com.example", "/"),
        ("user@evil.example", "/token"),
        ("s3.amazonaws.com", "/bucket/key?uploads"),
    ],
)
def test_posts_that_look_like_them_are_stopped(host: str, target: str) -> None:
    assert not gate.only_reads("POST", host, target)


def test_a_report_shows_no_query_no_key_and_no_control_character() -> None:
    shown = gate.shown("POST", "user:password@hooks.example:443", "/services/T0123/aB3dE5gH7jK9mN1pQ3sT5?token=x")
    assert shown == "POST hooks.example:443/services/T0123/…"
    assert gate.shown("PUT", "a\x1b]0;b", "/c`d\n") == "PUT a?]0;b/c?d?"
    assert len(gate.shown("PUT", HUB, "/a b" * 1000)) == 120


@pytest.mark.parametrize(
    "sent",
    [
        b"PUT /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"put /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT /a HTTP/1.0\n\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Http-Method-Override: PUT\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_stream_stops_in_whatever_pieces_it_comes(tmp_path: Path, sent: bytes, size: int) -> None:
    stream = Stream(Gate(str(tmp_path), is_offline=False), "x", is_raw=True)
    pieces = [sent[begin : begin + size] for begin in range(0, len(sent), size)]
    with pytest.raises(StoppedError):
        any(stream.demand_read(piece) for piece in pieces)  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"HEAD /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
        b"POST /api/models/user/repo/paths-info/main HTTP/1.1\r\nHost: x\r\n\r\n" + b'{"paths": ["a"]}',
        b"\x16\x03\x01\x02\x00" + b"PUT /a HTTP/1.1",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_stream_that_reads_passes_to_another_machine(tmp_path: Path, sent: bytes, size: int) -> None:
    stream = Stream(Gate(str(tmp_path), is_offline=False), "x", is_raw=False)
    for begin in range(0, len(sent), size):
        stream.demand_read(memoryview(sent)[begin : begin + size])
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("sent", [b"EHLO a\r\n", b"USER a\r\n", b"SSH-2.0-x\r\n", b"\x00\x00\x00\x08", b"*1\r\n"])
def test_what_is_neither_http_nor_tls_stays_on_this_machine(tmp_path: Path, sent: bytes) -> None:
    gate = Gate(str(tmp_path), is_offline=False)
    Stream(gate, "x", is_raw=True).demand_read(sent)
    with pytest.raises(StoppedError, match="neither HTTP nor TLS"):
        Stream(gate, "x", is_raw=False).demand_read(sent)


def test_an_error_that_comes_of_it_is_known_through_others() -> None:
    stopped = StoppedError("a probe sends nothing that could change something elsewhere: `PUT x/` was stopped")
    wrapped = ssl.SSLError(str(stopped))
    caused = ValueError("upload failed")
    caused.__cause__ = stopped
    for error in (stopped, wrapped, caused):
        assert (refusal(error) or "").endswith("`PUT x/` was stopped")
    assert refusal(ConnectionRefusedError("no")) is None


KEYS = (
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    *("AWS_SESSION_TOKEN", "AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS", "GITHUB_TOKEN", "GH_TOKEN"),
    *("COMET_API_KEY", "NEPTUNE_API_TOKEN", "CLEARML_API_SECRET_KEY", "KAGGLE_KEY", "OPENAI_API_KEY"),
    *("ANTHROPIC_API_KEY", "DATABASE_URL", "PGPASSWORD", "SSH_AUTH_SOCK", "SENTRY_DSN", "SLACK_WEBHOOK_URL"),
    *("NPM_TOKEN", "CI_JOB_JWT", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_USERNAME", "AZURE_STORAGE_KEY"),
    *("hf_token", "ACTIONS_ID_TOKEN_REQUEST_URL"),
)
OTHERS = (
    *("PATH", "HOME", "LANG", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "PYTHONPATH", "MASTER_ADDR"),
    *("RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "TMPDIR", "USER", "LINTRAIN_PROBE_REQUEST", "LINTRAIN_PROBE_NETWORK"),
    *("HF_HOME", "CUDA_VISIBLE_DEVICES", "MLFLOW_TRACKING_URI", "KEYBOARD", "LD_LIBRARY_PATH"),
)


def test_keys_are_known_by_their_names() -> None:
    assert [name for name in KEYS if not is_secret(name)] == []
    assert [name for name in OTHERS if is_secret(name)] == []


def test_a_program_gets_refusing_proxies_and_empty_stores() -> None:
    given = without_secrets(
        {"HF_TOKEN": "x", "PATH": "/bin", "https_proxy": "http://proxy:1", "no_proxy": "*"}, "/none"
    )
    assert "HF_TOKEN" not in given
    assert given["PATH"] == "/bin"
    assert {given[name] for name in ("http_proxy", "HTTPS_PROXY", "all_proxy")} == {"http://127.0.0.1:9"}
    assert given["no_proxy"] == given["NO_PROXY"] == ""
    assert given["HF_TOKEN_PATH"] == "/none/token"


@pytest.mark.parametrize(
    "words",
    [["-c", "pass"], ["-m", "pip"], ["train.py", "-I"], ["-u", "-W", "error", "-X", "dev", "a.py"], ["-Xfrozen"]],
)
def test_a_python_that_loads_the_guard_is_watched(words: list[str]) -> None:
    assert is_watched("/usr/bin/python3.12", ["python", *words], GUARDED)


@pytest.mark.parametrize("words", [["-I", "-c", "pass"], ["-S"], ["-bEu", "a.py"], ["-u", "-sI", "a.py"]])
def test_a_python_without_it_is_like_any_program(words: list[str]) -> None:
    assert not is_watched(sys.executable, ["python", *words], GUARDED)


def test_other_programs_and_emptied_environments_are_not_watched() -> None:
    assert not is_watched("/bin/sh", ["sh"], GUARDED)
    assert not is_watched(sys.executable, ["python", "-c", "pass"], {"PYTHONPATH": "site"})
    assert not is_watched(sys.executable, ["python", "-c", "pass"], {"LINTRAIN_PROBE_REQUEST": "request.json"})


def test_what_processes_wrote_down_is_counted_and_bounded(tmp_path: Path) -> None:
    lines = [json.dumps("PUT x/a"), json.dumps("PUT x/a"), "no json", "[1]", json.dumps("b\x1b\n" + "c" * 1000)]
    (tmp_path / FILE).write_text("\n".join(lines) + "\n")
    notes = notes_of_stopped(tmp_path, ["a connection of `curl`"])
    assert notes[0] == "not sent: `PUT x/a`, 2 times"
    assert notes[-1] == "not sent: a connection of `curl`"
    assert max(map(len, notes)) < 200
    assert "\x1b" not in "".join(notes)
    many = notes_of_stopped(tmp_path, [f"a connection to {number}" for number in range(50)])
    assert (len(many), many[-1]) == (13, "not sent: 40 other requests")


def test_a_file_that_is_no_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    assert notes_of_stopped(tmp_path, ()) == ()


@pytest.mark.parametrize("machine", list(network.MACHINES))
@pytest.mark.parametrize("secret", [0, 2**63 - 1])
def test_every_jump_of_the_filter_stays_in_it(machine: str, secret: int) -> None:
    steps = network.filter_steps(machine, secret)
    for number, (code, yes, no, value) in enumerate(steps):
        if code & 7 == 5:  # a jump
            targets = (number + 1 + value,) if code == 5 else (number + 1 + yes, number + 1 + no)
            assert max(targets) < len(steps)
    assert steps[-1][0] == network.RETURN


def test_offline_is_passed_on_to_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lintrain.runtime.parent.environment import script_environment

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("LINTRAIN_PROBE_NETWORK", "1")
    plain = script_environment(tmp_path / "request.json", tmp_path, "cpu")
    offline = script_environment(tmp_path / "request.json", tmp_path, "cpu", offline=True)
    assert "HF_HUB_OFFLINE" not in plain
    assert offline["HF_HUB_OFFLINE"] == "1"
    assert "LINTRAIN_PROBE_NETWORK" not in plain
    assert plain["HF_HUB_DISABLE_XET"] == "1"


def test_this_machine_is_one_that_the_filter_knows() -> None:
    known = sys.platform.startswith("linux") and platform.machine() in ("x86_64", "aarch64")
    assert network.is_possible() == known
    assert os.sep == "/" or not known
