"""What rewriting may lose and gain for a reason, and what each form loses and gains today."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.metamorphic.forms import Measured

FOLDER = Path(__file__).parent
TODAY = FOLDER / "today.toml"
HEAD = """\
# What each form of a script loses and gains today, by form and rule. Every finding lost is one that lintrain could
# still learn, every finding gained in a correct script is a false alarm. More than this is a failure.
# Written by `python -m tests.metamorphic --record`.
"""

Counts = defaultdict[str, Counter[str]]
"""Numbers of findings, by form and rule."""


def known_losses() -> defaultdict[str, dict[str, str]]:
    """Why a rule cannot see a mistake any more, by rewriting and rule."""
    return defaultdict(dict, tomllib.loads((FOLDER / "known.toml").read_text(encoding="utf-8")))


def expected_gains() -> defaultdict[str, dict[str, str]]:
    """Why a rule is right to report something new, by rewriting and rule."""
    return defaultdict(dict, tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8")))


def recorded(kind: str) -> Counts:
    """How many findings each form lost ("lost"), or added to correct scripts ("gained"), when this was recorded."""
    tables = tomllib.loads(TODAY.read_text(encoding="utf-8")).get(kind, {})
    return defaultdict(Counter[str], {form: Counter(counts) for form, counts in tables.items()})


def lost_by_form(measured: Iterable[Measured]) -> Counts:
    """How many findings each form loses, by rule, without those that are known to be impossible."""
    known, lost = known_losses(), defaultdict[str, Counter[str]](Counter)
    for one in measured:
        if one.rule and not one.is_kept and one.rule not in known[one.form]:
            lost[one.form][one.rule] += 1
    return lost


def gained_by_form(measured: Iterable[Measured]) -> Counts:
    """In how many correct scripts each form adds a finding that is not expected, by rule."""
    expected, gained = expected_gains(), defaultdict[str, Counter[str]](Counter)
    for one in measured:
        if not one.rule:
            gained[one.form].update(set(one.gained) - expected[one.form].keys())
    return gained


def worse(measured: Sequence[Measured]) -> list[str]:
    """Every form and rule that loses or gains more than recorded."""
    counted = {"lost": lost_by_form(measured), "gained": gained_by_form(measured)}
    return [
        f"{form}: {rule}: {count} {kind}, {recorded(kind)[form][rule]} recorded"
        for kind, counts in counted.items()
        for form, rules in counts.items()
        for rule, count in rules.items()
        if count > recorded(kind)[form][rule]
    ]


def record(measured: Sequence[Measured]) -> None:
    """Write what is lost and gained into the file; what it has about other forms stays."""
    forms = {one.form for one in measured}
    lines = [HEAD.rstrip("\n")]
    for kind, counted in (("lost", lost_by_form(measured)), ("gained", gained_by_form(measured))):
        others = {form: rules for form, rules in recorded(kind).items() if form not in forms}
        for form, rules in sorted((others | counted).items()):
            found = [f"{rule} = {count}" for rule, count in sorted(rules.items())]
            lines += ["", f"[{kind}.{form}]", *found] if found else []
    TODAY.write_text("\n".join(lines) + "\n", encoding="utf-8")
