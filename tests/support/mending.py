"""Code that fixes are tried on: where a part of it stands, and what edits make of it."""

from __future__ import annotations

from lintrain.fix import apply
from lintrain.model.fixes import Edit, Fix
from lintrain.model.location import Location


def location_of(text: str, code: str) -> Location:
    """The place of the only occurrence of some code, found without the help of a parser."""
    assert text.count(code) == 1, f"{code!r} occurs {text.count(code)} times"
    start = text.index(code)
    return Location("train.py", *_position(text, start), *_position(text, start + len(code)))


def _position(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def fixed(text: str, *edits: Edit) -> str:
    """The text with these edits, made as one fix."""
    return apply(text, [Fix.of("mend it", *edits, safe=True)])
