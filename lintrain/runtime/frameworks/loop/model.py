"""The model of a loop: the module that was called and that an optimizer trains."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from lintrain.runtime.child.library import attribute, has, is_mapping
from lintrain.runtime.measure.calls import parameters_of
from lintrain.runtime.measure.gradients import leaves_of
from lintrain.runtime.measure.predictions import number, shape_of
from lintrain.runtime.measure.seen import Iteration, LossCall, memory_of, tensors_in


class LooseParameters:
    """The parameters of an optimizer that belong to no module, as something that has named parameters."""

    def __init__(self, optimizer: Any) -> None:
        self.training = True
        self.lintrain_name = f"weights of {type(optimizer).__name__}"
        self._weights = [weight for group in optimizer.param_groups for weight in group["params"]]

    def named_parameters(self) -> list[tuple[str, Any]]:
        """Each with its number for a name."""
        return [(f"parameter {position}", weight) for position, weight in enumerate(self._weights)]

    def parameters(self) -> list[Any]:
        """All of them."""
        return self._weights

    def named_modules(self) -> list[tuple[str, Any]]:
        """None."""
        return []

    def modules(self) -> list[Any]:
        """None."""
        return []

    def forward(self) -> None:
        """There is none."""


def trained_module(iteration: Iteration, optimizers: list[Any], loss: Any = None) -> Any:
    """The last module called that an optimizer trains, on the way to the loss; else one whose call raised an error,
    or the optimizer's parameters.
    """
    held = {weight for optimizer in optimizers for weight in held_by(optimizer)}
    # A frozen teacher is called too, often last: it has no weight in an optimizer.
    trained = [each.module for each in iteration.forwards if any(id(own) in held for own in each.module.parameters())]
    reached = (leaves_of(loss) or {}) if loss is not None else {}
    on_the_way = [module for module in trained if any(id(own) in reached for own in module.parameters())]
    if trained:
        return (on_the_way or trained)[-1]
    if iteration.failed is not None and any(id(own) in held for own in iteration.failed.parameters()):
        return iteration.failed
    of_loss = [optimizer for optimizer in optimizers if held_by(optimizer) & reached.keys()]
    return LooseParameters((of_loss or optimizers)[-1])


def is_about(loss: Any, model: Any, held: set[int]) -> bool:
    """Whether a loss trains a model, not another one: only that has parameters which an optimizer holds (`held`).

    True if its graph does not show it.
    """
    leaves = leaves_of(loss)
    return not leaves or any(id(own) in leaves for own in model.parameters()) or held.isdisjoint(leaves)


def held_by(*optimizers: Any) -> set[int]:
    """The parameters of optimizers, by identity."""
    return {id(weight) for each in optimizers for group in each.param_groups for weight in group["params"]}


def shapes_of(weights: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """The shapes of some weights, in their order."""
    return tuple(tuple(weight.shape) for weight in weights)


def output_of(iteration: Iteration, model: Any) -> Any:
    """The model's output in an iteration, as a mapping."""
    outputs = [forward.output for forward in iteration.forwards if forward.module is model]
    if not outputs:
        return None
    # A single tensor becomes a tuple of one, so that readers of outputs meet names or positions, never rows.
    return (outputs[-1],) if has(outputs[-1], "shape") else outputs[-1]


def scored_output(iteration: Iteration, model: Any, call: LossCall | None) -> Any:
    """What a loss judges: the model's output, or that of a head behind it which is a module of its own."""
    output = output_of(iteration, model)
    rows, given = iteration.rows(), attribute(call, "input", None)
    shape = tuple(attribute(given, "shape", ()))
    is_of_rows = len(shape) > 1 and shape[0] == rows
    return (given,) if is_of_rows and shape not in {tuple(each.shape) for each in tensors_in(output)} else output


def judged_rows(iteration: Iteration, model: Any) -> tuple[LossCall, Any] | None:
    """Of several passes of a model the one on the rows of the batch: the loss that judges it, and its output.

    None if there is one pass, or none of them is known to be on these rows.
    """
    passes = [each for each in iteration.forwards if each.module is model]
    rows = memory_of(iteration.batch) if len(passes) > 1 else frozenset[int]()
    # The discriminator of a GAN judges the rows, and then others that a generator made, with other labels.
    for each in passes:
        if not rows.isdisjoint(memory_of((each.args, each.kwargs))):
            made = memory_of(each.output)
            call = next((call for call in iteration.losses if not made.isdisjoint(memory_of(call.input))), None)
            return (call, each.output) if call is not None else None
    return None


def batch_of(iteration: Iteration) -> Any:
    """The batch of an iteration with the keyword arguments of the model; None if there is neither."""
    given = next((forward.kwargs for forward in reversed(iteration.forwards) if "input_ids" in forward.kwargs), None)
    if given is None:
        return iteration.batch
    return {**(iteration.batch if is_mapping(iteration.batch) else {}), **given}


def arguments_of(iteration: Iteration, model: Any) -> dict[str, Any]:
    """What the model was last called with, by the names of its arguments."""
    forward = next((each for each in reversed(iteration.forwards) if each.module is model), None)
    if forward is None:
        return {}
    return {**dict(zip(parameters_of(model), forward.args, strict=False)), **forward.kwargs}


def used_entries(iteration: Iteration) -> tuple[str, ...]:
    """The entries of a batch that its models or its losses were given, as they are or as a view of them."""
    batch = batch_of(iteration)
    if not is_mapping(batch):
        return ()
    given = [part for forward in iteration.forwards for part in (*forward.args, *forward.kwargs.values())]
    used = memory_of((given, [call.target for call in iteration.losses]))
    return tuple(str(name) for name, value in batch.items() if not used.isdisjoint(memory_of(value)))


def inputs_of(iteration: Iteration) -> tuple[str, ...]:
    """The names of the arguments of the last model call, without those that were None."""
    if not iteration.forwards:
        return ()
    forward = iteration.forwards[-1]
    try:
        bound = inspect.signature(forward.module.forward).bind_partial(*forward.args, **forward.kwargs)
    except (TypeError, ValueError):  # a forward in C, or one that the arguments do not fit
        return ()
    return tuple(name for name, value in bound.arguments.items() if value is not None)


def loss_in(output: Any) -> list[float]:
    """The loss in an output, if it has one."""
    loss = output.get("loss") if is_mapping(output) else None
    return [number(loss)] if has(loss, "detach") else []


def shape_in(output: Any) -> tuple[int, ...]:
    """The shape of the logits of an output, or of the output itself where it is one tensor."""
    return tuple(output.shape) if has(output, "shape") else shape_of(output)[1]
