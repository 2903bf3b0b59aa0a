"""Labels of tokens that a collator pads with its tokenizer, and gives to the loss with their padding."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MASKS = lazy_pattern(r"-100\b|masked_fill|\bwhere\(|ignore|\.ne\(|!=|==")
"""Code of a collator that may change labels where they are padding."""

OTHER_MASKS = lazy_pattern(
    r"(?m)^\s*labels\[(?:[^\n]*== *\w*(?:image|video|vision)\w*|\w+, *: *\w+)\] *= *-100",
)
"""Code that takes images or the prompt of a row out of labels, and leaves the padding behind it."""

OWN_LOSS = lazy_pattern(r"ignore_index|def compute_loss\b|compute_loss_func")
"""Code of a loss that may know the padding."""

SAME = frozenset({"to", "long", "clone", "contiguous", "detach"})


@dataclass(frozen=True, slots=True)
class PaddedLabels:
    """The labels of a batch, which are padded, and the call that pads them; `is_encoding` if it encodes texts, too."""

    location: Location
    padded: Location
    is_encoding: bool = False


def padded_by_collators(source: Source) -> Iterator[PaddedLabels]:
    """The labels of a file that are `input_ids` of what pads the rows of a collator, without a mask."""
    if not source.contains(r"\.pad\(|padding *=") or not source.contains(r"labels") or source.contains(OWN_LOSS):
        return
    for function in source.nodes_of(ast.FunctionDef):
        nodes = own_nodes(function)
        bound = dict(_assigned(nodes))
        pads = {name: value for name, value in bound.items() if _is_pad(value)}
        if _is_collator(source, function):
            pads |= {name: value for name, value in bound.items() if _is_padded_encoding(value)}
        if not pads or MASKS.search(OTHER_MASKS.sub("", source.code(source.location(function)))):
            continue
        for batch, value in _labels(nodes):
            name = _padded_in(value, bound)
            # The inputs themselves, padded for the model, are for other rules.
            is_encoding = name in pads and _is_padded_encoding(pads[name])
            if name in pads and (name != batch or is_encoding):
                yield PaddedLabels(source.location(value), source.location(pads[name]), is_encoding)


def _assigned(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case _:
                pass


def _is_pad(value: ast.expr) -> bool:
    """Whether code pads rows with a tokenizer or processor."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr="pad")):
            return any(word in unparse(owner).lower() for word in ("tokenizer", "processor"))
        case _:
            return False


SCORES_TOKENS = lazy_pattern(r"ForCausalLM|LMHeadModel|Seq2Seq|ForConditionalGeneration|Vision2Seq|ImageTextToText|SFT")
"""Models and trainers whose labels are tokens, and whose loss leaves out those of -100."""


def _is_collator(source: Source, function: ast.FunctionDef) -> bool:
    """Whether a function makes the batches of a trainer or loader, for a model that scores each token."""
    given = source.cached(_collators)
    is_given = function.name in given or (function.name == "__call__" and _class_of(source, function) in given)
    return is_given and source.contains(SCORES_TOKENS)


def _class_of(source: Source, method: ast.FunctionDef) -> str:
    """The name of the class that a method is defined in; empty for a function."""
    return next((each.name for each in source.nodes_of(ast.ClassDef) if method in each.body), "")


def _collators(source: Source) -> frozenset[str]:
    """The names of functions that calls of a file give as collators, and of classes whose objects they are."""
    keywords = [node for node in source.nodes_of(ast.keyword) if node.arg in {"data_collator", "collate_fn"}]
    made = {unparse(node.targets[0]): node.value for node in source.nodes_of(ast.Assign) if keywords}
    given = (made.get(unparse(node.value), node.value) for node in keywords)
    called = [node.func if isinstance(node, ast.Call) else node for node in given]
    return frozenset(node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called)


def _is_padded_encoding(value: ast.expr) -> bool:
    """Whether code encodes texts with a tokenizer or processor, and pads them."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in SAME:
            return _is_padded_encoding(inner)
        case ast.Call(func=func):
            padding = next((each.value for each in value.keywords if each.arg == "padding"), None)
            is_on = isinstance(padding, ast.Constant) and padding.value in (True, "longest", "max_length")
            return is_on and any(word in unparse(func).lower() for word in ("tokenizer", "processor"))
        case _:
            return False


def _labels(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """What a function stores or returns as labels, with the name of the batch that it is stored in."""
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=batch), slice=ast.Constant(value="labels"))], value=value
            ):
                yield batch, value
            case ast.Return(value=ast.Dict(keys=keys, values=values)):
                named = zip(keys, values, strict=True)
                yield from (
                    ("", each) for key, each in named if isinstance(key, ast.Constant) and key.value == "labels"
                )
            case _:
                pass


def _padded_in(value: ast.expr, bound: Mapping[str, ast.expr]) -> str:
    """The name of the padded rows whose tokens an expression has, as they are; empty for other code."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in SAME:
            return _padded_in(owner, bound)
        case ast.Name(id=name) if name in bound and not isinstance(bound[name], ast.Name):
            return _padded_in(bound[name], {})
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value="input_ids" | "labels")):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr="input_ids"):
            return name
        case _:
            return ""
