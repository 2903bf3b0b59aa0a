"""What a loop does with its losses and gradients: which it divides and clips, and which graphs outlive their batch.

Gradients from backward pass to step: which reached a parameter of an optimizer, and what its steps found there.
"""

from __future__ import annotations

import inspect
import math
import operator
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from lintrain.evidence.run import OptimizerUse
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_users, users_frame
from lintrain.runtime.child.library import library
from lintrain.runtime.measure.gradients import SCALES, new_terms
from lintrain.runtime.measure.held_values import cut_of, keeper_of_graphs, made_by_statement, mark_graph
from lintrain.runtime.measure.seen import Forward, Iteration, tensors_in
from lintrain.startup.lazy_dataclass import dataclass

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
        self._taken = self._steps_before_pass = 0
        self._before_closure: int | None = None
        self._inputs: list[weakref.ref[Any]] = []  # the iteration before, and what models and losses got in it

    def on_backward_start(self, loss: Any) -> None:
        """Attach a mark to the graph of the backward pass; that of an earlier batch may still be alive."""
        # The mark hangs on the graph and dies with it. One graph alive is normal (the loss variable of the last batch
        # still holds it), two mean that losses are collected with their graphs.
        alive = [batch for earlier, batch in self._marks if earlier() is not None]
        self.counts.note("kept_old_graphs", len(alive) > 1)
        self._note_growth({batch for batch in alive if batch <= self._batch - LONG_AGO})
        mark = Mark()
        if loss.grad_fn is not None:
            loss.grad_fn.register_hook(mark)
            mark_graph(loss, self._batch)
            self._marks.append((weakref.ref(mark), self._batch))
        elif loss.requires_grad:  # a new tensor: nothing below it can learn
            self.counts.note("losses_without_graph", 1, made_by_statement(loss))
        if not self.counts["backwards"] and (made := made_by_statement(loss)) is not None:
            self.counts.first_at["losses"] = made
        for term in new_terms(loss, self.ledger.held()):
            self.counts.note("terms_without_graph", 1, made_by_statement(term))
        self.counts.note("backwards", 1)
        self.counts.note("backwards_behind_a_step", self.counts["steps"] > self._steps_before_pass)
        self._went_at = self._went_at or frame_location(users_frame())
        # A scaler's multiplication is the last operation of the graph, and not the script's.
        self._waiting.append(last_operations(loss.grad_fn)[self.is_scaled :])
        is_divided_twice = self._waiting[-1][:2] == ["DivBackward0", "DivBackward0"]
        self.counts.note("divided_twice", is_divided_twice)
        self.counts.note("divided_twice_alike", is_divided_twice and _has_equal_divisors(loss.grad_fn))
        self.counts["searched_for_nan"] += bool(library("torch").is_anomaly_enabled())
        self.counts.note("past_the_launcher", not is_called_by_launcher())

    def on_inputs(self, iteration: Iteration) -> None:
        """A batch goes backward: whether models and losses got the tensors of the batch before, and no others."""
        given = [*(each for forward in iteration.forwards for each in tensors_in((forward.args, forward.kwargs)))]
        now = [*given, *(call.target for call in iteration.losses)]
        before, self._inputs = self._inputs, [weakref.ref(each) for each in (iteration, *now)]
        if not before or iteration.batch is None or not given or not iteration.losses:
            return
        earlier, *tensors = [each() for each in before]
        are_same = len(now) == len(tensors) and all(map(operator.is_, now, tensors))
        is_new = iteration is not earlier
        self.counts.note("same_inputs", are_same and is_new, iteration.forwards[-1].location)

    @property
    def _batch(self) -> int:
        """The number of the batch that is trained on; of the step where no loader gives batches."""
        return self.counts["batches"] or self.counts["steps"]

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

    def on_scaling(self, by: float | None) -> None:
        """A scaler multiplies a loss; by None, if it is disabled and only returns the loss."""
        self.counts["scaled"] += by is not None
        self.scale = 1.0 if by is None else by
        self.is_scaled = self.scale != 1.0

    def on_scaler_step(self, scaler: Any, optimizer: Any) -> None:
        """A scaler that the script enables steps an optimizer, which it may do once until it is updated."""
        key = (id(scaler), id(optimizer))
        self.counts.note("scaler_steps", 1)
        self.counts.note("steps_without_update", key in self._not_updated)
        self._not_updated.add(key)

    def on_scaler_update(self, scaler: Any) -> None:
        """A scaler is updated, and may step again."""
        self._not_updated = {key for key in self._not_updated if key[0] != id(scaler)}

    def on_unscaling(self) -> None:
        """A scaler divides gradients."""
        self.is_scaled = False

    def on_step_start(self, optimizer: Any, forwards: Sequence[Forward] = (), *, has_closure: bool) -> None:
        """An optimizer is about to step after some passes; one with a closure makes its gradients itself."""
        self._before_closure = self.counts["backwards"] if has_closure else None
        if not has_closure:
            self.ledger.on_step_start(optimizer, forwards)
        self.rates.append(float(optimizer.param_groups[0]["lr"]))
        self.counts.note("steps_past_the_launcher", not is_called_by_launcher())

    def on_step_end(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        # A closure that made no gradients, as Lightning's for steps by hand, left those that were there.
        if self._before_closure == self.counts["backwards"]:
            self.ledger.on_step_start(optimizer)
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
        if limit is not None and math.isinf(limit):
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
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def _has_equal_divisors(last: Any) -> bool:
    """Whether a division and the one before it are by the same number."""
    divisors = [getattr(node, "_saved_other", None) for node in (last, last.next_functions[0][0])]
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


@dataclass(eq=False)
class Account:
    """What happened to one optimizer until now."""

    optimizer: Any
    made_at: Location | None = None
    steps: int = 0
    on_nothing: int = 0
    on_old: int = 0
    reached: int = 0
    dropped: int = 0
    cut_at: Location | None = None
    cleared_at: Location | None = None
    passes: set[int] = field(default_factory=set[int])

    def parameters(self) -> Iterator[Any]:
        """Those that it holds."""
        return (parameter for group in self.optimizer.param_groups for parameter in group["params"])


class Ledger:
    """Each parameter's gradient: whether it waits for its step (`fresh`), or a step used a part of it (`mixed`)."""

    def __init__(self) -> None:
        self._accounts: list[Account] = []
        self._hooked: set[int] = set()
        self._fresh: set[int] = set()
        self._used: set[int] = set()
        self._mixed: set[int] = set()
        self._reached: set[int] = set()
        self._dropped: set[int] = set()
        self._cancelled: set[int] = set()

    def places(self) -> dict[int, Location | None]:
        """Where each optimizer was made, by its identity."""
        return {id(account.optimizer): account.made_at for account in self._accounts}

    def watch(self, optimizer: Any, made_at: Location | None = None) -> Account:
        """Watch what is added to the gradients of an optimizer's parameters, including those added later."""
        account = next((each for each in self._accounts if each.optimizer is optimizer), None)
        if account is None:
            account = Account(optimizer, made_at or frame_location(users_frame()))
            self._accounts.append(account)
        for parameter in account.parameters():
            if parameter.requires_grad and parameter.is_leaf and id(parameter) not in self._hooked:
                self._hooked.add(id(parameter))
                parameter.register_hook(partial(self._adds, parameter))
        return account

    def _adds(self, parameter: Any, added: Any) -> None:
        """A gradient is about to be added to the gradient of a parameter, which is empty if it was cleared."""
        # The hook runs before the gradient is added, so `grad` still shows what the loop left there: None or zeros
        # after a clearing.
        key, is_there = id(parameter), has_gradient(parameter)
        was_cancelled = key in self._cancelled and parameter.grad is not None
        self._cancelled.discard(key)
        if is_there and _cancels(parameter.grad, added):
            self._cancelled.add(key)
        if was_cancelled:  # the sum was 0, and no one cleared it
            if key in self._used:
                self._mixed.add(key)
        elif not is_there:
            # It waited for a step, and was cleared before one came.
            if key in self._fresh:
                self._dropped.add(key)
            self._used.discard(key)
            self._mixed.discard(key)
        elif key in self._used:
            self._mixed.add(key)
        self._reached.add(key)
        # An expert that got no token has a gradient of zeros: it does not wait for a step.
        if is_some(added):
            self._fresh.add(key)

    def on_backward_end(self) -> None:
        """A backward pass has ended: note for each optimizer whether it was reached."""
        for account in self._accounts:
            own = {id(parameter) for parameter in account.parameters()}
            account.reached += bool(own & self._reached)
            account.dropped += bool(own & self._dropped)
        self._reached.clear()
        self._dropped.clear()

    def on_clearing(self, optimizer: Any, at: Location | None) -> None:
        """The gradients of an optimizer are cleared while some of them wait for a step."""
        account = self.watch(optimizer)
        account.cleared_at = account.cleared_at or at
        self._cancelled -= {id(parameter) for parameter in account.parameters()}

    def held(self) -> set[int]:
        """The parameters of all optimizers, by identity."""
        return {id(parameter) for account in self._accounts for parameter in account.parameters()}

    def on_step_start(self, optimizer: Any, forwards: Sequence[Forward] = ()) -> None:
        """An optimizer is about to step on the gradients that are there; `forwards` are the passes of its batch."""
        account = self.watch(optimizer)
        parameters = list(account.parameters())
        is_on_nothing = not any(has_gradient(parameter) for parameter in parameters)
        account.on_nothing += is_on_nothing
        if is_on_nothing and not account.steps and not account.reached:
            account.cut_at = _cut_at(forwards, {id(parameter) for parameter in parameters})
        # It waited for this step, and was cleared before it.
        waiting = [each for each in parameters if id(each) in self._fresh - self._cancelled]
        account.dropped += any(not has_gradient(each) for each in waiting)
        account.on_old += any(id(parameter) in self._mixed and has_gradient(parameter) for parameter in parameters)

    def on_step_end(self, optimizer: Any) -> None:
        """An optimizer has stepped: its gradients are used."""
        account = self.watch(optimizer)
        account.steps += 1
        own = {id(parameter) for parameter in account.parameters()}
        self._used |= own
        # A step uses the whole gradient, its old part too: only what is added after it counts against the next step.
        self._mixed -= own
        self._fresh -= own

    def waits(self, parameters: list[Any]) -> bool:
        """Whether one of some parameters has a gradient that no step has used."""
        return any(id(parameter) in self._fresh and has_gradient(parameter) for parameter in parameters)

    def is_wasteful(self) -> bool:
        """Whether gradients were cleared that no step had used, and none has stepped at all."""
        return any(account.dropped for account in self._accounts) and not any(each.steps for each in self._accounts)

    def uses(self) -> tuple[OptimizerUse, ...]:
        """What happened to each optimizer."""
        stepped = {id(each) for account in self._accounts if account.steps for each in account.parameters()}
        return tuple(_use(account, stepped) for account in self._accounts)


def _cut_at(forwards: Sequence[Forward], own: set[int]) -> Location | None:
    """Where the last output of a module with some parameters is taken out of its graph."""
    for forward in reversed(forwards):
        is_own = forward.records and any(id(weight) in own for weight in forward.module.parameters())
        for output in tensors_in(forward.output) if is_own else ():
            if output.requires_grad and (location := cut_of(output)) is not None:
                return location
    return None


def _use(account: Account, stepped: set[int]) -> OptimizerUse:
    parameters = list(account.parameters())
    return OptimizerUse(
        name=type(account.optimizer).__name__,
        tensors=len(parameters),
        steps=account.steps,
        steps_on_nothing=account.on_nothing,
        steps_on_used=account.on_old,
        reached=account.reached,
        dropped=account.dropped,
        is_stepped_elsewhere=not account.steps and any(id(parameter) in stepped for parameter in parameters),
        made_at=account.made_at,
        cut_at=account.cut_at,
        cleared_at=account.cleared_at,
    )


def has_gradient(parameter: Any) -> bool:
    """Whether a parameter has a gradient that is not 0 everywhere."""
    return parameter.grad is not None and is_some(parameter.grad)


def _cancels(gradient: Any, added: Any) -> bool:
    """Whether a gradient and what is added to it are the same numbers with other signs."""
    is_plain = not gradient.is_sparse and not added.is_sparse and gradient.shape == added.shape
    return is_plain and bool((gradient == -added).all())


def is_some(gradient: Any) -> bool:
    """Whether a gradient, dense or sparse, is not 0 everywhere."""
    return bool((gradient._values() if gradient.is_sparse else gradient).any())
