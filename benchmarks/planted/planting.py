"""Operators and the places where they plant their mistakes.

An operator is a function from a file's Form to lists of edits, one list for each place where the mistake fits:

    @plants("missing-zero-grad", also="wrong-step-order")
    def clear_removed(form: Form) -> Iterator[list[Edit]]:
        \"\"\"`zero_grad()` of the only optimizer of a loop is removed.\"\"\"

The rules named are those whose finding a reader would accept: the first is the expected one. `form.here(node)`, or
HERE in new text, marks the lines near which it must be. An operator looks for its places by simple syntax searches,
never by lintrain's reader, and its own precondition says where the edit would be no mistake.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from benchmarks.accuracy.code import Edit
from benchmarks.planted.clones import Clone
from benchmarks.planted.form import Form

Plant = Callable[[Form], Iterator[list[Edit]]]
MOST_OF_ONE = 2
"""Places of one operator in one repository: more would let a large one outweigh the others."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of mistake: the rules that may report it, and how it is planted."""

    rules: frozenset[str]
    plant: Plant
    expected: str

    @property
    def name(self) -> str:
        """The operator's name, as in tables."""
        return self.plant.__name__.replace("_", "-")

    @property
    def group(self) -> str:
        """The file that it is in: its subject."""
        return self.plant.__module__.rsplit(".", 1)[-1]

    @property
    def meaning(self) -> str:
        """What is planted, in one line."""
        return (self.plant.__doc__ or "").strip().split("\n")[0]


@dataclass(frozen=True, slots=True)
class Planted:
    """One mistake in one file: the new text, the edits that made it, and the lines near which it must be reported."""

    operator: Operator
    clone: Clone
    form: Form
    edits: tuple[Edit, ...]
    text: str
    lines: tuple[int, ...]

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.form.path)

    @property
    def place(self) -> str:
        """File and line, by which a place is named in lists."""
        return f"{self.clone.name}/{self.path.relative_to(self.clone.path)}:{self.lines[0]}"

    @property
    def draw(self) -> str:
        """What puts the places of a repository into an order that is the same every time and no one chose."""
        return hashlib.sha256(f"{self.operator.name}:{self.place}".encode()).hexdigest()


OPERATORS: list[Operator] = []


def plants(rule: str, *, also: str = "") -> Callable[[Plant], Plant]:
    """Register an operator with the rule that must report its mistake, and others that a reader would accept."""

    def register(plant: Plant) -> Plant:
        OPERATORS.append(Operator(frozenset({rule, *also.split()}), plant, rule))
        return plant

    return register


@cache
def load_operators() -> tuple[Operator, ...]:
    """Every operator of the folder."""
    for path in sorted((Path(__file__).parent / "operators").glob("*.py")):
        if path.stem != "__init__":
            import_module(f"benchmarks.planted.operators.{path.stem}")
    return tuple(OPERATORS)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where one operator fits, as plain data: `number` counts its places in the file."""

    draw: str
    operator: str
    file: str
    number: int


def places_in(clone: Clone, operators: tuple[Operator, ...]) -> list[Place]:
    """The sampled places of each operator in one repository."""
    found: dict[str, list[Place]] = {operator.name: [] for operator in operators}
    for form in clone.forms():
        for operator in operators:
            for number, planted in enumerate(in_file(clone, form, operator)):
                found[operator.name].append(Place(planted.draw, operator.name, form.path, number))
    return [each for places in found.values() for each in sorted(places)[:MOST_OF_ONE]]


def in_file(clone: Clone, form: Form, operator: Operator) -> Iterator[Planted]:
    """Every place in one file; those where the edits overlap or break the syntax are none."""
    for edits in operator.plant(form):
        try:
            text, lines = form.edited(edits)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        if lines and text != form.text:
            yield Planted(operator, clone, form, tuple(edits), text, tuple(lines))


def planted_at(clone: Clone, places: Sequence[Place]) -> Iterator[Planted]:
    """The mistakes at these places of a clone."""
    operators = {operator.name: operator for operator in load_operators()}
    by_file: dict[str, list[Place]] = {}
    for place in places:
        by_file.setdefault(place.file, []).append(place)
    for file, held in sorted(by_file.items()):
        if form := clone.form(Path(file)):
            for name in sorted({place.operator for place in held}):
                fits = list(in_file(clone, form, operators[name]))
                yield from (fits[place.number] for place in held if place.operator == name)
