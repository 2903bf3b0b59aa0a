"""Names that two places write down: the stages, and the fields in which a probed process sends what it measures."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import Evidence, StageName, StageText
from lintrain.runtime.child.frames import BETWEEN
from lintrain.runtime.frameworks import loop
from lintrain.runtime.parent.events import Assembly, UnknownFieldError
from lintrain.runtime.parent.pass_request import EXTRAS

STARTED = {"script": "train.py", "framework": "torch", "device": "cpu", "versions": {}}


def assembled(**values: object) -> Assembly:
    """What a parent has of a run that sent some values."""
    assembly = Assembly()
    assembly.add({"event": "run", "values": {**STARTED, **values}})
    return assembly


def test_a_rule_may_write_the_name_of_every_stage() -> None:
    assert list(get_args(StageText)) == list(StageName)
    assert set(EXTRAS) <= set(StageName)


def test_a_process_sends_every_field_of_the_evidence_but_its_stages_and_its_repairs() -> None:
    assert set(EvidenceFields.__annotations__) == {each.name for each in fields(Evidence)} - {"stages", "repairs"}


def test_an_unknown_field_is_an_error_in_the_tests() -> None:
    with pytest.raises(UnknownFieldError, match="evidence has no field modle"):
        assembled(modle=1).evidence("")


def test_an_unknown_field_is_named_in_a_note_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Assembly, "is_strict", False)
    evidence = assembled(modle=1, notes=["before"]).evidence("")
    assert evidence.notes == ("before", "lintrain measured `modle`, which its evidence has no field for")


def test_modules_that_pass_the_scripts_errors_on_exist() -> None:
    assert [name for name in sorted(BETWEEN) if find_spec(name) is None] == []


def test_modules_that_wrap_functions_of_torch_pass_the_scripts_errors_on() -> None:
    folder = Path(loop.__file__).parent
    wrapping = {path.stem for path in folder.glob("*.py") if "functools.wraps(" in path.read_text(encoding="utf-8")}
    assert {f"lintrain.runtime.frameworks.loop.{name}" for name in wrapping} <= BETWEEN
