"""Keras on TensorFlow: its stages, and what its model is."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import ModelEvidence
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.keras.backend import Backend
from lintrain.runtime.frameworks.tensorflow.batches import take_batches
from lintrain.runtime.frameworks.tensorflow.tensorflow_run import OlderRun, TensorFlowRun
from lintrain.runtime.frameworks.tensorflow.training import measure_backward, measure_forward, take_two_steps
from lintrain.runtime.measure.model import task_of


def measure_model(run: TensorFlowRun) -> ModelEvidence:
    """The weights of the model, its head where it is one of transformers, and whether a checkpoint filled any part."""
    model = run.keras
    config = getattr(model, "config", None)
    layers = list(model._flatten_layers())
    kinds = {type(layer).__name__ for layer in layers}
    labels = getattr(config, "num_labels", None)
    return ModelEvidence(
        name=type(model).__name__,
        inputs=(),
        label_inputs=(),
        task=task_of(model),
        num_labels=labels if isinstance(labels, int) else None,
        label_names=(),
        positions=None,
        rotary=False,
        pretrained=any(getattr(layer, "lintrain_pretrained", False) for layer in (model, *layers)),
        parameters=_size(model.weights),
        trainable_parameters=_size(model.trainable_variables),
        training=True,
        has_dropout_or_batch_norm=any("Dropout" in kind or kind == "BatchNormalization" for kind in kinds),
        device=_device(),
        checkpoint=str(getattr(config, "_name_or_path", "") or ""),
    )


def _size(weights: Any) -> int:
    return sum(int(library("numpy").prod(weight.shape)) for weight in weights)


def _device() -> str:
    return "cuda:0" if library("tensorflow").config.list_logical_devices("GPU") else "cpu"


STAGES = (take_batches, measure_forward, measure_model, measure_backward, take_two_steps, _device)
TENSORFLOW, TF_KERAS = Backend(TensorFlowRun, *STAGES), Backend(OlderRun, *STAGES)
