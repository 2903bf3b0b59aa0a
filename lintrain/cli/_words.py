"""The words of `lintrain check` read without click, whose import takes longer than the check of a plain file.

The options are the fields of CheckOptions, so they are listed once. Whatever is not written plainly (`--help`, an
unknown option, a value that is no choice) is left to click, which has the words for it.
"""

from __future__ import annotations

import dataclasses
import os.path
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lintrain.cli._options import CheckOptions
from lintrain.settings.settings import FORMATS, MOST_JOBS

SINGULAR = {"targets": "target"}
"""Options that are repeated one by one, by the field that holds all of them."""

SHORT = {"-q": "--quiet", "-v": "--verbose"}

UNPLAIN = object()
"""Stands for a word that is click's to speak of."""


@cache
def option_words() -> dict[str, tuple[str, object]]:
    """The field that each option sets, with what it sets it to: a value, or the type of the value that follows it."""
    words = dict[str, tuple[str, object]]()
    for field in dataclasses.fields(CheckOptions):
        option = f"--{SINGULAR.get(field.name, field.name).replace('_', '-')}"
        match str(field.type):
            case "bool":
                words[option] = field.name, True
            case "bool | None":
                words[option] = field.name, True
                words[option.replace("--", "--no-", 1)] = field.name, False
            case "Path | None":
                words[option] = field.name, Path
            case "int | None":
                words[option] = field.name, int
            case _:
                words[option] = field.name, str
    del words["--paths"]
    return words


def read_words(words: Sequence[str]) -> CheckOptions | None:
    """The options that these words stand for; None where click has to read them."""
    given: dict[str, Any] = {}  # Any: bools, texts, paths and tuples, as the fields have them
    waiting = iter(words)
    for word in waiting:
        name, value = _option(word, waiting) if word.startswith("-") and word != "-" else ("paths", word)
        if value is UNPLAIN:
            return None
        given[name] = (*given.get(name, ()), value) if _is_repeated(name) else value
    return CheckOptions(**given) if _is_plain(given) else None


def _option(word: str, waiting: Iterator[str]) -> tuple[str, object]:
    option, equals, value = SHORT.get(word, word).partition("=")
    field, given = option_words().get(option, ("", UNPLAIN))
    if not isinstance(given, type):
        return field, UNPLAIN if equals else given
    text = value if equals else next(waiting, None)
    if text is None or (given is int and not _is_count(text)):
        return field, UNPLAIN
    return field, given(text)


def _is_count(text: str) -> bool:
    """Whether a text is a number of processes that may be asked for, written plainly."""
    return text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= MOST_JOBS


@cache
def _is_repeated(field: str) -> bool:
    return str(CheckOptions.__annotations__[field]).startswith("tuple")


def _is_plain(given: dict[str, Any]) -> bool:
    """Whether click would take the values: a form that there is, a report that is no folder."""
    report = given.get("output_file")
    return given.get("output_format") in (None, *FORMATS) and not (report and os.path.isdir(report))  # noqa: PTH112 - as it is, no `Path` method is quicker
