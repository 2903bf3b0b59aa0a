"""Other forms of the same script, which hold the same mistake: its finding must remain, on a line that replaces it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.accuracy.code import Code
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from lintrain.builtin import BUILTINS
from tests.metamorphic.adding import add_optimizer, add_validation
from tests.metamorphic.comparing import Place, Places, Subject, Transformation, places_in
from tests.metamorphic.options import (
    take_options_from_argparse,
    take_options_from_dataclass,
    take_options_from_parsed_dataclass,
    take_options_from_yaml,
)
from tests.metamorphic.pasting import drop_imports
from tests.metamorphic.phases import loop_over_phases
from tests.metamorphic.renaming import name_neutrally
from tests.metamorphic.rows import own_dict_rows, own_dict_rows_made_at_once, own_tuple_rows
from tests.metamorphic.splitting import loop_over_splits
from tests.metamorphic.subjects import correct_subject, mistaken_subject

FORMS: tuple[Transformation, ...] = (
    take_options_from_argparse,
    take_options_from_parsed_dataclass,
    take_options_from_dataclass,
    take_options_from_yaml,
    own_dict_rows,
    own_dict_rows_made_at_once,
    own_tuple_rows,
    name_neutrally,
    add_validation,
    add_optimizer,
    loop_over_splits,
    loop_over_phases,
    drop_imports,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A script in another form: `rule` is that of its mistake, "" for a correct script."""

    form: str
    name: str
    rule: str
    is_kept: bool
    gained: tuple[str, ...]
    """The rules that report something new."""


def measure(code: Code, forms: Sequence[Transformation]) -> list[Measured]:
    """A script in every form that fits: correct, and with each mistake that lintrain finds in it."""
    found = (measure_one(subject, own, form) for subject, own in subjects_with_places(code) for form in forms)
    return [measured for measured in found if measured]


def subjects_with_places(code: Code) -> Iterator[tuple[Subject, list[Place]]]:
    """A correct script, then its mutants with the places where their mistake is found."""
    yield correct_subject(code), []
    for mutant in mutants_of(code, load_injections()):
        subject = mistaken_subject(mutant)
        if own := own_places(subject, mutant):
            yield subject, own


def own_places(subject: Subject, mutant: Mutant) -> list[Place]:
    """Where the rule of a mutant reports its mistake."""
    places = ((mutant.injection.rule, "", line) for line in mutant.lines)
    return [place for place in places if place in subject.said]


def measure_one(subject: Subject, own: Sequence[Place], form: Transformation) -> Measured | None:
    """One script in one form; None if the form does not fit."""
    script = form(subject.script, subject.focus)
    if script is None:
        return None
    said = [places for places in places_in(subject.code, script) if _is_about_training(places)]
    is_kept = any(place in places for place in own for places in said)
    gained = {places[0][0] for places in said if not subject.said.keys() & set(places)}
    return Measured(form.__name__, subject.name, own[0][0] if own else "", is_kept, tuple(sorted(gained)))


def _is_about_training(places: Places) -> bool:
    """Whether a finding is that of a rule, not an undefined name: what is pasted lacks names."""
    return places[0][0] not in BUILTINS or places[0][0] == "syntax-error"
