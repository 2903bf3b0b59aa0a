"""The overfit stage of a loop of the script's own: repeated steps on its first batch, through its models and its
loss.

Recompute the loss of a loop's first batch: call its models in order, then the same loss function.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from lintrain.evidence.run import BatchAnswers, StageName
from lintrain.runtime.child.library import attribute, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.frameworks.loop.model import held_by
from lintrain.runtime.frameworks.loop.schedules import peak_of
from lintrain.runtime.measure.calls import Call, paths_of
from lintrain.runtime.measure.descents import FACTORS, Descents, answers_in_batch, answers_of
from lintrain.runtime.measure.predictions import IGNORED, number
from lintrain.runtime.measure.replay import as_it_was
from lintrain.runtime.measure.seen import Iteration, LossCall
from lintrain.startup.lazy_dataclass import dataclass

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
        # A recipe repeats one optimizer's step; with two, their order in the loop is not known here.
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
                # Only for the first series, whose weights are those of the script's loss. With dropout
                # the two differ anyway.
                if factor == FACTORS[0] and not recipe.is_random:
                    _compare(recipe)
                answers: list[Any] = []
                descents.descend(partial(self._take_step, recipe, answers), partial(self._answers, recipe, answers))
            self._descend_with_new_optimizers(recipe, descents)
        self._run.measured(overfit=descents.evidence(max(self._rates, default=0.0), recipe.rows))

    def _descend_with_new_optimizers(self, recipe: Recipe, descents: Descents) -> None:
        """The same with other optimizers, which hold every weight that trains, where the script's own fails."""
        weights = list({id(weight): weight for module in recipe.modules for weight in module.parameters()}.values())
        others = [(weight, weight.detach().clone()) for weight in weights]
        own, answers = self._optimizer, list[Any]()
        for fresh in descents.sound_optimizers(weights):
            with library("torch").no_grad():
                for weight, before in others:
                    weight.copy_(before)
            self._start(FACTORS[0])
            self._optimizer = fresh
            descents.descend(partial(self._take_step, recipe, answers), partial(self._answers, recipe, answers))
            self._optimizer = own

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
            # Modules of the recipe may have weights in no optimizer, whose gradients `zero_grad` would leave to add up.
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

    def _answers(self, recipe: Recipe, answers: list[Any]) -> BatchAnswers:
        function, (answer,) = recipe.function, answers
        if function is None:
            return answers_in_batch(self._run, recipe.arguments, answer)
        if function.name not in ("cross_entropy", "nll_loss"):
            return BatchAnswers()
        return answers_of(answer, function.target, function.options.get("ignore_index", IGNORED))


def _compare(recipe: Recipe) -> None:
    """Raise CannotRemakeError if the loss recomputed from the same weights is different."""
    with library("torch").no_grad():
        recomputed = number(recipe.make()[0])
    if math.isfinite(recipe.value) and abs(recomputed - recipe.value) > SAME * max(abs(recipe.value), 1e-3):
        raise CannotRemakeError(f"recomputed it is {recomputed:.4g}, not {recipe.value:.4g}")


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


ON_THE_WAY = ("DivBackward0", "MulBackward0", "MeanBackward0")
"""Operations between a loss function and the backward pass that change only the scale of the loss."""

Path = tuple[str | int, ...]
Form = Callable[[Any], Any]


class CannotRemakeError(Exception):
    """The loss is computed in a way that is not supported; the text says in which part."""


@dataclass(frozen=True, eq=False)
class Source:
    """Where a tensor of the first batch comes from: an output of a call of a model, in some form."""

    number: int
    path: Path
    form: Form


class Recipe:
    """How the loss of an iteration is computed; raises CannotRemakeError if that is not supported."""

    def __init__(self, iteration: Iteration, loss: Any) -> None:
        self._forwards = [forward for forward in iteration.forwards if forward.records]
        # `changed({})` copies the containers: a model may write its outputs into the dictionary that it is given.
        self._calls = [Call(each.called, each.args, each.kwargs).changed({}) for each in self._forwards]
        self._outputs = [paths_of(forward.output) for forward in self._forwards]
        self._sources: list[dict[Path, Source]] = []
        node = _under_scales(loss.grad_fn)
        self.own = self._given_as(node)
        self.function = None if self.own is not None else _function(iteration, node)
        last = len(self._calls)
        self._input = None if self.function is None else self._source(self.function.input, last)
        if self.function is not None and attribute(self.function.target, "requires_grad", False):
            raise CannotRemakeError(f"what `{self.function.name}` compares with also comes from a model")
        for index, call in enumerate(self._calls):
            given = {path: tensor for path, tensor in call.tensors().items() if _is_made(tensor)}
            self._sources.append({path: self._source(tensor, index) for path, tensor in given.items()})
        self.value = float((self.function.result if self.function is not None else self._own_loss()).detach().mean())

    @property
    def modules(self) -> list[Any]:
        """The modules that are called."""
        return [*{id(call.module): call.module for call in self._calls}.values()]

    @property
    def is_random(self) -> bool:
        """Whether dropout or batch norm were at work when the loss was made."""
        return any(any(forward.modes) for forward in self._forwards)

    @property
    def rows(self) -> int:
        """The rows of the first call."""
        return self._calls[0].rows()

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The keyword arguments of the last model call."""
        return self._calls[-1].kwargs

    def make(self) -> tuple[Any, Any]:
        """The loss with the present weights, and its input, or the output that contains it."""
        made: list[dict[Path, Any]] = []
        output: Any = None
        for forward, call, sources in zip(self._forwards, self._calls, self._sources, strict=True):
            new = {path: _taken(source, made) for path, source in sources.items()}
            now = call.changed(new)
            with forward.autocast:
                output = now.module(*now.args, **now.kwargs)
            made.append(paths_of(output))
        if self.own is not None:
            return _taken(self.own, made), output
        given = _taken(self._input, made)
        with self._forwards[-1].autocast:
            return self._loss_of(given), given

    def _loss_of(self, given: Any) -> Any:
        assert self.function is not None
        compare = getattr(library("torch.nn.functional"), self.function.name)
        return compare(given, self.function.target, *self.function.rest, **self.function.options).mean()

    def _own_loss(self) -> Any:
        assert self.own is not None
        return self._outputs[self.own.number][self.own.path]

    def _given_as(self, node: Any) -> Source | None:
        """The loss that a model gives by itself."""
        for index, outputs in enumerate(self._outputs):
            for path, tensor in outputs.items():
                if not tensor.ndim and tensor.grad_fn is node:
                    return Source(index, path, _as_it_is)
        return None

    def _source(self, tensor: Any, before: int) -> Source:
        """Where a tensor comes from, among the outputs of the calls before a number."""
        for index in reversed(range(before)):
            for path, given in self._outputs[index].items():
                if given is tensor:
                    return Source(index, path, _as_it_is)
        for index in reversed(range(before)):
            for path, given in self._outputs[index].items():
                # The script changed the output on its way to the loss; the known forms are tried, and accepted only
                # if they give the same numbers.
                form = form_of(given, tensor)
                if form is not None:
                    return Source(index, path, form)
        raise CannotRemakeError("the script computes something between its model and its loss")


def _taken(source: Source | None, made: list[dict[Path, Any]]) -> Any:
    assert source is not None
    given = made[source.number].get(source.path)
    if given is None:
        raise CannotRemakeError("the model returns something else in eval mode")
    return source.form(given)


def _is_made(tensor: Any) -> bool:
    """Whether a tensor was computed from something that trains."""
    return bool(tensor.requires_grad) and tensor.grad_fn is not None


def _under_scales(node: Any) -> Any:
    """The operation that made a loss, under divisions and multiplications by numbers and under a mean."""
    # Accumulation and a scaler change the size of a loss, not what is learned.
    while node is not None and node.name() in ON_THE_WAY:
        above = [each for each, _ in node.next_functions if each is not None]
        if len(above) != 1:
            return node
        node = above[0]
    return node


def _function(iteration: Iteration, node: Any) -> LossCall:
    """The call of a loss function whose result is the loss."""
    found = next((call for call in iteration.losses if attribute(call.result, "grad_fn", None) is node), None)
    if node is None or found is None:
        raise CannotRemakeError("its loss is neither returned by the model nor one call of a torch loss function")
    return found


# forms


def form_of(given: Any, wanted: Any) -> Form | None:
    """How an output becomes an argument of a loss function, with equal entries; None if no known form does."""
    if given.dtype.is_floating_point != wanted.dtype.is_floating_point or given.numel() < wanted.numel():
        return None
    with library("torch").no_grad():
        for form in _forms(wanted):
            found = form(given)
            if found is not None and found.shape == wanted.shape and bool(found.equal(wanted)):
                return form
    return None


def _as_it_is(tensor: Any) -> Any:
    return tensor


def _forms(wanted: Any) -> Iterator[Form]:
    """Combinations of cuts, transposed axes and activations; a form that does not fit returns None."""
    nn = library("torch.nn.functional")
    activations: tuple[Form, ...] = (
        _as_it_is,
        library("torch").sigmoid,
        lambda tensor: nn.softmax(tensor, dim=-1),
        lambda tensor: nn.log_softmax(tensor, dim=-1),
        lambda tensor: nn.softmax(tensor, dim=1) if tensor.ndim > 2 else None,
        lambda tensor: nn.log_softmax(tensor, dim=1) if tensor.ndim > 2 else None,
    )
    for activation in activations:
        # Cheap forms first: most losses get the logits as they are.
        for cut in (_as_it_is, _without_last, _first_of_each):
            for turn in (_as_it_is, _turned):
                yield _composed(cut, activation, turn, wanted)


def _composed(cut: Form, activation: Form, turn: Form, wanted: Any) -> Form:
    def form(tensor: Any) -> Any:
        part = cut(tensor)
        if part is None or part.numel() != wanted.numel():
            return None
        active = activation(part)
        turned = None if active is None else turn(active)
        return None if turned is None else turned.reshape(wanted.shape).to(wanted.dtype)

    return form


def _without_last(tensor: Any) -> Any:
    """The logits of every token but the last."""
    return tensor[:, :-1] if tensor.ndim > 1 else None


def _first_of_each(tensor: Any) -> Any:
    """The vector of the first token of each row."""
    return tensor[:, 0] if tensor.ndim > 1 else None


def _turned(tensor: Any) -> Any:
    """Tokens after classes, as cross-entropy expects them."""
    return tensor.transpose(1, 2) if tensor.ndim > 2 else None
