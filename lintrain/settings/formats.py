"""The names of the forms that a report can have: ruff's, and `html`."""

from __future__ import annotations

from typing import Literal, get_args

Format = Literal[
    "concise",
    "full",
    "grouped",
    "json",
    "json-lines",
    "junit",
    "github",
    "gitlab",
    "pylint",
    "rdjson",
    "azure",
    "sarif",
    "html",
]
FORMATS: tuple[Format, ...] = get_args(Format)

FOR_PEOPLE = frozenset[str]({"concise", "full", "grouped"})
"""Forms that a terminal shows; every other one is a file in UTF-8."""

TELL_SUPPRESSED = frozenset[str]({"json", "sarif"})
"""Forms that hold the findings, too, that a comment silences."""
