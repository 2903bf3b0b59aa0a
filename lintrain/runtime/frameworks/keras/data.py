"""The data of a `fit`: arrays as they are, and the first batches that Keras takes of them.

What a backend of Keras does in its own way: one function for each stage of a training step.

Layers that work differently in training and in inference: are they in training mode during a training step?
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from types import FrameType
from typing import Any

from lintrain.evidence.run import ColumnEvidence, ModelEvidence, SharedRows, SplitEvidence, StageName
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_users, users_frame
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.label_rows import spread
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.frameworks.keras.keras_run import KerasRun
from lintrain.runtime.measure.columns import LOOKED_AT, ROWS_READ
from lintrain.runtime.measure.sweep import sweep_arrays
from lintrain.runtime.measure.swept_pipelines import is_pipeline, sweep_pipeline
from lintrain.runtime.measure.tables import record_batches
from lintrain.startup.lazy_dataclass import dataclass

MOST_CLASSES = 1_000


def part_training_data(run: KerasRun) -> None:
    """Split the rows of `validation_split` from the training data, as Keras does."""
    given = run.given
    if not given["validation_split"] or run.validation is not None:
        return
    # Keras takes the last rows, before shuffling. Taking others would hide a validation set that holds a single class.
    kept, run.validation = run.slicing.train_validation_split(
        (given["x"], given["y"], given["sample_weight"]), validation_split=given["validation_split"]
    )
    given["x"], given["y"], given["sample_weight"] = kept


def splits_of(run: KerasRun) -> list[SplitEvidence]:
    """The training data, and what it is validated on."""
    found = [_split(run, "train_dataset", run.given["x"], run.given["y"])]
    if run.validation is not None:
        parts = run.validation if is_row(run.validation) else (run.validation, None)
        found.append(_split(run, "eval_dataset", parts[0], parts[1] if len(parts) > 1 else None))
    return found


def _split(run: KerasRun, argument: str, x: Any, y: Any) -> SplitEvidence:
    if is_pipeline(x):
        return _split_of_pipeline(run, argument, x)
    arrays = {**named_arrays("x", x), **named_arrays("y", y)}
    columns = tuple(_column(name, array) for name, array in arrays.items() if _is_array(array))
    rows = next((len(array) for array in arrays.values() if _is_array(array)), None)
    kind, label, known = type(x).__name__, "y" if "y" in arrays else None, _arrays(x, y)
    swept = sweep_arrays(run, known, label) if known and rows else None
    return SplitEvidence(argument, rows, columns, label_column=label, kind=kind, sweep=swept)


def _split_of_pipeline(run: KerasRun, argument: str, dataset: Any) -> SplitEvidence:
    columns, swept = sweep_pipeline(run, dataset) or ([], None)
    label = next((each.name for each in columns if each.name == "y"), None)
    rows = swept.of if swept is not None and not swept.with_fault("raises") else None
    kind = type(dataset).__name__
    return SplitEvidence(argument, rows, tuple(columns), label_column=label, kind=kind, sweep=swept)


def named_arrays(name: str, value: Any) -> dict[str, Any]:
    """The arrays of inputs or targets by name: `x`, `x.word_ids`, `x.0`."""
    if value is None:
        return {}
    if is_mapping(value):
        return {f"{name}.{key}": inner for key, inner in value.items()}
    if is_row(value) and value and _is_array(value[0]):
        return {f"{name}.{position}": inner for position, inner in enumerate(value)}
    return {name: value}


def _is_array(value: Any) -> bool:
    return has(value, "dtype") and bool(attribute(value, "shape", ()))


def values_of(array: Any) -> Any:
    """An array or tensor as NumPy has it; None for anything else."""
    if not _is_array(array):
        return None
    torch = loaded("torch")
    values = array.detach().cpu().numpy() if torch is not None and isinstance(array, torch.Tensor) else array
    return library("numpy").asarray(values)


def _column(name: str, array: Any) -> ColumnEvidence:
    numpy, values = library("numpy"), values_of(array)
    if values.dtype.kind not in "iufb" or not values.size:
        return ColumnEvidence(name, "array", str(values.dtype), rows_read=len(values))
    is_whole = values.dtype.kind in "iu"
    # One NaN makes `min` and `max` NaN; NaNs are counted on their own, the range is that of the rest.
    finite = values[numpy.isfinite(values)] if values.dtype.kind == "f" else values
    return ColumnEvidence(
        name,
        ("integer" if is_whole else "number") if values.ndim == 1 else "array",
        str(values.dtype),
        minimum=float(finite.min()) if finite.size else None,
        maximum=float(finite.max()) if finite.size else None,
        counts=_counts(values) if is_whole and values.ndim == 1 else (),
        rows_read=len(values),
        non_finite=int(values.size - finite.size),
    )


def _counts(values: Any) -> tuple[tuple[int, int], ...]:
    found, numbers = library("numpy").unique(values, return_counts=True)
    # More values than that are ids or counts, no classes, and the evidence would carry a number for each.
    if len(found) > MOST_CLASSES:
        return ()
    return tuple((int(value), int(number)) for value, number in zip(found, numbers, strict=True))


def take_batches(run: KerasRun) -> None:
    """The first batches, as Keras takes them from the data."""
    given = run.given
    run.iterator = library("keras.src.backend.torch.trainer").TorchEpochIterator(
        x=given["x"],
        y=given["y"],
        sample_weight=given["sample_weight"],
        batch_size=given["batch_size"],
        steps_per_epoch=given["steps_per_epoch"],
        shuffle=given["shuffle"],
        class_weight=given["class_weight"],
        steps_per_execution=1,
    )
    for batch in islice(_batches(run.iterator), run.session.batches):
        run.batches.append(batch)
        run.progress(StageName.BATCH, len(run.batches), run.session.batches)
    # Batches were taken from it: the steps start from the first one again, as `fit` would.
    run.iterator.reset()
    if not run.batches:
        raise ValueError("the training data yields no batch")
    record_batches(run, "train_dataset", [entries_of(run, batch) for batch in run.batches])


def _batches(iterator: Any) -> Iterator[Any]:
    """Batches one by one; before Keras 3.9 they come from a method."""
    steps = iterator.enumerate_epoch() if has(iterator, "enumerate_epoch") else iterator
    # The last element is a list of batches (`steps_per_execution` of them, here one) or, in newer
    # versions, an iterator.
    return (step[-1][0] if is_row(step[-1]) else next(step[-1]) for step in steps)


def entries_of(run: KerasRun, batch: Any) -> dict[str, Any]:
    """The arrays of a batch by name: inputs, targets, weights."""
    x, y, weights = run.parts(batch)
    return {**named_arrays("x", x), **named_arrays("y", y), **named_arrays("sample_weight", weights)}


def shared_rows(run: KerasRun) -> SharedRows | None:
    """How many validation rows are training rows too, in inputs and targets; None if the data are not arrays."""
    held_out = run.validation[:2] if is_row(run.validation) else ()
    train = _arrays(run.given["x"], run.given["y"])
    evaluation = _arrays(*held_out) if len(held_out) == 2 else {}
    # Rows are compared over all arrays at once: with other arrays, two rows never have the same bytes.
    if not train or train.keys() != evaluation.keys():
        return None
    known = set(_rows(train, ROWS_READ))
    looked_for = list(_rows(evaluation, LOOKED_AT))
    shared = sum(row in known for row in looked_for)
    # With more training rows than were read, a row that was not found proves nothing.
    if not looked_for or (not shared and len(next(iter(train.values()))) > ROWS_READ):
        return None
    return SharedRows(shared, len(looked_for))


def _arrays(x: Any, y: Any) -> dict[str, Any]:
    """Arrays by name, with a row of each for every row; nothing if one of them is none."""
    named = {**named_arrays("x", x), **named_arrays("y", y)}
    arrays = {name: values_of(value) for name, value in named.items()}
    known = {name: values for name, values in arrays.items() if values is not None}
    # Arrays of different length, or one that is no array, have no rows in common: `x[3]` and `y[3]`
    # need not belong together.
    return known if len(known) == len(arrays) and len({len(values) for values in known.values()}) == 1 else {}


def _rows(arrays: dict[str, Any], most: int) -> Iterator[bytes]:
    """Rows of all arrays as bytes, evenly spaced where there are more."""
    chosen = [values[list(spread(len(values), most))] for values in arrays.values()]
    for parts in zip(*chosen, strict=True):
        yield b"|".join(part.tobytes() for part in parts)


Measure = Callable[[Any], None]  # Any: the backend's own kind of run


@dataclass(frozen=True)
class Backend:
    """The stages of one backend, the kind of run that they work on, and the device that it computes on."""

    run: type[KerasRun]
    take_batches: Measure
    measure_forward: Measure
    measure_model: Callable[[Any], ModelEvidence]
    measure_backward: Measure
    take_two_steps: Measure
    device: Callable[[], str]


MODAL = re.compile(r"^(\w*Dropout\w*|BatchNormalization|GaussianNoise|SpectralNormalization)$")


@dataclass
class ModeCalls:
    """Calls of such layers, how many of them were in training mode, and where a training step made the first other."""

    every: int = 0
    in_training: int = 0
    untrained_at: Location | None = None


@contextmanager
def counted_modes(model: Any) -> Generator[ModeCalls]:
    """Count the calls of the library's modal layers while a step runs."""
    counts = ModeCalls()
    # The library's class that has `call`, found through the bases: a script's subclass of Dropout
    # usually calls `super().call`.
    kinds = {base for kind in _kinds(model) for base in kind.__mro__ if MODAL.match(base.__name__)}
    with ExitStack() as stack:
        for kind in kinds:
            if (call := vars(kind).get("call")) is not None:
                stack.enter_context(replaced(kind, call=_counting(call, counts)))
        yield counts


def _kinds(model: Any) -> set[type]:
    return {type(layer) for layer in model._flatten_layers()}


def _counting(call: Any, counts: ModeCalls) -> Any:
    @functools.wraps(call)
    def counted(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if args and has(args[0], "numpy"):  # a tensor, not the shape of one, with which Keras builds a model
            counts.every += 1
            is_training = bool(kwargs.get("training", args[1] if len(args) > 1 else False))
            counts.in_training += is_training
            if not is_training and counts.untrained_at is None:
                counts.untrained_at = frame_location(_training_step())
        return call(layer, *args, **kwargs)

    return counted


def _training_step() -> FrameType | None:
    """The frame of the script's own `train_step`, or of another function of the user that calls the model."""
    frame = users_frame()
    while frame is not None and not (frame.f_code.co_name == "train_step" and is_users(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame
