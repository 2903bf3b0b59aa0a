"""Bodies of `with accelerator.accumulate(model):`, in which gradients are cleared and steps are made once in a while.

Inside, an optimizer of Accelerate clears and steps only with the last of the batches whose gradients are added up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Constant, literal
from lintrain.source.nodes import unparse, walk
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cleared:
    """A call that clears gradients before the step of the same batch, and that step.

    `is_certain` if the script accumulates more than one batch for certain.
    """

    clear: Location
    step: Location
    is_certain: bool


def cleared_before_steps(pipeline: Pipeline) -> Iterator[Cleared]:
    """The calls that drop what was added up, in each body of `accumulate`."""
    makers = [each for each in pipeline.launchers if each.is_accelerator]
    known = [literal(each.arguments.get("gradient_accumulation_steps", Constant(1))) for each in makers]
    if known and all(number == 1 for number in known):
        return
    source = pipeline.source
    for node in source.nodes_of(ast.With):
        if any(_accumulates(item.context_expr) for item in node.items):
            calls = sorted(_calls_in(node), key=lambda call: (call.lineno, call.col_offset))
            for index, call in enumerate(calls):
                owner = _owner(call, "zero_grad")
                step = next((each for each in calls[index + 1 :] if owner and _owner(each, "step") == owner), None)
                if step is not None and not any(_owner(each, "step") == owner for each in calls[:index]):
                    is_certain = bool(known) and all(isinstance(number, int) for number in known)
                    yield Cleared(source.location(call), source.location(step), is_certain)


def _accumulates(manager: ast.expr) -> bool:
    """Whether a manager is `accelerator.accumulate(model)`, of a thing that goes by that name."""
    return (
        isinstance(manager, ast.Call)
        and isinstance(manager.func, ast.Attribute)
        and manager.func.attr == "accumulate"
        and "accelerator" in unparse(manager.func.value).lower()
    )


def _calls_in(node: ast.With) -> Iterator[ast.Call]:
    for statement in node.body:
        for each in walk(statement):
            if isinstance(each, ast.Call):
                yield each


def _owner(call: ast.Call, method: str) -> str:
    """The code of what a method is called on; empty for any other call."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == method
    return unparse(call.func.value) if is_method and isinstance(call.func, ast.Attribute) else ""
