"""What editors see while somebody writes: a client speaks to the server, over pipes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from urllib.parse import urlsplit

import pytest

from lintrain.cache.folder import FOLDER_VARIABLE
from tests.support.language_client import PULLS, Json, LanguageClient, applied, span, start_inside

LOOP = """import torch

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
    loss.backward()
    optimizer.step()
"""
CLEARED = LOOP.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")
MODULE = f"import torch\n\n\ndef run(net, optimizer):\n{indent(LOOP[LOOP.index('for') :], '    ')}"
CALLER = """import torch
from steps import run
net = torch.nn.Linear(4, 3)
run(net, torch.optim.SGD(net.parameters(), lr=0.1))
"""
RELATED: Json = {"textDocument": {"publishDiagnostics": {"relatedInformation": True}}}
MARKDOWN: Json = {"textDocument": {"hover": {"contentFormat": ["markdown"]}}}

Connect = Callable[..., LanguageClient]


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Starts servers and clients for them, which end with the test."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    clients: list[LanguageClient] = []

    def start(
        capabilities: Json | None = None, options: object = None, folders: list[Path] | None = None
    ) -> LanguageClient:
        client = start_inside()
        clients.append(client)
        client.start([tmp_path] if folders is None else folders, capabilities, options)
        return client

    yield start
    for client in clients:
        client.stop()


def rules(diagnostics: list[Json]) -> list[str]:
    return sorted(each["code"] for each in diagnostics)


def everything(text: str) -> Json:
    """A stretch over a whole text."""
    return {"start": {"line": 0, "character": 0}, "end": {"line": text.count("\n") + 1, "character": 0}}


def written(tmp_path: Path, text: str = LOOP, name: str = "train.py") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_what_is_typed_is_checked_not_what_is_saved(connect: Connect, tmp_path: Path) -> None:
    client = connect(RELATED)
    uri = client.open(written(tmp_path, CLEARED), LOOP)
    (found,) = client.diagnostics(uri, 1)
    assert (found["code"], found["source"], found["severity"]) == ("missing-zero-grad", "lintrain", 1)
    assert found["range"] == span(6, 4, 19)
    client.change(uri, 2, {"range": span(6, 0, 0), "text": "    optimizer.zero_grad()\n"})
    assert client.diagnostics(uri, 2) == []


CONFIGURATION = """base_model: NousResearch/Meta-Llama-3-8B
sequence_len: 2048
micro_batch_sise: 2   # rows
lora_r: 8
"""


def test_a_training_configuration_is_checked_and_fixed_as_it_is_typed(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path, "", "run.yaml"), CONFIGURATION, language="yaml")
    (found,) = client.diagnostics(uri, 1)
    assert (found["code"], found["range"]) == ("unknown-argument", span(2, 0, 19))
    (action,) = [each for each in client.actions(uri, found["range"], shown=[found]) if "write" in each["title"]]
    edits = action["edit"]["changes"][uri]
    assert applied(CONFIGURATION, edits) == CONFIGURATION.replace("sise", "size")
    client.change(uri, 2, {"text": "services: {}\n"})
    assert client.diagnostics(uri, 2) == []


def test_places_that_explain_a_finding_are_related(connect: Connect, tmp_path: Path) -> None:
    client = connect(RELATED)
    uri = client.open(written(tmp_path))
    (found,) = client.diagnostics(uri)
    assert [
        (each["location"]["uri"], each["location"]["range"]["start"]["line"]) for each in found["relatedInformation"]
    ] == [(uri, 3), (uri, 7)]
    plain = connect()
    assert "relatedInformation" not in plain.diagnostics(plain.open(tmp_path / "train.py"))[0]


@pytest.mark.parametrize(("encoding", "columns"), [("utf-8", 12), ("utf-16", 10), ("utf-32", 9)])
def test_columns_are_those_of_the_client(connect: Connect, tmp_path: Path, encoding: str, columns: int) -> None:
    client = connect({"general": {"positionEncodings": [encoding]}})
    text = LOOP.replace("    loss.backward()", "    '🙂'; loss.backward()")
    uri = client.open(written(tmp_path, text))
    (found,) = client.diagnostics(uri, 1)
    assert found["range"] == span(6, columns, columns + 15)
    client.change(uri, 2, {"range": span(6, columns, columns + 4), "text": "0;loss"})
    (found,) = client.diagnostics(uri, 2)
    assert found["range"] == span(6, columns + 2, columns + 17)


def test_a_client_that_pulls_is_told_nothing_unasked(connect: Connect, tmp_path: Path) -> None:
    client = connect(PULLS)
    uri = client.open(written(tmp_path))
    report = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert (report["kind"], rules(report["items"])) == ("full", ["missing-zero-grad"])
    again = {"textDocument": {"uri": uri}, "previousResultId": report["resultId"]}
    assert client.ask("textDocument/diagnostic", again)["kind"] == "unchanged"
    client.change(uri, 2, {"text": CLEARED})
    assert client.ask("textDocument/diagnostic", again)["items"] == []
    assert [message["method"] for message in client.told] == []


def test_a_client_that_pulls_is_told_of_files_that_are_not_open(connect: Connect, tmp_path: Path) -> None:
    client = connect(PULLS)
    module = written(tmp_path, MODULE, "steps.py")
    uri = client.open(written(tmp_path, CALLER))
    report = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert report["items"] == []
    assert rules(report["relatedDocuments"][module.as_uri()]["items"]) == ["missing-zero-grad"]


def test_only_a_client_that_pulls_is_offered_to(connect: Connect, tmp_path: Path) -> None:
    pushes, pulls = start_inside(), start_inside()
    assert "diagnosticProvider" not in pushes.start([tmp_path])["capabilities"]
    offered = pulls.start([tmp_path], PULLS)["capabilities"]["diagnosticProvider"]
    assert (offered["interFileDependencies"], offered["workspaceDiagnostics"]) == (True, False)
    pushes.stop()
    pulls.stop()


def test_of_quick_typing_the_end_counts(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    client.diagnostics(uri, 1)
    for version in range(2, 40):
        client.change(uri, version, {"range": span(0, 0, 0), "text": "#\n"})
    (found,) = client.diagnostics(uri, 39)
    assert found["range"]["start"]["line"] == 6 + 38
    assert len([message for message in client.told if message["method"] == "textDocument/publishDiagnostics"]) < 30


def test_a_fix_mends_the_finding(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    shown = client.diagnostics(uri)
    actions = client.actions(uri, shown[0]["range"], shown=shown)
    assert [action["title"] for action in actions] == [
        "lintrain: insert `optimizer.zero_grad()` before `backward`",
        "lintrain: ignore `missing-zero-grad` here",
        "lintrain: explain `missing-zero-grad`",
        "lintrain: apply all safe fixes",
    ]
    assert (actions[0]["isPreferred"], actions[0]["diagnostics"]) == (True, shown)
    client.change(uri, 2, {"text": applied(LOOP, actions[0]["edit"]["changes"][uri])})
    assert client.diagnostics(uri, 2) == []
    assert actions[3]["edit"] == actions[0]["edit"]


def test_an_edit_names_the_version_that_it_is_for(connect: Connect, tmp_path: Path) -> None:
    client = connect({"workspace": {"workspaceEdit": {"documentChanges": True}}})
    uri = client.open(written(tmp_path), version=7)
    (action,) = client.actions(uri, everything(LOOP), ["source.fixAll"])
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": uri, "version": 7}


def test_an_edit_is_made_when_its_action_is_chosen(connect: Connect, tmp_path: Path) -> None:
    client = connect({"textDocument": {"codeAction": {"resolveSupport": {"properties": ["edit"]}}}})
    uri = client.open(written(tmp_path))
    offered = client.actions(uri, everything(LOOP))
    assert ["edit" in action for action in offered] == [False] * 4
    edit = client.ask("codeAction/resolve", offered[0])["edit"]
    assert "zero_grad" in applied(LOOP, edit["changes"][uri])
    client.change(uri, 2, {"text": "#\n" + LOOP})
    assert "edit" not in client.ask("codeAction/resolve", offered[0])


@pytest.mark.parametrize(
    ("only", "kinds"),
    [
        (["quickfix"], ["quickfix", "quickfix", "quickfix"]),
        (["source.fixAll"], ["source.fixAll"]),
        (["source.fixAll.lintrain"], ["source.fixAll.lintrain"]),
        (["source"], ["source.fixAll.lintrain"]),
        (["source.fixAll.ruff"], []),
        (["refactor"], []),
    ],
)
def test_actions_are_of_the_kind_that_is_asked_for(
    connect: Connect, tmp_path: Path, only: list[str], kinds: list[str]
) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    assert [action["kind"] for action in client.actions(uri, everything(LOOP), only)] == kinds


def test_nothing_is_offered_away_from_a_finding(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    assert client.actions(uri, span(0, 0, 3), ["quickfix"]) == []


def test_a_comment_silences_a_finding_and_asks_for_a_reason(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    action = next(each for each in client.actions(uri, everything(LOOP)) if "ignore" in each["title"])
    after = applied(LOOP, action["edit"]["changes"][uri])
    assert "loss.backward()  # lintrain: ignore[missing-zero-grad] -- explain why this is fine\n" in after
    client.change(uri, 2, {"text": after})
    assert client.diagnostics(uri, 2) == []


def test_a_rule_is_explained_in_a_document(connect: Connect, tmp_path: Path) -> None:
    client = connect({"window": {"showDocument": {"support": True}}})
    client.ask("workspace/executeCommand", {"command": "lintrain.explain", "arguments": ["raw-dataset"]})
    shown = client.wait_for(lambda message: message["method"] == "window/showDocument")["params"]
    page = tmp_path / "cache/.lintrain_cache/pages/raw-dataset.md"
    assert shown["uri"] == page.as_uri()
    assert "```python" in page.read_text()


def test_a_rule_is_explained_in_a_message_where_no_document_can_be_shown(connect: Connect) -> None:
    client = connect()
    client.ask("workspace/executeCommand", {"command": "lintrain.explain", "arguments": ["raw-dataset"]})
    (message,) = client.messages()
    assert message.startswith("lintrain: raw-dataset: ")
    assert "```" not in message


def test_fixes_are_offered_for_the_diagnostics_that_a_client_names(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    (diagnostic,) = client.diagnostics(uri)
    line = diagnostic["range"]["start"]["line"]
    start = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}
    assert diagnostic["range"]["start"]["character"] > 0
    titles = [action["title"] for action in client.actions(uri, start, shown=[diagnostic])]
    assert "lintrain: explain `missing-zero-grad`" in titles
    assert any("zero_grad" in title and "explain" not in title for title in titles)
    of_another = {**diagnostic, "source": "ruff"}
    assert client.actions(uri, start, ["quickfix"], shown=[of_another]) == []
    assert client.actions(uri, start, ["quickfix"]) == []


def test_without_libcst_no_fix_is_offered(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.server.actions.can_write", lambda: False)
    client = connect()
    uri = client.open(written(tmp_path))
    assert [action["title"] for action in client.actions(uri, everything(LOOP))] == [
        "lintrain: ignore `missing-zero-grad` here",
        "lintrain: explain `missing-zero-grad`",
    ]


def test_a_hover_has_the_short_page_and_not_what_the_diagnostic_says(connect: Connect, tmp_path: Path) -> None:
    client = connect(MARKDOWN)
    uri = client.open(written(tmp_path))
    here = {"textDocument": {"uri": uri}, "position": {"line": 6, "character": 6}}
    hover = client.ask("textDocument/hover", here)
    assert hover["range"] == span(6, 4, 19)
    assert hover["contents"]["kind"] == "markdown"
    text = hover["contents"]["value"]
    assert text.startswith("**missing-zero-grad**: Gradients are not cleared")
    (link,) = re.findall(r"\n\n\[Examples, and when it is fine\]\((file://.+/missing-zero-grad\.md)\)$", text)
    page = Path(urlsplit(link).path).read_text()
    assert "## When it is fine" in page
    assert "loss.backward()" in page
    assert len(text) < 500
    (diagnostic,) = client.diagnostics(uri)
    assert [line for line in diagnostic["message"].splitlines() if line in text] == []
    assert "loss.backward()" not in text
    assert client.ask("textDocument/hover", {**here, "position": {"line": 0, "character": 0}}) is None


def test_a_hover_over_a_rule_in_a_comment_has_its_page(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path, "import torch  # lintrain: ignore[raw-dataset] -- 🙂\n"))
    here = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 36}}
    text = client.ask("textDocument/hover", here)["contents"]["value"]
    assert "**raw-dataset**: " in text
    assert text.endswith("\n\n`lintrain explain raw-dataset` shows examples, and when it is fine.")


def test_a_hover_links_to_the_site_of_the_project(connect: Connect, tmp_path: Path) -> None:
    client = connect(MARKDOWN)
    written(tmp_path, 'documentation = "https://docs.example.org/lintrain"\n', "lintrain.toml")
    uri = client.open(written(tmp_path))
    here = {"textDocument": {"uri": uri}, "position": {"line": 6, "character": 6}}
    text = client.ask("textDocument/hover", here)["contents"]["value"]
    assert text.endswith("(https://docs.example.org/lintrain/rules/missing-zero-grad.html)")


def test_a_lens_stands_over_each_place_where_training_starts(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    (lens,) = client.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert lens["range"]["start"]["line"] == 4
    assert lens["command"] == {"title": "Probe this training run", "command": "lintrain.probe", "arguments": [uri]}
    module = client.open(
        written(tmp_path, "def train(net):\n    for _ in range(3):\n        net().backward()\n", "steps.py")
    )
    assert client.ask("textDocument/codeLens", {"textDocument": {"uri": module}}) == []


def test_a_changed_module_has_the_scripts_checked_again_that_import_it(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    module = client.open(written(tmp_path, "CLEARS = False\n\n\ndef clear(optimizer):\n    pass\n", "steps.py"))
    text = LOOP.replace("import torch\n", "import torch\nfrom steps import clear\n").replace(
        "    loss.backward()", "    clear(optimizer)\n    loss.backward()"
    )
    script = client.open(written(tmp_path, text))
    assert rules(client.diagnostics(script)) == ["missing-zero-grad"]
    client.change(module, 2, {"range": span(4, 4, 8), "text": "optimizer.zero_grad()"})
    assert client.diagnostics(script) == []


def test_a_module_that_changes_on_the_disk_counts_too(connect: Connect, tmp_path: Path) -> None:
    client = connect(PULLS | {"workspace": {"diagnostics": {"refreshSupport": True}}})
    module = written(tmp_path, "def clear(optimizer):\n    optimizer.zero_grad()\n", "steps.py")
    text = LOOP.replace("import torch\n", "import torch\nfrom steps import clear\n").replace(
        "    loss.backward()", "    clear(optimizer)\n    loss.backward()"
    )
    ask = {"textDocument": {"uri": client.open(written(tmp_path, text))}}
    assert client.ask("textDocument/diagnostic", ask)["items"] == []
    module.write_text("def clear(optimizer):\n    print(optimizer)\n# changed\n")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": module.as_uri(), "type": 2}]})
    client.wait_for(lambda message: message["method"] == "workspace/diagnostic/refresh")
    module.write_text("def clear(optimizer):\n    pass\n")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": module.as_uri(), "type": 2}]})
    assert rules(client.ask("textDocument/diagnostic", ask)["items"]) == ["missing-zero-grad"]


def test_a_finding_in_a_module_is_shown_there_and_goes_with_its_script(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    module = written(tmp_path, MODULE, "steps.py")
    uri = client.open(written(tmp_path, CALLER))
    assert client.diagnostics(uri) == []
    assert rules(client.diagnostics(module.as_uri())) == ["missing-zero-grad"]
    client.change(uri, 2, {"text": "import torch\n"})
    assert client.diagnostics(module.as_uri()) == []


def test_a_closed_document_has_no_diagnostics(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path))
    assert rules(client.diagnostics(uri, 1)) == ["missing-zero-grad"]
    client.close(uri)
    assert client.diagnostics(uri) == []


def test_an_untitled_script_is_checked(connect: Connect) -> None:
    client = connect()
    assert rules(client.diagnostics(client.open("untitled:Untitled-1", LOOP))) == ["missing-zero-grad"]


def test_a_file_that_is_not_python_is_left_alone(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    client.open((tmp_path / "notes.toml").as_uri(), LOOP, language="toml")
    client.diagnostics(client.open(written(tmp_path)))
    time.sleep(0.1)
    assert client.told == []
