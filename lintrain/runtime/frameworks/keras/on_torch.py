"""Keras on torch: its stages and its model."""

from __future__ import annotations

from lintrain.evidence.run import ModelEvidence
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.keras.backend import Backend
from lintrain.runtime.frameworks.keras.data import take_batches
from lintrain.runtime.frameworks.keras.keras_run import KerasRun
from lintrain.runtime.frameworks.keras.training import measure_backward, measure_forward, take_two_steps


def measure_model(run: KerasRun) -> ModelEvidence:
    """The weights of the model, and whether it has layers that work differently in training."""
    model = run.keras
    weights = [weight for _, weight in run.model.named_parameters()]
    kinds = {type(layer).__name__ for layer in model._flatten_layers()}
    return ModelEvidence(
        name=type(model).__name__,
        inputs=(),
        label_inputs=(),
        task="",
        num_labels=None,
        label_names=(),
        positions=None,
        rotary=False,
        pretrained=False,
        parameters=sum(weight.numel() for weight in weights),
        trainable_parameters=sum(weight.numel() for weight in weights if weight.requires_grad),
        training=True,
        has_dropout_or_batch_norm=any("Dropout" in kind or kind == "BatchNormalization" for kind in kinds),
        device=str(next((weight.device for weight in weights), "cpu")),
    )


def _device() -> str:
    return str(library("keras.src.backend.torch.core").get_device())


TORCH = Backend(KerasRun, take_batches, measure_forward, measure_model, measure_backward, take_two_steps, _device)
