"""The scripts that were written blind: their edits fit, the sound ones are silent, and what was reported still is."""

from __future__ import annotations

import pytest

from benchmarks.blind.__main__ import count, main
from benchmarks.blind.mistakes import Field, TableError, load_fields
from benchmarks.sight.clones import MEASURE, WORK

FIELDS = load_fields()
OF_EACH_FIELD = pytest.mark.parametrize("field", FIELDS, ids=[field.name for field in FIELDS])


@OF_EACH_FIELD
def test_each_mistake_changes_its_script_into_another_that_parses(field: Field) -> None:
    for mistake in field.mistakes:
        assert mistake.text != mistake.script.read_text(encoding="utf-8"), mistake.name
        compile(mistake.text, mistake.name, "exec")
        assert mistake.effect in {"fails", "silent"}, mistake.name
    assert field.work < {script.name for script in field.scripts}


@pytest.mark.turns(one_in=3)
@OF_EACH_FIELD
def test_a_sound_script_is_silent_and_what_names_a_mistake_still_does(field: Field) -> None:
    for half in (WORK, MEASURE):
        counted = count(field, half)
        assert counted.false == ()
        assert [mistake.name for mistake in counted.missed if mistake.rules] == []


def test_an_edit_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FIELDS[0].mistakes[0].script.read_text(encoding="utf-8")
    monkeypatch.setattr("pathlib.Path.read_text", lambda path, **_: text if path.suffix == ".py" else EDIT)
    with pytest.raises(TableError, match="not there exactly once"):
        load_fields()


EDIT = """
work = []
runnable = []
[[mistake]]
id = "lost"
base = "a.py"
old = "a line that no script has"
new = ""
why = "none"
effect = "silent"
"""


def test_a_field_that_does_not_exist_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-field"]) == 2
    assert capsys.readouterr().err == "no field of this name\n"
