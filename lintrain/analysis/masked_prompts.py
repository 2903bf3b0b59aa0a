"""Prompts whose labels are to be left out of the loss, and get another number than -100.

`labels = [0] * len(prompt) + answer`, next to `ids = prompt + answer`: the labels are token ids, but for the prompt.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LABELS = lazy_pattern(r"(?:^|[_.'\"])(?:labels?|targets?)(?:['\"]\])?$")
PAD = lazy_pattern(r"(?:^|[._])pad_(?:token_)?id$")
"""Code that gives the id of the padding token."""
IGNORED = -100


@dataclass(frozen=True, slots=True)
class MaskedPrompt:
    """The labels of a prompt: where, and the code of what each of them is."""

    location: Location
    code: str


def masked_prompts(source: Source) -> Iterator[MaskedPrompt]:
    """The labels that repeat one number in place of the tokens which the inputs have there."""
    for function in source.nodes_of(ast.FunctionDef) if source.contains(REPEATS) else ():
        for term, code in source.once(_in_function, function):
            yield MaskedPrompt(source.location(term), code)


REPEATS = lazy_pattern(r"\]\s*\*\s*\(?\s*len\(")


def _in_function(function: ast.FunctionDef) -> list[tuple[ast.expr, str]]:
    terms = _terms_by_name(function)
    tokens = [{unparse(each) for each in given} for name, given in terms.items() if not LABELS.search(name)]
    found: list[tuple[ast.expr, str]] = []
    for name, given in terms.items() if tokens else ():
        if not LABELS.search(name):
            continue
        others = {_whole(each) for each in given if not isinstance(each, ast.BinOp)}
        for term in given if others else ():
            code, counted = _repeated(term)
            if code and any(counted in each and others & each for each in tokens):
                found.append((term, code))
    return found


def _terms_by_name(function: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """What the lists of a function are put together from, by the code of the list."""
    found: dict[str, list[ast.expr]] = {}
    for node in own_nodes(function):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() | ast.Subscript() as target], value=value):
                found.setdefault(unparse(target), []).extend(_terms(value))
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                found.setdefault(unparse(target), []).extend(_terms(value))
            case ast.Call(func=ast.Attribute(value=target, attr="extend"), args=[value]):
                found.setdefault(unparse(target), []).extend(_terms(value))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.BinOp | ast.Subscript):
                        found.setdefault(str(key.value), []).extend(_terms(value))
            case _:
                pass
    return found


def _terms(node: ast.expr) -> list[ast.expr]:
    """The lists that a sum puts one after the other; of `a if test else b` the sides."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_terms(left), *_terms(right)]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_terms(body), *_terms(orelse)]
        case ast.Subscript(value=ast.BinOp(op=ast.Add()) as inner, slice=ast.Slice(lower=None)):
            return _terms(inner)
        case _:
            return [node]


def _whole(node: ast.expr) -> str:
    """The code of a list, without the slice that is taken of it."""
    is_part = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
    return unparse(node.value if is_part and isinstance(node, ast.Subscript) else node)


def _repeated(node: ast.expr) -> tuple[str, str]:
    """The number that a list repeats, and what it is as long as, if losses count that number; both empty for others."""
    match node:
        case ast.BinOp(
            left=ast.List(elts=[number]), op=ast.Mult(), right=ast.Call(func=ast.Name(id="len"), args=[counted])
        ):
            code = unparse(number)
            is_counted = code in {"0", "-1"} or PAD.search(code) is not None
            return (code, unparse(counted)) if is_counted else ("", "")
        case _:
            return "", ""
