"""What a loop does with its losses and gradients: which it divides and clips, and which graphs outlive their batch."""

from __future__ import annotations

import inspect
import math
import operator
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_users, users_frame
from lintrain.runtime.child.library import attribute, library
from lintrain.runtime.frameworks.loop.ledger import Ledger
from lintrain.runtime.measure.gradients import SCALES, new_terms
from lintrain.runtime.measure.held_values import (
    cut_inside,
    keeper_of_graphs,
    made_by_statement,
    mark_graph,
    new_leaf_in,
)
from lintrain.runtime.measure.seen import Forward, Iteration, tensors_in

LAUNCHERS = ("/accelerate/", "/lightning/", "/lightning_fabric/", "/pytorch_lightning/", "/deepspeed/")
LONG_AGO, SEVERAL = 2, 2
"""Batches after which a graph should be gone: the last loss still holds that of the batch before."""


class Mark:
    """Lives as long as the graph that it is hooked into."""

    def __call__(self, *gradients: Any) -> None:
        """Leave the gradients as they are."""


class Counts(Counter[str]):
    """Counts by the names of the fields of `LoopEvidence`, and where in the script each was first more than 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first_at: dict[str, Location] = {}

    def note(self, name: str, times: int, at: Location | None = None) -> None:
        """Add to a count; `at` is where the script did it, if that was not just now."""
        self[name] += times
        if times and name not in self.first_at:
            location = at or frame_location(users_frame())
            if location is not None:
                self.first_at[name] = location


class Effects:
    """Counts of effects, by the names of the fields of `LoopEvidence`."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.per_step: list[int] = []  # backward passes that each step used
        self.batches_per_step: list[int] = []
        self.rates: list[float] = []  # of the first group, at each step
        self.ledger = Ledger()
        self.scale = 1.0
        self.is_scaled = False
        self._marks: list[tuple[weakref.ref[Mark], int]] = []  # each with the number of its batch
        self._waiting: list[list[str]] = []  # the last operations of each loss since the last step
        self._went_at: Location | None = None  # where the first backward pass since the last step is
        self._not_updated = set[tuple[int, int]]()
        self._unscaled = set[tuple[int, int]]()
        self._casts: list[str] = []  # the formats of the casts that are open
        self._cast = ""  # that of the last forward pass
        self._is_multiplied = False
        self._taken = self._steps_before_pass = 0
        self._before_closure: int | None = None
        self._forwards: Sequence[Forward] = ()
        self._inputs: list[weakref.ref[Any]] = []  # the iteration before, and what models and losses got in it

    def on_backward_start(self, loss: Any) -> None:
        """Attach a mark to the graph of the backward pass; that of an earlier batch may still be alive."""
        # The mark hangs on the graph and dies with it. One graph alive is normal (the loss variable of the last batch
        # still holds it), two mean that losses are collected with their graphs.
        alive = [batch for earlier, batch in self._marks if earlier() is not None]
        self.counts.note("kept_old_graphs", len(alive) > 1)
        # A graph of the batch before last is one too many; the loss variable of a loop explains only the last one.
        self._note_growth({batch for batch in alive if batch <= self._batch - LONG_AGO})
        mark = Mark()
        if loss.grad_fn is not None:
            loss.grad_fn.register_hook(mark)
            mark_graph(loss, self._batch)
            self._marks.append((weakref.ref(mark), self._batch))
        # The form is `loss = torch.tensor(float(loss), requires_grad=True)`: backward runs, and no
        # weight gets a gradient.
        elif loss.requires_grad:  # a new tensor: nothing below it can learn
            self.counts.note("losses_without_graph", 1, cut_inside(loss) or made_by_statement(loss))
        if not self.counts["backwards"] and (made := made_by_statement(loss)) is not None:
            self.counts.first_at["losses"] = made
            if (ends := new_leaf_in(loss)) is not None:
                self.counts.first_at["new_leaves"] = ends
        for term in new_terms(loss, self.ledger.held()):
            self.counts.note("terms_without_graph", 1, made_by_statement(term))
        self.counts.note("backwards", 1)
        # Since the last recorded forward pass began an optimizer has stepped: its step used the
        # gradients of the batch before.
        self.counts.note("backwards_behind_a_step", self.counts["steps"] > self._steps_before_pass)
        self._went_at = self._went_at or frame_location(users_frame())
        # A scaler's multiplication is the last operation of the graph, and not the script's.
        self._waiting.append(last_operations(loss.grad_fn)[self.is_scaled :])
        is_divided_twice = self._waiting[-1][:2] == ["DivBackward0", "DivBackward0"]
        self.counts.note("divided_twice", is_divided_twice)
        self.counts.note("divided_twice_alike", is_divided_twice and _has_equal_divisors(loss.grad_fn))
        if self._cast:
            halves = "scaled_halves" if self._is_multiplied else "unscaled_halves"
            self.counts.note(halves if self._cast == "float16" else "other_casts", 1)
        self._is_multiplied = False
        self.counts["searched_for_nan"] += bool(library("torch").is_anomaly_enabled())
        self.counts.note("past_the_launcher", not is_called_by_launcher())

    def on_inputs(self, iteration: Iteration) -> None:
        """A batch goes backward: whether models and losses got the tensors of the batch before, and no others."""
        given = [*(each for forward in iteration.forwards for each in tensors_in((forward.args, forward.kwargs)))]
        now = [*given, *(call.target for call in iteration.losses)]
        # Weak references, or the batch before would stay alive for this test, and with it its graph.
        before, self._inputs = self._inputs, [weakref.ref(each) for each in (iteration, *now)]
        if not before or iteration.batch is None or not given or not iteration.losses:
            return
        earlier, *tensors = [each() for each in before]
        are_same = len(now) == len(tensors) and all(map(operator.is_, now, tensors))
        is_new = iteration is not earlier
        self.counts.note("same_inputs", are_same and is_new, iteration.forwards[-1].location)

    @property
    def _batch(self) -> int:
        """The number of the batch that is trained on; of an optimizer's step where no loader gives batches."""
        return self.counts["batches"] or self.ledger.most_steps()

    def _note_growth(self, old: set[int]) -> None:
        """Graphs of several batches that are long over are still held: find what holds them, once."""
        if len(old) >= SEVERAL and not self.counts["growing_graphs"]:
            location = keeper_of_graphs(max(old))
            self.counts.note("growing_graphs", 1, location)
        elif len(old) >= SEVERAL:
            self.counts["growing_graphs"] += 1

    def on_batch(self) -> None:
        """The loop takes a batch."""
        self.counts["batches"] += 1
        self._taken += 1
        self.counts["batches_past_the_launcher"] += not is_called_by_launcher()

    def on_training_pass(self) -> None:
        """A pass that autograd records begins: what the next clipping call finds is about it."""
        self._steps_before_pass = self.counts["steps"]
        self._cast = self._casts[-1] if self._casts else ""

    def on_cast(self, form: str) -> None:
        """The script begins to compute in another format of a GPU, which may not be there."""
        self._casts.append(form)

    def on_cast_end(self) -> None:
        """It computes as before."""
        del self._casts[-1:]

    def on_scaling(self, by: float | None, *, is_asked: bool = True) -> None:
        """A scaler multiplies a loss; by None, if it is disabled and only returns the loss.

        `is_asked`: the script enables it, on a machine with a GPU.
        """
        self._is_multiplied |= is_asked
        self.counts["scaled"] += by is not None
        self.scale = 1.0 if by is None else by
        self.is_scaled = self.scale != 1.0

    def on_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        """A scaler that the script enables steps an optimizer, which it may do once until it is updated."""
        key = (id(scaler), id(optimizer))
        self.counts.note("scaler_steps", 1)
        self.counts.note("steps_without_update", key in self._not_updated)
        # By the optimizer too: one scaler may step two optimizers, of a generator and a
        # discriminator, before one `update`.
        self._not_updated.add(key)

    def on_scaler_update(self, scaler: Any) -> None:
        """A scaler is updated, and may step again."""
        self._not_updated = {key for key in self._not_updated if key[0] != id(scaler)}
        self._unscaled = {key for key in self._unscaled if key[0] != id(scaler)}

    def on_unscaling(self, scaler: Any, optimizer: Any, *, is_asked: bool = True) -> None:
        """A scaler divides gradients, which it may do once until it is updated."""
        self.is_scaled = False
        if is_asked:
            self.counts["unscalings"] += 1
            self.counts.note("unscaled_again", (id(scaler), id(optimizer)) in self._unscaled)
            self._unscaled.add((id(scaler), id(optimizer)))

    def on_step_start(self, optimizer: Any, forwards: Sequence[Forward] = (), *, has_closure: bool) -> None:
        """An optimizer is about to step after some passes; one with a closure makes its gradients itself."""
        self._before_closure = self.counts["backwards"] if has_closure else None
        self._forwards = forwards
        if not has_closure:
            self.ledger.on_step_start(optimizer, forwards)
        self.rates.append(float(optimizer.param_groups[0]["lr"]))
        self.counts.note("steps_past_the_launcher", not is_called_by_launcher())

    def on_step_end(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        # A closure that made no gradients, as Lightning's for steps by hand, left those that were there.
        if self._before_closure == self.counts["backwards"]:
            self.ledger.on_step_start(optimizer, self._forwards)
        self._forwards = ()
        self.ledger.on_step_end(optimizer)
        self.counts.note("steps", 1)
        # Divided or multiplied as its last operation: the usual forms of `loss / steps`. A mean over the batch is
        # inside the loss function and no division here.
        undivided = [operations for operations in self._waiting if not set(operations[:1]) & set(SCALES)]
        self.counts.note("undivided_losses", len(undivided) if len(undivided) > 1 else 0, self._went_at)
        self.per_step.append(len(self._waiting))
        self.batches_per_step.append(self._taken)
        self._waiting.clear()
        self._taken, self._went_at = 0, None

    def on_clipping(self, parameters: list[Any], limit: float | None) -> None:
        """Gradients are about to be clipped; to infinity they are only measured."""
        # `clip_grad_norm_(parameters, inf)` is how scripts log the norm.
        # An iterator of parameters that is used up gives none: nothing is clipped, whenever that is.
        if (limit is not None and math.isinf(limit)) or not parameters:
            return
        # An iterator that is used up holds no parameters, whenever it is clipped: `exhausted-iterator` reports it.
        if not parameters:
            return
        self.counts["clips"] += 1
        is_for_nothing = not self.ledger.waits(parameters)
        has_stepped = self.counts["steps"] > self._steps_before_pass
        self.counts["clipped_for_nothing"] += is_for_nothing
        self.counts.note("clipped_after_step", is_for_nothing and has_stepped)
        self.counts.note("clipped_before_backward", is_for_nothing and not has_stepped)
        self.counts.note("clipped_while_scaled", self.is_scaled)


def last_operations(node: Any) -> list[str]:
    """The names of the last operations of a graph, the last first."""
    names: list[str] = []
    while node is not None and len(names) < 3:
        # Three are enough to see `loss / a / b` under one scaler; the graph below belongs to the loss function.
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def _has_equal_divisors(last: Any) -> bool:
    """Whether a division and the one before it are by the same number."""
    divisors = [attribute(node, "_saved_other", None) for node in (last, last.next_functions[0][0])]
    numbers = [float(each) for each in divisors if each is not None and each.numel() == 1]
    return len(numbers) == len(divisors) and numbers[0] == numbers[1]


def is_called_by_launcher() -> bool:
    """Whether code of accelerate, Fabric or Lightning called what runs now, nearer than any of the script's own.

    A hook named `backward`, which a module of Lightning may have, is called by the library and counts as its code.
    """
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if is_users(path):
            if frame.f_code.co_name != "backward":
                return False
        elif any(name in path for name in LAUNCHERS):
            return True
        frame = frame.f_back
    return False
