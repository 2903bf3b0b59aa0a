"""What networks of torchvision return that is no tensor, and batches that its detectors do not take."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

SEGMENTS, DETECTS = "torchvision.models.segmentation.", "torchvision.models.detection."
MOVES = frozenset({"to", "cuda", "cpu", "train", "float"})
"""Methods of a network that return the network."""


@dataclass(frozen=True, slots=True)
class WrongOutput:
    """A use of an output, or of batches, that a network rules out: where, what is wrong, its effect, what to write."""

    location: Location
    problem: str
    why: str
    remedy: str
    network: Location


def wrong_outputs(source: Source) -> Iterator[WrongOutput]:
    """The uses in each scope of networks whose names are bound once."""
    networks = dict(_networks(source))
    if not networks:
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = [node for node in own_nodes(scope) if hasattr(node, "lineno")]
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in networks:
                path, network = networks[node.func.id]
                if path.startswith(SEGMENTS):
                    yield from _segmented(source, nodes, node, network)
                elif path.startswith(DETECTS):
                    yield from _detected(source, nodes, node, network)


def _networks(source: Source) -> Iterator[tuple[str, tuple[str, Location]]]:
    """The names of networks of torchvision for segmentation and detection, with their path and making."""
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in source.nodes_of(ast.ImportFrom)
        for alias in node.names
    }
    bound = dict[str, list[ast.expr]]()
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                bound.setdefault(target.id, []).append(node.value)
    for name, values in bound.items():
        value = values[0]
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MOVES:
            value = value.func.value
        others = [each for each in values[1:] if not unparse(each).startswith(f"{name}.")]
        if isinstance(value, ast.Call) and not others:
            first, dot, rest = unparse(value.func).partition(".")
            path = f"{imported.get(first, first)}{dot}{rest}"
            if path.startswith((SEGMENTS, DETECTS)) and path.islower():
                yield name, (path, source.location(value))


def _bound_to(nodes: list[ast.AST], call: ast.Call) -> str:
    """The only name that a call's result gets in a scope, and that nothing else gets there."""
    names = [
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign) and node.value is call and isinstance(node.targets[0], ast.Name)
    ]
    stored = [each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    return names[0] if names and stored.count(names[0]) == 1 else ""


def _segmented(source: Source, nodes: list[ast.AST], call: ast.Call, network: Location) -> Iterator[WrongOutput]:
    """The dictionary of a network for segmentation in place of its entry `out`."""
    name = _bound_to(nodes, call)
    for node in nodes:
        at: ast.expr | None = None
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner) as read, attr="argmax" | "max" | "softmax")) if (
                owner == name
            ):
                at = read
            case ast.Call(func=func, args=[first, *_]) if _is_loss(func):
                is_output = first is call or (isinstance(first, ast.Name) and first.id == name != "")
                at = first if is_output else None
            case _:
                pass
        if at is not None:
            yield WrongOutput(
                source.location(at),
                "this is the dictionary that the network returns, and not a tensor",
                "Networks of torchvision for segmentation return a dictionary, whose entry `out` has the scores. A"
                " loss, `argmax` or `softmax` of the dictionary raises an error.",
                f'take its entry: `{name or unparse(call)[:24]}["out"]`',
                network,
            )
            return


def _is_loss(func: ast.expr) -> bool:
    name = (last_name(func) or "").lower()
    return any(word in name for word in ("criterion", "loss", "cross_entropy", "argmax", "interpolate"))


def _detected(source: Source, nodes: list[ast.AST], call: ast.Call, network: Location) -> Iterator[WrongOutput]:
    """The losses of a detector taken for one loss, and batches of a loader that stacks images and targets."""
    if len(call.args) < 2:
        return
    name = _bound_to(nodes, call)
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner) as at, attr="backward")) if owner == name:
                yield WrongOutput(
                    source.location(at),
                    "this is the dictionary of the detector's losses, and not one loss",
                    "In training, the detectors of torchvision return a dictionary with a loss for each of their parts."
                    " The first step ends with an AttributeError: a dictionary has no `backward`.",
                    f"add them up: `sum({name}.values()).backward()`",
                    network,
                )
            case ast.For(target=ast.Tuple(), iter=loader) if any(each is call for each in walk(node)):
                yield from _stacked(source, loader, network)
            case _:
                pass


def _stacked(source: Source, given: ast.expr, network: Location) -> Iterator[WrongOutput]:
    """A loader without a function of its own that puts rows into a batch."""
    while isinstance(given, ast.Call) and last_name(given.func) in {"enumerate", "tqdm"} and given.args:
        given = given.args[0]
    if isinstance(given, ast.Name):
        name = given.id
        values = [
            each.value
            for each in source.nodes_of(ast.Assign)
            if any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
        ]
        given = values[0] if len(values) == 1 else given
    if not isinstance(given, ast.Call) or last_name(given.func) != "DataLoader" or len(given.args) > 2:
        return
    if not any(each.arg in {"collate_fn", None} for each in given.keywords):
        yield WrongOutput(
            source.location(given.func),
            "this loader stacks images and boxes, but a detector takes lists",
            "By default, a loader raises an error for images or boxes of different sizes. If all are of one size, it"
            " makes one dictionary of all targets, for which the detector raises an error.",
            "pass `collate_fn=lambda rows: tuple(zip(*rows))`",
            network,
        )
