"""The first batches of a `fit` on TensorFlow."""

from __future__ import annotations

from itertools import islice
from typing import Any

from lintrain.evidence.run import BatchEvidence, StageName, TensorEvidence
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.keras.data import named_arrays
from lintrain.runtime.frameworks.tensorflow.arrays import array_of
from lintrain.runtime.frameworks.tensorflow.tensorflow_run import TensorFlowRun
from lintrain.runtime.measure.batch import collator_name


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
    mask = array_of(x.get("attention_mask")) if hasattr(x, "get") else None
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
