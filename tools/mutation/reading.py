"""Whether the reader's tests notice that its code was changed: those that run the changed function, in one pytest."""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from _pytest.runner import runtestprotocol

from tools.mutation.operators import Mutant, functions_of
from tools.mutation.outcome import MutationResult, chosen_mutants
from tools.mutation.swapping import ROOT, Loaded, can_swap, loaded_module, replaced, swapped
from tools.mutation.trials import at_most

FILES = (
    "branches",
    "comprehensions",
    "functions",
    "loops",
    "project_modules",
    "retention",
    "scope",
    "storing",
)
"""Files of lintrain/interpreter that read what every script has, whatever library it uses."""

INTERPRETER = Path(ROOT) / "lintrain" / "interpreter"

TESTS = (
    "test_samples.py",
    "test_fixtures.py",
    "test_check_modules.py",
    "test_check_circles.py",
    "test_rules.py::test_the_page_is_complete_and_read_as_it_says",
)
"""Tests that read scripts, beside those whose names say so."""

SECONDS_OF_TEST = 20
NOTE = "note_that_it_runs"
"""What each function of the reader calls first while it is found out which tests run it."""


@dataclass
class ReaderTrials:
    """A plugin that tries mutants in place of running tests once."""

    files: Sequence[str]
    most: int
    seconds: float
    """How long the tests of one mutant may take."""
    outcomes: list[MutationResult] = field(default_factory=list[MutationResult])
    failed: list[str] = field(default_factory=list[str])

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find out which tests run what, then change it."""
        if session.testsfailed or not session.items:
            self.failed.append("files that hold no test or cannot be read")
        codes = {name: loaded_module(_dotted_names()[name]) for name in self.files}
        runners = _runners(session.items, codes, self.failed)
        for name, code in codes.items() if not self.failed else ():
            print(f"{name} …", file=sys.__stderr__, flush=True)
            outcome = MutationResult(name, code, Counter(), [])
            for mutant in chosen_mutants(name, code, self.most):
                if self._is_noticed(code, mutant, runners.get(f"{name}.{mutant.function}", [])):
                    outcome.killers["tests"] += 1
                else:
                    outcome.survivors.append(mutant)
            self.outcomes.append(outcome)
        return True

    def _is_noticed(self, code: Loaded, mutant: Mutant, items: Sequence[pytest.Item]) -> bool:
        end = time.monotonic() + self.seconds
        with swapped(code, mutant):
            for item in items:
                if time.monotonic() > end:
                    break
                if _fails(item):
                    return True
        return False


def tests_of_reading() -> list[str]:
    """The tests that read scripts."""
    paths = sorted((ROOT / "tests").glob("test_reader_*.py"))
    return [*map(str, paths), *(str(ROOT / "tests" / name) for name in TESTS)]


def try_reader(files: Sequence[str], most: int, seconds: float, tests: Sequence[str]) -> list[MutationResult]:
    """What tests say of the mutants of these files; raises RuntimeError where one fails without any."""
    trials = ReaderTrials(files or FILES, most, seconds)
    # The plugin of hypothesis refuses to be loaded where hypothesis was used before, and tests outside of the
    # repository do not have its settings.
    plugins = [part for name in ("cacheprovider", "xdist", "hypothesispytest") for part in ("-p", f"no:{name}")]
    options = ["-q", *plugins, "-m", "not slow", "--no-header"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*options, *tests], plugins=[trials])
    if trials.failed:
        raise RuntimeError(f"these tests fail as it is: {', '.join(trials.failed)}")
    return trials.outcomes


def _runners(items: Sequence[pytest.Item], codes: dict[str, Loaded], failed: list[str]) -> dict[str, list[pytest.Item]]:
    """The tests that run each function, the quickest first; those that fail are added to `failed`."""
    running = set[str]()
    ran: list[tuple[float, pytest.Item, frozenset[str]]] = []
    with ExitStack() as stack:
        for name, code in codes.items():
            cast("dict[str, object]", code.names)[NOTE] = running.add
            tree, functions = _noting(name, code)
            stack.enter_context(replaced(code, tree, functions))
        for item in items:
            running.clear()
            start = time.monotonic()
            if _fails(item):
                failed.append(item.nodeid)
            ran.append((time.monotonic() - start, item, frozenset(running)))
    found: dict[str, list[pytest.Item]] = {}
    for _, item, names in sorted(ran, key=lambda each: each[0]):
        for name in names:
            found.setdefault(name, []).append(item)
    return found


def _noting(name: str, code: Loaded) -> tuple[ast.Module, list[str]]:
    """A file's tree in which each function first says that it runs, and the names of these functions."""
    tree = ast.parse(code.path.read_text(encoding="utf-8"))
    functions = {own: node for own, node in functions_of(tree).items() if can_swap(code, own)}
    for own, node in functions.items():
        call = ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(f"{name}.{own}")], [])
        node.body.insert(0, ast.Expr(copy.deepcopy(call)))
    return ast.fix_missing_locations(tree), list(functions)


def _fails(item: pytest.Item) -> bool:
    try:
        with at_most(SECONDS_OF_TEST):
            return any(each.failed for each in runtestprotocol(item, log=False, nextitem=None))
    except TimeoutError:  # between two phases of the test, where pytest does not catch it
        return True


def named_files(names: Sequence[str]) -> list[str]:
    """The files of lintrain/interpreter with these names, checked; raises ValueError for one that is not there."""
    missing = sorted(set(names) - _dotted_names().keys())
    if missing:
        raise ValueError(f"lintrain/interpreter has no {', '.join(missing)}")
    return list(names)


def _dotted_names() -> dict[str, str]:
    """The modules of the interpreter by their last names, and their dotted names."""
    paths = INTERPRETER.rglob("*.py")
    return {path.stem: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}
