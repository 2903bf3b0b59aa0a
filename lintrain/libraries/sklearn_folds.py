"""Cross-validation of scikit-learn: `for train, test in KFold(5).split(rows)` gives the numbers of rows."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import function, method
from lintrain.interpreter.tracing import DATA
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import FoldRows
from lintrain.pipeline.values.python import LibraryObject, Sequence, Value, is_missing
from lintrain.pipeline.values.tensors import Operation, Shape
from lintrain.startup.lazy_dataclass import dataclass

WITHOUT_GROUPS = frozenset(
    {
        "KFold", "StratifiedKFold", "RepeatedKFold", "RepeatedStratifiedKFold", "ShuffleSplit",
        "StratifiedShuffleSplit", "TimeSeriesSplit", "LeaveOneOut",
    }
)  # fmt: skip
"""Splitters whose `split` accepts `groups` and never reads them (scikit-learn 1.9, `model_selection._split`)."""

BY_GROUPS = ("GroupKFold", "StratifiedGroupKFold", "GroupShuffleSplit", "LeaveOneGroupOut")
UNREAD_GROUPS = "groups of a splitter without groups"
"""The use of groups by a splitter that does not read them."""


@dataclass(eq=False, slots=True)
class Folds(LibraryObject):
    """A splitter, which divides rows several times."""


@function(*(f"sklearn.model_selection.{name}" for name in (*sorted(WITHOUT_GROUPS), *BY_GROUPS)))
def _folds(call: Call) -> Value:
    escape(call)
    return Folds(call.path, call.values(), origin=call.location)


@method(Folds, "split")
def _split(call: Call) -> Value:
    """Pairs of the numbers of the rows to train on and of those to test on."""
    escape(call)
    classes, groups = call.argument("y", 1), call.argument("groups", 2)
    # Classes that are passed twice are no groups that a fold should keep together.
    if classes is not None and groups is not None and classes.text == groups.text:
        groups = None
    name = call.receiver.path.rpartition(".")[2] if isinstance(call.receiver, Folds) else ""
    # `groups=None` is the default, which wrappers pass on.
    if groups is not None and not is_missing(groups.value) and name in WITHOUT_GROUPS:
        call.reader.record.misuses.append(Misuse(groups.location, call.receiver, UNREAD_GROUPS, name))
    # How many folds there are is not read: each is like any other.
    return Sequence([Sequence([_rows(call), _rows(call)], "tuple")], "list", False, True, origin=call.location)


def _rows(call: Call) -> FoldRows:
    made = Operation(DATA, call.location, call.text)
    return FoldRows(text=call.text, made=made, shape=Shape((None,), False), kind="int", origin=call.location)
