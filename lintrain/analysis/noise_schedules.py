"""The share of the image that is left after each step of a diffusion: a product of what each step leaves.

alphas = 1 - betas
alpha_bars = torch.cumprod(alphas, dim=0)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

MODULES = frozenset({"torch", "th", "np", "numpy", "jnp"})
LARGEST = 0.5
"""Rates of noise below it have a product of nearly 0 after a few steps."""


@dataclass(frozen=True, slots=True)
class WrongShare:
    """A schedule whose shares are no product of what each step leaves: where, what is computed, and of what."""

    location: Location
    function: str
    steps: str


def wrong_shares(source: Source) -> Iterator[WrongShare]:
    """The sums of what each step leaves, `cumsum(1 - betas)`, and the products of what each step takes away."""
    if not source.contains(r"\bcum(?:sum|prod)\("):
        return
    for node in source.nodes_of(ast.Assign):
        for call in walk(node.value):
            name = last_name(call.func) if isinstance(call, ast.Call) else ""
            if not isinstance(call, ast.Call) or name not in {"cumsum", "cumprod"}:
                continue
            steps = _given(call)
            made = _made(source, steps) if steps is not None else None
            if steps is None or made is None or not _is_share(source, node.targets[0]):
                continue
            is_wrong = _is_rest(made) if name == "cumsum" else _is_small(made)
            if is_wrong:
                yield WrongShare(source.location(call), name, unparse(steps))


def _given(call: ast.Call) -> ast.expr | None:
    """What a function or a method is given: `torch.cumsum(alphas, 0)`, `alphas.cumsum(0)`."""
    if not isinstance(call.func, ast.Attribute):
        return call.args[0] if call.args else None
    is_function = isinstance(call.func.value, ast.Name) and call.func.value.id in MODULES
    return (call.args[0] if call.args else None) if is_function else call.func.value


def _made(source: Source, node: ast.expr, steps: int = 4) -> ast.expr:
    if not isinstance(node, ast.Name | ast.Attribute) or not steps:
        return node
    given = loss_terms.assigned(source, unparse(node))
    return _made(source, given[0], steps - 1) if len(given) == 1 else node


def _is_rest(node: ast.expr) -> bool:
    """Whether numbers are what rates leave of 1: `1.0 - betas`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and unparse(node.left) in {"1", "1.0"}


def _is_small(node: ast.expr) -> bool:
    """Whether numbers are written as rates that are all small: `torch.linspace(1e-4, 0.02, 1000)`."""
    match node:
        case ast.Call(args=[ast.Constant(value=float() | int() as low), ast.Constant(value=float() as high), *_]):
            return last_name(node.func) == "linspace" and max(low, high) < LARGEST
        case _:
            return False


def _is_share(source: Source, target: ast.expr) -> bool:
    """Whether code takes the root of 1 minus the result, which is the share of the noise."""
    name = re.escape(unparse(target).rpartition(".")[2])
    share = rf"1(?:\.0?)? *- *(?:\w+\.)*{name}\b"
    if source.contains(rf"sqrt\( *\(?{share}") or source.contains(rf"\({share}[^()\n]*\)(?:\.sqrt\(| *\*\* *0\.5)"):
        return True
    taken = [node for node in source.nodes_of(ast.Assign) if re.search(rf"\b{name}\[", unparse(node.value))]
    return any(
        source.contains(
            rf"sqrt\( *\(?1(?:\.0?)? *- *{share_of}\b|\(1(?:\.0?)? *- *{share_of}\)(?:\.sqrt\(| *\*\* *0\.5)"
        )
        for node in taken
        if (share_of := re.escape(unparse(node.targets[0])))
    )
