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

ALWAYS = ("on_train_begin", "on_epoch_begin", "on_step_begin", "on_step_end", "on_epoch_end", "on_train_end")
"""Events of every training, in their order; their methods are looked up on the callback."""


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


def strangers(source: Source) -> Iterator[tuple[Location, str, str]]:
    """The callbacks that a Trainer gets whose class is none: where one is made, its class, and an event it lacks."""
    owners = {owner.name: owner for owner in source.nodes_of(ast.ClassDef) if _is_without_base(owner)}
    events = {name: _events_of(owner) for name, owner in owners.items()}
    for call in source.nodes_of(ast.Call) if any(events.values()) else ():
        given = call.args if isinstance(call.func, ast.Attribute) and call.func.attr == "add_callback" else []
        listed = [each.value for each in call.keywords if each.arg == "callbacks" and isinstance(each.value, ast.List)]
        for made in (*given, *(item for each in listed for item in each.elts)):
            match made:
                case ast.Call(func=ast.Name(id=name)) if events.get(name):
                    lacking = next((event for event in ALWAYS if event not in events[name]), None)
                    if lacking is not None:
                        yield source.location(made), name, lacking
                case _:
                    pass


def _is_without_base(owner: ast.ClassDef) -> bool:
    bases = [unparse(base) for base in owner.bases]
    methods = {each.name for each in owner.body if isinstance(each, ast.FunctionDef)}
    is_plain = not owner.decorator_list and not owner.keywords and "__getattr__" not in methods
    return is_plain and bases in ([], ["object"])


def _events_of(owner: ast.ClassDef) -> set[str]:
    """The events of the Trainer that a class handles, by the parameters that it passes to them."""
    methods = [each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name in EVENTS]
    taken = {each.name: tuple(arg.arg for arg in each.args.args[1 : len(GIVEN) + 1]) for each in methods}
    return set(taken) if GIVEN in taken.values() else set()


def _refused(given: ast.arguments) -> str | None:
    """The first argument that a method certainly does not accept; None if there is none."""
    positional = [each.arg for each in (*given.posonlyargs, *given.args)][1:]
    if given.vararg is None and len(positional) < len(GIVEN):
        return GIVEN[len(positional)]
    if given.kwarg is not None:
        return None
    named = {*positional[len(GIVEN) :], *(each.arg for each in given.kwonlyargs)}
    return next((name for name in PASSED if name not in named), None)
