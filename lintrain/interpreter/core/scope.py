"""Names and their values, while a script is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from lintrain.pipeline.values.closure import Closure
from lintrain.pipeline.values.python import UNKNOWN, Unknown, Value, join
from lintrain.startup.lazy_dataclass import dataclass

MOST_STARS = 64
"""Imports with `*` whose names are looked for, the latest ones of a module."""

Changes = Mapping[str, Value | None]
"""What code did to the names of a scope: the value of each name that it bound, None for one that it deleted."""

StarImport = Callable[[str], Value | None]
"""What a module that was imported with `*` has under a name; None if it has none such."""


@dataclass(eq=False, slots=True)
class Deferred(Value):
    """A name imported from a module of the project: it is only looked for when something uses it."""

    find: Callable[[], Value]
    found: Value | None = None

    def settle(self) -> Value:
        """The value, the same one each time."""
        if self.found is None:
            # Set before the search: `a.py` and `b.py` may import the name from each other, and the inner
            # search then ends here.
            self.found = Unknown()  # for modules that import the name from each other
            self.found = self.find()
        return self.found


def settled(value: Value) -> Value:
    """The value of a name, looked up now if it was not before."""
    return value.settle() if isinstance(value, Deferred) else value


@dataclass(eq=False, slots=True)
class Scope(Closure):
    """The names of a module, function or class body; lookups go outwards, past class bodies.

    `journal` has each binding in order, with what the name stood for before (None: nothing). So a branch costs what it
    binds: it is undone where it ends, and not each branch begins with a copy of all names.
    """

    parent: Scope | None = None
    is_class: bool = False
    names: dict[str, Value] = field(default_factory=lambda: {})
    outer_names: dict[str, Scope] = field(default_factory=lambda: {})
    stars: list[StarImport] = field(default_factory=lambda: [])
    journal: list[tuple[str, Value | None]] = field(default_factory=lambda: [])
    sought: set[str] = field(default_factory=set[str])
    """The names that are being looked for in imports with `*`."""

    def lookup(self, name: str) -> Value | None:
        """The value of a name here, or None if nothing bound it."""
        value = self._bound(name)
        if value is None:
            return self.module().starred(name)
        return value.settle() if isinstance(value, Deferred) else value

    def _bound(self, name: str) -> Value | None:
        if name in self.outer_names:
            return self.outer_names[name].names.get(name)
        if name in self.names:
            return self.names[name]
        # A class body is no scope for the functions in it: in `class A: x = 1; def f(self): return x` the
        # `x` is a global.
        scope = self.parent
        while scope is not None:
            if not scope.is_class and name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def add_star(self, star: StarImport) -> None:
        """Note an import with `*`."""
        # A new list each time: a branch that is undone must not see the stars of another one, and loops add
        # few.
        self.stars = [*self.stars, star][-MOST_STARS:]

    def starred(self, name: str) -> Value | None:
        """The value of a name that an import with `*` brought in."""
        if name in self.sought:  # `from . import *` in a package itself, and modules that import all of each other
            return None
        self.sought.add(name)
        # The last import with `*` wins, as it does when the script runs.
        found = next((found for star in reversed(self.stars) if (found := star(name)) is not None), None)
        self.sought.remove(name)
        return found

    def bind(self, name: str, value: Value) -> None:
        """Bind a name to a value, in an outer scope if `global` or `nonlocal` declares it there."""
        self.outer_names.get(name, self).put(name, value)

    def put(self, name: str, value: Value) -> None:
        """Bind a name of this very scope to a value."""
        # Written even if the value is the same object: `joined` takes from the journal which branches bound a
        # name.
        self.journal.append((name, self.names.get(name)))
        self.names[name] = value

    def unbind(self, name: str) -> None:
        """Forget a name (`del`)."""
        self.outer_names.get(name, self).remove(name)

    def remove(self, name: str) -> None:
        """Forget a name of this very scope."""
        self.journal.append((name, self.names.pop(name, None)))

    def changes_since(self, start: int) -> dict[str, Value | None]:
        """What the names changed since the journal had `start` entries, in the order of their first change."""
        return {name: self.names.get(name) for name, _ in self.journal[start:]}

    def undo(self, start: int) -> Changes:
        """Go back to what the names stood for when the journal had `start` entries; what had changed."""
        changes = self.changes_since(start)
        # From the last entry to the first, so that of `x = 1; x = 2` the value before both is what stays.
        # Invariant: after `undo(start)` the names are those at the moment when the journal had `start`
        # entries.
        for name, previous in reversed(self.journal[start:]):
            if previous is None:
                self.names.pop(name, None)
            else:
                self.names[name] = previous
        del self.journal[start:]
        return changes

    def apply(self, changes: Changes) -> None:
        """Make changes that were undone, or those that branches have in common."""
        for name, value in changes.items():
            if value is None:
                self.remove(name)
            else:
                self.put(name, value)

    def joined(self, branches: Sequence[Changes]) -> Changes:
        """The joined changes of several branches that started from these names.

        A name that only some branches bind keeps their value.
        """
        after: dict[str, Value | None] = {}
        # Sorted, since the order of a set of strings differs from run to run, and the same script must give
        # the same record.
        for name in sorted({name for branch in branches for name in branch}):
            before = self.names.get(name)
            values = [value for branch in branches if (value := branch.get(name, before)) is not None]
            # `if a: x = 1` without `else` leaves `x` as 1: a script that goes on to use `x` relies on that
            # branch having run. So only branches that have a value take part in the join; a name is gone if
            # every branch deleted it.
            after[name] = values[0] if values else None
            if values and (len(values) < len(branches) or any(value is not values[0] for value in values)):
                either = join(settled(value) for value in values)
                # A model that is chosen in branches is one thing from here on, though not known which.
                after[name] = Unknown(name=name) if either is UNKNOWN else either
        return {name: after[name] for name in [*branches[0], *(name for name in after if name not in branches[0])]}

    def declare_outer(self, name: str, is_global: bool) -> None:
        """Make a name mean that of the module (`global`) or of the nearest function that has it (`nonlocal`)."""
        scope = self.parent
        # `nonlocal` stops at the nearest function that has the name, `global` goes on to the module, which
        # has no parent.
        while scope is not None and scope.parent is not None and (is_global or name not in scope.names):
            scope = scope.parent
        if scope is not None:
            self.outer_names[name] = scope

    def module(self) -> Scope:
        """The outermost scope."""
        return self if self.parent is None else self.parent.module()

    @classmethod
    def inside(cls, closure: Closure) -> Scope:
        """The names of one call of a function that closes over these."""
        if not isinstance(closure, cls):
            raise TypeError(closure)
        return cls(parent=closure)

    def release(self) -> None:
        """Drop all names: after a reading, the functions in them would keep their scope alive, and it them."""
        self.names.clear()
        self.outer_names.clear()
        self.stars.clear()
        self.journal.clear()
        self.parent = None
