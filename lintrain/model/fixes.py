"""An edit that fixes a finding, as plain data; `lintrain.fix` applies it."""

from __future__ import annotations

from typing import Self

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace an expression or statement by other code."""

    location: Location
    code: str


@dataclass(frozen=True, slots=True)
class SetArgument:
    """Give an argument another value, and another name if it has one, where it is set.

    The location is that of `name=value` in a call, of the statement `arguments.name = value`, or of the field
    `name: str = value` of a class.
    """

    location: Location
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class AddArgument:
    """Add a keyword argument to a call; nothing changes if the call has it already."""

    call: Location
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class RenameArgument:
    """Rename a keyword argument of a call, and set a new value if one is given."""

    call: Location
    name: str
    new_name: str
    new_value: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """Remove a keyword argument from a call."""

    call: Location
    name: str


@dataclass(frozen=True, slots=True)
class AddParameter:
    """Add a parameter with a default to the function (def) at the location, after its last plain one."""

    function: Location
    name: str
    default: str


@dataclass(frozen=True, slots=True)
class AddImport:
    """Add an import next to the others: `import module`, with an alias `import module as alias`, or a name from it."""

    module: str
    name: str | None = None
    alias: str | None = None
    """Of a module alone."""

    @property
    def binds(self) -> str:
        """The name that the import brings in."""
        return self.alias or self.name or self.module.partition(".")[0]


@dataclass(frozen=True, slots=True)
class RemoveImport:
    """Remove one imported name from a `from module import …` statement."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """Insert a statement on its own line before the statement at the location."""

    location: Location
    statement: str


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """Insert a statement on its own line after the statement at the location."""

    location: Location
    statement: str


@dataclass(frozen=True, slots=True)
class InsertAtTop:
    """Insert a statement at the beginning of the body of the compound statement (for, def, with) at the location."""

    location: Location
    statement: str


@dataclass(frozen=True, slots=True)
class WrapInWith:
    """Put the statement at the location inside `with item:`."""

    location: Location
    item: str


@dataclass(frozen=True, slots=True)
class WrapBody:
    """Put the whole body of the compound statement (for, def, with) at the location inside `with item:`."""

    location: Location
    item: str


@dataclass(frozen=True, slots=True)
class MoveBefore:
    """Move the statement at the location before the one at `target`, with the comments above it."""

    location: Location
    target: Location


@dataclass(frozen=True, slots=True)
class MoveAfter:
    """Move the statement at the location after the one at `target`, with the comments above it."""

    location: Location
    target: Location


Edit = (
    Replace
    | SetArgument
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
