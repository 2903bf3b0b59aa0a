"""Forward, backward and steps of a Keras model on TensorFlow, through the `train_step` that it has.

Keras on TensorFlow: its stages, and what its model is.

The first batches of a `fit` on TensorFlow.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from lintrain.evidence.run import (
    BackwardEvidence,
    BatchEvidence,
    ForwardEvidence,
    KerasEvidence,
    LayerGradient,
    LayerUpdate,
    ModelEvidence,
    OptimizerGroup,
    StageName,
    StepEvidence,
    TensorEvidence,
)
from lintrain.runtime.child.library import attribute, has, is_mapping, library
from lintrain.runtime.frameworks.keras.data import Backend, named_arrays
from lintrain.runtime.frameworks.keras.keras_run import activation_at_end, from_logits, loss_name, rates
from lintrain.runtime.frameworks.tensorflow.tensorflow_responses import TensorFlowResponses
from lintrain.runtime.frameworks.tensorflow.tensorflow_run import (
    OlderRun,
    Seen,
    TensorFlowRun,
    array_of,
    key_of,
    name_of,
    numbers_of,
    step_until_backward,
    whole_step,
)
from lintrain.runtime.measure.batch import collator_name
from lintrain.runtime.measure.gradients import layer_of
from lintrain.runtime.measure.model import task_of
from lintrain.runtime.measure.weights import SMALLEST_PULL


def take_batches(run: TensorFlowRun) -> None:
    """The first batches, as Keras takes them from the data."""
    with run.keras.distribute_strategy.scope():
        run.iterator = run.new_iterator()
    for batch in islice(run.dataset(), run.session.batches):
        run.batches.append(batch)
        run.progress(StageName.BATCH, len(run.batches), run.session.batches)
    if not run.batches:
        raise ValueError("the training data yields no batch")
    run.batch_evidence.append(_describe(run))
    run.measured(batches=run.batch_evidence)


def _describe(run: TensorFlowRun) -> BatchEvidence:
    x, y, weights = run.parts(run.batches[0])
    named = {**named_arrays("x", x), **named_arrays("y", y), **named_arrays("sample_weight", weights)}
    tensors = [_tensor(name, values) for name, value in named.items() if (values := array_of(value)) is not None]
    mask = array_of(x.get("attention_mask")) if has(x, "get") else None
    return BatchEvidence(
        argument="train_dataset",
        collator=collator_name(run.collator),
        tensors=tuple(tensors),
        rows=tensors[0].shape[0] if tensors and tensors[0].shape else 0,
        attended_tokens=int((mask != 0).sum()) if mask is not None else None,
        padding_tokens=int((mask == 0).sum()) if mask is not None else None,
    )


def _tensor(name: str, values: Any) -> TensorEvidence:
    if values.dtype.kind in "OSU" or not values.size:
        return TensorEvidence(name, tuple(values.shape), str(values.dtype))
    numbers = values.astype("float64")
    finite = numbers[library("numpy").isfinite(numbers)]
    return TensorEvidence(
        name,
        tuple(values.shape),
        str(values.dtype),
        float(finite.min()) if finite.size else None,
        float(finite.max()) if finite.size else None,
        int(numbers.size - finite.size),
    )


STEPS = 2
MOST_RATES = 200
"""Steps at which a schedule is asked: TensorFlow takes a millisecond for each."""


def measure_forward(run: TensorFlowRun) -> None:
    """Take the first batch through model and loss."""
    run.session.shorten("training steps ran eagerly, not as a graph")
    seen = Seen()
    try:
        seen = step_until_backward(run, run.batches[0])
    except BaseException:
        seen = _without_loss(run)
        raise
    finally:
        run.measured(keras=_keras_evidence(run, seen))
    run.waiting = seen
    run.losses = [_loss(run, seen)]
    run.logits_shape = tuple(attribute(seen.outputs, "shape", ()))
    run.measured(forward=_forward_evidence(run))
    run.responses = TensorFlowResponses(run)
    run.responses.measure()


def _without_loss(run: TensorFlowRun) -> Seen:
    """The arguments that the loss would have had, for a run that fails in it; nothing if the model itself fails."""
    seen = Seen()
    x, seen.targets, _ = run.parts(run.batches[0])
    try:
        output = run.keras(x, training=False)
    except Exception as error:  # noqa: BLE001 - the first error is the one that is reported
        run.session.note(f"the model's outputs could not be read: {type(error).__name__}")
        return seen
    seen.outputs = output.get("logits") if is_mapping(output) else output
    return seen


def _keras_evidence(run: TensorFlowRun, seen: Seen) -> KerasEvidence:
    x, y, _ = run.parts(run.batches[0])
    numbers = numbers_of(seen.outputs) if attribute(seen.outputs, "shape", None) is not None else None
    targets = seen.targets if has(seen.targets, "dtype") else None
    sums = numbers.sum(axis=-1) if numbers is not None and numbers.ndim and numbers.size else None
    has_numbers = numbers is not None and numbers.size
    return KerasEvidence(
        loss=loss_name(run.keras, run.package),
        from_logits=from_logits(run.keras),
        inputs=tuple(map(str, x)) if is_mapping(x) else (),
        has_targets=y is not None,
        output_shape=tuple(numbers.shape) if numbers is not None else (),
        output_minimum=float(numbers.min()) if numbers is not None and has_numbers else None,
        output_maximum=float(numbers.max()) if numbers is not None and has_numbers else None,
        sums=(float(sums.min()), float(sums.max())) if sums is not None else None,
        target_shape=tuple(targets.shape) if targets is not None else (),
        target_dtype=attribute(targets.dtype, "name", str(targets.dtype)) if targets is not None else "",
        modal_calls=seen.modes.every,
        modal_calls_in_training=seen.modes.in_training,
        activation=activation_at_end(run.keras),
        untrained_at=seen.modes.untrained_at,
        corrected=corrected_loss(run, seen),
        fractions=_fractions(numbers_of(targets) if targets is not None else None),
    )


def _fractions(targets: Any) -> float | None:
    if targets is None or not targets.size or targets.dtype.kind not in "fiu":
        return None
    return float((targets != targets.round()).mean())


def _loss(run: TensorFlowRun, seen: Seen) -> float:
    values = numbers_of(seen.loss)
    return float(values.mean()) / run.scale if values is not None else math.nan


def _forward_evidence(run: TensorFlowRun) -> ForwardEvidence:
    return ForwardEvidence(
        losses=tuple(run.losses),
        chance=None,
        finite=all(math.isfinite(loss) for loss in run.losses),
        logits_shape=run.logits_shape,
    )


def measure_backward(run: TensorFlowRun) -> None:
    """The waiting backward pass, then those of the other batches."""
    norms: dict[str, list[float | None]] = {}
    for number, batch in enumerate(run.batches):
        seen = run.waiting if number == 0 else step_until_backward(run, batch)
        if number:
            run.losses.append(_loss(run, seen))
        seen.compute_gradients()
        for weight in run.keras.trainable_variables:
            norms.setdefault(name_of(weight), []).append(_norm(seen.gradients.get(key_of(weight)), run.scale))
        run.progress(StageName.BACKWARD, number, len(run.batches))
    run.measured(forward=_forward_evidence(run), backward=_backward_evidence(run, norms))


def _norm(gradient: Any, scale: float) -> float | None:
    values = numbers_of(gradient)
    return None if values is None else float(library("numpy").linalg.norm(values.reshape(-1))) / scale


def _backward_evidence(run: TensorFlowRun, norms: dict[str, list[float | None]]) -> BackwardEvidence:
    weights = {name_of(weight): _norm(weight, 1.0) or 0.0 for weight in run.keras.trainable_variables}
    groups: dict[str, list[str]] = {}
    for name in norms:
        groups.setdefault(layer_of(name), []).append(name)
    layers = [
        LayerGradient(
            layer=layer,
            norms=_joined([norms[name] for name in names]),
            weight_norm=math.hypot(*(weights[name] for name in names)),
            parameters=len(names),
            without_gradient=tuple(name for name in names if all(norm is None for norm in norms[name])),
        )
        for layer, names in groups.items()
    ]
    every = _joined(list(norms.values()))
    return BackwardEvidence(
        layers=tuple(layers), norms=every, finite=all(map(math.isfinite, every)), clipped_at=run.clipped_at
    )


def _joined(rows: list[list[float | None]]) -> tuple[float, ...]:
    return tuple(math.hypot(*(norm or 0.0 for norm in batch)) for batch in zip(*rows, strict=True))


def take_two_steps(run: TensorFlowRun) -> None:
    """Two whole training steps at the highest learning rate of the schedule; the weights are restored."""
    model = run.keras
    first, highest, at = rates(run, MOST_RATES)
    optimizer = attribute(model.optimizer, "inner_optimizer", model.optimizer)
    if at:
        # TensorFlow's schedules are functions of the step: the highest rate is reached by moving the counter to its
        # step.
        optimizer.iterations.assign(at)
    before = {name_of(weight): (weight, numbers_of(weight)) for weight in model.trainable_variables}
    pulled: set[str] = set()
    for step in range(STEPS):
        run.progress(StageName.STEP, step, STEPS)
        seen = whole_step(run, run.batches[step % len(run.batches)])
        run.logged = tuple(map(str, seen.returned))
        pulled |= {name for name, (weight, was) in before.items() if _pulls(seen.gradients.get(key_of(weight)), was)}
    if run.responses is not None:
        run.responses.after_steps()
    run.measured(step=_step_evidence(type(optimizer).__name__, (highest, first, _decay(optimizer)), before, pulled))
    for weight, was in before.values():
        weight.assign(was)


def _decay(optimizer: Any) -> float:
    given = attribute(optimizer, "weight_decay", None) or attribute(optimizer, "weight_decay_rate", None)
    return float(given or 0.0)


def _pulls(gradient: Any, weight: Any) -> bool:
    norm = _norm(gradient, 1.0)
    return norm is not None and norm > SMALLEST_PULL * max(float(library("numpy").linalg.norm(weight)), 1e-6)


def _step_evidence(
    optimizer: str, rate: tuple[float, float, float], before: dict[str, tuple[Any, Any]], pulled: set[str]
) -> StepEvidence:
    after = {name: numbers_of(weight) for name, (weight, _) in before.items()}
    moved = {name for name, (_, was) in before.items() if not library("numpy").array_equal(after[name], was)}
    groups: dict[str, list[float]] = {}
    for name, (_, was) in before.items():
        changed, weights = groups.setdefault(layer_of(name), [0.0, 0.0])
        distance = float(((after[name] - was) ** 2).sum())
        groups[layer_of(name)] = [changed + distance, weights + float((was**2).sum())]
    return StepEvidence(
        optimizer=optimizer,
        groups=(OptimizerGroup(*rate, len(before)),),
        trainable_tensors=len(before),
        changed_tensors=len(moved),
        unchanged=tuple(sorted(pulled - moved)),
        non_finite=sum(not library("numpy").isfinite(values).all() for values in after.values()),
        updates=tuple(
            LayerUpdate(layer, math.sqrt(change / weights) / STEPS)
            for layer, (change, weights) in groups.items()
            if weights
        ),
    )


APART = 1e-4
"""Losses that differ by more were computed from different things."""


def corrected_loss(run: TensorFlowRun, seen: Seen) -> tuple[float, float] | None:
    """The loss as Keras computes it and that of the same numbers without their history, where the two differ."""
    plain = array_of(seen.outputs)
    loss = library(f"{run.package}.losses").get(run.keras.loss) if isinstance(run.keras.loss, str) else run.keras.loss
    if plain is None or seen.targets is None or not callable(loss):
        return None
    try:
        own = _mean(loss(seen.targets, seen.outputs))
        other = _mean(loss(seen.targets, library("tensorflow").constant(plain)))
    except Exception as error:  # noqa: BLE001 - a loss may be computed in its own step only
        run.session.note(f"the corrected loss was not computed: {type(error).__name__}")
        return None
    return (own, other) if math.isfinite(own - other) and abs(own - other) > APART * max(1.0, abs(own)) else None


def _mean(loss: Any) -> float:
    values = numbers_of(loss)
    return float(values.mean()) if values is not None else math.nan


def measure_model(run: TensorFlowRun) -> ModelEvidence:
    """The weights of the model, its head where it is one of transformers, and whether a checkpoint filled any part."""
    model = run.keras
    config = attribute(model, "config", None)
    layers = list(model._flatten_layers())
    kinds = {type(layer).__name__ for layer in layers}
    labels = attribute(config, "num_labels", None)
    return ModelEvidence(
        name=type(model).__name__,
        inputs=(),
        label_inputs=(),
        task=task_of(model),
        num_labels=labels if isinstance(labels, int) else None,
        label_names=(),
        positions=None,
        rotary=False,
        pretrained=any(attribute(layer, "lintrain_pretrained", False) for layer in (model, *layers)),
        parameters=_size(model.weights),
        trainable_parameters=_size(model.trainable_variables),
        training=True,
        has_dropout_or_batch_norm=any("Dropout" in kind or kind == "BatchNormalization" for kind in kinds),
        device=_device(),
        checkpoint=str(attribute(config, "_name_or_path", "") or ""),
    )


def _size(weights: Any) -> int:
    return sum(int(library("numpy").prod(weight.shape)) for weight in weights)


def _device() -> str:
    return "cuda:0" if library("tensorflow").config.list_logical_devices("GPU") else "cpu"


STAGES = (take_batches, measure_forward, measure_model, measure_backward, take_two_steps, _device)
TENSORFLOW, TF_KERAS = Backend(TensorFlowRun, *STAGES), Backend(OlderRun, *STAGES)
