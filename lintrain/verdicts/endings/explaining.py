"""The cause of an error: the first kind that what was measured shows, else the likely ones in order, else the facts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from lintrain.evidence.stages import Failure
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.verdicts.endings import call_conditions, script_conditions
from lintrain.verdicts.endings.kinds import Answer, Kind, Raised

TABLES = {
    "torch_calls": "torch",
    "torch_training": "torch",
    "lightning": "lightning",
    "keras": "keras",
    "hugging_face": "transformers",
    "pandas": "pandas",
    "sklearn": "scikit-learn",
    "numpy": "NumPy",
    "python": "Python",
    "warned": "torch",
}
"""The tables of kinds, in the order in which they are asked, and the library of most of their kinds."""

OWN_RAISE = re.compile(r"\s*(?:raise|assert)\b")
SELF_ACCUSING = re.compile(r"INTERNAL ASSERT FAILED|please report (?:a|this) bug|this is a bug", re.IGNORECASE)
INTERNAL = ("UnboundLocalError", "NameError", "SyntaxError", "RecursionError", "SystemError", "NotImplementedError")
MOST_FACTS = 8


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a script ended with an error, for people.

    `is_certain` if what was measured shows the cause; otherwise `causes` are likely, the first one most. Without a
    kind, `causes` is empty, and `facts` is all that is known. `bug` is why it may be a bug of a library.
    """

    kind: str = ""
    causes: tuple[str, ...] = ()
    fact: str = ""
    fix: str = ""
    page: str = ""
    library: str = ""
    is_certain: bool = False
    is_of_surroundings: bool = False
    facts: tuple[str, ...] = ()
    bug: str = ""

    @property
    def cause(self) -> str:
        """The cause, with what was measured; "" if no kind fits."""
        first = next(iter(self.causes), "")
        return f"{first}; {self.fact}" if first and self.fact else first


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind, in the order in which they are asked."""
    return tuple(kind for table, library in TABLES.items() for kind in _read(table, library))


def _read(table: str, library: str) -> Iterator[Kind]:
    entries: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / f"{table}.toml").read_text("utf-8"))
    for name, entry in entries.items():
        when = entry.get("when")
        yield Kind(
            name,
            entry.get("library", library),
            entry["raises"],
            entry["message"],
            entry["cause"],
            entry["fix"],
            getattr(call_conditions, when, None) or getattr(script_conditions, when) if when else None,
            entry.get("page", ""),
            entry.get("raised_in", ""),
            entry.get("is_of_surroundings", False),
        )


def explain(failure: Failure) -> Explanation:
    """The cause of an error; an error that the script raises itself has none but its own text."""
    found = [] if raised_by_script(failure) else list(_candidates(failure))
    shown = [each for each in found if each[2] is not None]
    likely = [each for each in found if each[2] is None]
    facts = tuple(dict.fromkeys(_facts(failure)))
    if not found:
        return Explanation(facts=facts, bug=_bug(failure))
    kind, raised, answer = (shown or likely)[0]
    rest = likely if shown else likely[1:]
    return Explanation(
        kind.name,
        (kind.cause_of(raised), *dict.fromkeys(other.cause_of(each) for other, each, _ in rest)),
        answer if isinstance(answer, str) else "",
        kind.fix_of(raised),
        kind.page,
        kind.library,
        bool(shown),
        kind.is_of_surroundings,
        facts,
    )


def raised_by_script(failure: Failure) -> bool:
    """Whether the user's own code raises the error with `raise` or `assert`."""
    return not failure.raised_in and OWN_RAISE.match(failure.code) is not None


def _candidates(failure: Failure) -> Iterator[tuple[Kind, Raised, Answer]]:
    for kind in kinds():
        if (raised := kind.matches(failure)) is not None and (answer := kind.answer(raised)) is not False:
            yield kind, raised, answer


def _facts(failure: Failure) -> Iterator[str]:
    """What the failing call was given: the values of the user's line, then the arguments of the library's function."""
    named = [value for value in failure.given if value.kind not in ("object", "kept") and value.function != "script"]
    shown = [value for value in named if not value.function] or named
    is_mixed = any(value.is_on_gpu for value in shown)
    for value in shown[:MOST_FACTS]:
        made = f" (line {value.origin})" if value.origin else ""
        yield f"`{value.name}` is {value.summary_with(names_cpu=is_mixed)}{made}"


def _bug(failure: Failure) -> str:
    """Why an error may be a bug of a library, or of versions that do not fit each other; "" for no sign of it."""
    package = failure.raised_in.partition(".")[0]
    if SELF_ACCUSING.search(failure.message):
        return "the library says so itself"
    if package and failure.type in INTERNAL and "forward" not in failure.message:
        return f"`{package}` fails in its own code with {failure.type}"
    if package and failure.type in ("ImportError", "AttributeError", "TypeError") and len(failure.frames) > 3:
        other = re.search(r"from '(?P<name>\w+)|module '(?P<module>\w+)|(?P<call>\w+\.__init__)\(\)", failure.message)
        if other is not None:
            return f"`{package}` does not fit the installed version of what it calls"
    return ""
