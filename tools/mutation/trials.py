"""Whether the tests notice that a rule was changed: its page and samples, correct scripts, known mistakes, tests."""

from __future__ import annotations

import ast
import contextlib
import io
import signal
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from benchmarks.accuracy.checking import project_of, request_of, written
from benchmarks.accuracy.mutants import Mutant as Mistake
from benchmarks.accuracy.mutants import load_injections, load_scripts, mutants_of
from lintrain.check.check_run import CheckRun
from lintrain.pipeline.record import Pipeline
from lintrain.read import read_pipeline
from lintrain.rulebook import RuleFile, load_rules
from lintrain.source.source import Source
from tests.pages import demands
from tests.pages.samples import misreads_samples

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 20
"""A changed rule that takes longer is noticed by whoever waits for it."""

MOST_MISTAKES = 6
FILES_OF_TESTS = ("test_reader_*.py", "test_rules_*.py", "test_probed_fixes.py")
"""Tests of what `check` finds, and of fixes for what only a run showed; tests of whole runs take too long for this."""

Trial = Callable[[RuleFile], bool]
"""Tells whether something notices that a rule does not do what it should."""


def page_notices(rule: RuleFile) -> bool:
    """Whether an example of its page is found otherwise, mended otherwise, or not silent any more."""
    return bool(
        demands.misreads_bad(rule)
        or demands.disturbs_silence(rule, [rule])
        or demands.breaks_convention(rule)
        or demands.mends_badly(rule)
    )


def samples_notice(rule: RuleFile) -> bool:
    """Whether one of the rule's samples is found otherwise, or mended otherwise."""
    return bool(misreads_samples(rule))


def silence_notices(rule: RuleFile) -> bool:
    """Whether the rule finds something in the Good of any page, or in a correct script of the accuracy benchmark."""
    return any(any(True for _ in rule.rule.check(pipeline)) for pipeline in (*_good_examples(), *_correct_scripts()))


@cache
def _good_examples() -> tuple[Pipeline, ...]:
    scripts = [script for rule in load_rules() for script in demands.scripts(rule, demands.GOOD)]
    return tuple(_read(Source(demands.PAGE, script.text)) for script in scripts)


@cache
def _correct_scripts() -> tuple[Pipeline, ...]:
    """Those that stand alone, as a file of their own."""
    texts = [code.text for code in load_scripts() if code.path.endswith(".py") and not project_of(Path(code.path))]
    return tuple(_read(Source("train.py", text)) for text in texts)


def _read(source: Source) -> Pipeline:
    return read_pipeline(source, demands.installed_versions())


def mistakes_notice(rule: RuleFile) -> bool:
    """Whether a mistake of the accuracy benchmark is missed, or found in its correct script."""
    return any(_is_missed(rule, mistake) or _speaks_of(rule, mistake) for mistake in _mistakes(rule))


@cache
def _mistakes(rule: RuleFile) -> tuple[Mistake, ...]:
    """A few mistakes that the rule finds; asked first of the rule as it is."""
    injections = tuple(each for each in load_injections() if each.rule == rule.name)
    found = [mistake for code in load_scripts() for mistake in mutants_of(code, injections)] if injections else []
    few = found[:: max(len(found) // MOST_MISTAKES, 1)][:MOST_MISTAKES]
    return tuple(each for each in few if not _is_missed(rule, each))


def _is_missed(rule: RuleFile, mistake: Mistake) -> bool:
    return not set(_lines(rule, mistake, mistake.text)) & set(mistake.lines)


def _speaks_of(rule: RuleFile, mistake: Mistake) -> bool:
    return bool(_lines(rule, mistake, mistake.script.text))


def _lines(rule: RuleFile, mistake: Mistake, text: str) -> list[int]:
    with written(mistake.script, text) as (folder, target):
        outcome = CheckRun(request_of(folder, [rule.name])).check()
        if outcome.crashes:
            raise RuntimeError(str(outcome.crashes))
        return [
            one.finding.location.line for one in outcome.reported if one.finding.location.path.endswith(target.name)
        ]


def tests_notice(rule: RuleFile) -> bool:
    """Whether a test of the reader, or of what a run showed, that names the rule fails."""
    chosen = naming_tests(rule.name)
    if not chosen:
        return False
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "--no-header"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return pytest.main([*options, *chosen]) == pytest.ExitCode.TESTS_FAILED


@cache
def naming_tests(name: str) -> tuple[str, ...]:
    """The tests of such files in which the rule's name stands; whole files where it stands beside them."""
    found: list[str] = []
    for path in sorted(path for pattern in FILES_OF_TESTS for path in (ROOT / "tests").glob(pattern)):
        text = path.read_text(encoding="utf-8")
        if f'"{name}"' in text or f"<- {name}" in text:
            found += _named_in(path, text, name)
    return tuple(found)


def _named_in(path: Path, text: str, name: str) -> list[str]:
    inside: list[str] = []
    for node in ast.parse(text).body:
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        if any(name in (ast.get_source_segment(text, each) or "") for each in (node, *decorators)):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                return [str(path)]
            inside.append(f"{path}::{node.name}")
    return inside


TRIALS: dict[str, Trial] = {
    "page": page_notices,
    "samples": samples_notice,
    "silence": silence_notices,
    "mistakes": mistakes_notice,
    "tests": tests_notice,
}
"""What may notice a changed rule, the quickest first."""


def killer_of(rule: RuleFile, trials: Mapping[str, Trial] = TRIALS) -> str:
    """What notices that the rule is broken; empty where nothing does."""
    for name, notices in trials.items():
        try:
            with at_most(SECONDS), warnings.catch_warnings():
                if notices(rule):
                    return name
        except Exception:  # noqa: BLE001 - whatever a broken rule raises is noticed
            return name
    return ""


@contextmanager
def at_most(seconds: int) -> Generator[None]:
    """Raises TimeoutError in what takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
