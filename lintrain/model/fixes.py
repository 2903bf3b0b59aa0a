"""An edit that mends a finding, as plain data; `lintrain.fix` applies it."""

from __future__ import annotations

from typing import Self

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Replace:
    """Put other code in the stead of an expression or statement."""

    location: Location
    code: str


@dataclass(frozen=True, slots=True)
class AddArgument:
    """Give a call one more keyword argument; nothing changes where the call has it already."""

    call: Location
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class RenameArgument:
    """Give a keyword argument of a call its new name, and a new value where one is given."""

    call: Location
    name: str
    new_name: str
    new_value: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """Take a keyword argument out of a call."""

    call: Location
    name: str


@dataclass(frozen=True, slots=True)
class AddParameter:
    """Give the function (def) at the place one more parameter with a default, after its last plain one."""

    function: Location
    name: str
    default: str


@dataclass(frozen=True, slots=True)
class AddImport:
    """Bring a name in where imports go: `import module` or `from module import name`."""

    module: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveImport:
    """Take one imported name out of a `from module import …` statement."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """Put a statement on a line of its own before the statement that holds the place."""

    location: Location
    statement: str


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """Put a statement on a line of its own after the statement that holds the place."""

    location: Location
    statement: str


@dataclass(frozen=True, slots=True)
class InsertAtTop:
    """Put a statement first in the body of the compound statement (for, def, with) at the place."""

    location: Location
    statement: str


@dataclass(frozen=True, slots=True)
class WrapInWith:
    """Put the statement that holds the place inside `with item:`."""

    location: Location
    item: str


@dataclass(frozen=True, slots=True)
class WrapBody:
    """Put the whole body of the compound statement (for, def, with) at the place inside `with item:`."""

    location: Location
    item: str


@dataclass(frozen=True, slots=True)
class MoveBefore:
    """Take the statement that holds the place to before the one that holds `target`, with the comments above it."""

    location: Location
    target: Location


@dataclass(frozen=True, slots=True)
class MoveAfter:
    """Take the statement that holds the place to after the one that holds `target`, with the comments above it."""

    location: Location
    target: Location


Edit = (
    Replace
    | AddArgument
    | RenameArgument
    | RemoveArgument
    | AddParameter
    | AddImport
    | RemoveImport
    | InsertBefore
    | InsertAfter
    | InsertAtTop
    | WrapInWith
    | WrapBody
    | MoveBefore
    | MoveAfter
)


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together; safe means that no correct run can come out different."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool

    @classmethod
    def of(cls, title: str, *edits: Edit, safe: bool) -> Self:
        """One fix of these edits."""
        return cls(title, edits, safe)
