"""Targets of loops that compute a cross-entropy over tokens themselves, and that contain padding it does not ignore.

The targets are the tokens that the network gets, from the second one on, or are flattened over a vocabulary. That rows
are padded shows elsewhere: code pads them, or a network or a mask gets the number of the padding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.padded_labels import given_before
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CRITERION = lazy_pattern(r"CrossEntropyLoss\(|cross_entropy\(")

EXCUSES = lazy_pattern(
    r"-100\b|ignore_index|\bweight *=|reduction *= *[\"']none|\breduce *= *False|\bpack_padded_sequence\(|masked_select"
    r"|\[[\w.]*mask\w*\]|\bloss\w* *\*=? *\w*mask|\bmask\w* *\* *\w*loss|\*=? *\w*_mask\b|nonzero\("
)
"""Code that may leave padding out of a loss."""

COMMENT = lazy_pattern(r"#.*")

PADS = lazy_pattern(
    r"\bpadding *= *(?:True|[\"'](?:max_length|longest)[\"'])|\bpad_sequence\(|\[[\w.]*pad\w*\] *\* *|\.pad\("
    r"|\+= *\[[\w.]*pad\w*\]",
    re.IGNORECASE,
)
"""Code that pads rows."""

PADDING = lazy_pattern(
    r"(?i)(?:\w+_)?pad(?:ding)?_(?:idx|index|id|token|token_id|value|symbol)|(?:\w+_)?pad|PAD_\w+|(?:\w+_)?padding_idx"
)
"""Names of the number of the padding; a name that is only `padding` may be the width of a border."""

SAME = frozenset({"to", "cuda", "cpu", "long", "clone", "detach", "contiguous", "flatten", "view", "reshape", "type"})
"""Methods whose result holds the same tokens."""

WRITTEN = lazy_pattern(r"(?i)pad_|pad\b|padding_idx")

ELSEWHERE = frozenset({"print", "CrossEntropyLoss", "cross_entropy", "generate", "decode", "batch_decode"})
"""Calls that get the number of the padding for something else than the rows of a training."""

STEPS = 4


@dataclass(frozen=True, slots=True)
class PaddedTargets:
    """Targets with padding: where a loss gets them, where it is made, and what shows that rows are padded."""

    location: Location
    criterion: Location
    padding: Location | None


def padded_targets(pipeline: Pipeline) -> Iterator[PaddedTargets]:
    """The targets of training functions that contain padding, if no code that was read leaves it out."""
    source, sources = pipeline.source, list(pipeline.sources.values())
    if not source.contains(CRITERION) or any(each.cached(_may_leave_out) for each in sources):
        return
    pads = any(each.contains(PADS) for each in sources)
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        if not source.once(_trains, scope):
            continue
        nodes = own_nodes(scope)
        for loss in (node for node in nodes if isinstance(node, ast.Call) and len(node.args) == 2):
            if not _are_next_tokens(loss, nodes) and not (pads and _is_over_vocabulary(loss)):
                continue
            made = _criterion(source, scope, loss)
            known = next((found for each in sources if (found := each.cached(_padding)) is not None), None)
            if made is not None and (pads or known is not None):
                yield PaddedTargets(source.location(loss.args[1]), source.location(made), known)


def _may_leave_out(source: Source) -> bool:
    """Whether code of a file may leave padding out; what only a comment mentions is not done."""
    return source.contains(EXCUSES) and EXCUSES.search(COMMENT.sub("", source.text)) is not None


def _trains(scope: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in own_nodes(scope))


def _padding(source: Source) -> Location | None:
    """Where a call or a comparison of a file gets the number of the padding."""
    if not source.contains(WRITTEN):
        return None
    for call in source.nodes_of(ast.Call):
        if last_name(call.func) in ELSEWHERE or last_name(call.func).endswith("Config"):
            continue
        named = [each.value for each in call.keywords if PADDING.fullmatch(each.arg or "") is not None]
        for each in (*named, *call.args):
            if isinstance(each, ast.Name | ast.Attribute) and PADDING.fullmatch(last_name(each)) is not None:
                return source.location(each)
    for compared in source.nodes_of(ast.Compare):
        for each in compared.comparators:
            if isinstance(compared.ops[0], ast.Eq | ast.NotEq) and PADDING.fullmatch(last_name(each)) is not None:
                return source.location(each)
    return None


def _criterion(source: Source, scope: ast.AST, loss: ast.Call) -> ast.expr | None:
    """Where the cross-entropy that a call applies is made; None if it is not certain to be one."""
    if last_name(loss.func) == "cross_entropy":
        return loss
    name = unparse(loss.func)
    made = loss_terms.assigned(source, name)
    if not made and isinstance(scope, ast.FunctionDef) and name in {each.arg for each in scope.args.args}:
        made = [each for each in source.nodes_of(ast.Call) if last_name(each.func).endswith("Loss")]
    found = [_made_in(each) for each in made]
    return found[0] if found and all(each is not None for each in found) else None


def _made_in(value: ast.expr) -> ast.Call | None:
    """The cross-entropy in `CrossEntropyLoss().to(device)`."""
    calls = (each for each in walk(value) if isinstance(each, ast.Call))
    return next((each for each in calls if last_name(each.func) == "CrossEntropyLoss"), None)


def _are_next_tokens(loss: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Whether the targets are tokens from the second one on, of which a call above gets all but the last."""
    tokens = _sliced(loss.args[1], loss.lineno, nodes, "1:")
    if tokens is None:
        return False
    calls = (node for node in nodes if isinstance(node, ast.Call) and node is not loss and node.lineno <= loss.lineno)
    return any(_sliced(given, call.lineno, nodes, ":-1") == tokens for call in calls for given in _given(call))


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def _sliced(node: ast.expr, line: int, nodes: Sequence[ast.AST], part: str) -> str | None:
    """The code of the tokens of which an expression has a part along dimension 1; None for any other expression."""
    for _ in range(STEPS):
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME:
            node = node.func.value
        match node:
            case ast.Subscript(value=tokens, slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), taken])):
                return unparse(tokens) if unparse(taken) == part else None
            case ast.Name() if (given := given_before(node, line, nodes)) is not None:
                node, line = given
            case _:
                return None
    return None


def _is_over_vocabulary(loss: ast.Call) -> bool:
    """Whether a loss gets scores that are flattened to one row for each token, over a vocabulary."""
    match loss.args:
        case [
            ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[_, size]),
            ast.Call(func=ast.Attribute(attr="view" | "reshape" | "flatten")),
        ]:
            return "vocab" in unparse(size).lower()
        case _:
            return False
