"""The targets that the losses of a generator and of its discriminator have: the same one for made rows is a mistake.

Within one function, the discriminator scores made rows that are off the graph, `critic(fake.detach())`, and the loss of
the generator scores them with their graph. Targets are followed through the statements that fill a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import given_numbers, loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SCORES = lazy_pattern(r"BCE|binary_cross_entropy|MSELoss|mse_loss")
CUT = lazy_pattern(r"\.detach\(\)|\.data\b|no_grad")
CLASSES = frozenset({"BCELoss", "BCEWithLogitsLoss", "MSELoss"})
FUNCTIONS = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss"})
MOVES = frozenset(
    {"to", "cuda", "float", "type", "type_as", "squeeze", "view", "reshape", "flatten", "unsqueeze", "mean"}
)
MOST_STEPS = 4


@dataclass(frozen=True, slots=True)
class Scored:
    """A loss over the scores of some rows: the network, the network that made the rows, and the target."""

    call: ast.Call
    network: str
    maker: str
    is_cut: bool
    target: float


@dataclass(frozen=True, slots=True)
class SameTarget:
    """The loss of a generator with the target of its discriminator: both locations, and the target."""

    location: Location
    opponent: Location
    target: float


def same_targets(source: Source) -> Iterator[SameTarget]:
    """The losses of generators that have the target which the discriminator has for made rows."""
    if not (source.contains(CUT) and source.contains(SCORES) and source.contains(r"backward\(")):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        found = list(_losses(source, own_nodes(scope)))
        networks = {each.network for each in found if each.maker}
        for network in networks:
            own = [each for each in found if each.network == network]
            yield from _judge(source, own)


def _judge(source: Source, losses: Sequence[Scored]) -> Iterator[SameTarget]:
    """The mistake of the losses over the scores of one network."""
    real = {each.target for each in losses if not each.maker}
    makers = {each.maker for each in losses if each.maker}
    for maker in makers:
        cut = [each for each in losses if each.maker == maker and each.is_cut]
        whole = [each for each in losses if each.maker == maker and not each.is_cut]
        wanted = {each.target for each in cut}
        if len(wanted) != 1 or len(real) != 1 or wanted == real or {each.target for each in whole} != wanted:
            continue
        for each in whole:
            yield SameTarget(source.location(each.call), source.location(cut[0].call), each.target)


def _losses(source: Source, nodes: Sequence[ast.AST]) -> Iterator[Scored]:
    for call in nodes:
        if not isinstance(call, ast.Call) or len(call.args) < 2 or not _is_score(source, call.func):
            continue
        scores = _call_of(source, call.args[0], MOST_STEPS)
        target = _target(source, call, call.args[1], nodes, MOST_STEPS)
        if scores is None or target is None or not scores.args:
            continue
        rows = scores.args[0]
        maker, is_cut = _maker(source, rows)
        yield Scored(call, unparse(scores.func), maker, is_cut or _is_off(source, scores), target)


def _is_score(source: Source, callee: ast.expr) -> bool:
    if last_name(callee) in FUNCTIONS:
        return True
    made = [callee] if isinstance(callee, ast.Call) else loss_terms.assigned(source, unparse(callee))
    return bool(made) and all(_names_loss(each) for each in made)


def _names_loss(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "cuda")):
            return _names_loss(inner)
        case ast.Call(func=called):
            return last_name(called) in CLASSES
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in FUNCTIONS
        case _:
            return False


def _call_of(source: Source, node: ast.expr, steps: int) -> ast.Call | None:
    """The call of a network that an expression is the output of."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in MOVES:
            return _call_of(source, inner, steps)
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name(id="self"))):
            return node
        case ast.Name() if steps:
            value = _value_of(source, node)
            return _call_of(source, value, steps - 1) if value is not None else None
        case _:
            return None


def _value_of(source: Source, name: ast.Name) -> ast.expr | None:
    made = list(loss_terms.definitions(source, name))
    return made[0][0] if len(made) == 1 and made[0][1:] == (None, None) else None


def _maker(source: Source, rows: ast.expr) -> tuple[str, bool]:
    """The network that rows come from, empty for those of a data set, and whether they are off its graph."""
    match rows:
        case (
            ast.Call(func=ast.Attribute(value=inner, attr="detach"), args=[]) | ast.Attribute(value=inner, attr="data")
        ):
            return _maker(source, inner)[0], True
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in MOVES:
            return _maker(source, inner)
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
            not name[:1].isupper()
        ):
            return unparse(rows.func), _is_off(source, rows)
        case ast.Name():
            value = _value_of(source, rows)
            return _maker(source, value) if value is not None else ("", False)
        case _:
            return "", False


def _is_off(source: Source, node: ast.expr) -> bool:
    """Whether gradients are off for an expression."""
    return any(
        any("no_grad" in unparse(each) for each in block.items)
        and block.lineno <= node.lineno <= (block.end_lineno or block.lineno)
        for block in source.nodes_of(ast.With)
    )


def _target(source: Source, at: ast.expr, node: ast.expr, nodes: Sequence[ast.AST], steps: int) -> float | None:
    """The number that all entries of a target are where a loss gets it."""
    match node:
        case ast.Call(func=ast.Attribute(attr="fill_"), args=[number]):
            return given_numbers.number_of(source, number)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=given):
            return _filled_with(source, name, given)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in MOVES:
            return _target(source, at, inner, nodes, steps)
        case ast.Call(func=ast.Name(id="Variable") | ast.Attribute(attr="Variable"), args=[inner, *_]):
            return _target(source, at, inner, nodes, steps)
        case ast.Name() if steps:
            value = _last_value(at, node.id, nodes)
            return _target(source, value, value, nodes, steps - 1) if value is not None else None
        case _:
            return None


def _filled_with(source: Source, name: str, given: Sequence[ast.expr]) -> float | None:
    if name in {"ones", "ones_like"}:
        return 1.0
    if name in {"zeros", "zeros_like"}:
        return 0.0
    if name in {"full", "full_like"} and len(given) > 1:
        return given_numbers.number_of(source, given[1])
    return None


def _last_value(at: ast.expr, name: str, nodes: Sequence[ast.AST]) -> ast.expr | None:
    """What a name was last given, or filled with, before a loss; None if that depends on a branch or an iteration."""
    written = [each for each in nodes if (value := _written(each, name)) is not None and value is not at]
    before = [each for each in written if _line(each) < at.lineno]
    if not before:
        return None
    last = max(before, key=_line)
    around = [each for each in nodes if isinstance(each, ast.For | ast.While | ast.If)]
    for block in around:
        is_in = block.lineno <= _line(last) <= (block.end_lineno or block.lineno)
        holds = block.lineno <= at.lineno <= (block.end_lineno or block.lineno)
        is_left = not is_in and any(block.lineno <= _line(each) <= (block.end_lineno or 0) for each in written)
        if (is_in and not holds) or (holds and isinstance(block, ast.If) and not is_in and is_left):
            return None
        if holds and is_left and not isinstance(block, ast.If):
            return None
    return _written(last, name)


def _line(node: ast.AST) -> int:
    return node.lineno if isinstance(node, ast.stmt | ast.expr) else 0


def _written(node: ast.AST, name: str) -> ast.expr | None:
    """What a statement gives a name, or the call that fills the tensor of that name."""
    match node:
        case ast.Assign(targets=[ast.Name(id=given)], value=value) if given == name:
            return value
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = zip(names, values, strict=False)
            return next((one for each, one in pairs if isinstance(each, ast.Name) and each.id == name), None)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method)) as call) if method.endswith("_"):
            return call if unparse(owner) in {name, f"{name}.data"} else None
        case _:
            return None
