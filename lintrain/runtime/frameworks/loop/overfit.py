"""The overfit stage of a loop of the script's own: repeated steps on its first batch, through its models and its
loss.
"""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from typing import Any

from lintrain.evidence.run import StageName
from lintrain.runtime.child.library import library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.frameworks.loop.facts import peak_of
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.frameworks.loop.model import held_by
from lintrain.runtime.frameworks.loop.remaking import CannotRemakeError, Recipe
from lintrain.runtime.measure.outputs import number
from lintrain.runtime.measure.overfit import FACTORS, Classes, Descents, classes_in_batch, classes_of
from lintrain.runtime.measure.replay import as_it_was
from lintrain.runtime.measure.seen import Iteration

SAME = 1e-3
"""A recomputed loss differs from the script's by at most this share of it."""


class FirstBatch:
    """How the first loss was computed and from which weights, until the loop is over."""

    def __init__(self, run: MeasuredRun, state: LoopState) -> None:
        self._run = run
        self._state = state
        self._recipe: Recipe | None = None
        self._optimizer: Any = None
        self._rates: list[float] = []
        self._first: list[Any] = []
        self._reason = "training does not reach its first step"

    def keep(self, iteration: Iteration, loss: Any) -> None:
        """The first loss is there: find out how it was computed, and keep the weights."""
        try:
            recipe = Recipe(iteration, loss)
            self._optimizer = self._one_optimizer(recipe)
        except CannotRemakeError as error:
            self._reason = f"the loss cannot be recomputed: {error}"
            return
        self._recipe = recipe
        self._rates = [peak_of(group) for group in self._optimizer.param_groups]
        # Cloned now, while no step was taken: the loop trains on before the batch is overfitted.
        self._first = [weight.detach().clone() for weight in self._weights()]

    def _one_optimizer(self, recipe: Recipe) -> Any:
        """The only optimizer of the models that compute the loss."""
        own = {id(weight) for module in recipe.modules for weight in module.parameters()}
        found = [optimizer for optimizer in self._state.optimizers if own & held_by(optimizer)]
        if len(found) != 1:
            raise CannotRemakeError(f"{len(found)} optimizers update the models")
        return found[0]

    def _weights(self) -> list[Any]:
        return [weight for group in self._optimizer.param_groups for weight in group["params"]]

    def overfit(self) -> None:
        """Overfit the batch, without the loop around it."""
        recipe = self._recipe
        if recipe is None or not self._run.passed(StageName.STEP):
            self._run.skip(StageName.OVERFIT, self._reason)
        else:
            cannot = "one batch cannot be trained on outside the loop"
            self._run.attempt_extra(StageName.OVERFIT, lambda: self._descend(recipe), cannot)

    def _descend(self, recipe: Recipe) -> None:
        descents = Descents(self._run, self._run.session.overfit)
        with ExitStack() as stack, library("torch").enable_grad():
            for module in recipe.modules:
                stack.enter_context(as_it_was(module))
            stack.callback(Kept(self._optimizer, recipe.modules).give_back)
            for factor in FACTORS:
                self._start(factor)
                if factor == FACTORS[0] and not recipe.is_random:
                    _compare(recipe)
                answers: list[Any] = []
                descents.descend(partial(self._take_step, recipe, answers), partial(self._classes, recipe, answers))
        self._run.measured(overfit=descents.evidence(max(self._rates, default=0.0), recipe.rows))

    def _start(self, factor: float) -> None:
        """Restore the first weights, reset the optimizer's state, and set a rate."""
        with library("torch").no_grad():
            for weight, first in zip(self._weights(), self._first, strict=True):
                weight.copy_(first)
        # A new dictionary rather than a cleared one: the script's state is given back at the end.
        self._optimizer.state = defaultdict(dict)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def _take_step(self, recipe: Recipe, answers: list[Any]) -> float:
        made: list[float] = []

        def closure() -> Any:
            loss, answer = recipe.make()
            made.append(number(loss))
            answers[:] = [answer]
            _forget_gradients(recipe.modules)
            self._optimizer.zero_grad()
            loss.backward()
            if self._run.clipped_at:
                library("torch.nn.utils").clip_grad_norm_(self._weights(), self._run.clipped_at)
            return loss

        if type(self._optimizer).__module__.startswith("torch.optim"):
            self._optimizer.step(closure)
        else:  # one of somebody else's may not know of closures
            closure()
            self._optimizer.step()
        return made[0]

    def _classes(self, recipe: Recipe, answers: list[Any]) -> Classes:
        function, (answer,) = recipe.function, answers
        if function is None:
            return classes_in_batch(self._run, recipe.arguments, answer)
        if function.name != "cross_entropy" or function.target.is_floating_point():
            return None, None
        return classes_of(answer, function.target)


def _compare(recipe: Recipe) -> None:
    """Raise CannotRemakeError if the loss recomputed from the same weights is different."""
    with library("torch").no_grad():
        again = number(recipe.make()[0])
    if math.isfinite(recipe.value) and abs(again - recipe.value) > SAME * max(abs(recipe.value), 1e-3):
        raise CannotRemakeError(f"recomputed it is {again:.4g}, not {recipe.value:.4g}")


def _forget_gradients(modules: list[Any]) -> None:
    for module in modules:
        for weight in module.parameters():
            weight.grad = None


class Kept:
    """Weights, gradients, and the optimizer's state and rates, as they are before a batch is overfitted."""

    def __init__(self, optimizer: Any, modules: list[Any]) -> None:
        self._optimizer = optimizer
        self._state = optimizer.state
        self._rates = [group["lr"] for group in optimizer.param_groups]
        held = [weight for group in optimizer.param_groups for weight in group["params"]]
        held += [weight for module in modules for weight in module.parameters()]
        self._weights = [(weight, weight.detach().clone(), weight.grad) for weight in {id(w): w for w in held}.values()]

    def give_back(self) -> None:
        """As they were."""
        with library("torch").no_grad():
            for weight, before, gradient in self._weights:
                weight.copy_(before)
                weight.grad = gradient
        self._optimizer.state = self._state
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate
