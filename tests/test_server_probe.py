"""A probe that the user starts in the editor: its progress, its verdicts, and its end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lintrain.server import probes
from tests.support.language_client import Json, LanguageClient, applied, span
from tests.test_server import LOOP, RELATED, Connect, connect, everything, rules, written

__all__ = ["connect"]

PROGRESS: Json = {"window": {"workDoneProgress": True}}

STAND_IN = """
import json, os, signal, sys, time
def end(*_):
    open("ended", "w").close()
    os._exit(130)
signal.signal(signal.SIGTERM, end)
print("probe: passed script (0.10 s)", file=sys.stderr, flush=True)
while os.path.exists("wait"):
    time.sleep(0.01)
print({said!r}, file=sys.stderr, flush=True)
print({report!r})
sys.exit({code})
"""


def finding(path: str, line: int, verdict: Json, rule: str = "unused-parameters", facts: Json | None = None) -> Json:
    location = {"path": path, "cell": None, "line": line, "column": 1, "end_line": line, "end_column": 4}
    location["file_line"] = line
    return {
        "rule": rule,
        "level": "warning",
        "message": "2 of 3 tensors never change",
        "location": location,
        "why": "",
        "help": "",
        "related": [],
        "claim": facts or {},
        "verdict": {"measured": {}, **verdict},
    }


CONFIRMED = {"outcome": "confirmed", "reason": "2 of 3"}


def stand_in(
    monkeypatch: pytest.MonkeyPatch, findings: list[Json], *, code: int = 1, report: str | None = None, said: str = ""
) -> None:
    """A probe that takes no time and says this."""
    text = json.dumps({"findings": findings, "reason": "1 mistake confirmed"}) if report is None else report
    program = STAND_IN.format(report=text, code=code, said=said)
    monkeypatch.setattr(probes, "command_of", lambda *_: [sys.executable, "-c", program])


def start(client: LanguageClient, uri: str) -> None:
    client.ask("workspace/executeCommand", {"command": "lintrain.probe", "arguments": [uri]})


def shown(client: LanguageClient) -> str:
    message: Any = client.wait_for(lambda each: each["method"] == "window/showMessage")["params"]["message"]
    return str(message)


def progress(client: LanguageClient, kind: str) -> Json:
    told = client.wait_for(lambda each: each["method"] == "$/progress" and each["params"]["value"]["kind"] == kind)
    params: Json = told["params"]
    return params


def test_a_probe_shows_its_steps_and_what_it_comes_to(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, [finding("train.py", 3, CONFIRMED)])
    client = connect(PROGRESS)
    uri = client.open(written(tmp_path))
    assert rules(client.diagnostics(uri)) == ["missing-zero-grad"]
    start(client, uri)
    assert progress(client, "begin")["value"] == {
        "kind": "begin",
        "title": "probing train.py",
        "cancellable": True,
    }
    assert progress(client, "report")["value"]["message"] == "passed script (0.10 s)"
    assert shown(client) == "lintrain: train.py: 1 mistake confirmed"
    progress(client, "end")


def test_what_only_a_run_shows_stays_until_the_text_changes(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, [finding("train.py", 3, CONFIRMED)])
    client = connect()
    uri = client.open(written(tmp_path))
    client.diagnostics(uri)
    start(client, uri)
    found = {each["code"]: each for each in client.diagnostics(uri)}
    assert found["unused-parameters"]["range"] == span(2, 0, 3)
    assert found["unused-parameters"]["message"] == "2 of 3 tensors never change\nconfirmed by a probe: 2 of 3"
    client.change(uri, 2, {"range": span(0, 0, 0), "text": "#\n"})
    assert rules(client.diagnostics(uri, 2)) == ["missing-zero-grad"]


def test_what_only_a_run_shows_can_be_mended(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = LOOP + "loss = torch.nn.functional.mse_loss(net(x), y)\n"
    found = finding("train.py", 9, CONFIRMED, "broadcast-loss", {"argument": "target"})
    found["location"] |= {"column": 8, "end_column": 47}
    stand_in(monkeypatch, [found])
    client = connect()
    uri = client.open(written(tmp_path, text))
    client.diagnostics(uri)
    start(client, uri)
    assert "broadcast-loss" in rules(client.diagnostics(uri))
    (action,) = [each for each in client.actions(uri, span(8, 8, 9)) if "squeeze" in each["title"]]
    assert action["title"] == "lintrain: squeeze the target (unsafe fix)"
    assert applied(text, action["edit"]["changes"][uri]) == text.replace("y)\n", "y.squeeze(-1))\n")


def test_a_verdict_on_what_the_text_shows_is_kept(connect: Connect, tmp_path: Path) -> None:
    from lintrain._version import __version__
    from lintrain.evidence.stages import Ending, EndingKind
    from lintrain.model.finding import Finding
    from lintrain.model.level import Level
    from lintrain.model.location import Location
    from lintrain.model.verdict import Verdict
    from lintrain.runtime.parent.kept_verdicts import keep_verdicts
    from lintrain.runtime.parent.record import SCHEMA, Record

    path = written(tmp_path)
    client = connect(RELATED | {"textDocument": {"hover": {"contentFormat": ["markdown"]}}})
    uri = client.open(path)
    (before,) = client.diagnostics(uri)
    location = Location(str(path), 7, 5, 7, 20)
    claim = Finding("missing-zero-grad", Level.ERROR, location, before["message"].partition("\n")[0])
    record = Record(SCHEMA, __version__, str(path), "", sys.executable, Ending(EndingKind.MEASURED), ())
    keep_verdicts(record, [(claim, Verdict.refuted("each step starts from zero"))])
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    (after,) = client.diagnostics(uri)
    assert (before["severity"], after["severity"]) == (1, 4)
    assert "refuted by a probe: each step starts from zero" in after["message"]
    here = {"textDocument": {"uri": uri}, "position": {"line": 6, "character": 6}}
    assert "**refuted** by the last probe" in client.ask("textDocument/hover", here)["contents"]["value"]
    action = next(each for each in client.actions(uri, everything(LOOP)) if "ignore" in each["title"])
    assert "-- refuted by a probe: each step starts from zero" in str(action["edit"])
    client.change(uri, 2, {"range": span(0, 0, 0), "text": "#\n"})
    assert "refuted" not in client.diagnostics(uri, 2)[0]["message"]


def test_a_probe_is_cancelled(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [])
    (tmp_path / "wait").touch()
    client = connect(PROGRESS)
    uri = client.open(written(tmp_path))
    start(client, uri)
    token = progress(client, "report")["token"]
    start(client, uri)
    assert shown(client) == "lintrain: train.py is being probed"
    client.notify("window/workDoneProgress/cancel", {"token": token})
    assert shown(client) == "lintrain: the probe of train.py was cancelled"
    progress(client, "end")


def test_a_probe_ends_with_its_server(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [])
    (tmp_path / "wait").touch()
    client = connect(PROGRESS)
    start(client, client.open(written(tmp_path)))
    progress(client, "report")
    client.stop()
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    ("code", "report", "said", "told"),
    [
        (2, "", "lintrain: no such file", "probing train.py failed: no such file"),
        (1, "{broken", "", "probing train.py failed: exit code 1"),
        (130, "", "", "the probe of train.py was cancelled"),
    ],
)
def test_a_probe_that_fails_says_why(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, report: str, said: str, told: str
) -> None:
    stand_in(monkeypatch, [], code=code, report=report, said=said)
    client = connect()
    start(client, client.open(written(tmp_path)))
    assert shown(client) == f"lintrain: {told}"


def test_what_is_not_saved_is_not_probed(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, [])
    client = connect()
    uri = client.open(written(tmp_path))
    client.change(uri, 2, {"range": span(0, 0, 0), "text": "#\n"})
    start(client, uri)
    assert shown(client) == "lintrain: train.py has unsaved changes; save it first, since a probe runs the file"
    start(client, "untitled:Untitled-1")
    assert shown(client) == "lintrain: untitled:Untitled-1 is not saved as a file; a probe runs the file"


def test_the_settings_go_to_the_probe() -> None:
    from lintrain.server.project import ProbeSettings

    settings = ProbeSettings("py", ["--lr", "1"], ["memory", "ranks"], 9.0)
    command = probes.command_of("train.py", settings, "x.toml", "page.html")
    assert command[1:5] == ["-P", "-m", "lintrain", "probe"]
    assert command[5:] == [
        *(
            "--json",
            "--until-stdin-ends",
            "--html",
            "page.html",
            "--python",
            "py",
            "--timeout",
            "9.0",
            "--also",
            "memory,ranks",
        ),
        *("--config", "x.toml", "train.py", "--", "--lr", "1"),
    ]


SHOWS = {"window": {"showDocument": {"support": True}}}


def ask_for_report(client: LanguageClient, uri: str) -> None:
    client.ask("workspace/executeCommand", {"command": "lintrain.report", "arguments": [uri]})


def opened(client: LanguageClient) -> str:
    params: Json = client.wait_for(lambda each: each["method"] == "window/showDocument")["params"]
    assert params["external"], "an editor would show its code"
    return Path(params["uri"].removeprefix("file://")).read_text()


def test_the_report_of_a_probe_is_shown_to_who_asks_for_it(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(_path: str, _settings: object, _configuration: str | None, page: str) -> list[str]:
        Path(page).write_text("<title>train.py: lintrain probe</title>")
        report = json.dumps({"findings": [], "reason": "ok"})
        return [sys.executable, "-c", STAND_IN.format(report=report, code=0, said="")]

    monkeypatch.setattr(probes, "command_of", command)
    client = connect(SHOWS)
    client.chosen = "Show the Report"
    uri = client.open(written(tmp_path))
    ask_for_report(client, uri)
    assert shown(client) == "lintrain: train.py has not been probed here since the server started"
    start(client, uri)
    question = client.wait_for(lambda each: each["method"] == "window/showMessageRequest")
    assert question["params"]["message"] == "lintrain: train.py: ok"
    assert [each["title"] for each in question["params"]["actions"]] == ["Show the Report"]
    assert "lintrain probe" in opened(client)
    ask_for_report(client, uri)
    assert "lintrain probe" in opened(client)


@pytest.mark.slow
def test_a_real_probe_confirms_a_finding(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    client.diagnostics(uri)
    start(client, uri)
    assert "1 mistake confirmed" in shown(client)
    ask_for_report(client, uri)
    page = Path(shown(client).removeprefix("lintrain: the report is "))
    assert "missing-zero-grad" in page.read_text()
    (found,) = client.diagnostics(uri)
    assert "confirmed by a probe: " in found["message"]
