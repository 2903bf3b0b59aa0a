"""What runs in a forward pass, as far as its mode is concerned: whether it has one, and whether it matters yet."""

from __future__ import annotations

import ast
import re

from lintrain.analysis import training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import Instance, Unknown
from lintrain.source.project_search import scripts_have
from lintrain.startup.lazy_pattern import lazy_pattern

TRAINS = (Act.BACKWARD, Act.STEP, Act.GRADIENT, Act.TRAIN)

LOADS = lazy_pattern(
    r"torch\.load\(|\.load_\w+\(|\bload_\w*(?:model|net|weight|checkpoint|ckpt|state)|[Pp]retrained|hub\.load|"
    r"\bweights\s*=\s*[\"'A-Z]|\brestore\w*\("
)
"""Code that gives a network weights that were trained before."""


def is_plain_object(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a parameter is annotated with a class of the project that has no base, and so neither `eval` nor a mode.

    The mode of the networks that such an object holds is not known: nothing shows which it holds.
    """
    if not isinstance(forward.subject, Unknown):
        return False
    name = _annotation(pipeline, forward)
    if not name:
        return False
    defines, derives = rf"(?m)^class {name}(?:\((?:object)?\))?:", rf"(?m)^class {name}\((?!(?:object)?\))"
    source = pipeline.source_of(forward.location)
    has_none = source.contains(defines) or scripts_have(source.path, defines)
    return has_none and not source.contains(derives) and not scripts_have(source.path, derives)


def _annotation(pipeline: Pipeline, forward: Event) -> str:
    """The class in `model: Classifier` or `model: models.Classifier`, for the parameter that a pass calls."""
    function = blocks.scope_of(pipeline, forward.location)
    called = training_loops.callee_text(pipeline, forward).removesuffix(".forward")
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        match each.annotation:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)) if each.arg == called:
                return re.escape(name.rpartition(".")[2])
            case _:
                pass
    return ""


def is_never_trained(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a script makes a network and neither trains it nor loads weights, so that its outputs measure nothing.

    Who times a pass or looks at a shape may do so in train mode.
    """
    model = forward.subject
    if forward.uncalled or pipeline.source.is_partial or not isinstance(model, Instance | Module):
        return False
    if model.origin is None or any(not event.uncalled for event in pipeline.acts(*TRAINS)):
        return False
    if any(source.contains(LOADS) for source in pipeline.sources.values()):
        return False
    return not any(training_loops.touches(pipeline, event, model) for event in pipeline.acts(Act.ESCAPE))
