"""Transformers of torch on the tokens of whole texts: without a mask for later tokens, or on the targets themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from lintrain.analysis import origins
from lintrain.analysis.attention_masks import SAME, attention_layers
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.own_attention import NEXT_TOKENS
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source import places
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Unmasked:
    """A decoder that gets the tokens of a whole text without a causal mask."""

    location: Location
    layer: str


DECODERS = {"Transformer": (1, 3), "TransformerDecoder": (0, 2)}
"""Where a decoder gets its tokens, and where its causal mask."""


def unmasked_decoders(source: Source) -> Iterator[Unmasked]:
    """The calls of decoders in a `forward` on the embedding of a parameter, without a mask for later tokens."""
    layers = source.cached(attention_layers)
    embeddings = source.cached(_embedding_layers) if not DECODERS.keys().isdisjoint(layers.values()) else set[str]()
    for function in source.nodes_of(ast.FunctionDef) if embeddings else ():
        parameters = {each.arg for each in function.args.args} - {"self"}
        for call in walk(function) if function.name == "forward" else ():
            layer = layers.get(unparse(call.func), "") if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and layer in DECODERS and not _is_masked(call, layer):
                tokens = _tokens_of(call, layer)
                if tokens is not None and _embeds(source, tokens, embeddings, parameters):
                    yield Unmasked(source.location(call), layer)


ENCODERS = frozenset({"TransformerEncoder", "TransformerEncoderLayer"})
POOLS = re.compile(r"\.mean\(|\.max\(|\.amax\(|\[:, *-?\d|\[-1|\[0\]|mask|causal|tril|triu")
"""Code that takes one vector of a text, or hides a part of it."""


def unmasked_encoders(source: Source) -> Iterator[Unmasked]:
    """The calls of encoders without a mask on the embedding of a parameter, in a file that predicts next tokens."""
    layers = source.cached(attention_layers)
    is_alone = bool(layers) and ENCODERS.issuperset(layers.values()) and "cross_entropy" in source.text.lower()
    shifts = is_alone and any(all(source.contains(part) for part in pair) for pair in NEXT_TOKENS)
    embeddings = source.cached(_embedding_layers) if shifts else set[str]()
    for function in source.nodes_of(ast.FunctionDef) if embeddings else ():
        if function.name != "forward" or POOLS.search(unparse(function)):
            continue
        parameters = {each.arg for each in function.args.args} - {"self"}
        calls = [node for node in walk(function) if isinstance(node, ast.Call) and unparse(node.func) in layers]
        for call in calls:
            is_plain = len(call.args) == 1 and not call.keywords
            if is_plain and _embeds(source, call.args[0], embeddings, parameters):
                yield Unmasked(source.location(call), layers[unparse(call.func)])


def _is_masked(call: ast.Call, layer: str) -> bool:
    named = {each.arg for each in call.keywords}
    return len(call.args) > DECODERS[layer][1] or not named.isdisjoint({"tgt_mask", "tgt_is_causal", None})


def _tokens_of(call: ast.Call, layer: str) -> ast.expr | None:
    given = next((each.value for each in call.keywords if each.arg == "tgt"), None)
    return given or (call.args[DECODERS[layer][0]] if len(call.args) > DECODERS[layer][0] else None)


def _embeds(source: Source, tokens: ast.expr, embeddings: set[str], parameters: set[str]) -> bool:
    """Whether an expression is computed from the embedding of a parameter: `self.words(ids)`."""
    layers = source.cached(attention_layers)

    def is_input(expression: ast.expr) -> bool:
        calls = (node for node in walk(expression) if isinstance(node, ast.Call))
        return not any(unparse(call.func) in layers for call in calls)

    for each in origins.origins(source, tokens, is_input):
        for node in walk(each.expression):
            match node:
                case ast.Call(func=func, args=[ast.Name(id=name)]) if name in parameters:
                    if unparse(func) in embeddings:
                        return True
                case _:
                    pass
    return False


@dataclass(frozen=True, slots=True)
class Copied:
    """A decoder that gets the tokens which it has to predict: where, their name, and the loss that compares them."""

    location: Location
    name: str
    loss: Location


def copied_targets(pipeline: Pipeline) -> Iterator[Copied]:
    """The calls of networks with a decoder on the very tokens that are the targets of the loss, not shifted by one."""
    source = pipeline.source
    positions = source.cached(_decoder_inputs)
    for loss in pipeline.losses if positions else ():
        if loss.name != "cross_entropy" or loss.prediction is None or loss.target is None:
            continue
        predicted, wanted = (places.expression_at(source, each.location) for each in (loss.prediction, loss.target))
        if predicted is None or wanted is None:
            continue
        name = _plain_name(wanted)
        for call in _calls_behind(source, predicted) if name else ():
            given_as = [call.args[each] for each in sorted(positions) if each < len(call.args)]
            same = [each for each in given_as if unparse(each) == name]
            if same and not _is_rebound(source, name, call.lineno, loss.location.line):
                yield Copied(source.location(same[0]), name, loss.location)


def _decoder_inputs(source: Source) -> frozenset[int]:
    """The positions of what a `forward` embeds for its decoder as it is, counted without `self`."""
    layers = source.cached(attention_layers)
    embeddings = source.cached(_embedding_layers)
    found: set[int] = set()
    for function in source.nodes_of(ast.FunctionDef) if layers and embeddings else ():
        parameters = [each.arg for each in function.args.args][1:]
        for call in walk(function) if function.name == "forward" else ():
            layer = layers.get(unparse(call.func), "") if isinstance(call, ast.Call) else ""
            tokens = _tokens_of(call, layer) if isinstance(call, ast.Call) and layer in DECODERS else None
            for position, name in enumerate(parameters if tokens is not None else ()):
                if tokens is not None and _embeds(source, tokens, embeddings, {name}) and not _slices(function, name):
                    found.add(position)
    return frozenset(found)


def _embedding_layers(source: Source) -> set[str]:
    """The code of what holds an embedding, also where several are made at once."""
    found: set[str] = set()
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            found |= {unparse(one) for one, made in pairs if _makes_embedding(made)}
    return found


def _makes_embedding(made: ast.expr) -> bool:
    return isinstance(made, ast.Call) and last_name(made.func) == "Embedding"


def _slices(function: ast.FunctionDef, name: str) -> bool:
    subscripts = (each for each in walk(function) if isinstance(each, ast.Subscript))
    return any(unparse(each.value) == name for each in subscripts)


def _plain_name(node: ast.expr) -> str:
    """The name of tokens that are only put into another shape; empty for others."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RESHAPES | SAME:
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else ""


RESHAPES = frozenset({"view", "reshape", "flatten", "long"})

FILLS = frozenset({"masked_fill", "masked_fill_", "clone", "contiguous", "detach", "to", "cuda", "long", "cpu"})
"""Methods that leave each token where it is, or put a mark in its place."""

MOST_FILLS = 6


def is_masked_copy(pipeline: Pipeline, tokens: Location, labels: Location) -> bool:
    """Whether labels certainly are the tokens at another location, some of them marked as ignored: not shifted."""
    source = pipeline.source_of(labels)
    given, wanted = places.expression_at(source, tokens), places.expression_at(source, labels)
    if given is None or wanted is None:
        return False
    bound = source.once(_bound_once, blocks.scope_of(pipeline, labels))
    given, wanted = _unfilled(bound, given), _unfilled(bound, wanted)
    code = unparse(given)
    is_one_value = unparse(wanted) == code and isinstance(given, ast.Name | ast.Subscript | ast.Attribute)
    parts = [each for each in walk(given) if isinstance(each, ast.Slice)]
    return is_one_value and not parts and all(each.id in bound for each in walk(given) if isinstance(each, ast.Name))


def _bound_once(scope: ast.AST) -> dict[str, ast.expr | None]:
    """The names that a function binds at most once: what each is bound to, None for a parameter or a loop."""
    found: dict[str, ast.expr | None] = {}
    times: dict[str, int] = {}
    for node in walk(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not reads(value, name):
                found[name] = value
            case ast.arg(arg=name):
                found.setdefault(name, None)
            case ast.Name(id=name, ctx=ast.Store()):
                times[name] = times.get(name, 0) + 1
                found.setdefault(name, None)
            case _:
                pass
    moved = _moved(scope)
    return {name: value for name, value in found.items() if times.get(name, 0) - moved.get(name, 0) <= 1}


def reads(value: ast.expr, name: str) -> bool:
    """Whether an expression reads a name."""
    return any(isinstance(each, ast.Name) and each.id == name for each in walk(value))


def _moved(scope: ast.AST) -> dict[str, int]:
    """How often names are bound to the same tokens on another device: `x, y = x.to(device), y.to(device)`."""
    found: dict[str, int] = {}
    for node in walk(scope):
        for one, value in _pairs(node) if isinstance(node, ast.Assign) else ():
            if isinstance(one, ast.Name) and unparse(_unfilled({}, value)) == one.id:
                found[one.id] = found.get(one.id, 0) + 1
    return found


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _unfilled(bound: Mapping[str, ast.expr | None], node: ast.expr) -> ast.expr:
    """The tokens that others are made of by marking some: `y` for `y.masked_fill(y == 0, -100)`."""
    for _ in range(MOST_FILLS):
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in FILLS:
                node = inner
            case ast.Call(func=func, args=[_, one, other]) if last_name(func) == "where":
                kept = [each for each in (one, other) if unparse(each) != "-100"]
                if len(kept) != 1:
                    return node
                node = kept[0]
            case ast.Name(id=name) if (value := bound.get(name)) is not None:
                if isinstance(value, ast.Call) and last_name(value.func) not in {*FILLS, "where"}:
                    return node
                node = value
            case _:
                return node
    return node


def _calls_behind(source: Source, predicted: ast.expr) -> Iterator[ast.Call]:
    for each in origins.origins(source, predicted):
        yield from (node for node in walk(each.expression) if isinstance(node, ast.Call) and len(node.args) > 1)


def _is_rebound(source: Source, name: str, first: int, last: int) -> bool:
    stores = (node for node in source.nodes_of(ast.Name) if node.id == name and isinstance(node.ctx, ast.Store))
    return any(first < node.lineno <= last for node in stores)


HAVE_TIME = frozenset({"Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer", "MultiheadAttention"})
TIME_FIRST = re.compile(r"transpose\(0, 1\)|zeros\([\w.]+, 1, [\w.]+\)")
SWAPS = re.compile(r"\.(?:transpose|swapaxes)\((?:0, 1|1, 0)\)|permute\(1, 0")
"""Code that gives positions an axis of one row behind them, and code that swaps the first two axes."""


def rows_as_positions(source: Source) -> Iterator[tuple[Location, str]]:
    """The positions that are taken for the first axis, `self.pe[:x.size(0)]`, where all layers have the batch there."""
    layers = [call for call in source.nodes_of(ast.Call) if last_name(call.func) in HAVE_TIME]
    if not layers or not all(_has_batch_first(call) for call in layers):
        return
    for cls in source.nodes_of(ast.ClassDef):
        code = unparse(cls)
        others = [each for each in source.nodes_of(ast.ClassDef) if each is not cls]
        if TIME_FIRST.search(code) is None or any(SWAPS.search(unparse(each)) for each in others):
            continue
        for function in cls.body:
            if (
                isinstance(function, ast.FunctionDef)
                and function.name == "forward"
                and not SWAPS.search(unparse(function))
            ):
                given = {each.arg for each in function.args.args}
                for node in walk(function):
                    if isinstance(node, ast.Subscript) and (counted := _rows_counted(node)) and counted in given:
                        yield source.location(node), counted


def _has_batch_first(call: ast.Call) -> bool:
    named = {each.arg: unparse(each.value) for each in call.keywords}
    return named.get("batch_first") == "True"


def _rows_counted(node: ast.Subscript) -> str:
    """The name `x` of `self.pe[:x.size(0)]`, also with other axes; empty for other code."""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    is_own = isinstance(node.value, ast.Attribute) and unparse(node.value).startswith("self.")
    match first:
        case ast.Slice(
            lower=None,
            upper=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[ast.Constant(value=0)])
            | ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=0)),
        ):
            return name if is_own else ""
        case _:
            return ""
