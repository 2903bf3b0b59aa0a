"""What docs/python.md shows works, and it names every public word of the Python side."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import lintrain
from lintrain import callbacks

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "python.md").read_text()
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL))
WORDS = ("probe", "Report", "MistakesError")
WATCHES = ("TrainerWatch", "LightningWatch")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_runs(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(EXAMPLES[title])
    runpy.run_path("example.py")


def test_the_page_has_its_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("word", WORDS)
def test_a_public_word_has_a_page_and_a_docstring(word: str) -> None:
    assert getattr(lintrain, word).__doc__
    assert word in PAGE


@pytest.mark.parametrize("word", WATCHES)
@pytest.mark.libraries
def test_a_callback_is_on_the_page_with_its_arguments(word: str) -> None:
    watch = getattr(callbacks, word)
    assert word in PAGE
    names = set(inspect.signature(watch).parameters)
    assert {name for name in names if f"`{name}" not in PAGE and f"`{name}`" not in watch.__doc__} == set()


def test_every_attribute_of_a_report_is_on_the_page_and_described() -> None:
    names = [name for name in vars(lintrain.Report) if not name.startswith("_")]
    assert [name for name in names if f"report.{name}" not in PAGE or not getattr(lintrain.Report, name).__doc__] == []


def test_naming_the_probe_loads_no_library_of_training() -> None:
    code = "import sys, lintrain; print(callable(lintrain.probe), lintrain.Report); print('loaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    said, _, loaded = done.stdout.partition("loaded:")
    assert said.split()[0] == "True"
    assert {"torch", "transformers", "datasets", "lightning", "numpy", "pydantic", "rich"} & set(
        loaded.split()
    ) == set()
