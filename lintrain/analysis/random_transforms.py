"""Transforms of pictures that are random: the calls that make them, and their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.evaluations import EVALUATION_WORDS
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

RANDOM = lazy_pattern(
    r"(Random(?!Sampl|State|Subset|Apply\b)\w+|ColorJitter|RandAugment|AutoAugment|TrivialAugmentWide|AugMix|CoarseDropout"
    r"|HorizontalFlip|VerticalFlip|ShiftScaleRotate|Cutout|RandomApply)$"
)
"""Transforms of torchvision and albumentations that change with each call."""


def is_random(call: ast.Call) -> bool:
    """Whether a call makes a transform that changes pictures: `ColorJitter()` has all its strengths at 0."""
    name = unparse(call.func).rpartition(".")[2]
    if RANDOM.search(name) is None:
        return False
    strengths = [*call.args, *(each.value for each in call.keywords)]
    is_of_torch = name == "ColorJitter" and re.match(r"(?:A|alb\w*)\.", unparse(call.func)) is None
    return not is_of_torch or any(not is_off(each) for each in strengths)


def is_off(value: ast.expr) -> bool:
    """Whether a strength or a switch is written as one that changes nothing."""
    return isinstance(value, ast.Constant) and not value.value


def random_transforms(source: Source) -> Iterator[tuple[str, Location]]:
    """The names of the transforms that are random, each with where it is made."""
    own = {
        node.name
        for node in source.nodes_of(ast.ClassDef)
        if any(isinstance(each, ast.Call) and is_random(each) for each in walk(node))
    }
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call() as call):
                name = unparse(target)
                is_own = (
                    isinstance(call.func, ast.Name) and call.func.id in own and _is_unused_beside(source, name, call)
                )
                if is_own or ("Compose" in unparse(call.func) and any(map(is_random, _composed(source, call)))):
                    yield name, source.location(node)
            case _:
                pass


def _composed(source: Source, compose: ast.Call) -> list[ast.Call]:
    """The calls in a `Compose`, and those that the list which it gets is given."""
    return [*(each for each in walk(compose) if isinstance(each, ast.Call)), *_appended(source, compose)]


def _appended(source: Source, compose: ast.Call) -> list[ast.Call]:
    """The transforms that are appended to the list which `Compose` gets, since the list was last made."""
    name = compose.args[0].id if compose.args and isinstance(compose.args[0], ast.Name) else ""
    lists = [
        node.lineno
        for node in source.nodes_of(ast.Assign)
        if name and node.lineno < compose.lineno and name in {getattr(target, "id", "") for target in node.targets}
    ]
    found: list[ast.Call] = []
    for node in source.nodes_of(ast.Call) if lists else ():
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[ast.Call() as given]):
                if owner == name and max(lists) < node.lineno < compose.lineno:
                    found.append(given)
            case _:
                pass
    return found


def _is_unused_beside(source: Source, name: str, call: ast.Call) -> bool:
    """Whether the file makes another transform of the same class for evaluation, and never uses it."""
    others = [
        node.targets[0].id
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and unparse(node.value.func) == unparse(call.func)
        and node.targets[0].id != name
    ]
    read = {each.id for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Load)}
    return any(words_of(other) & EVALUATION_WORDS and other not in read for other in others)
