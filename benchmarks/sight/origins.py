"""What made each unknown value of a reading, by the identity of the value."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.sight.names import callee_name, kind_of, part_of, row_kind
from lintrain.model.location import Location
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Batch, Loader, TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Either,
    Instance,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
    options_of,
)
from lintrain.pipeline.values.tensors import Derived


class Mechanism(StrEnum):
    """How a value became unknown."""

    FOREIGN = "library without a model"
    FUNCTION = "library function without a model"
    METHOD = "library method without a model"
    MODELLED = "library function with a model"
    ROWS = "rows of a library's data set"
    OWN_ROWS = "rows of an own data set"
    COLLATED = "known rows, unknown batch"
    COLUMNS = "columns of a data set"
    RANK = "tensor without a rank"
    PARAMETER = "parameter of an unused function"
    ARGUMENT = "parameter without an argument"
    OWN_FUNCTION = "own function"
    DECORATED = "own function with an unknown decorator"
    BUDGET = "budget for modules spent"
    MODULE = "module of the project not found"
    ATTRIBUTE = "attribute"
    OWN_ATTRIBUTE = "attribute of an own object"
    UNKNOWN_BASE = "attribute of an own object with an unknown base"
    SUBSCRIPT = "subscript"
    OPEN_LIST = "incomplete list"
    OPEN_DICT = "incomplete dict"
    BRANCHES = "branches"
    LOOP = "loop"
    UNPACKING = "unpacking"
    WITH = "with"
    NAME = "name"
    EXPRESSION = "expression"
    CALL = "call"
    OTHER = "value of another kind"


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a value unknown: `name` is the dotted name of the call, as far as it is known."""

    mechanism: Mechanism
    name: str
    location: Location | None = None


@dataclass(eq=False, slots=True)
class Origins:
    """The origins of the unknown values of one reading."""

    of: dict[int, Origin] = field(default_factory=dict[int, Origin])
    kept: list[Value] = field(default_factory=list[Value])
    """Values whose identity is a key of `of`: they must outlive it."""
    items: dict[ast.ClassDef, Value] = field(default_factory=dict[ast.ClassDef, Value])
    """What `__getitem__` of the script's own classes returns."""

    def note(self, value: Value, origin: Origin) -> Value:
        """The value with this origin, unless it has one; the shared UNKNOWN becomes an object of its own."""
        made = Unknown() if value is UNKNOWN else value
        if id(made) not in self.of:
            self.of[id(made)] = origin
            self.kept.append(made)
        return made

    def first(self, values: Iterable[Value | None]) -> Origin | None:
        """The origin of the first of these values that is not understood."""
        return next((found for value in values if (found := self.find(value))), None)

    def find(self, value: Value | None) -> Origin | None:
        """What made a value, or something inside of it, unknown; None if it is understood."""
        if value is None or id(value) in self.of:
            return self.of.get(id(value))
        match value:
            case Batch():
                return self.of_batch(value, None)
            case Derived(of=of):
                return self.find(of)
            case LibraryObject(path=path):
                return Origin(Mechanism.FUNCTION, f"{path}()", value.origin)
            case Bound(function=None, receiver=receiver):
                return self.find(receiver) or Origin(Mechanism.METHOD, callee_name(value), value.origin)
            case Either(options=options):
                return self.first(options)
            case Dataset():
                return of_columns(value)
            case _:
                return self._of_contents(value)

    def _of_contents(self, value: Value) -> Origin | None:
        match value:
            case Mapping(entries=entries, is_complete=False):
                return self.first(entries.values()) or Origin(Mechanism.OPEN_DICT, "dict", value.origin)
            case Sequence(items=items, is_complete=True):
                return self.first(items)
            case Sequence(items=items, kind=kind):
                return self.first(items) or Origin(Mechanism.OPEN_LIST, kind, value.origin)
            case Tensor(shape=shape, role=role, made=made) if shape.rank is None:
                return Origin(Mechanism.RANK, f"{role} by {made.name if made else 'a model'}", value.origin)
            case _:
                return None

    def of_batch(self, batch: Batch, key: object) -> Origin:
        """Why a part of a batch is not followed: what its data set gives under the key."""
        loader = batch.loader
        return self._of_rows(loader, loader.dataset, key) if loader else Origin(Mechanism.LOOP, "batch")

    def _of_rows(self, loader: Loader, dataset: Value, key: object) -> Origin:
        option = options_of(dataset)[0]
        match option:
            case Instance(cls=cls):
                return self._of_own_rows(loader, cls, key)
            case TorchDataset(path="torch.utils.data.TensorDataset", parts=parts):
                return self.first(parts) or Origin(Mechanism.ROWS, f"{option.path}[]", option.origin)
            case TorchDataset(parts=(whole,)):
                return self._of_rows(loader, whole, key)
            case TorchDataset(path=path):
                return Origin(Mechanism.ROWS, f"{path}[]", option.origin)
            case _:
                return self.find(option) or Origin(Mechanism.ROWS, f"{kind_of(option)}[]", option.origin)

    def _of_own_rows(self, loader: Loader, cls: Class, key: object) -> Origin:
        item = self.items.get(cls.node)
        if item is None:
            return Origin(Mechanism.OWN_ROWS, f"<{', '.join(cls.library_bases)}>[]", cls.origin)
        part = part_of(item, key)
        collate = "" if isinstance(loader.collate, Absent) else f" by {kind_of(loader.collate)}"
        known = Origin(Mechanism.COLLATED, f"{row_kind(item)}, part {kind_of(part)}{collate}", loader.origin)
        return self.find(part) or self.find(item) or known


def of_columns(dataset: Dataset) -> Origin | None:
    """What left the columns of a data set unknown: the first step after which they are not all known."""
    for made in reversed(dataset.lineage):
        if made.columns is None or not made.is_complete:
            step = made.steps[-1]
            source = "a hub data set" if made.hub_name else "data"
            return Origin(Mechanism.COLUMNS, f"{step.operation} of {source}", step.location)
    return None
