"""What the playground asks of lintrain: a text in, findings or causes out, without files, processes and native code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lintrain.api.in_page import answer
from tools.site.playground import EXAMPLES, examples

ROOT = Path(__file__).parent.parent
COURSE = (ROOT / "fixtures" / "course" / "as_published.py").read_text(encoding="utf-8")


def answered(text: str, names: str = "[]") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer(text, names))
    return found


def rules_in(text: str) -> list[str]:
    return [one["rule"] for one in answered(text)["findings"]]


def test_a_script_gets_the_findings_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # away from the versions that this project states
    (tmp_path / "train.py").write_text(COURSE, encoding="utf-8")
    command = [sys.executable, "-m", "lintrain", "check", "--isolated", "--no-cache", "--output-format", "json", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    wanted = [one for one in json.loads(done.stdout)["findings"] if one["rule"] != "undefined-name"]
    here = answered(COURSE)["findings"]
    assert [(one["rule"], one["location"]["line"]) for one in here] == [
        (one["rule"], one["location"]["line"]) for one in wanted
    ]
    assert [one.get("fix") for one in here] == [one.get("fix") for one in wanted]


def test_a_fragment_without_imports_is_checked() -> None:
    assert "missing-zero-grad" in rules_in(
        "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
    )


def test_names_that_ruff_does_not_know_are_findings() -> None:
    place = {"location": {"row": 2, "column": 1}, "end_location": {"row": 2, "column": 8}, "cell": None}
    name = {"code": "F821", "message": "Undefined name `nowhere`", "filename": "train.py", **place}
    found = answered("import torch\nnowhere(torch.ones(2))\n", json.dumps([name]))["findings"]
    assert [one["message"] for one in found] == ["`nowhere` is never defined or imported"]


@pytest.mark.parametrize(
    "text",
    [
        'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    loss = f(x, y)\n'
        "IndexError: Target 2 is out of bounds.\n",
        "IndexError: Target 2 is out of bounds.",
    ],
    ids=["traceback", "message"],
)
def test_the_text_of_an_error_gets_its_causes(text: str) -> None:
    found = answered(text)
    assert found["kind"] == "error"
    assert any("label 2 has no output" in cause["cause"] for cause in found["causes"])


def test_an_error_that_nothing_is_known_of_says_so() -> None:
    found = answered("Traceback (most recent call last):\nOddError: of no library")
    assert (found["kind"], found["causes"], found["error"]) == ("error", [], "OddError: of no library")


def test_a_notebook_is_checked_by_its_cells() -> None:
    code = "import torch\nfor x, y in loader:\n    loss = model(x).sum()\n    loss.backward()\n    opt.step()\n"
    cell: dict[str, object] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": code,
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    found = answered(json.dumps(notebook))
    assert found["path"] == "train.ipynb"
    assert "missing-zero-grad" in [one["rule"] for one in found["findings"]]


@pytest.mark.parametrize("text", ["", "x = (", "\x00", "def f(:\n", "{", '{"cells": 3}', "a: int", "\ud800"])
def test_any_text_has_an_answer(text: str) -> None:
    assert answered(text)["kind"] in ("check", "error")


def test_every_example_shows_what_its_title_says() -> None:
    found = {each["title"]: answered(each["text"]) for each in examples()}
    assert found["A traceback"]["causes"]
    assert found["A script without mistakes"]["findings"] == []
    with_mistakes = [title for title in EXAMPLES if title not in ("A traceback", "A script without mistakes")]
    assert [title for title in with_mistakes if not found[title]["findings"]] == []
    assert not any("# <-" in each["text"] for each in examples())


WITHOUT = """
import sys
for name in ("libcst", "pydantic", "pydantic_core", "click", "rich", "astroid", "ruff", "multiprocessing"):
    sys.modules[name] = None
import subprocess, threading
def refuse(*_, **__):
    raise AssertionError("started")
subprocess.Popen.__init__ = threading.Thread.start = refuse
sys.platform = "emscripten"
from lintrain.api.in_page import answer
print(answer(open(sys.argv[1], encoding="utf-8").read()))
"""


def test_nothing_of_native_code_is_imported_and_nothing_is_started() -> None:
    script = str(EXAMPLES["The course script, as it was published"])
    command = [sys.executable, "-c", WITHOUT, script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [one["rule"] for one in json.loads(done.stdout)["findings"]] == rules_in(COURSE)


def test_a_warning_that_is_pasted_gets_its_cause() -> None:
    text = "train.py:3: UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.\n  step()"
    found = answered(text)
    assert (found["kind"], found["causes"][0]["page"]) == ("error", "scheduler-before-optimizer")
    assert found["line"] == "train.py:3: step()"
