"""A check of a document that was changed meanwhile ends soon, whatever it is at."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import Mock

import pytest

from lintrain.interpreter.core import dispatch, reader
from lintrain.model.finding import Finding
from lintrain.pipeline.record import Pipeline
from lintrain.rulebook import load_rules
from lintrain.server.checking import OutdatedError, Snapshot, check
from lintrain.server.project import ClientSettings, Projects
from tests.test_server import LOOP

LONG = LOOP + "    print(step)\n" * 3_000
"""A script that the reader goes through some thousand statements of."""

PROJECTS = Projects()


def snapshot(folder: Path, asks: int) -> Snapshot:
    """The script in the editor, which changes after so many questions whether it did."""
    path = str(folder / "train.py")
    asked = itertools.count()
    in_force = PROJECTS.of(path, ClientSettings())
    return Snapshot(path, {path: LONG.encode()}, in_force, lambda: next(asked) >= asks)


def rules_of(folder: Path, asks: int) -> list[str]:
    return [one.finding.rule for one in check(snapshot(folder, asks), PROJECTS).file.reported]


def test_a_check_that_is_wanted_to_its_end_has_its_findings(tmp_path: Path) -> None:
    assert "missing-zero-grad" in rules_of(tmp_path, 10_000)


def test_a_long_reading_ends_where_the_document_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Mock(wraps=dispatch.execute)
    monkeypatch.setattr(dispatch, "execute", steps)
    with pytest.raises(OutdatedError):
        rules_of(tmp_path, 3)
    assert 0 < steps.call_count < 2 * reader.PAUSE


def test_no_rule_is_asked_about_a_reading_that_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def hear(pipeline: Pipeline) -> Iterable[Finding]:
        heard.append(pipeline.source.path)
        return ()

    for each in load_rules():
        if each.reads_text:
            monkeypatch.setattr(each.rule, "check", hear)
    with pytest.raises(OutdatedError):
        rules_of(tmp_path, 3)
    assert heard == []
