"""Copies of a network whose weights follow it: averages over its steps, and target networks.

`for a, p in zip(copy.parameters(), net.parameters())` updates a copy: which share it keeps of itself, and whether a
statement changes the weights at all or only binds the name of the loop.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import given_numbers
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WEIGHTS = lazy_pattern(r"\b\w*parameters\(\)|\.state_dict\(\)")
"""What gives the weights of a network one by one, or those that a method of the script lists."""

COPIES = lazy_pattern(r"target|\bema|_ema|momentum|averag|shadow", re.IGNORECASE)
"""Names of copies that follow a network while it trains."""

FOLLOWS = lazy_pattern(r"gamma|discount|\bema|momentum", re.IGNORECASE)

SMALL = 0.1
"""The largest share of itself that an average certainly is not meant to keep in each step."""

HARMLESS = lazy_pattern(
    r"\.(?:eval|train|cuda|cpu|requires_grad_|half|float)\(|\.to\(|\(|\.load_state_dict\(|\.state_dict\(\)|\s*="
)
"""What code after the name of a copy may do without a change of its weights."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """An update of a copy that keeps only a small share of it: where, the copy, and the share."""

    location: Location
    name: str
    share: float


def swapped(source: Source) -> Iterator[Swapped]:
    """The averages that keep nearly nothing of what they were: `tau * target + (1 - tau) * net` for `tau` of 0.005."""
    for loop, names in _loops(source):
        for node in walk(loop):
            for target, kept in (*_updates(node), *_in_mapping(loop, node, names), *_in_two(loop, node)):
                name = _bare(target)
                is_weight = name in names or isinstance(target, ast.Subscript)
                share = _number(source, kept) if is_weight else None
                if share is not None and 0 < share <= SMALL and isinstance(node, ast.expr | ast.stmt):
                    yield Swapped(source.location(node), name, share)


def averaged(source: Source) -> Iterator[str]:
    """The code of the networks whose weights a loop averages with those of another network."""
    for loop, names in _loops(source):
        match loop.target, loop.iter:
            case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=given) if len(given) == len(targets):
                updated = {_bare(target) for node in walk(loop) for target, _ in _updates(node)} & names
                for target, weights in zip(targets, given, strict=True):
                    if unparse(target) in updated and (
                        found := re.match(r"([\w.]+)\.parameters\(\)", unparse(weights))
                    ):
                        yield found[1]
            case _:
                pass


def rebound(source: Source) -> Iterator[tuple[Location, str]]:
    """The statements that compute new weights and bind them to the name of the loop, which changes no weight."""
    for loop, names in _loops(source):
        for node in walk(loop):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() as value) if name in names:
                    is_own = any(isinstance(each, ast.Name) and each.id == name for each in walk(value))
                    if is_own and not _is_read_after(loop, name, node):
                        yield source.location(node), name
                case _:
                    pass


def _is_read_after(loop: ast.For, name: str, node: ast.stmt) -> bool:
    reads = (each for each in walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return any(each.id == name and each.lineno > (node.end_lineno or node.lineno) for each in reads)


def _loops(source: Source) -> Iterator[tuple[ast.For, set[str]]]:
    """The loops over the weights of networks, with the names that they bind to single weights."""
    for loop in source.nodes_of(ast.For):
        if WEIGHTS.search(unparse(loop.iter)):
            found = (each for each in walk(loop.target) if isinstance(each, ast.Name))
            yield loop, {each.id for each in found}


def _updates(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a node updates in place, with the factor of what it was before."""
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="data") as target], value=value):
            yield from _sums(target, value)
        case ast.Call(func=ast.Attribute(value=target, attr="copy_"), args=[value, *_]):
            yield from _sums(target, value)
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Attribute(value=target, attr="mul_"), args=[kept]), attr="add_")
        ):
            yield target, kept
        case ast.Call(func=ast.Attribute(value=target, attr="lerp_"), args=[_, share]):
            yield target, ast.BinOp(left=ast.Constant(value=1.0), op=ast.Sub(), right=share)
        case _:
            pass


def _in_mapping(loop: ast.For, node: ast.AST, names: set[str]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a node writes into a mapping of weights, `shadow[name] = factor * shadow[name] + other * weight`."""
    match node:
        case ast.Assign(targets=[ast.Subscript(slice=ast.Name(id=key)) as target], value=value) if key in names:
            pass
        case _:
            return
    if isinstance(value, ast.Name | ast.Call):
        assigned = (each for each in walk(loop) if isinstance(each, ast.Assign))
        value = next((each.value for each in assigned if unparse(each.targets[0]) == _bare(value)), value)
    averaged = {_bare(each) for each in walk(value) if isinstance(each, ast.expr)}
    if not averaged.isdisjoint(names - {key}) and ".grad" not in unparse(value):
        yield from _sums(target, value)


def _in_two(loop: ast.For, node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What two statements update, `t.mul_(factor)` and `t.add_(weight, alpha=other)`."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr="mul_"), args=[kept])):
            added = re.compile(rf"{re.escape(_bare(target))}(?:\.data)?\.add_\((?!.*\bgrad\b)")
            rest = (each for each in walk(loop) if isinstance(each, ast.Expr) and each.lineno > node.lineno)
            if any(added.match(unparse(each)) for each in rest):
                yield target, kept
        case _:
            pass


def _sums(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The factor of the old weights in `factor * old + (1 - factor) * other`."""
    match value:
        case ast.BinOp(left=ast.BinOp(op=ast.Mult()) as one, op=ast.Add(), right=ast.BinOp(op=ast.Mult()) as other):
            for each in (one, other):
                for factor, weight in ((each.left, each.right), (each.right, each.left)):
                    if _bare(weight) == _bare(target):
                        yield target, factor
        case _:
            pass


def _bare(node: ast.expr) -> str:
    """The code of weights without what leaves them as they are: `p` of `p.data` and `p.detach().to(device)`."""
    match node:
        case ast.Attribute(value=inner, attr="data"):
            return _bare(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "to" | "clone" | "cpu" | "float")):
            return _bare(inner)
        case _:
            return unparse(node)


def _number(source: Source, node: ast.expr) -> float | None:
    """The number that a factor certainly is, or that all the numbers given to its name in a file agree on."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=right):
            other = _number(source, right)
            return None if other is None else 1 - other
        case ast.Name(id=name) | ast.Attribute(attr=name):
            found = given_numbers.given_numbers(source).get(name, set())
            known = [each for each in found if each is not None and not SMALL < each < 1 - SMALL]
            is_certain = len(known) == len(found) and len({each <= SMALL for each in known}) == 1
            return known[0] if is_certain else None
        case _:
            return None


def never_updated(source: Source) -> Iterator[tuple[Location, str, str]]:
    """The copies of a network that are used while it trains and never get its weights again: where, and both names."""
    for node in source.nodes_of(ast.Assign):
        target = unparse(node.targets[0])
        is_copy = isinstance(node.value, ast.Call) and COPIES.search(target.rpartition(".")[2]) is not None
        if not is_copy or not source.contains(FOLLOWS) or not re.fullmatch(r"(?:self\.)?\w+", target):
            continue
        if len([each for each in source.nodes_of(ast.Assign) if unparse(each.targets[0]) == target]) > 1:
            continue
        if target.startswith("self.") and not _is_created(source, node):
            continue  # code elsewhere may update it
        origin = _copied_from(source, node, target)
        if origin and f"{origin}.parameters()" in source.text and _is_left_alone(source, target):
            yield source.location(node), target, origin


def _is_created(source: Source, node: ast.stmt) -> bool:
    """Whether a file creates an object of the class around a statement."""
    around = [each for each in source.nodes_of(ast.ClassDef) if any(one is node for one in walk(each))]
    return any(f"{each.name}(" in re.sub(rf"class {each.name}\(", "", source.text) for each in around)


def _copied_from(source: Source, node: ast.Assign, target: str) -> str:
    """The code of the network whose weights a copy gets where it is made, by `deepcopy` or `load_state_dict`."""
    if (copied := re.match(r"(?:copy\.)?deepcopy\(([\w.]+)\)", unparse(node.value))) is not None:
        return "" if f"{target}.load_state_dict(" in source.text else copied[1]
    loads = [each for each in source.nodes_of(ast.Call) if unparse(each.func) == f"{target}.load_state_dict"]
    if len(loads) != 1 or not loads[0].args or not 0 < loads[0].lineno - node.lineno < 12:
        return ""
    if not any(isinstance(each, ast.Expr) and each.value is loads[0] for each in _block_of(source, node)):
        return ""
    loaded = re.fullmatch(r"([\w.]+)\.state_dict\(\)", unparse(loads[0].args[0]))
    return loaded[1] if loaded else ""


def _block_of(source: Source, node: ast.stmt) -> list[ast.stmt]:
    """The statements of the function or module that a statement is in; empty for one inside of another statement."""
    owners: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for owner in owners:
        if node in owner.body:
            return owner.body
    return []


def _is_left_alone(source: Source, name: str) -> bool:
    """Whether nothing in a file can change the weights of a copy, which is called or saved."""
    text = re.sub(
        rf"for \w+ in {re.escape(name)}\.parameters\(\):\s*\n?\s*\w+\.requires_grad\s*=\s*False", "", source.text
    )
    text = re.sub(r"#[^\n]*", "", text)
    uses = [match.end() for match in re.finditer(rf"(?<![\w.]){re.escape(name)}\b", text)]
    is_used = re.search(rf"(?<![\w.]){re.escape(name)}(?:\(|\.state_dict\(\))", text) is not None
    return is_used and all(HARMLESS.match(text, end) is not None for end in uses)
