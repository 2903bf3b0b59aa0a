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

MASK = lazy_pattern(r"^(?:\w+_)?(?:attention|attn|padding|pad|input)_masks?$|^masks?$")
IDS = lazy_pattern(r"(?:^|[._\[\"'])(?:input_|token_)?ids(?:_\w+)?(?:$|[\"'\]])")
ENCODER = lazy_pattern(r"(?:^|[._])(?:\w*bert\w*|encoder|transformer|model|backbone|net|t5|electra|deberta\w*)$")
LIBRARIES = lazy_pattern(r"\btransformers\b|input_ids")
LAYERS = lazy_pattern(r"\bTransformer(?:Encoder|Decoder)?$")
CAUSAL = lazy_pattern(r"causal|subsequent|triu|tril|src_mask|tgt_mask")
TARGET = lazy_pattern(r"^(?:tgt|target|trg)_(?:causal_)?mask$")
SAME = frozenset({"to", "cuda", "long", "bool", "float", "get"})
OPTIONAL = frozenset({"past_key_values", "inputs_embeds"})
"""Arguments with which a call continues a text, or gives other inputs than ids."""


OTHER_MASKS = frozenset({"head_mask", "decoder_head_mask", "cross_attn_head_mask", "encoder_attention_mask"})
"""Masks of heads, and of the texts of another model: none leaves out the padding of these ids."""


@dataclass(frozen=True, slots=True)
class UnreadMask:
    """A call of a model with ids, and the mask that it does not get: a name, or what another such call passes.

    `is_layer` if the model is a transformer of torch, which gets embeddings.
    """

    call: ast.Call
    mask: str
    is_layer: bool = False


def unread_masks(source: Source) -> Iterator[UnreadMask]:
    """The calls of models in the functions of a file that lack a mask at hand."""
    yield from _unread_by_layers(source)
    if not source.contains(LIBRARIES):
        return
    found = scopes_with(source, _calls_with_ids)
    everywhere = [(scope, call) for scope, calls in found for call in calls]
    for scope, calls in found:
        nodes = own_nodes(scope)
        without = [call for call in calls if not _mask_of(call)]
        yield from (UnreadMask(call, mask) for call in without if (mask := _unread(source, scope, nodes, call)))
        for call in without if without and not _asks_for_mask(nodes) else ():
            others = (other for other in calls if unparse(other.func) == unparse(call.func) and _mask_of(other))
            same = next((other for other in others if _names(other) - {_mask_of(other)} == _names(call)), None)
            if same is None:
                same = next((each for where, each in everywhere if _is_sister(source, scope, call, where, each)), None)
            if same is not None:
                yield UnreadMask(call, _mask_of(same))


def _asks_for_mask(nodes: Sequence[ast.AST]) -> bool:
    """Whether a function also works without a mask: `if attention_mask is not None:`."""
    tests = (node for node in nodes if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot))
    return any("mask" in unparse(test.left) for test in tests)


def _is_sister(source: Source, scope: Scope, call: ast.Call, where: Scope, other: ast.Call) -> bool:
    """Whether a call in another function gives the same model the same ids, and their mask.

    The ids and the mask are of one batch, `batch["input_ids"]` and `batch["attention_mask"]`, or are names of the
    function around both.
    """
    ids, theirs = _ids_of(call), _ids_of(other)
    if scope is where or not ids or ids != theirs or unparse(call.func) != unparse(other.func) or not _mask_of(other):
        return False
    if not _names(call) <= _names(other) - {_mask_of(other)} or len(call.args) != len(other.args):
        return False
    mask = next((unparse(_bare(each.value)) for each in other.keywords if each.arg == _mask_of(other)), "")
    batch = ids.partition("[")[0]
    if "[" in ids and "input_ids" in ids and mask.startswith(f"{batch}["):
        return batch == "batch"
    around = _around(source, scope)
    return ids.isidentifier() and mask.isidentifier() and around is not None and around is _around(source, where)


def _ids_of(call: ast.Call) -> str:
    given = [*(each.value for each in call.keywords if each.arg in {"input_ids", "ids"}), *call.args[:1]]
    return unparse(_bare(given[0])) if given else ""


def _around(source: Source, scope: Scope) -> ast.FunctionDef | None:
    """The outermost function around one that takes no arguments of its own."""
    if not isinstance(scope, ast.FunctionDef) or _parameters(scope):
        return None
    return next(
        (each for each in source.nodes_of(ast.FunctionDef) if each is not scope and _contains(each, scope)), None
    )


def _contains(outer: ast.FunctionDef, inner: ast.FunctionDef) -> bool:
    return outer.lineno < inner.lineno <= (inner.end_lineno or inner.lineno) <= (outer.end_lineno or outer.lineno)


def _unread_by_layers(source: Source) -> Iterator[UnreadMask]:
    """The calls of transformers of torch that lack a padding mask, where `forward` makes a mask for nothing."""
    made = source.cached(_own_layers) if "Transformer" in source.text and "mask" in source.text else frozenset[str]()
    for scope in source.nodes_of(ast.FunctionDef) if made else ():
        nodes = own_nodes(scope) if scope.name == "forward" else ()
        calls = [node for node in nodes if isinstance(node, ast.Call) and unparse(node.func) in made]
        for mask in sorted(_made_names(nodes) if calls else ()):
            is_of_target = TARGET.search(mask) is not None
            given = {name for name in _names(calls[0]) if name == "tgt_mask" if is_of_target}
            given |= {name for name in _names(calls[0]) if "padding_mask" in name if not is_of_target}
            if not _reads(scope, mask) and not given and len(calls[0].args) < MOST_INPUTS:
                yield UnreadMask(calls[0], mask, is_layer=True)


MOST_INPUTS = 3
"""Arguments by position, of which the third and those after it are masks."""


def _made_names(nodes: Sequence[ast.AST]) -> set[str]:
    """The names of masks that statements give a value: of padding, and of the order of a target text."""
    found = set[str]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                is_padding = MASK.search(name) is not None and not CAUSAL.search(unparse(node))
                found |= {name} if is_padding or TARGET.search(name) else set()
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call()):
                names = {each.id for each in targets if isinstance(each, ast.Name)}
                found |= {name for name in names if TARGET.search(name)}
            case _:
                pass
    return found


def _own_layers(source: Source) -> frozenset[str]:
    """The attributes that hold transformers of torch: `self.encoder = nn.TransformerEncoder(layer, 2)`."""
    return frozenset(
        unparse(node.targets[0])
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and LAYERS.search(unparse(node.value.func))
    )


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
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "ids")]
    optional = OPTIONAL & {each.arg for each in call.keywords if unparse(each.value) not in passed}
    are_ids = "input_ids" in _names(call) or any(IDS.search(unparse(_bare(each))) for each in given)
    return not is_open and not optional and are_ids


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
    """The mask that a function gets, makes, or takes out of a batch, and that nothing reads; empty if there is none."""
    given: set[str] = set()
    if isinstance(scope, ast.FunctionDef) and (_is_forward(source, scope, call) or _is_helper(scope, call)):
        given = {*_parameters(scope)}
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    taken = {name for node in assigned for name in _taken(node)}
    changed = {id(part) for node in assigned for part in _reads_of_itself(node)}
    loads = (node for node in walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    read = {node.id for node in loads if id(node) not in changed}
    moved = {
        node.targets[0].id
        for node in assigned
        if isinstance(node.targets[0], ast.Name)
        if unparse(_bare(node.value)) == node.targets[0].id and _reads(scope, node.targets[0].id) == 1
    }
    return next((name for name in sorted(given | taken) if MASK.search(name) and name not in read - moved), "")


def _taken(node: ast.Assign) -> Iterator[str]:
    """The names of masks that a statement takes out of a batch, or makes: `torch.zeros(…)`, `x, mask, y = batch`."""
    match node.targets[0], node.value:
        case ast.Name(id=name), value if _is_of_batch(value) or _is_made(value):
            yield name
        case ast.Tuple(elts=names), ast.Name() | ast.Call(func=ast.Name(id="tuple")) | ast.GeneratorExp():
            yield from (each.id for each in names if isinstance(each, ast.Name) and "_mask" in each.id)
        case _:
            pass


def _is_made(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and unparse(value.func) in {"torch.zeros", "torch.ones", "torch.zeros_like"}


def _is_helper(scope: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a function that is no method, and answers to no caller of its own, gives a model `input_ids=`."""
    is_method = any(each.arg in {"self", "cls"} for each in scope.args.args[:1])
    return not is_method and scope.name != "forward" and "input_ids" in _names(call)


def _reads_of_itself(node: ast.Assign) -> Iterator[ast.Name]:
    """The names in `mask = mask.view(-1, size)` and `mask[row, :length] = 1`: they only change it."""
    match node.targets:
        case [ast.Subscript(value=ast.Name() as changed)]:
            yield changed
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
