"""Findings, fixes and comments as JSON and back: from a fixed list of classes, so that reading executes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from lintrain.check.result import Reported
from lintrain.model import fixes
from lintrain.model.finding import Finding, Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.source.suppression import Suppression

Plain = Any
"""What JSON holds."""


EDITS = tuple(fixes.Edit.__args__)


WORDS: Mapping[str, type] = {
    each.__name__: each for each in (Finding, Related, Location, Reported, Suppression, Level, fixes.Fix, *EDITS)
}


def as_plain(value: object) -> Plain:
    """A value as JSON; raises TypeError for one that would come back different."""
    if isinstance(value, Level):
        return ["Level", value.value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    if type(value) is tuple:
        return ["", *map(as_plain, cast("tuple[object, ...]", value))]
    if isinstance(value, Mapping):
        return {_text(key): as_plain(each) for key, each in cast("Mapping[object, object]", value).items()}
    if is_dataclass(value) and WORDS.get(type(value).__name__) is type(value):
        return [type(value).__name__, *(as_plain(getattr(value, each.name)) for each in fields(value))]
    raise TypeError(f"{type(value).__name__} is not plain")


def from_plain(plain: Plain) -> Any:
    """The value from JSON; raises KeyError, TypeError, ValueError or IndexError for anything else."""
    if isinstance(plain, list):
        words: tuple[Plain, ...] = (*plain,)  # pyright: ignore[reportUnknownVariableType] - any JSON
        parts = tuple(map(from_plain, words[1:]))
        return WORDS[words[0]](*parts) if words[0] else parts
    if isinstance(plain, dict):
        return {key: from_plain(each) for key, each in cast("dict[str, Plain]", plain).items()}
    return plain


def _text(key: object) -> str:
    if type(key) is not str:
        raise TypeError("only text can be a key")
    return key
