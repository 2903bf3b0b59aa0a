"""Which Python runs a script: one that has what the script imports, and no more is asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lintrain.runtime.parent import environment
from lintrain.runtime.parent.environment import NoInterpreterError, choose_interpreter, needed_libraries


def asks_for(folder: Path, script: str) -> tuple[str, ...]:
    (folder / "train.py").write_text(script)
    return needed_libraries(folder / "train.py")


def test_what_a_script_imports_in_any_case_is_needed(tmp_path: Path) -> None:
    assert asks_for(tmp_path, "import keras\nfrom tensorflow.data import Dataset\nimport numpy\n") == (
        "tensorflow",
        "keras",
    )
    assert asks_for(tmp_path, "try:\n    import torch\nexcept ImportError:\n    torch = None\n") == ()
    assert asks_for(tmp_path, "from . import torch\n") == ()
    assert asks_for(tmp_path, "def broken(:\n") == ()
    assert needed_libraries(tmp_path) == ()


def choice(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, *found: str) -> str:
    """The interpreter for a script where this one has some libraries, or why there is none."""
    (folder / "train.py").write_text(script)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)

    def find(name: str) -> object:
        return object() if name in found else None

    monkeypatch.setattr(environment, "find_spec", find)
    try:
        return choose_interpreter(None, folder / "train.py")
    except NoInterpreterError as error:
        return str(error)


def test_a_script_on_tensorflow_needs_neither_torch_nor_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choice(tmp_path, monkeypatch, "import keras\n", "keras", "tensorflow") == sys.executable
    assert choice(tmp_path, monkeypatch, "import helpers\n", "tensorflow") == sys.executable
    assert choice(tmp_path, monkeypatch, "import torch\n", "torch") == sys.executable


def test_an_interpreter_that_lacks_what_the_script_imports_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = choice(tmp_path, monkeypatch, "import tensorflow\nimport tf_keras\n", "torch", "keras")
    assert "has no tensorflow and no tf_keras; give the project's Python" in told
