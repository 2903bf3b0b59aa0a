"""Which axis of a model's output has the classes, as the loss reads it, and calls of the script that take another one.

A class that is chosen along the tokens, a view that makes the classes of a loss out of tokens, and predictions of
`(rows, 1)` that are compared with labels of `(rows,)`: each gives numbers without an error.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from lintrain.evidence.loop import OddCallKind
from lintrain.model.location import Location
from lintrain.runtime.child.frames import callers_frame, frame_location, is_users
from lintrain.runtime.child.library import attribute, has, library
from lintrain.runtime.measure.seen import Forward, tensors_in

CLASSIFY = frozenset({"cross_entropy", "nll_loss"})
MOST = 32
Note = Callable[[OddCallKind, str, FrameType | None], None]
Add = Callable[[OddCallKind, Location, str], None]


class ScoredAxes:
    """The outputs of models whose axis of classes is known."""

    def __init__(self, note: Note, add: Add) -> None:
        self._note, self._add = note, add
        self._axes: dict[tuple[int, int], int] = {}
        """By the module and the number of its output: the axis of the classes, counted from the last."""
        self._outputs: list[tuple[weakref.ref[Any], int]] = []
        self._swapped: list[tuple[weakref.ref[Any], Location, tuple[int, ...]]] = []

    def on_loss(self, name: str, given: Any, target: Any, forwards: list[Forward]) -> None:
        """A loss is called: it reads classes along the second axis of what it is given."""
        if name not in CLASSIFY or given.ndim < 2 or target.is_floating_point():
            return
        self._compare_views(given, target)
        for forward in forwards:
            for number, output in enumerate(tensors_in(forward.output)):
                axis = _axis_like(given, 1, output) if output.ndim > 2 and share(given, output) else None
                if axis is not None:
                    self._axes[id(forward.module), number] = axis - output.ndim
                    self._keep(output, axis - output.ndim)

    def on_forward(self, forward: Forward) -> None:
        """A module gives its output."""
        for number, output in enumerate(tensors_in(forward.output) if self._axes else ()):
            axis = self._axes.get((id(forward.module), number))
            if axis is not None and output.ndim >= -axis:
                self._keep(output, axis)

    def _keep(self, output: Any, axis: int) -> None:
        self._outputs = [*self._outputs, (weakref.ref(output), axis)][-MOST:]

    def on_choice(self, scores: Any, axis: Any, frame: Callable[[], FrameType | None]) -> None:
        """The greatest entries of a tensor along an axis are looked for."""
        if not self._outputs or not isinstance(axis, int) or scores.ndim < 3 or not -scores.ndim <= axis < scores.ndim:
            return
        for kept, axis_of_classes in self._outputs:
            output = kept()
            if output is None or not share(scores, output):
                continue
            classes = _axis_like(output, axis_of_classes, scores)
            count = output.shape[axis_of_classes]
            # A choice along one of two axes of the same size shows nothing.
            if classes is None or axis % scores.ndim == classes or scores.shape[axis] == count:
                return
            text = f"the greatest of {scores.shape[axis]} entries of axis {axis % scores.ndim} of {list(scores.shape)}"
            self._note(OddCallKind.OTHER_AXIS, f"{text} is chosen, and its {count} classes are axis {classes}", frame())
            return

    def on_view(self, before: tuple[int, ...], after: tuple[int, ...], result: Any, frame: FrameType) -> None:
        """A view swaps the sizes of the last two of three axes."""
        if len(before) == 3 and after == (before[0], before[2], before[1]):
            location = frame_location(frame)
            if location is not None:
                self._swapped = [*self._swapped, (weakref.ref(result), location, before)][-MOST:]

    def _compare_views(self, given: Any, target: Any) -> None:
        """Scores whose tokens a view has made classes of, for targets that are one for each token."""
        for result, location, before in self._swapped:
            known = result()
            if known is not None and known is given and tuple(target.shape) == before[:2]:
                text = f"scores of shape {list(before)} become {list(given.shape)} for a loss, without moving them"
                for _ in range(2):  # a sure sign counts twice, as other ones need a second size of batch
                    self._add(OddCallKind.PERMUTING_VIEW, location, text)

    def on_comparison(self, one: Any, other: Any, frame: Callable[[], FrameType | None]) -> None:
        """Two tensors are compared for equality."""
        column, row = (one, other) if one.ndim == 2 else (other, one)
        if column.ndim != 2 or row.ndim != 1 or column.shape[1] != 1 or len(column) != len(row) or len(row) < 2:
            return
        # Who pairs rows on purpose writes `labels.unsqueeze(1) == labels`: a view, of the same numbers.
        if attribute(column, "_base", None) is not None or share(column, row):
            return
        if bool((column[:, 0] == row).all()):
            return
        rows = len(row)
        text = f"{rows} predictions of shape {list(column.shape)} are compared with {rows} labels in {rows**2} pairs"
        self._note(OddCallKind.COMPARED_IN_PAIRS, text, frame())


def share(one: Any, other: Any) -> bool:
    """Whether two tensors are views of the same numbers."""
    return one is other or (
        one.layout == other.layout == library("torch").strided
        and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() != 0
    )


def _axis_like(one: Any, axis: int, other: Any) -> int | None:
    """The axis of a view of the same numbers that an axis of one is; None if it is not there, or not the only one."""
    size, stride = one.shape[axis], one.stride(axis)
    found = [each for each in range(other.ndim) if other.shape[each] == size and other.stride(each) == stride]
    return found[0] if len(found) == 1 and size > 1 else None


def hook_choices(axes: Callable[[], ScoredAxes], tensor: Any) -> None:
    """Let choices along an axis and comparisons for equality be seen: methods of tensors."""
    for name in ("argmax", "max"):
        setattr(tensor, name, _watched_choice(axes, getattr(tensor, name)))
    for name in ("__eq__", "eq"):
        setattr(tensor, name, _watched_equality(axes, getattr(tensor, name)))


def hook_functions(axes: Callable[[], ScoredAxes], torch: Any) -> None:
    """The same for functions of torch."""
    for name in ("argmax", "max"):
        setattr(torch, name, _watched_choice(axes, getattr(torch, name)))
    torch.eq = _watched_equality(axes, torch.eq)


def _watched_choice(axes: Callable[[], ScoredAxes], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        scores = args[0] if args else kwargs.get("input")
        if has(scores, "untyped_storage"):
            axis = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
            axes().on_choice(scores, axis, _users_frame)
        return function(*args, **kwargs)

    return chosen


def _watched_equality(axes: Callable[[], ScoredAxes], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def equal(self: Any, other: Any, **kwargs: Any) -> Any:
        # The class and no `isinstance`, for this runs at each comparison of tensors.
        if attribute(other, "ndim", 0) and has(other, "untyped_storage") and self.ndim + other.ndim == 3:
            axes().on_comparison(self, other, _users_frame)
        return function(self, other, **kwargs)

    return equal


def _users_frame() -> FrameType | None:
    """The script's frame that made the call, three of this file above it."""
    frame = callers_frame(above=3)
    return frame if frame is not None and is_users(frame.f_code.co_filename) else None
