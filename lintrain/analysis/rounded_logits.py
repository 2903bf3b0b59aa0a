"""Comparisons of logits with 0.5, the threshold of probabilities, in a file whose loss expects logits."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loop_verdicts
from lintrain.analysis.wrong_names import names_bound
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.training import LossCall
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class RoundedLogits:
    """A comparison of logits with the threshold of probabilities, and the loss that gets the same name."""

    location: Location
    name: str
    loss: Location


def rounded_logits(pipeline: Pipeline) -> Iterator[RoundedLogits]:
    """The names that a loss with logits gets, and that the same function rounds or compares with 0.5."""
    # What chose between two losses may have chosen the last layer too.
    either_way = {each.location for each in pipeline.losses if each.name == "binary_cross_entropy"}
    for loss in pipeline.losses:
        is_certain = loss.name == "binary_cross_entropy_with_logits" and loss.location not in either_way
        if is_certain and loss.prediction is not None:
            source = pipeline.source_of(loss.location)
            scope = blocks.scope_of(pipeline, loss.location)
            yield from _rounded_in(source, scope, _written_name(loss), loss.location)
            yield from _rounded_by_function(source, scope, _written_name(loss), loss.location)
            yield from _rounded_calls(source, loss)
    source = pipeline.source
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_cross_entropy_with_logits"):
            location = source.location(call)
            given = next((each.value for each in call.keywords if each.arg == "logits"), None)
            if isinstance(given, ast.Name):
                yield from _rounded_in(source, blocks.scope_of(pipeline, location), given.id, location)


def compared_logits(pipeline: Pipeline) -> Iterator[RoundedLogits]:
    """The comparisons of what a loss with logits gets, as the same layer gives it, wherever it was kept meanwhile."""
    compared = [each for each in pipeline.misuses if each.use == "output against 0.5"]
    made = dict(_made_for(pipeline, "binary_cross_entropy_with_logits")) if compared else {}
    others = dict(_made_for(pipeline, "binary_cross_entropy")) if compared else {}
    for each in compared:
        operation = each.value.made if isinstance(each.value, Tensor) else None
        at = operation.location if operation is not None and operation.name not in SQUASHES else None
        if at is not None and at in made and at not in others and not _asks_for_mode(pipeline, at):
            name = each.text.partition(">")[0].partition("<")[0].strip(" (=")
            yield RoundedLogits(each.location, name, made[at])


SQUASHES = frozenset({"sigmoid", "softmax", "log_softmax"})


def _asks_for_mode(pipeline: Pipeline, location: Location) -> bool:
    """Whether the function around a location may give probabilities outside of the training."""
    scope = blocks.scope_of(pipeline, location)
    return any(isinstance(each, ast.Attribute) and each.attr == "training" for each in walk(scope))


def _made_for(pipeline: Pipeline, name: str) -> Iterator[tuple[Location, Location]]:
    """Where the predictions that a loss gets are computed, each with the loss."""
    for loss in loop_verdicts.losses_called(pipeline, name):
        for tensor in loop_verdicts.tensors_given(loss):
            if tensor.made is not None and tensor.made.location is not None:
                yield tensor.made.location, loss.location


def _rounded_by_function(source: Source, scope: ast.AST, name: str, loss: Location) -> Iterator[RoundedLogits]:
    """Where a function of the file, which the scope of a loss gives its logits, rounds the parameter."""
    functions = {each.name: each for each in source.tree.body if isinstance(each, ast.FunctionDef)}
    if not functions or not name or name in source.once(_rounded_names, scope)[1]:
        return
    for call in walk(scope):
        called = functions.get(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
        if called is None or not isinstance(call, ast.Call) or "sigmoid" in unparse(called):
            continue
        for parameter, given in zip(called.args.args, call.args, strict=False):
            if isinstance(given, ast.Name) and given.id == name:
                # One that other code calls with probabilities is right for these.
                calls = [each for each in source.nodes_of(ast.Call) if unparse(each.func) == called.name]
                yield from _rounded_in(source, called, parameter.arg, loss) if len(calls) == 1 else ()


def _rounded_calls(source: Source, loss: LossCall) -> Iterator[RoundedLogits]:
    """Where a file rounds what the same network gives that a loss reads: `net(x)`, or `self.net(x)`."""
    network = "" if "igmoid" in source.text else _network_of(source, loss)
    for node in source.nodes_of(ast.Compare, ast.Call) if network else ():
        rounded = _rounded(node)
        if isinstance(rounded, ast.Call) and unparse(rounded.func).removeprefix("self.") == network:
            yield RoundedLogits(source.location(node), unparse(rounded.func), loss.location)


def _network_of(source: Source, loss: LossCall) -> str:
    """The name of the network whose outputs a loss gets at once, or by a name: `out = net(x)`."""
    text = loss.prediction.text if loss.prediction else ""
    if found := NETWORK.match(text):
        return found[1]
    given = [unparse(each.value) for each in source.nodes_of(ast.Assign) if text in map(unparse, each.targets)]
    found = NETWORK.match(given[0]) if given and len({*map(_called, given)}) == 1 else None
    return found[1] if found else ""


def _called(code: str) -> str:
    return code.partition("(")[0]


NETWORK = lazy_pattern(r"(?:self\.)?((?=\w*(?i:net|model|classifier|unet))\w+)\(")
"""A call of what the script calls a network."""


def _written_name(loss: LossCall) -> str:
    """The name that a loss gets as its prediction, seen through views: `outputs` for `outputs.squeeze(1)`."""
    text = loss.prediction.text if loss.prediction else ""
    return (NAME.match(text) or [""])[0]


NAME = lazy_pattern(r"\w+(?=$|\.(squeeze|view|flatten|reshape|float)\()")


def _rounded_in(source: Source, scope: ast.AST, name: str, loss: Location) -> Iterator[RoundedLogits]:
    rounded, squashed = source.once(_rounded_names, scope)
    for node in rounded.get(name, ()) if name not in squashed else ():
        yield RoundedLogits(source.location(node), name, loss)


def _rounded_names(scope: ast.AST) -> tuple[dict[str, list[ast.expr]], set[str]]:
    """The names that a function rounds or compares with 0.5, and those that it gives probabilities."""
    rounded: dict[str, list[ast.expr]] = {}
    squashed: set[str] = set()
    for node in walk(scope):
        if isinstance(node, ast.Assign) and "sigmoid" in unparse(node.value):
            squashed |= {name for target in node.targets for name in names_bound(target)}
        if isinstance(node, ast.expr) and (name := _name_of(_rounded(node))):
            rounded.setdefault(name, []).append(node)
    return rounded, squashed


def _rounded(node: ast.expr) -> ast.expr | None:
    """What an expression rounds or compares with the threshold of probabilities."""
    match node:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()], comparators=[right]):
            return left if _is_half(right) else None
        case ast.Call(func=ast.Attribute(attr="greater" | "greater_equal" | "less" | "ge" | "gt"), args=[left, right]):
            return left if _is_half(right) else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "tf" | "np"), attr="round"), args=[left]):
            return left
        case ast.Call(func=ast.Attribute(value=left, attr="round"), args=[]):
            return left
        case _:
            return None


def _is_half(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0.5


def _name_of(node: ast.expr | None) -> str:
    """The name of what an expression is, perhaps detached or in another shape; empty for anything else."""
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr not in KEEPS:
            return ""
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


KEEPS = frozenset({"squeeze", "view", "flatten", "reshape", "float", "detach", "cpu", "data", "numpy"})
"""What leaves the numbers of a tensor as they are."""
