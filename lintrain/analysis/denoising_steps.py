"""The steps of a sampler that takes predicted noise off an image, from the last step of the schedule to the first.

for step in reversed(range(steps)):
    eps = model(x, step)
    x = (x - betas[step] / (1 - alpha_bars[step]).sqrt() * eps) / alphas[step].sqrt()
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHARE = lazy_pattern(r"(?:sqrt|\*\* *0\.5)")
REST = lazy_pattern(r"\b1(?:\.0?)? - |one_minus|beta")


@dataclass(frozen=True, slots=True)
class Denoising:
    """A loop that takes noise off an image: the loop, the step, and whether its schedule runs the wrong way."""

    loop: Location
    step: Location
    is_ascending: bool


def denoising(source: Source) -> Iterator[Denoising]:
    """The loops of samplers in a file whose image begins as noise."""
    if not source.contains(r"sqrt|\*\* *0\.5") or not source.contains(r"\brandn"):
        return
    for function in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(function)
        for loop in (each for each in nodes if isinstance(each, ast.For)):
            for node in loop.body:
                name = _denoised(loop, node)
                if name and _begins_as_noise(nodes, name, loop):
                    over = loop.iter
                    is_ascending = _is_ascending(over) and _is_indexed(loop, node)
                    yield Denoising(source.location(over), source.location(node), is_ascending)


def _denoised(loop: ast.For, node: ast.stmt) -> str:
    """The image that a statement takes predicted noise off: `x = x - share * model(x, t)`; empty for other code."""
    match node:
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            pass
        case _:
            return ""
    for part in walk(value):
        match part:
            case ast.BinOp(left=ast.Name(id=image), op=ast.Sub(), right=ast.BinOp() as product):
                code = _written_out(loop, product)
                is_share = SHARE.search(code) is not None and REST.search(code) is not None
                if is_share and any(_is_predicted(loop, each, image) for each in _factors(product)):
                    return image if image == target or target.endswith(("prev", "next", "mean")) else ""
            case _:
                pass
    return ""


def _factors(product: ast.expr) -> Iterator[ast.expr]:
    match product:
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield product


def _given(loop: ast.For, name: str) -> list[ast.expr]:
    """What the body of a loop gives a name, also as one of several."""
    found = list[ast.expr]()
    for node in loop.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                found += [value for each, value in zip(targets, values, strict=False) if unparse(each) == name]
            case ast.Assign(targets=[target], value=value) if unparse(target) == name:
                found.append(value)
            case _:
                pass
    return found


def _written_out(loop: ast.For, node: ast.expr) -> str:
    """The code of an expression, with that of the names that the loop gives before."""
    names = {each.id for each in walk(node) if isinstance(each, ast.Name)}
    return " ".join([unparse(node), *(unparse(value) for name in sorted(names) for value in _given(loop, name))])


def _is_predicted(loop: ast.For, factor: ast.expr, image: str) -> bool:
    """Whether a factor is what a network makes of the image itself."""
    made = _given(loop, factor.id) if isinstance(factor, ast.Name) else [factor]
    return len(made) == 1 and isinstance(made[0], ast.Call) and image in {unparse(each) for each in made[0].args[:1]}


def _begins_as_noise(nodes: Sequence[ast.AST], name: str, loop: ast.For) -> bool:
    before = [each for each in nodes if isinstance(each, ast.Assign) and each.lineno < loop.lineno]
    given = [each.value for each in before if unparse(each.targets[0]) == name]
    return bool(given) and re.search(r"\brandn(?:_like)?\(", unparse(given[-1])) is not None


def _is_ascending(over: ast.expr) -> bool:
    """Whether a loop counts upwards: `range(steps)`, `tqdm(range(0, steps))`."""
    match over:
        case ast.Call(func=func, args=[inner, *_]) if last_name(func) in {"tqdm", "trange"}:
            return last_name(func) == "trange" or _is_ascending(inner)
        case ast.Call(func=ast.Name(id="range"), args=args):
            return len(args) < 3
        case _:
            return False


def _is_indexed(loop: ast.For, node: ast.stmt) -> bool:
    """Whether a step reads the schedule at the number of the loop itself."""
    if not isinstance(loop.target, ast.Name) or not isinstance(node, ast.Assign) or _given(loop, loop.target.id):
        return False
    return re.search(rf"(?:alpha|beta)\w*\[{loop.target.id}\]", _written_out(loop, node.value)) is not None
