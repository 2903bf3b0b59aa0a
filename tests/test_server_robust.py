"""Whatever happens, the server says so once and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lintrain.rulebook import load_rules
from tests.support.language_client import PULLS, Json, LanguageClient, span
from tests.test_server import CLEARED, LOOP, Connect, connect, everything, rules, written

__all__ = ["connect"]


def is_well(client: LanguageClient, folder: Path, name: str = "well.py") -> None:
    """The server answers as ever."""
    assert rules(client.diagnostics(client.open(written(folder, LOOP, name)))) == ["missing-zero-grad"]


def test_a_malformed_configuration_is_told_once_and_that_of_before_goes_on(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    settings = written(tmp_path, 'ignore = ["missing-zero-grad"]\n', "lintrain.toml")
    uri = client.open(written(tmp_path))
    assert client.diagnostics(uri, 1) == []
    settings.write_text("ignore = [\n# broken")
    for version in (2, 3):
        client.change(uri, version, {"range": span(0, 0, 0), "text": "#\n"})
        assert client.diagnostics(uri, version) == []
    (message,) = client.messages()
    assert "lintrain.toml: invalid TOML" in message
    settings.write_text("")
    client.change(uri, 4, {"range": span(0, 0, 0), "text": "#\n"})
    assert rules(client.diagnostics(uri, 4)) == ["missing-zero-grad"]


def test_a_configuration_that_was_never_well_leaves_the_defaults(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    written(tmp_path, "select = 3\n", "lintrain.toml")
    is_well(client, tmp_path)
    is_well(client, tmp_path, "other.py")
    (message,) = client.messages()
    assert "`select`: must be a list" in message


def test_a_crashed_rule_is_told_once_and_the_others_are_heard(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_: object) -> None:
        raise ZeroDivisionError("by design")

    broken = next(rule for rule in load_rules() if rule.name == "missing-step")
    monkeypatch.setattr(broken.rule, "check", crash)
    client = connect()
    is_well(client, tmp_path)
    is_well(client, tmp_path, "other.py")
    (message,) = client.messages()
    assert "`missing-step` failed on " in message
    assert "well.py: ZeroDivisionError: by design; this is a bug in lintrain: report it as an issue" in message
    assert message.endswith("; `--ignore missing-step` runs without the rule")


def test_a_check_that_fails_as_a_whole_is_told_and_the_server_goes_on(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no more")

    client = connect()
    with monkeypatch.context() as broken:
        broken.setattr("lintrain.check.check_run.CheckRun.check", fail)
        assert client.diagnostics(client.open(written(tmp_path))) == []
    assert "RuntimeError: no more" in client.messages()[0]
    is_well(client, tmp_path)


def test_a_file_that_vanished_is_checked_as_it_is_in_the_editor(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    path = written(tmp_path)
    uri = client.open(path)
    client.diagnostics(uri, 1)
    path.unlink()
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 3}]})
    assert rules(client.diagnostics(uri, 1)) == ["missing-zero-grad"]
    client.change(uri, 2, {"text": CLEARED})
    assert client.diagnostics(uri, 2) == []
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    is_well(client, tmp_path)


def test_a_module_that_vanished_is_missing(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    module = written(tmp_path, "def clear(optimizer):\n    pass\n", "steps.py")
    text = "from steps import clear\n" + LOOP.replace("    loss", "    clear(optimizer)\n    loss", 1)
    uri = client.open(written(tmp_path, text))
    assert rules(client.diagnostics(uri)) == ["missing-zero-grad"]
    module.unlink()
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": module.as_uri(), "type": 3}]})
    assert client.diagnostics(uri) == []


NONSENSE: dict[str, Callable[[LanguageClient, str], None]] = {
    "a body that is no JSON": lambda client, _: client.send_raw(b"{nonsense"),
    "a body that is no object": lambda client, _: client.send_raw(b"[1, 2]"),
    "bytes that are no text": lambda client, _: client.send_raw(b"\xff\xfe\x00"),
    "another protocol": lambda client, _: client.send_raw(b'{"jsonrpc": "1.0", "method": "x"}'),
    "an unknown notification": lambda client, _: client.notify("lintrain/unknown", {"x": 1}),
    "a change without a place for it": lambda client, uri: client.notify("textDocument/didChange", {"uri": uri}),
    "a change of what is not open": lambda client, _: client.change("file:///nowhere.py", 2, {"text": ""}),
    "a change outside the text": lambda client, uri: client.change(uri, 2, {"range": span(999, 5, 2), "text": "\n"}),
    "a close of what is not open": lambda client, _: client.close("file:///nowhere.py"),
    "an address that is none": lambda client, _: client.close("file://[nonsense"),
    "an answer to no question": lambda client, _: client.send({"id": "never asked", "result": 3}),
    "a cancel of no question": lambda client, _: client.notify("$/cancelRequest", {"id": 999}),
    "a cell of no notebook": lambda client, _: client.notify(
        "notebookDocument/didChange",
        {"notebookDocument": {"uri": "file:///no.ipynb", "version": 2}, "change": {"cells": {}}},
    ),
    "a cancel of no progress": lambda client, _: client.notify("window/workDoneProgress/cancel", {"token": "none"}),
}


@pytest.mark.parametrize("send", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_told_once_at_most(
    connect: Connect, tmp_path: Path, send: Callable[[LanguageClient, str], None]
) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    client.diagnostics(uri)
    for _ in range(3):
        send(client, uri)
    is_well(client, tmp_path)
    assert len(client.messages()) <= 1


QUESTIONS: dict[str, tuple[str, Json]] = {
    "an unknown question": ("lintrain/unknown", {}),
    "no parameters": ("textDocument/hover", {}),
    "wrong parameters": ("textDocument/codeAction", {"textDocument": 3, "range": [], "context": None}),
    "an unknown command": ("workspace/executeCommand", {"command": "lintrain.unknown"}),
    "a command without what it is for": ("workspace/executeCommand", {"command": "lintrain.probe"}),
    "a command for too much": ("workspace/executeCommand", {"command": "lintrain.explain", "arguments": [1, 2, 3]}),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_that_makes_no_sense_is_answered_with_an_error(
    connect: Connect, tmp_path: Path, question: tuple[str, Json]
) -> None:
    client = connect()
    assert client.answer(client.start_asking(*question))["error"]["code"] in (-32601, -32602, -32603)
    is_well(client, tmp_path)
    assert client.messages() == []


@pytest.mark.parametrize("method", ["textDocument/hover", "textDocument/codeAction", "textDocument/codeLens"])
def test_a_question_about_what_is_not_open_is_answered(connect: Connect, method: str) -> None:
    client = connect()
    given: Json = {"textDocument": {"uri": "file:///nowhere.py"}, "position": {"line": 0, "character": 0}}
    given |= {"range": span(0, 0, 0), "context": {"diagnostics": []}}
    assert not client.ask(method, given)


def test_a_question_is_cancelled(connect: Connect, tmp_path: Path) -> None:
    client = connect(PULLS)
    uri = client.open(written(tmp_path))
    number = client.start_asking("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    client.notify("$/cancelRequest", {"id": number})
    answer = client.answer(number)
    assert answer.get("error", {}).get("code") in (None, -32800)
    report = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert rules(report["items"]) == ["missing-zero-grad"]


def test_characters_that_no_file_can_hold_are_no_end(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    path = tmp_path / "odd.py"
    item = json.dumps({"uri": path.as_uri(), "languageId": "python", "version": 1, "text": LOOP + "#"})
    broken = item.replace("#", "# \\ud83d \\u0000")
    client.send_raw(
        f'{{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {{"textDocument": {broken}}}}}'.encode()
    )
    assert rules(client.diagnostics(path.as_uri())) == ["unreadable-file"]
    is_well(client, tmp_path)


def test_five_hundred_files_are_open_and_typing_is_answered_between_them(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    for number in range(500):
        client.open(written(tmp_path, "import torch\n", f"file_{number}.py"))
    uri = client.open(written(tmp_path))
    client.change(uri, 2, {"range": span(0, 0, 0), "text": "#\n"})
    assert rules(client.diagnostics(uri, 2)) == ["missing-zero-grad"]
    known = len([each for each in client.told if each["method"] == "textDocument/publishDiagnostics"])
    assert known < 500
    assert len(client.actions(uri, everything(LOOP))) == 4
    assert client.messages() == []


def test_a_server_whose_client_is_gone_ends(connect: Connect, tmp_path: Path) -> None:
    from tests.support.language_client import start_process

    process, client = start_process(tmp_path)
    client.start([tmp_path])
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()
