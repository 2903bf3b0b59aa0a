"""Do rows of a batch reach each other's answers? One is replaced, and the others must be answered as before.

Where they do not, the first part of the model that hands one row's change on to the others is named: a layer that reads
the rows as steps in time, or a tensor whose axes were swapped without its elements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Any

from lintrain.evidence.responses import MixedRows
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, shown, users_frame
from lintrain.runtime.child.given import nodes_of
from lintrain.runtime.child.library import attribute
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.replay import ask, difference, largest
from lintrain.runtime.measure.seen import LossCall, tensors_in
from lintrain.startup.lazy_dataclass import dataclass

LEAST_ROWS = 3
CHANGES = 1e-3
"""A change of the others' answers, as a share of the largest one, that no rounding of another order of sums makes."""
READS_STEPS = frozenset(
    {"RNN", "LSTM", "GRU", "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"}
)
SHAPES = frozenset({"view", "reshape"})


@dataclass(eq=False)
class Pass:
    """One part of the model, called once: what the other rows gave it and got, and where the script calls it."""

    module: Any
    given: list[Any]
    answers: list[Any]
    has_rows: bool
    location: Location | None
    view: Location | None


def mixed_rows(call: Call, losses: Sequence[LossCall]) -> MixedRows | None:
    """What another first or last row changes in the answers of the others; None if it is not known to be a sample."""
    rows = call.rows()
    whole = call.of_rows([*range(rows)])
    if rows < LEAST_ROWS or whole is None:
        return None
    answers = ask(whole)
    if not (_are_samples(losses) or (not losses and _has_steps_inside(call, answers))):
        return None
    found = None
    # A recurrent layer forgets the rows that it reads first, and has no way back from those that it reads last.
    # Both ends: each is blind for one direction of reading, and rows count as mixed only if both show it.
    for at, instead in ((0, rows - 1), (rows - 1, 0)):
        other = call.of_rows([instead if row == at else row for row in range(rows)])
        found = _mixed(whole, other, at, answers) if other is not None else None
        if found is None or found.change > CHANGES:
            break
    return found


def _mixed(whole: Call, other: Call, at: int, answers: tuple[Any, ...]) -> MixedRows | None:
    rows, scale = whole.rows(), largest(answers)
    change = difference(_without(answers, at), _without(ask(other), at), scale)
    if change is None or change <= CHANGES:
        return None if change is None else MixedRows(rows, change)
    return MixedRows(rows, change, *_where(_passes(whole, at), _passes(other, at), scale))


def _without(tensors: Sequence[Any], at: int) -> tuple[Any, ...]:
    """All rows but the first or the last one."""
    return tuple(each[:-1] if at else each[1:] for each in tensors if each.ndim)


def _are_samples(losses: Sequence[LossCall]) -> bool:
    """Whether a loss compares each row with a target of its own."""
    return any(_compares_rows(call) for call in losses)


def _has_steps_inside(call: Call, answers: tuple[Any, ...]) -> bool:
    """Whether each row of several steps gets one answer, where a loss is computed by hand."""
    given = next((each for each in call.tensors().values() if each.ndim > 2), None)
    is_one = bool(answers) and all(each.ndim <= 2 for each in answers)
    # With as many rows as steps, a swap of the two axes looks like none.
    return given is not None and is_one and given.shape[0] != given.shape[1]


def _compares_rows(call: LossCall) -> bool:
    given, target = attribute(call.input, "shape", ()), attribute(call.target, "shape", ())
    return bool(target) and len(given) <= 2 and given[:1] == target[:1]


def _passes(call: Call, at: int) -> list[Pass]:
    found = list[Pass]()
    with ExitStack() as stack:
        for part in call.module.modules():
            if part is not call.module:
                stack.callback(
                    part.register_forward_hook(partial(_keep, found, call.rows(), at), with_kwargs=True).remove
                )
        ask(call)
    return found


def _keep(found: list[Pass], rows: int, at: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
    tensors = list(tensors_in((args, kwargs)))
    # The first part that gets something else than the rows comes after the swap, so the view before it is named.
    has_rows = all(each.ndim and each.shape[0] == rows for each in tensors)
    # Cloned, since a later part of the model may change a tensor in place.
    given, answers = (
        [each.detach().clone() for each in _without(some, at)] for some in (tensors, list(tensors_in(output)))
    )
    frame = users_frame()
    found.append(Pass(module, given, answers, has_rows, frame_location(frame), _view_before(frame)))


def _where(before: list[Pass], after: list[Pass], scale: float) -> tuple[str, Location | None, Location | None]:
    """The layer that mixes the rows and where it is called, or the statement that changes a shape before it."""
    for one, other in zip(before, after, strict=False):
        if not one.has_rows:
            return "", one.location, one.view
        if _differ(one.given, other.given, scale):
            return "", one.location, one.view
        if _differ(one.answers, other.answers, scale):
            name = type(one.module).__name__
            is_by_steps = name in READS_STEPS and not attribute(one.module, "batch_first", False)
            return (name, one.location, None) if is_by_steps else ("", None, None)
    return "", None, None


def _differ(before: list[Any], after: list[Any], scale: float) -> bool:
    change = difference(tuple(before), tuple(after), scale)
    return change is None or change > CHANGES


def _view_before(frame: FrameType | None) -> Location | None:
    """The last call of `view` or `reshape` above the running line of its function."""
    calls = list(_shape_calls(frame)) if frame is not None else []
    if frame is None or not calls:
        return None
    last = max(calls, key=lambda call: (call.lineno, call.end_col_offset or 0))
    path = shown(frame.f_code.co_filename)
    return Location(path, last.lineno, last.col_offset + 1, last.end_lineno or last.lineno, last.end_col_offset or 1)


def _shape_calls(frame: FrameType) -> Iterator[ast.Call]:
    first, line = frame.f_code.co_firstlineno, frame.f_lineno
    for node in nodes_of(frame.f_code.co_filename):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in SHAPES and first <= node.lineno <= line:
                yield node
            case _:
                pass
