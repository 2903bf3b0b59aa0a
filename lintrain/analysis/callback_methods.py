"""The methods of a script's own callbacks that the Trainer of transformers calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

BASES = frozenset({"TrainerCallback", "transformers.TrainerCallback", "transformers.trainer_callback.TrainerCallback"})
GIVEN = ("args", "state", "control")
PASSED = ("model", "optimizer", "lr_scheduler", "train_dataloader", "eval_dataloader")
"""What every version passes by name; the tokenizer has had two names."""

EVENTS = frozenset(
    {"on_init_end", "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_step_begin", "on_step_end"}
    | {"on_substep_end", "on_optimizer_step", "on_pre_optimizer_step", "on_evaluate", "on_predict", "on_save", "on_log"}
    | {"on_prediction_step", "on_push_begin"}
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A method that does not accept an argument of its event: its `def` and name, the event, and the argument."""

    location: Location
    event: str
    argument: str


def refusals(source: Source) -> Iterator[Refusal]:
    """Each method of a callback in a file that certainly refuses what it is called with."""
    for owner in source.nodes_of(ast.ClassDef):
        if not any(unparse(base) in BASES for base in owner.bases):
            continue
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in EVENTS or method.decorator_list:
                continue
            if (argument := _refused(method.args)) is not None:
                at = source.location(method)
                location = replace(at, end_line=at.line, end_column=at.column + len(f"def {method.name}"))
                yield Refusal(location, method.name, argument)


def _refused(given: ast.arguments) -> str | None:
    """The first argument that a method certainly does not accept; None if there is none."""
    positional = [each.arg for each in (*given.posonlyargs, *given.args)][1:]
    if given.vararg is None and len(positional) < len(GIVEN):
        return GIVEN[len(positional)]
    if given.kwarg is not None:
        return None
    named = {*positional[len(GIVEN) :], *(each.arg for each in given.kwonlyargs)}
    return next((name for name in PASSED if name not in named), None)
