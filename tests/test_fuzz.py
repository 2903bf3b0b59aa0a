"""A bounded slice of what `python -m tests.fuzz` tries, and what hypothesis makes of all that comes from outside."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lintrain.check.one_file
from lintrain.configurations.document import NotReadError
from lintrain.knowledge.settings_files import read_yaml
from lintrain.runtime.parent.record import EvidenceFileError, read_record
from lintrain.server.positions import Units, changed, line_edits, split_lines
from lintrain.settings.loading import load_settings
from lintrain.settings.settings import UsageError
from lintrain.source.reading import UnreadableError, read_bytes
from lintrain.source.suppression import find_suppressions
from tests.fuzz import trial
from tests.fuzz.__main__ import Count, keep_smallest
from tests.fuzz.inputs import Input, grown, make_input
from tests.fuzz.mutating import damage_bytes, damage_notebook, damage_text
from tests.fuzz.running import run
from tests.fuzz.trial import Result, rules, tried

SLICE = 200
bounded = settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
"""The same inputs on every machine and in every run: a failure stays until it is mended."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("cells", "source", "x")), inner),
    max_leaves=9,
)


def test_a_slice_of_the_inputs_is_answered_within_its_budget() -> None:
    counted = Count()
    for number in range(SLICE):
        counted.add(number, tried(make_input(1, number), form=number))
    assert counted.faults == {}
    assert counted.read > SLICE / 3
    assert len(counted.fired) > 25
    assert counted.mended >= 3
    assert counted.refusals.total() > SLICE / 10


def test_an_input_is_the_same_for_its_number() -> None:
    assert make_input(3, 7) == make_input(3, 7) != make_input(4, 7)


@bounded
@given(st.randoms(use_true_random=False))
def test_a_grown_script_is_answered(random: Random) -> None:
    assert tried(Input("train.py", grown(random).encode("utf-8", "surrogatepass"))).faults == ()


@bounded
@given(st.text(max_size=200) | st.text("fit(){}[]:= \n\t'\"#\\f.,0x@*lambda", max_size=200))
def test_any_text_is_answered(text: str) -> None:
    raw = b"import torch, transformers\n" + text.encode("utf-8", "surrogatepass")
    assert tried(Input("train.py", raw)).faults == ()


@bounded
@given(st.binary(max_size=100), st.sampled_from(("", "utf-8", "latin-1", "utf-16", "utf-7", "rot13", "idna", "mbcs")))
def test_any_bytes_are_text_or_refused(raw: bytes, encoding: str) -> None:
    head = f"# coding: {encoding}\n".encode() if encoding else b""
    with suppress(UnreadableError):
        read_bytes("t.py", head + raw)
        read_bytes("t.ipynb", head + raw)


@bounded
@given(JSON, st.randoms(use_true_random=False))
def test_any_json_is_a_notebook_or_refused(document: object, random: Random) -> None:
    cell = {"cell_type": "code", "source": ["from transformers import Trainer\n", "Trainer(a, a)"], "more": document}
    damaged = damage_notebook(
        random, {"cells": [cell, {"cell_type": "code", "source": document}], "metadata": document}
    )
    assert tried(Input("t.ipynb", json.dumps(damaged).encode("utf-8", "surrogatepass"))).faults == ()


@bounded
@given(st.text(alphabet="# lintrain:ignore-f[],a'\"\\\n)(", max_size=80))
def test_any_comment_is_a_suppression_or_none(text: str) -> None:
    lines = text.split("\n")
    for found in find_suppressions("t.py", text, lines):
        assert 1 <= found.location.line <= len(lines)


@bounded
@given(
    st.text(alphabet="ab é😀\n", max_size=40),
    st.text(alphabet="ab é😀\n", max_size=40),
    st.sampled_from(("\n", "\r\n", "\r")),
)
def test_the_edits_of_the_server_give_the_text_that_was_meant(before: str, after: str, newline: str) -> None:
    units = Units("utf-16")
    text = before = before.replace("\n", newline)
    for edit in reversed(line_edits(before, after, units, newline)):
        text = changed(text, edit.range, edit.new_text, units)
    assert split_lines(text) == after.split("\n")


@bounded
@given(st.text(alphabet="[]{}=\"'.a1#\n-é", max_size=60) | st.text(max_size=30))
def test_any_configuration_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "settings"
    folder.mkdir(exist_ok=True)
    (folder / "lintrain.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with suppress(UsageError):
        load_settings([str(folder)], None)


@bounded
@given(st.text(alphabet="ab1-:[]{},&*!'\"#|>\n \t.e", max_size=60))
def test_any_yaml_is_settings_or_not_plain(text: str) -> None:
    try:
        read_yaml(text, numbers_without_point=True)
    except NotReadError:
        assume(False)


@bounded
@given(JSON)
def test_any_json_is_evidence_or_refused(tmp_path_factory: pytest.TempPathFactory, document: object) -> None:
    file = tmp_path_factory.getbasetemp() / "evidence.json"
    for written in (document, {"schema": 3, "runs": document, "script": "t.py"}):
        file.write_text(json.dumps(written))
        with pytest.raises(EvidenceFileError):
            read_record(file)


def broken(*_: object) -> Any:  # Any: it gives nothing
    raise ZeroDivisionError("by design")


@pytest.mark.libraries  # the installed version decides which arguments there are
def test_a_crash_a_slow_rule_and_a_broken_fix_are_faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = Input(
        "train.py", b"# more\nfrom transformers import TrainingArguments\nTrainingArguments('o', lerning_rate=1)\n"
    )
    plain = tried(given, form=2)
    assert (plain.faults, set(plain.rules), plain.mended) == ((), {"unknown-argument"}, 1)
    with monkeypatch.context() as planted:
        planted.setattr("lintrain.check.fixing._written", lambda *_: b"x = (")
        assert "`syntax-error` after the fixes: '(' was never closed" in tried(given, form=2).faults
    with monkeypatch.context() as planted:
        planted.setattr("lintrain.read.read_pipeline", broken)
        (fault,) = tried(given).faults
        assert fault == "`reader` failed: ZeroDivisionError: by design"
        keep_smallest(given, 5, fault, tmp_path)
    assert (tmp_path / "5" / "train.py").read_bytes() == b"TrainingArguments('o', lerning_rate=1)"

    def forever(*_: object) -> object:
        while True:
            pass

    monkeypatch.setattr(trial, "BUDGET_SECONDS", 0.2)
    monkeypatch.setattr("lintrain.read.read_pipeline", forever)
    (fault,) = tried(given).faults
    assert fault.startswith("over its budget of 0 s")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks")
def test_an_input_that_ends_its_process_is_named_and_the_others_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(given: Input, **_: object) -> Result:
        if given.raw == b"deadly":
            os._exit(3)
        return Result(frozenset({given.raw.decode()}))

    monkeypatch.setattr("tests.fuzz.running.tried", die)
    made = [b"a", b"deadly", b"b", b"deadly", b"c", b"d"]
    told = dict(run(lambda number: Input("t.py", made[number]), len(made), jobs=2))
    assert [("".join(told[number].rules), told[number].faults) for number in range(len(made))] == [
        ("a", ()),
        ("", ("the process ended with 3",)),
        ("b", ()),
        ("", ("the process ended with 3",)),
        ("c", ()),
        ("d", ()),
    ]


def test_every_rule_that_reads_text_is_tried() -> None:
    assert {rule.name for rule in rules()} <= set(trial.selection(with_names=False).names)
    assert lintrain.check.one_file.READER not in trial.selection(with_names=True).names


def test_damage_is_damage() -> None:
    texts = {damage_text(Random(number), "import torch\nx = [1, 2]\n") for number in range(60)}
    assert len(texts) > 40
    assert len({damage_bytes(Random(number), b"import torch\nx = 1\n") for number in range(60)}) > 40
