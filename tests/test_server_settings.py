"""What the editor's user sets, and what projects set in the folders of a workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.server.project import ClientSettings, ProbeSettings, read_client_settings
from tests.support.language_client import Json, span
from tests.test_server import LOOP, Connect, connect, rules, written

__all__ = ["connect"]

ASKED: Json = {"workspace": {"configuration": True}}


def test_every_setting_is_read() -> None:
    given = {
        "enable": False,
        "configuration": "x.toml",
        "select": ["data"],
        "extendSelect": ["loop"],
        "ignore": ["raw-dataset"],
        "preview": True,
        "fixAll": False,
        "codeLens": False,
        "probe": {"python": "py", "arguments": ["--lr", "1"], "also": ["memory"], "timeout": 9},
    }
    probe = ProbeSettings("py", ["--lr", "1"], ["memory"], 9.0)
    wanted = ClientSettings(False, "x.toml", ["data"], ["loop"], ["raw-dataset"], True, False, False, probe)
    assert read_client_settings(given) == (wanted, [])
    assert read_client_settings({"select": None, "probe": {}}) == (ClientSettings(), [])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"selct": []}, "`lintrain.selct` is unknown (did you mean `select`?)"),
        ({"probe": {"pyton": ""}}, "`lintrain.probe.pyton` is unknown (did you mean `python`?)"),
        ({"enable": "yes"}, "`lintrain.enable`: must be a boolean, not"),
        ({"ignore": "raw-dataset"}, "`lintrain.ignore`: must be a list, not"),
        ([1], "`lintrain`: must be a table, not `[1]`"),
    ],
)
def test_what_is_wrong_is_said_and_the_rest_counts(given: object, problem: str) -> None:
    settings, (said,) = read_client_settings({**given, "fixAll": False} if isinstance(given, dict) else given)
    assert problem in said
    assert settings == ClientSettings(fix_all=not isinstance(given, dict))


def test_settings_come_with_the_first_message(connect: Connect, tmp_path: Path) -> None:
    for options in ({"ignore": ["loop"]}, {"settings": {"ignore": ["loop"]}}, {"enable": False}):
        client = connect(options=options)
        assert client.diagnostics(client.open(written(tmp_path))) == []


def test_settings_are_asked_for_and_change(connect: Connect, tmp_path: Path) -> None:
    client = connect(ASKED)
    uri = client.open(written(tmp_path))
    assert rules(client.diagnostics(uri)) == ["missing-zero-grad"]
    client.settings = {"ignore": ["missing-zero-grad"]}
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    assert client.diagnostics(uri) == []


def test_settings_are_pushed_by_clients_that_are_not_asked(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    client.diagnostics(uri)
    client.notify("workspace/didChangeConfiguration", {"settings": {"lintrain": {"select": ["data"]}}})
    assert client.diagnostics(uri) == []


def test_a_wrong_setting_is_told_once(connect: Connect, tmp_path: Path) -> None:
    client = connect(options={"selct": ["data"]})
    for name in ("a.py", "b.py"):
        assert rules(client.diagnostics(client.open(written(tmp_path, LOOP, name)))) == ["missing-zero-grad"]
    assert client.messages() == ["lintrain: the editor's setting `lintrain.selct` is unknown (did you mean `select`?)"]


def test_an_unknown_rule_in_the_settings_is_told_and_nothing_is_lost(connect: Connect, tmp_path: Path) -> None:
    client = connect(options={"ignore": ["mising-zero-grad"]})
    assert rules(client.diagnostics(client.open(written(tmp_path)))) == ["missing-zero-grad"]
    assert client.messages() == [
        "lintrain: the editor's settings: no rule or stage `mising-zero-grad`; nearest: `missing-zero-grad`"
    ]


def test_each_folder_has_the_configuration_of_its_project(connect: Connect, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    script = written(one)
    written(one, '[tool.lintrain]\nignore = ["loop"]\n', "pyproject.toml")
    client = connect(folders=[one, other])
    assert client.diagnostics(client.open(script)) == []
    assert rules(client.diagnostics(client.open(written(other)))) == ["missing-zero-grad"]


def test_a_folder_that_comes_later_is_asked_about(connect: Connect, tmp_path: Path) -> None:
    client = connect(ASKED)
    client.settings = {"codeLens": False}
    added = {"uri": (tmp_path / "later").as_uri(), "name": "later"}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [added], "removed": []}})
    asked = client.wait_for(
        lambda message: message["method"] == "workspace/configuration" and len(message["params"]["items"]) == 3
    )
    assert asked["params"]["items"][-1] == {"scopeUri": added["uri"], "section": "lintrain"}


def test_a_configuration_file_that_changes_is_read_again(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    client.diagnostics(uri)
    settings = written(tmp_path, 'levels = { loop = "note" }\n', "lintrain.toml")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": settings.as_uri(), "type": 1}]})
    assert [each["severity"] for each in client.diagnostics(uri)] == [3]


def test_files_are_watched_where_the_client_can(connect: Connect) -> None:
    client = connect({"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}})
    (asked,) = client.wait_for(lambda message: message["method"] == "client/registerCapability")["params"][
        "registrations"
    ]
    patterns = [each["globPattern"] for each in asked["registerOptions"]["watchers"]]
    assert {
        "**/*.py",
        "**/*.json",
        "**/*.yaml",
        "**/*.csv",
        "**/pyproject.toml",
        "**/lintrain.toml",
        "**/uv.lock",
    } <= set(patterns)


def test_a_file_that_the_project_leaves_out_has_no_diagnostics(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    assert client.diagnostics(client.open(written(tmp_path, LOOP, "site-packages/lib.py"))) == []


def test_known_findings_of_a_baseline_are_hidden(connect: Connect, tmp_path: Path) -> None:
    kept = '{"format": 1, "findings": {"train.py": [{"rule": "missing-zero-grad", "code": "loss.backward()"}]}}'
    written(tmp_path, kept, "lintrain-baseline.json")
    client = connect()
    uri = client.open(written(tmp_path))
    assert client.diagnostics(uri, 1) == []
    client.change(uri, 2, {"range": span(6, 18, 18), "text": "retain_graph=False"})
    assert rules(client.diagnostics(uri, 2)) == ["missing-zero-grad"]


def test_a_diagnostic_links_to_its_page_where_the_project_names_the_site(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    file = written(tmp_path)
    (plain,) = client.diagnostics(client.open(file))
    assert "codeDescription" not in plain
    (tmp_path / "lintrain.toml").write_text('documentation = "https://docs.example.org/lintrain"\n')
    client = connect()
    (linked,) = client.diagnostics(client.open(file))
    assert linked["codeDescription"]["href"] == f"https://docs.example.org/lintrain/rules/{linked['code']}.html"


def test_a_setting_of_a_wrong_type_is_told_with_what_it_is_and_the_others_count(
    connect: Connect, tmp_path: Path
) -> None:
    wrong = {"select": "data", "codeLens": "no", "ignore": ["loop"], "probe": {"timeout": 0, "tiemout": 3}}
    client = connect(options=wrong)
    assert client.diagnostics(client.open(written(tmp_path))) == []
    (message,) = client.messages()
    assert message.removeprefix("lintrain: ").split("; ") == [
        'the editor\'s setting `lintrain.select`: must be a list, not `"data"`',
        'the editor\'s setting `lintrain.codeLens`: must be a boolean, not `"no"`',
        "the editor's setting `lintrain.probe.timeout`: must be a number above 0, not `0`",
        "the editor's setting `lintrain.probe.tiemout` is unknown (did you mean `timeout`?)",
    ]


def test_an_extended_configuration_that_changes_is_read_again(connect: Connect, tmp_path: Path) -> None:
    written(tmp_path, 'extend = "base.toml"\n', "lintrain.toml")
    written(tmp_path, "", "pyproject.toml")
    base = written(tmp_path, 'ignore = ["loop"]\n', "base.toml")
    client = connect()
    uri = client.open(written(tmp_path))
    assert client.diagnostics(uri) == []
    base.write_text('ignore = ["data", "metrics"]\n')
    client.change(uri, 2, {"text": f"{LOOP}\n"})
    assert rules(client.diagnostics(uri, 2)) == ["missing-zero-grad"]


def test_own_rules_run_in_an_editor_once_they_are_trusted(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lintrain.cli import run

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    run(["rules", "new", "no-tracker"])
    written(tmp_path, 'rules = ["lint/rules"]\n', "lintrain.toml")
    script = "from transformers import TrainingArguments\nTrainingArguments('out', report_to='none')\n"
    client = connect()
    uri = client.open(written(tmp_path, script))
    assert client.diagnostics(uri) == []
    (message,) = client.messages()
    assert "is not trusted and did not run" in message
    run(["trust"])
    client.change(uri, 2, {"text": f"{script}\n"})
    assert rules(client.diagnostics(uri, 2)) == ["no-tracker"]
    here = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 30}}
    assert "A run is reported to no tracker." in client.ask("textDocument/hover", here)["contents"]["value"]
