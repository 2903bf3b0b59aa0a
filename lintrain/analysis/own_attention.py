"""Attention that a script computes itself: whether its scores are scaled, and what its mask hides.

`softmax(q @ k.T / sqrt(d)) @ v`: without the root, the scores of wide heads are so large that the softmax picks one
token and has no gradient. What is filled with minus infinity is hidden.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.attention_masks import Holds, Mask, mask_of
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

HIDDEN = lazy_pattern(
    r"-\s*(?:float\([\"']inf[\"']\)|1e\d+|(?:torch|np|math)\.inf|1000\d*)|[\"']-inf(?:inity)?[\"']|\.min$"
)
"""Code of the number that hides a score."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A mask that fills scores with minus infinity where it should not."""

    location: Location
    mask: Mask


def wrong_fills(source: Source) -> Iterator[Filled]:
    """The masks that hide the tokens, or the earlier ones, when scores are filled."""
    if not source.contains(r"masked_fill_?\("):
        return
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr="masked_fill" | "masked_fill_"), args=[condition, number]):
                pass
            case _:
                continue
        mask = mask_of(source, condition) if HIDDEN.search(unparse(number)) else None
        if mask is not None and mask.is_bool and _is_wrong(source, mask, number):
            yield Filled(source.location(condition), mask)


def _is_wrong(source: Source, mask: Mask, number: ast.expr) -> bool:
    """Whether a mask that fills scores hides what it should not.

    A query of another text than its keys may leave out its own position, which is certainly wrong for infinity alone:
    the first row has nothing else, and becomes nan.
    """
    if mask.holds is Holds.FROM_OWN:
        return "inf" in unparse(number) and not source.contains(r"nan_to_num|isnan")
    return mask.holds in {Holds.EARLIER, Holds.TOKENS}


@dataclass(frozen=True, slots=True)
class Scores:
    """The product of queries and keys that a softmax gets: where, and its code."""

    location: Location
    code: str


QUERY, KEY = lazy_pattern(r"(?i)^q(?:_?\w)?$|quer"), lazy_pattern(r"(?i)^k(?:_?\w)?$|key")

SCALES = re.compile(r"(?i)scale|sqrt|\*\*|norm|temp|\btau\b|t5|/|pow\(|rsqrt")
"""Code that makes scores, queries or keys smaller; layers of T5 start from smaller weights instead."""


def unscaled(source: Source) -> Iterator[Scores]:
    """The scores of self-attention that nothing scales, between linear layers of one class."""
    for function, scores in source.cached(attentions):
        around = next((each for each in source.nodes_of(ast.ClassDef) if function in each.body), None)
        code = unparse(around) if around is not None else ""
        is_linear = len(re.findall(r"\bLinear\(", code)) > 1 and "Conv" not in code
        if is_linear and not SCALES.search(_without_init_sizes(code, function)):
            yield Scores(source.location(scores), unparse(scores))


def _without_init_sizes(code: str, function: ast.FunctionDef) -> str:
    """The code of a class where something may be scaled: its other methods than the constructor, without `a // b`."""
    return re.sub(r"\w+ // \w+", "", unparse(function)) + "".join(
        line for line in code.splitlines() if re.search(r"scale|norm|\*\*|sqrt", line, re.IGNORECASE)
    )


MASKS = lazy_pattern(r"(?i)mask|tril|triu|causal|inf\b|1e\d")

NEXT_TOKENS = (
    (re.compile(r"\[:, *:-1\]"), re.compile(r"\[:, *1:\]")),
    (re.compile(r"\[(\w+) *: *\1 *\+ *\w+\]"), re.compile(r"\[(\w+) *\+ *1 *: *\1 *\+ *(?:\w+ *\+ *1|1 *\+ *\w+)\]")),
)
"""Code of the tokens of a text, and of the same tokens shifted by one."""


def unmasked(source: Source) -> Iterator[Scores]:
    """The scores of self-attention without any mask, in a file that predicts next tokens."""
    if "cross_entropy" not in source.text.lower() and "CrossEntropyLoss" not in source.text:
        return
    if not any(all(source.contains(part) for part in pair) for pair in NEXT_TOKENS):
        return
    for function, scores in source.cached(attentions):
        names = [each.arg for each in function.args.args]
        if len(names) == 2 and not MASKS.search(unparse(function)) and "scaled_dot" not in unparse(function):
            yield Scores(source.location(scores), unparse(scores))


def attentions(source: Source) -> list[tuple[ast.FunctionDef, ast.expr]]:
    """The functions that compute attention of a text to itself, each with the product of queries and keys."""
    found: list[tuple[ast.FunctionDef, ast.expr]] = []
    if not source.contains(r"(?i)softmax\("):
        return found
    for function in source.nodes_of(ast.FunctionDef):
        if "softmax(" not in unparse(function):
            continue
        nodes = own_nodes(function)
        products = [(each, *sides) for each in nodes if (sides := _product(each))]
        for product, query, key in products:
            is_named = QUERY.search(_name(query)) is not None and KEY.search(_name(key)) is not None
            if is_named and isinstance(product, ast.expr) and _are_projected(nodes, query, key):
                found.append((function, product))
    return found


def _product(node: ast.AST) -> tuple[ast.expr, ast.expr] | tuple[()]:
    """The two sides of `q @ k.transpose(-2, -1)` or of `torch.matmul(q, k.transpose(-2, -1))`."""
    match node:
        case ast.BinOp(left=query, op=ast.MatMult(), right=turned):
            pass
        case ast.Call(func=called, args=[query, turned]) if last_name(called) in {"matmul", "bmm"}:
            pass
        case _:
            return ()
    match turned:
        case ast.Call(func=ast.Attribute(value=key, attr="transpose" | "permute" | "swapaxes")):
            return query, key
        case ast.Attribute(value=key, attr="T" | "mT"):
            return query, key
        case _:
            return ()


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _are_projected(nodes: Sequence[ast.AST], query: ast.expr, key: ast.expr) -> bool:
    """Whether queries and keys are computed from one tensor by layers of `self`: `self.query(x)`, `self.qkv(x)`."""
    given = [_given(nodes, _name(each)) for each in (query, key)]
    return bool(given[0]) and given[0] == given[1]


def _given(nodes: Sequence[ast.AST], name: str) -> str:
    """What the layer of `self` that gives a name its value is called on."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                pairs = [value]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                pairs = [value for each, value in zip(names, values, strict=True) if _name(each) == name]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if any(_name(each) == name for each in names):
                pairs = [value]
            case _:
                continue
        for value in pairs:
            for call in walk(value):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[ast.Name(id=given)]):
                        return given
                    case _:
                        pass
    return ""
