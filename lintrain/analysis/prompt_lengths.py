"""Generated tokens that are cut by the number of prompts, where the number of their tokens is meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ROWS = lazy_pattern(r"(?:(.+)\.shape\[0\]|(.+)\.size\(0\)|(.+)\.size\(dim=0\)|len\((.+)\))")
"""Code for the first axis of a batch of prompts."""

TOKENS = lazy_pattern(r"""(\w+)(?:\.input_ids|\[['"]input_ids['"]\])""")


@dataclass(frozen=True, slots=True)
class CutByRows:
    """A part of generated tokens: where it begins, the code of its bound, and where they are generated."""

    location: Location
    code: str
    generated: Location


def cut_by_rows(source: Source) -> Iterator[CutByRows]:
    """The slices of generated tokens that leave out as many tokens as there are prompts."""
    if not source.contains(r"\.generate\(") or not source.contains(r"\.shape\[0\]|\.size\(|\blen\("):
        return
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        nodes = own_nodes(scope)
        generated, bounds = _generated(nodes), _assigned(nodes)
        for node in nodes if generated else ():
            name, cut = _cut_of(node)
            if cut is None or name not in generated:
                continue
            bound = bounds.get(cut.id, cut) if isinstance(cut, ast.Name) else cut
            if _counts_prompts(unparse(bound), generated[name]):
                yield CutByRows(source.location(cut), unparse(bound), source.location(generated[name]))


def _generated(nodes: Sequence[ast.AST]) -> dict[str, ast.Call]:
    """The names that a scope gives what `generate` returns, each bound once, with the call."""
    found = _assigned(nodes)
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "generate"
    }


def _assigned(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """What a scope gives the names that it assigns once."""
    found: dict[str, ast.expr] = {}
    several = set[str]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                several |= {name} if name in found else set()
                found[name] = value
            case _:
                pass
    return {name: value for name, value in found.items() if name not in several}


def _cut_of(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The name and the bound of `out[:, bound:]` and `out[0][bound:]`; no bound for other code."""
    match node:
        case ast.Subscript(
            value=ast.Name(id=name),
            slice=ast.Tuple(elts=[_, ast.Slice(lower=ast.expr() as bound, upper=None, step=None)]),
        ):
            return name, bound
        case ast.Subscript(
            value=ast.Subscript(value=ast.Name(id=name), slice=ast.Constant() | ast.Name()),
            slice=ast.Slice(lower=ast.expr() as bound, upper=None, step=None),
        ):
            return name, bound
        case _:
            return "", None


def _counts_prompts(bound: str, generate: ast.Call) -> bool:
    """Whether a bound is the size of the first axis of the tokens that `generate` gets."""
    found = ROWS.fullmatch(bound)
    if found is None:
        return False
    tokens = next(each for each in found.groups() if each)
    given = {unparse(each.value) for each in generate.keywords} | {unparse(each) for each in generate.args}
    batch = TOKENS.fullmatch(tokens)
    if batch is not None:
        return batch[1] in given or any(re.match(rf"{batch[1]}\b(?:\.to\(|\.input_ids|\[)", each) for each in given)
    # A list of numbers is one prompt, and its length that of the prompt.
    return not bound.startswith("len(") and tokens in given
