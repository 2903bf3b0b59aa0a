"""Networks that the `compute_loss` of a Trainer calls, and that nothing moves to the device of its batches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis.left_networks import LeftNetwork
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.training import TrainerRun
from lintrain.startup.lazy_pattern import lazy_pattern

PLACED = lazy_pattern(r"device_map|\.to\(|\.cuda\(|load_in_|quantization_config|device *=")
ON_CPU = lazy_pattern(r"use_cpu *= *True|no_cuda *= *True|\.to\(\s*inputs|set_default_device")
"""Code after which there is no GPU, or the batch goes where the network is."""

CALLERS = frozenset({"compute_loss", "training_step"})


def left_teachers(pipeline: Pipeline) -> Iterator[LeftNetwork]:
    """The pretrained networks that are only called in the loss of a Trainer, which moves its own model alone."""
    if any(source.contains(ON_CPU) for source in pipeline.sources.values()):
        return
    runs = [run for run in pipeline.runs if run.path.startswith(("transformers.", "trl.")) and run.overrides & CALLERS]
    for forward in pipeline.acts(Act.FORWARD) if runs else ():
        model = forward.subject
        if forward.function not in CALLERS or not isinstance(model, Model) or model.origin is None:
            continue
        if model.framework != "torch" or any(run.model is model for run in runs) or PLACED.search(model.text):
            continue
        name = pipeline.code(forward.location).partition("(")[0]
        if name.startswith("self.") and not _is_moved(pipeline, model, name, runs):
            yield LeftNetwork(forward.location, name, model.origin)


def _is_moved(pipeline: Pipeline, model: Model, name: str, runs: list[TrainerRun]) -> bool:
    """Whether a file moves, prepares or hands on what one of the names of the network holds."""
    names = {re.escape(each.name) for each in pipeline.names_of(model)} | {re.escape(name)}
    given = {re.escape(key) for run in runs for key, each in run.arguments.items() if each.value is model}
    called = "|".join(sorted(names | given | {re.escape(name.rpartition(".")[2])}))
    methods = rf"\b(?:{called})\b(?:\.\w+\([^()]*\))*\.(?:to|cuda)\("
    functions = rf"(?:prepare\w*|deepspeed\.\w+|DataParallel|\w*to_device)\([^\n]*\b(?:{called})\b"
    moves = f"{methods}|{functions}"
    is_moved = any(source.contains(moves) for source in pipeline.sources.values())
    return is_moved or any(each.subject is model for each in pipeline.acts(Act.ESCAPE, Act.SHARE))
