"""Gradients from backward pass to step: which reached a parameter of an optimizer, and what its steps found there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from lintrain.evidence.run import OptimizerUse
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.measure.held_values import cut_in
from lintrain.runtime.measure.seen import Forward
from lintrain.startup.lazy_dataclass import dataclass

Part = tuple[set[int], Location]
"""Weights of a module, and where its output is cut off."""


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
    early_at: Location | None = None
    reached_at: Location | None = None
    part: Part | None = None
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
        self._ever: set[int] = set()

    def made_at(self) -> dict[int, Location | None]:
        """Where each optimizer was made, by its identity."""
        return {id(account.optimizer): account.made_at for account in self._accounts}

    def watch(self, optimizer: Any, made_at: Location | None = None) -> Account:
        """Watch what is added to the gradients of an optimizer's parameters, including those added later."""
        account = next((each for each in self._accounts if each.optimizer is optimizer), None)
        if account is None:
            account = Account(optimizer, made_at or frame_location(users_frame()))
            self._accounts.append(account)
        for parameter in account.parameters():
            # A hook on each parameter once, although two optimizers may share it: otherwise one
            # gradient would count twice.
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
        # Gradients `g` and `-g` add up to zeros, which look like cleared ones. Two players of a minimax game make them.
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
        self._ever.add(key)
        # An expert that got no token has a gradient of zeros: it does not wait for a step.
        if is_some(added):
            self._fresh.add(key)

    def on_backward_end(self) -> None:
        """A backward pass has ended: note for each optimizer whether it was reached."""
        for account in self._accounts:
            own = {id(parameter) for parameter in account.parameters()}
            if own & self._reached:
                account.reached += 1
                account.reached_at = account.reached_at or frame_location(users_frame())
            account.dropped += bool(own & self._dropped)
        # Per backward pass: a parameter that the next one does not reach must not count as reached again.
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
        if not account.steps and not account.reached:
            account.early_at = frame_location(users_frame())
        if is_on_nothing and not account.steps and not account.reached:
            account.cut_at = cut_in(forwards, {id(parameter) for parameter in parameters})
        elif not account.steps and account.part is None:
            account.part = self._cut_part(forwards, parameters)
        # It waited for this step, and was cleared before it.
        waiting = [each for each in parameters if id(each) in self._fresh - self._cancelled]
        account.dropped += any(not has_gradient(each) for each in waiting)
        account.on_old += any(id(parameter) in self._mixed and has_gradient(parameter) for parameter in parameters)

    def _cut_part(self, forwards: Sequence[Forward], parameters: list[Any]) -> Part | None:
        """What is left of a step without any gradient: the weights of a module whose output was cut off."""
        own = {id(each) for each in parameters if each.requires_grad and each.grad is None}
        for forward in forwards if own else ():
            weights = {id(weight) for weight in forward.module.parameters() if weight.requires_grad}
            # All weights of a module without a gradient mean that its output is cut off. Some of
            # them may just be unused.
            if forward.records and weights and weights <= own:
                location = cut_in([forward], weights)
                return (weights, location) if location is not None else None
        return None

    def on_step_end(self, optimizer: Any) -> None:
        """An optimizer has stepped: its gradients are used."""
        account = self.watch(optimizer)
        account.steps += 1
        own = {id(parameter) for parameter in account.parameters()}
        self._used |= own
        # A step uses the whole gradient, its old part too: only what is added after it counts against the next step.
        self._mixed -= own
        self._fresh -= own

    def most_steps(self) -> int:
        """The steps of the optimizer that made most."""
        return max((account.steps for account in self._accounts), default=0)

    def waits(self, parameters: list[Any]) -> bool:
        """Whether one of some parameters has a gradient that no step has used."""
        return any(id(parameter) in self._fresh and has_gradient(parameter) for parameter in parameters)

    def is_wasteful(self) -> bool:
        """Whether gradients were cleared that no step had used, and none has stepped at all."""
        return any(account.dropped for account in self._accounts) and not any(each.steps for each in self._accounts)

    def uses(self) -> tuple[OptimizerUse, ...]:
        """What happened to each optimizer."""
        stepped = {id(each) for account in self._accounts if account.steps for each in account.parameters()}
        return tuple(_use(account, stepped, self._ever) for account in self._accounts)


def _use(account: Account, stepped: set[int], reached: set[int]) -> OptimizerUse:
    parameters = list(account.parameters())
    weights, part_cut_at = account.part or (reached, None)
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
        early_at=account.early_at,
        reached_at=account.reached_at,
        part_cut_at=part_cut_at if reached.isdisjoint(weights) else None,
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
