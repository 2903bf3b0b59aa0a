"""Mutants: correct scripts with one mistake injected, made by the operators of `operators/`.

An operator is a function from a script's Code to lists of edits, one list for each place where the mistake fits, and is
registered for the rule that must find it:

    @injects("missing-zero-grad", shows="gradients")
    def forget_to_clear(code: Code) -> Iterator[list[Edit]]: …

`shows` names what is different when the mutant runs (a channel of `trace.py`, or several), which proves that the
mistake is real. The edits say with `code.here(node)`, or with HERE in new text, on which line the rule must report it.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from benchmarks.accuracy.code import Code, Edit

Operator = Callable[[Code], Iterator[list[Edit]]]
FOLDER = Path(__file__).parent
MOST_OF_ONE = 3
"""Mutants of one operator in one script: more of the same kind prove nothing more."""

CHANNELS = frozenset(
    {
        *("error", "printed", "warnings", "saved"),
        *("inputs", "outputs", "modes", "memory"),
        *("losses", "gradients", "clipping", "rates", "steps", "weights"),
    }
)
"""What a trace tells of a run: how it ended and what it said, its forward passes, its steps."""


@dataclass(frozen=True, slots=True)
class Injection:
    """One operator: the rule that must find its mistake, and what a run shows of it.

    `not_run` is the reason why its mutants are not executed, `not_probed` why no probe is asked about them; empty where
    they are. `also` is the measurement that the verdict of a plain probe asks for.
    """

    rule: str
    operator: Operator
    shows: tuple[str, ...]
    not_run: str = ""
    not_probed: str = ""
    also: str = ""

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.__name__


@dataclass(frozen=True, slots=True)
class Mutant:
    """One script with one mistake: its code, and the lines of it on any of which the rule must report."""

    script: Code
    injection: Injection
    number: int
    text: str
    lines: tuple[int, ...]

    @property
    def name(self) -> str:
        """What tells a mutant from all others."""
        return f"{Path(self.script.path).relative_to(FOLDER / 'scripts')}:{self.injection.name}:{self.number}"

    @property
    def is_sampled(self) -> bool:
        """Whether it belongs to the tenth that is executed: the same tenth every time."""
        return zlib.crc32(self.name.encode()) % 10 == 0


INJECTIONS: list[Injection] = []


def injects(
    rule: str, *, shows: str, not_run: str = "", not_probed: str = "", also: str = ""
) -> Callable[[Operator], Operator]:
    """Register an operator for the rule that must find its mistake."""
    channels = tuple(shows.split())
    if unknown := set(channels) - CHANNELS:
        raise ValueError(f"no such channels: {', '.join(sorted(unknown))}")

    def register(operator: Operator) -> Operator:
        INJECTIONS.append(Injection(rule, operator, channels, not_run, not_probed, also))
        return operator

    return register


@cache
def load_injections() -> tuple[Injection, ...]:
    """Every operator of the folder."""
    for path in sorted((FOLDER / "operators").glob("*.py")):
        if path.stem != "__init__":
            import_module(f"benchmarks.accuracy.operators.{path.stem}")
    return tuple(INJECTIONS)


def load_scripts() -> list[Code]:
    """Every correct script and notebook."""
    found = [path for path in sorted((FOLDER / "scripts").rglob("*")) if path.suffix in (".py", ".ipynb")]
    return [Code.of(path) for path in found if not path.name.startswith("_")]


def mutants_of(code: Code, injections: tuple[Injection, ...]) -> Iterator[Mutant]:
    """Every mutant of one script; raises ValueError where an operator breaks the script or marks no line."""
    for injection in injections:
        for number, edits in zip(range(MOST_OF_ONE), injection.operator(code), strict=False):
            text, lines = code.edited(edits)
            mutant = Mutant(code, injection, number, text, tuple(lines))
            if not lines:
                raise ValueError(f"{mutant.name} marks no line")
            try:
                ast.parse(text)
            except SyntaxError as error:
                raise ValueError(f"{mutant.name} does not parse: {error}") from error
            yield mutant
