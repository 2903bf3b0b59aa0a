"""Log-probabilities that a script picks out of a causal model's logits with `gather`, one for each token.

The logits of a position predict the token after it. `gather` with the tokens of the same positions scores how well the
model repeats its input.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHIFTS = lazy_pattern(r"[:.,\[] *1:|: *-1\]|: *-1,|\.roll\(|(?i:shift)")
"""Code that may have moved labels before the logits meet them."""

KEEPS = frozenset(
    {
        *("float", "double", "to", "cuda", "long", "clone", "contiguous", "detach", "squeeze", "unsqueeze"),
        *("masked_fill", "clamp", "clamp_min", "log_softmax", "type"),
    }
)
"""Methods that leave every position where it is."""

MOST_STEPS = 10


@dataclass(frozen=True, slots=True)
class UnshiftedScores:
    """A `gather` with the tokens of the same positions, and the call of the model."""

    location: Location
    forward: Location


def unshifted_scores(source: Source) -> Iterator[UnshiftedScores]:
    """The calls of `gather` that pick, at each position, the log-probability of the token at that position."""
    text = source.text
    if "gather(" not in text or "log_softmax" not in text:
        return
    for call in source.nodes_of(ast.Call):
        parts = _gathered(call) if last_name(call.func) == "gather" else None
        forward = _forward_of(source, parts[0]) if parts is not None else None
        if parts is None or forward is None:
            continue
        tokens, given = _origin(source, parts[1]), _tokens_of(source, forward)
        if tokens is not None and _are_same(source, unparse(tokens), given):
            yield UnshiftedScores(source.location(call), source.location(forward))


def _gathered(call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """The tensor and the index of a `gather`."""
    named = {each.arg: each.value for each in call.keywords}
    given = list(call.args)
    if isinstance(call.func, ast.Attribute) and unparse(call.func.value) != "torch":
        given = [call.func.value, *given]
    tensor = given[0] if given else named.get("input")
    index = given[2] if len(given) > 2 else named.get("index")
    return (tensor, index) if tensor is not None and index is not None else None


def _forward_of(source: Source, scores: ast.expr) -> ast.Call | None:
    """The call of a model whose logits, with nothing left out, some log-probabilities are computed from."""
    normalized = _normalized(source, scores)
    logits = _origin(source, normalized) if normalized is not None else None
    match logits:
        case ast.Attribute(value=output, attr="logits"):
            made = _origin(source, output)
        case ast.Subscript(value=output, slice=ast.Constant(value="logits")):
            made = _origin(source, output)
        case _:
            return None
    return made if isinstance(made, ast.Call) else None


def _normalized(source: Source, node: ast.expr, steps: int = MOST_STEPS) -> ast.expr | None:
    """What a log-softmax gets that an expression is, or a name stands for."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="log_softmax"), args=given):
            is_function = unparse(owner) in {"F", "torch", "nn.functional", "torch.nn.functional"}
            return (given[0] if given else None) if is_function else owner
        case ast.Call(func=ast.Name(id="log_softmax"), args=[inner, *_]):
            return inner
        case ast.Name() if steps and (value := _given(source, node)) is not None:
            return _normalized(source, value, steps - 1)
        case _:
            return None


def _origin(source: Source, node: ast.expr, steps: int = MOST_STEPS) -> ast.expr | None:
    """What an expression holds, position by position; None if some positions may be left out."""
    match node:
        case ast.Name() if steps:
            value = _given(source, node)
            return node if value is None else _origin(source, value, steps - 1)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="where"), args=[_, inner, _]):
            return _origin(source, inner, steps - 1)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if steps and name in KEEPS:
            return _origin(source, inner, steps - 1)
        case ast.BinOp(left=left, op=ast.Div()) if steps:
            return _origin(source, left, steps - 1)
        case ast.Subscript(slice=ast.Constant()) | ast.Attribute() | ast.Call():
            return node
        case _:
            return None


def _given(source: Source, name: ast.Name) -> ast.expr | None:
    """The value that a name was given last, if that is the whole value of one assignment."""
    found = next(iter(loss_terms.definitions(source, name)), None)
    return found[0] if found is not None and found[1:] == (None, None) else None


def _tokens_of(source: Source, forward: ast.Call) -> ast.expr | None:
    """The token ids that a model is called on, or the batch that holds them."""
    named = {each.arg: each.value for each in forward.keywords}
    tokens = named.get("input_ids") or (forward.args[0] if forward.args else named.get(None))
    return _origin(source, tokens) if tokens is not None else None


def _are_same(source: Source, tokens: str, given: ast.expr | None) -> bool:
    """Whether an index has the tokens that the model read, or the labels that nothing has moved."""
    match given:
        case None:
            return False
        case ast.Subscript(value=batch, slice=ast.Constant(value="input_ids")):
            known = f"{unparse(batch)}['labels']"
        case ast.Attribute(value=batch, attr="input_ids"):
            known = f"{unparse(batch)}.labels"
        case ast.Name(id=batch):
            known = f"{batch}['labels']"
            if tokens == f"{batch}['input_ids']":
                return True
        case _:
            known = ""
    return tokens == unparse(given) or (tokens == known and not source.contains(SHIFTS))
