"""Corrections of stand-ins: what an error shows about values that were made up, so that the script can run again.

A correction changes only what was made up, is listed as a stand-in of its own, and every verdict that rests on it stays
inconclusive. Each one is tried once, and a process runs its script again only a few times.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.going_on import NoBatchesError, TooSlowError
from lintrain.runtime.stand_ins.array_shapes import SIZES, ArrayShapes
from lintrain.runtime.stand_ins.expressions import signature
from lintrain.runtime.stand_ins.known_values import asked_argument, missing_arguments
from lintrain.runtime.stand_ins.needs import Need, Needs, Table
from lintrain.runtime.stand_ins.sizes import (
    MOST_ROWS,
    Sizes,
    asked_channels,
    asked_family,
    asked_rows,
    asked_side,
    asked_width,
    difference,
)
from lintrain.runtime.stand_ins.small_configs import WIDTH as SMALL
from lintrain.runtime.stand_ins.unused_packages import missing_package
from lintrain.startup.lazy_dataclass import dataclass

MOST = 8
SHOWN = {"parts": "texts that contain", "json": "JSON with", "structs": "lists of", "struct": "dictionaries with"}


FEW_ROWS = 256
"""In each data set of a script that took too long before its training."""


class Replaced(Protocol):
    """What was replaced in a process: the ledger of stand-ins."""

    make_again: Callable[[], None]

    @property
    def script(self) -> str:
        """The text of the script."""
        ...

    @property
    def has_made_models(self) -> bool:
        """Whether a model of the script is a stand-in."""
        ...

    def withdraw(self, kind: StandInKind, name: str) -> None:
        """List a stand-in no longer."""
        ...

    def folder_of_package(self, name: str) -> str | None:
        """The folder of the project that has a package which is not on the path."""
        ...

    def is_made(self, name: str) -> bool:
        """Whether a checkpoint is a stand-in."""
        ...

    def renew(self, kind: StandInKind, name: str, by: str) -> None:
        """List a stand-in, in place of what was listed under its name."""
        ...


@dataclass(frozen=True)
class Tried:
    """A correction, and the error that it is to end."""

    need: Need
    ended: tuple[str, ...]


class Corrections:
    """What the errors of earlier runs showed: kinds of columns by data set, sizes and families of checkpoints."""

    def __init__(self, ledger: Replaced) -> None:
        self._ledger = ledger
        self._kinds: dict[str, dict[str, str]] = {}
        self._tables: dict[str, Table] = {}
        self._count = 0
        self.choices: dict[str, tuple[str, ...]] = {}
        self.families: dict[str, str] = {}
        self.width: int | None = None
        self._gap: int | None = None
        self.channels = dict[int, int]()
        self.rows = 0
        self.most_rows: int | None = None
        self.packages = set[str]()
        self._handled = list[BaseException]()
        self.arguments = dict[str, str]()
        self.made_arguments = dict[str, str]()
        self.made_settings = set[str]()
        self.optional_arguments = set[str]()
        self.needed_arguments = set[str]()
        self._latest: Tried | None = None
        self._before = dict[str, str]()
        self._useless = set[Need]()
        self.on_rows: Callable[[], None] = lambda: None
        self._made = dict[str, int]()
        self.models = dict[str, Sizes]()
        self.arrays = ArrayShapes()
        self.side = 0

    def remember(self, name: str, columns: Mapping[str, Any], rows: int, *, is_known: bool) -> None:
        """So many rows were made, of one of several splits; their values tell later where a text comes from."""
        self.count(name, rows)
        before: Mapping[str, Sequence[Any]] = self._tables[name].columns if name in self._tables else {}
        whole = {each: [*before.get(each, ()), *values] for each, values in columns.items()}
        self._tables[name] = Table(name, whole, is_known)

    def count(self, name: str, rows: int) -> None:
        """So many rows were made of something."""
        self.on_rows()
        self._made[name] = min(rows, self._made.get(name, rows))

    def kinds(self, name: str) -> dict[str, str]:
        """The kinds of a data set's columns that errors have shown."""
        return self._kinds.get(name, {})

    def bounded(self, rows: int) -> int:
        """As many rows as are wanted, or few where the script took too long with them."""
        return rows if self.most_rows is None else min(rows, max(self.most_rows, self.rows))

    @property
    def may_grow(self) -> bool:
        """Whether a run with more rows would have any."""
        return bool(self._made) and self._count < MOST and self.rows < MOST_ROWS

    def correct(self, error: BaseException | None) -> bool:
        """Change what the error shows to be made up wrongly; whether anything was."""
        # The innermost error may say less than the one that it caused: `datasets` wraps those of a builder.
        cause = error if self._count < MOST else None
        # A run within the handling of an error has that as its context: what is known of it was tried.
        while cause is not None and all(cause is not each for each in self._handled):
            self._handled.append(cause)
            if self._correct(cause):
                self._count += 1
                # The next run makes its own.
                self._tables.clear()
                self._made.clear()
                return True
            cause = cause.__cause__ or cause.__context__
        return False

    def _correct(self, error: BaseException) -> bool:
        if isinstance(error, TooSlowError):
            return self._take_few()
        if isinstance(error, NoBatchesError):
            return self._take_rows(error)
        self._take_back(error)
        if self._take_package(error) or self._take_argument(error):
            return True
        # Rows first: most errors about shapes are caused by what the rows hold.
        needs = Needs([*self._tables.values()])
        if (need := needs.of(error)) is not None and self._take(need, error):
            return True
        of_data = (self._take_rows, self._take_side, self._take_arrays)
        sizes = (*of_data, self._take_family, self._take_width, self._take_channels)
        if any(take(error) for take in sizes):
            return True
        return any(self._take(each, error) for each in needs.all_of(error))

    def _take_back(self, error: BaseException) -> None:
        """Undo a correction that the same error in the same expression follows: another is tried in its place."""
        if self._latest is None or self._latest.ended != signature(error):
            return
        need, self._latest = self._latest.need, None
        self._useless.add(need)
        known = self._kinds[need.table]
        known.pop(need.column, None)
        known.update(self._before)
        self.choices.pop(need.column, None)
        self._ledger.withdraw(StandInKind.DATA, f"{need.table}, {need.column}")

    def _take_package(self, error: BaseException) -> bool:
        # Not before an error shows it: a script may look itself whether a package is there.
        name = missing_package(error)
        if name is None or name in self.packages:
            return False
        self.packages.add(name)
        folder = self._ledger.folder_of_package(name)
        if folder is not None and folder not in sys.path:
            self.packages.discard(name)
            # Last: what is installed has its own module of any other name in that folder.
            sys.path.append(folder)
            what = f"that of the project, in {os.path.basename(folder)}, which is not on the path"
            self._ledger.renew(StandInKind.PACKAGE, name, what)
            return True
        self._ledger.renew(StandInKind.PACKAGE, name, "left out until the script uses it: it is not installed")
        return True

    def _take(self, need: Need, error: BaseException) -> bool:
        # The same correction twice would run the script for nothing: the error has another cause.
        known = self._kinds.setdefault(need.table, {})
        kind = _joined(known.get(need.column, ""), need.kind)
        is_new = known.get(need.column) != kind or (need.choices and self.choices.get(need.column) != need.choices)
        if not is_new or need in self._useless:
            return False
        self._before = {need.column: known[need.column]} if need.column in known else {}
        self._latest = Tried(need, signature(error))
        known[need.column] = kind
        if need.choices:
            self.choices[need.column] = need.choices
        self._note(StandInKind.DATA, f"{need.table}, {need.column}", _shown(kind, need.choices), error)
        return True

    def _take_argument(self, error: BaseException) -> bool:
        # Once for each argument: two tables with different keys would ask for one after the other.
        unknown = {name: text for name, text in self.made_arguments.items() if name not in self.arguments}
        known = asked_argument(error, unknown)
        self.arguments.update(known)
        for name in known.keys() & self.made_settings:
            # Arguments are listed as the script takes them; a file of settings only by the keys that it has.
            self._note(StandInKind.ARGUMENT, name, known[name], error)
        # "Need either a dataset name or a training folder": the first of them that the error names.
        missing = missing_arguments(error, self.optional_arguments - self.needed_arguments) if not known else []
        self.needed_arguments.update(missing)
        return bool(known or missing)

    def _take_rows(self, error: BaseException) -> bool:
        # A part that is still too short after a correction (`[:1%]`) is a part of as many rows as there are now.
        fewest = min(self._made.values(), default=self.most_rows or 0)
        rows = asked_rows(error, max(fewest, self.rows)) if fewest else None
        if rows is None or rows <= self.rows:
            return False
        self.rows = rows
        self._note(StandInKind.DATA, "rows", f"at least {rows} in each data set, where so many are published", error)
        return True

    def _take_few(self) -> bool:
        if self.most_rows is not None:
            return False
        self.most_rows = FEW_ROWS
        what = f"at most {FEW_ROWS} in each data set: the script took long before its training"
        self._ledger.renew(StandInKind.DATA, "rows", what)
        return True

    def _take_side(self, error: BaseException) -> bool:
        side = asked_side(error) if not self.side else None
        if side is None:
            return False
        self.side = side
        self._note(StandInKind.DATA, "images", f"{side} pixels wide and high", error)
        return True

    def _take_arrays(self, error: BaseException) -> bool:
        what = self.arrays.correct(error, SIZES)
        if what is not None:
            self._note(StandInKind.DATA, f"arrays, {what}", "as the script requires", error)
        return what is not None

    def _take_family(self, error: BaseException) -> bool:
        asked = asked_family(error, self._ledger.script)
        if asked is None or not self._ledger.is_made(asked[0]) or asked[0] in self.families:
            return False
        name, family = asked
        self.families[name] = family
        self._ledger.make_again()
        self._note(StandInKind.MODEL, f"{name}, family", f"a {family} model", error)
        return True

    def _take_width(self, error: BaseException) -> bool:
        width = asked_width(error, self.width or SMALL) if self._ledger.has_made_models else None
        gap = difference(error)
        # A layer that follows the width of the model lacks as much at every width: that is how the script joins them.
        if width is None or width == self.width or (self.width is not None and gap is not None and gap == self._gap):
            return False
        self.width, self._gap = width, gap
        self._ledger.make_again()
        self._note(StandInKind.MODEL, "width", f"{width} in every model", error)
        return True

    def _take_channels(self, error: BaseException) -> bool:
        asked = asked_channels(error) if self._ledger.has_made_models else None
        if asked is None or asked[0] in self.channels:
            return False
        self.channels[asked[0]] = asked[1]
        self._ledger.make_again()
        self._note(StandInKind.MODEL, "channels", f"{asked[1]} in place of {asked[0]}", error)
        return True

    def _note(self, kind: StandInKind, name: str, what: str, error: BaseException) -> None:
        message = next(iter(str(error).splitlines()), "")[:80]
        self._ledger.renew(kind, name, f"{what}, after {type(error).__name__}: {message}")


def _shown(kind: str, choices: Sequence[str]) -> str:
    """What a column holds from now on."""
    if choices:
        return f"one of {', '.join(choices)}"
    first, _, rest = kind.partition(" ")
    return f"{SHOWN[first]} {rest}" if rest and first in SHOWN else kind


def _joined(known: str, kind: str) -> str:
    """The kind of a column that was corrected before: keys and marks add up."""
    first, _, rest = kind.partition(" ")
    before, _, had = known.partition(" ")
    if first == before and first in ("json", "struct", "structs"):
        return " ".join([first, *dict.fromkeys([*had.split(), *rest.split()])])
    if first == before == "parts" and rest not in had:
        return f"parts {had}\n{rest}"
    return known if first == before == "parts" else kind
