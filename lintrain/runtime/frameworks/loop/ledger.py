"""Gradients from backward pass to step: which reached a parameter of an optimizer, and what its steps found there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import partial
from typing import Any

from lintrain.evidence.run import OptimizerUse
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False)
class Account:
    """What happened to one optimizer until now."""

    optimizer: Any
    steps: int = 0
    on_nothing: int = 0
    on_old: int = 0
    reached: int = 0
    dropped: int = 0
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

    def watch(self, optimizer: Any) -> Account:
        """Watch what is added to the gradients of an optimizer's parameters, including those added later."""
        account = next((each for each in self._accounts if each.optimizer is optimizer), None)
        if account is None:
            account = Account(optimizer)
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
        if not is_there:
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

    def on_step_start(self, optimizer: Any) -> None:
        """An optimizer is about to step on the gradients that are there."""
        account = self.watch(optimizer)
        parameters = list(account.parameters())
        account.on_nothing += not any(has_gradient(parameter) for parameter in parameters)
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
    )


def has_gradient(parameter: Any) -> bool:
    """Whether a parameter has a gradient that is not 0 everywhere."""
    return parameter.grad is not None and is_some(parameter.grad)


def is_some(gradient: Any) -> bool:
    """Whether a gradient, dense or sparse, is not 0 everywhere."""
    return bool((gradient._values() if gradient.is_sparse else gradient).any())
