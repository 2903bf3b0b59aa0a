"""Schedules of Keras that are counted in epochs: an optimizer asks them for a rate at each of its steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import handed_on
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

WHOLE = frozenset({"CosineDecay", "PolynomialDecay"})
"""Schedules whose length is that of the run."""

SCHEDULES = WHOLE | {"ExponentialDecay", "InverseTimeDecay"}

FEWEST = 5
"""A literal number of steps that equals the epochs: fewer than these may be so by chance."""


@dataclass(frozen=True, slots=True)
class CountedInEpochs:
    """A length that is the number of epochs: where, the schedule that gets it, and where the epochs are counted."""

    location: Location
    schedule: str
    epochs: Location


def counted_in_epochs(source: Source) -> Iterator[CountedInEpochs]:
    """The schedules whose `decay_steps` is what `fit` gets as `epochs`, or the loop over epochs counts."""
    for call in calls_of(source, SCHEDULES):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else unparse(call.func)
        given = next((each.value for each in call.keywords if each.arg == "decay_steps"), None)
        length = given if given is not None else call.args[1] if len(call.args) > 1 else None
        if length is None or not _is_for_optimizer(source, call):
            continue
        epochs = _epochs(source, length, is_whole=name in WHOLE)
        if epochs is not None:
            yield CountedInEpochs(source.location(length), name, source.location(epochs))


def _epochs(source: Source, length: ast.expr, *, is_whole: bool) -> ast.expr | None:
    """Where the same number counts epochs."""
    codes = {unparse(length)}
    given = handed_on.given_to(source, length) if isinstance(length, ast.Name) else None
    codes |= {unparse(given)} if isinstance(given, ast.Name | ast.Attribute) else set()
    if isinstance(length, ast.Constant):
        is_number = is_whole and isinstance(length.value, int) and length.value >= FEWEST
        codes = codes if is_number else set[str]()
    elif not isinstance(length, ast.Name | ast.Attribute):
        return None
    for call in calls_of(source, frozenset({"fit"})):
        for keyword in call.keywords:
            if keyword.arg == "epochs" and unparse(keyword.value) in codes:
                return keyword.value
    return _counted_by_loop(source, codes)


def _counted_by_loop(source: Source, codes: set[str]) -> ast.expr | None:
    """The count of a loop that has a loop over batches inside: `for epoch in range(epochs)`."""
    for loop in source.nodes_of(ast.For):
        match loop.iter:
            case ast.Call(func=ast.Name(id="range"), args=[count]) if unparse(count) in codes:
                inner = [each for each in walk(loop) if isinstance(each, ast.For) and each is not loop]
                if any(not isinstance(each.iter, ast.List | ast.Tuple) for each in inner):
                    return count
            case _:
                pass
    return None


def _is_for_optimizer(source: Source, schedule: ast.Call) -> bool:
    """Whether an optimizer gets a schedule, and no code asks it for a rate: `schedule(epoch)`."""
    names = {
        target.id
        for node in source.nodes_of(ast.Assign)
        if node.value is schedule
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    is_given = False
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in names:
            return False
        rates = [each.value for each in call.keywords if each.arg in {"learning_rate", "lr"}]
        is_optimizer = "optimizers" in unparse(call.func) or _names_optimizer(call.func)
        for each in (*rates, *(call.args[:1] if is_optimizer else ())):
            is_given = is_given or each is schedule or (isinstance(each, ast.Name) and each.id in names)
    return is_given


OPTIMIZERS = frozenset({"Adam", "AdamW", "SGD", "RMSprop", "Nadam", "Adagrad", "Adamax", "Lion", "Adadelta", "Ftrl"})


def _names_optimizer(func: ast.expr) -> bool:
    return isinstance(func, ast.Name) and func.id in OPTIMIZERS
