"""Models of the script's own that compute no loss, which a Trainer takes from what the model returns."""

from __future__ import annotations

import ast
import re

from lintrain.analysis import trainer_methods
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Function, Instance, is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import unparse, walk
from lintrain.startup.lazy_pattern import lazy_pattern

BASES = frozenset({"torch.nn.Module", "transformers.PreTrainedModel"})
COMPUTES = lazy_pattern(r"loss|criterion|label|target|entropy|objective|cost|nll|mse|ctc|elbo|diverg", re.IGNORECASE)
"""Words of code that computes a loss."""
OWN_LOSS = frozenset({"compute_loss", "training_step"})


def forward_without_loss(pipeline: Pipeline, run: TrainerRun) -> Location | None:
    """The `forward` of a run's own model in which nothing computes a loss; None if something may."""
    if not run.is_plain or run.overrides & OWN_LOSS or not is_missing(run.value("compute_loss_func")):
        return None
    model = run.value("model")
    if not isinstance(model, Instance) or model.cls.has_unknown_base or not BASES.issuperset(model.cls.library_bases):
        return None
    found = model.cls.lookup("forward")
    forward = found[1] if found is not None else None
    if not isinstance(forward, Function) or isinstance(forward.node, ast.Lambda) or forward.node.args.kwarg is not None:
        return None
    if "label_smoothing" in pipeline.source.text or _may_compute(model.cls) or not _returns(forward.node):
        return None
    return trainer_methods.head_of(pipeline, forward)


def _may_compute(cls: Class) -> bool:
    return any(COMPUTES.search(unparse(owner.node)) for owner in cls.lineage())


def _returns(forward: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in walk(forward))
