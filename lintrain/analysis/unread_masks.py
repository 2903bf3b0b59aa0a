"""Attention masks that a function has and does not pass to the model that it gives the token ids."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.source.by_name import Scope, scopes_with
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MASK = lazy_pattern(r"^(?:\w+_)?(?:attention|attn|padding|pad)_masks?$|^masks?$")
IDS = lazy_pattern(r"(?:^|[._\[\"'])(?:input_|token_)?ids(?:_\w+)?(?:$|[\"'\]])")
ENCODER = lazy_pattern(r"(?:^|[._])(?:\w*bert\w*|encoder|transformer|model|backbone|net|t5|electra|deberta\w*)$")
LIBRARIES = lazy_pattern(r"\btransformers\b|input_ids")
SAME = frozenset({"to", "cuda", "long", "bool", "float", "get"})
OPTIONAL = frozenset({"past_key_values", "inputs_embeds"})
"""Arguments with which a call continues a text, or gives other inputs than ids."""


OTHER_MASKS = frozenset({"head_mask", "decoder_head_mask", "cross_attn_head_mask", "encoder_attention_mask"})
"""Masks of heads, and of the texts of another model: none leaves out the padding of these ids."""


@dataclass(frozen=True, slots=True)
class UnreadMask:
    """A call of a model with ids, and the mask that it does not get: a name, or what another such call passes."""

    call: ast.Call
    mask: str


def unread_masks(source: Source) -> Iterator[UnreadMask]:
    """The calls of models in the functions of a file that lack a mask at hand."""
    if not source.contains(LIBRARIES):
        return
    for scope, calls in scopes_with(source, _calls_with_ids):
        nodes = own_nodes(scope)
        without = [call for call in calls if not _mask_of(call)]
        yield from (UnreadMask(call, mask) for call in without if (mask := _unread(source, scope, nodes, call)))
        for call in without:
            others = (other for other in calls if unparse(other.func) == unparse(call.func) and _mask_of(other))
            same = next((other for other in others if _names(other) - {_mask_of(other)} == _names(call)), None)
            if same is not None:
                yield UnreadMask(call, _mask_of(same))


def _calls_with_ids(scope: Scope) -> list[ast.Call]:
    parameters = _parameters(scope)
    return [node for node in own_nodes(scope) if isinstance(node, ast.Call) and _takes_ids(node, parameters)]


def _parameters(scope: ast.AST) -> frozenset[str]:
    """The names that a function gets its arguments by."""
    if not isinstance(scope, ast.FunctionDef):
        return frozenset()
    return frozenset(each.arg for each in (*scope.args.args, *scope.args.kwonlyargs))


def _takes_ids(call: ast.Call, passed: frozenset[str]) -> bool:
    """Whether a call gives token ids to something called like a model, and names all that it gives.

    What a function only passes on, such as `inputs_embeds=inputs_embeds`, need not be given.
    """
    if not isinstance(call.func, ast.Name | ast.Attribute) or not ENCODER.search(unparse(call.func)):
        return False
    is_open = any(each.arg is None for each in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg in {"input_ids", "ids"})]
    optional = OPTIONAL & {each.arg for each in call.keywords if unparse(each.value) not in passed}
    return not is_open and not optional and any(IDS.search(unparse(_bare(each))) for each in given)


def _bare(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME:
        node = node.func.value
    return node


def _names(call: ast.Call) -> set[str]:
    return {each.arg for each in call.keywords if each.arg}


def _mask_of(call: ast.Call) -> str:
    """The argument by which a call gives a mask, or the code of one that it gives by position; else empty."""
    named = [each.arg for each in call.keywords if each.arg and "mask" in each.arg and each.arg not in OTHER_MASKS]
    return next(iter(named), "") or next((unparse(each) for each in call.args if _may_be_mask(unparse(each))), "")


def _may_be_mask(code: str) -> bool:
    return "mask" in code and code not in OTHER_MASKS


def _unread(source: Source, scope: ast.AST, nodes: Sequence[ast.AST], call: ast.Call) -> str:
    """The mask that a function gets, or takes out of a batch, and that nothing reads; empty if there is none."""
    given: set[str] = set()
    if isinstance(scope, ast.FunctionDef) and _is_forward(source, scope, call):
        given = {*_parameters(scope)}
    taken = {
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_of_batch(node.value)
    }
    changed = {id(part) for node in nodes if isinstance(node, ast.Assign) for part in _reads_of_itself(node)}
    loads = (node for node in walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    read = {node.id for node in loads if id(node) not in changed}
    moved = {
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if unparse(_bare(node.value)) == node.targets[0].id and _reads(scope, node.targets[0].id) == 1
    }
    return next((name for name in sorted(given | taken) if MASK.search(name) and name not in read - moved), "")


def _reads_of_itself(node: ast.Assign) -> Iterator[ast.Name]:
    """The names in `mask = mask.view(-1, size) if mask is not None else None`: they only change it."""
    match node.targets:
        case [ast.Name(id=name)]:
            yield from (each for each in walk(node.value) if isinstance(each, ast.Name) and each.id == name)
        case _:
            pass


def _reads(scope: ast.AST, name: str) -> int:
    nodes = (node for node in walk(scope) if isinstance(node, ast.Name) and node.id == name)
    return sum(isinstance(node.ctx, ast.Load) for node in nodes)


def _is_of_batch(value: ast.expr) -> bool:
    """Whether a value is the mask of a batch: `batch["attention_mask"].to(device)`."""
    match _bare(value):
        case ast.Subscript(slice=ast.Constant(value=str(key))) | ast.Attribute(attr=key):
            return MASK.search(key) is not None
        case _:
            return False


def _is_forward(source: Source, scope: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a function is the `forward` of a network around a model of transformers, or of this file's own."""
    if scope.name != "forward" or not isinstance(call.func, ast.Attribute):
        return False
    name = unparse(call.func)
    made = [node.value for node in source.nodes_of(ast.Assign) if unparse(node.targets[0]) == name]
    return bool(made) and all(_takes_mask(source, value) for value in made)


def _takes_mask(source: Source, value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    if last_name(value.func) in {"from_pretrained", "from_config"}:
        return True
    cls = next((node for node in source.nodes_of(ast.ClassDef) if node.name == last_name(value.func)), None)
    methods = (
        each for each in (cls.body if cls else ()) if isinstance(each, ast.FunctionDef) and each.name == "forward"
    )
    return any("attention_mask" in {each.arg for each in method.args.args} for method in methods)
