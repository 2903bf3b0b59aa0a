"""Forms of tensor code that go wrong as they are written, whatever values flow through them.

Logarithms of probabilities, views of permuted tensors, and tensors that are assigned to the weights of layers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.small_numbers import is_small, last_value
from lintrain.model.location import Location
from lintrain.source.by_name import scopes_naming
from lintrain.source.nodes import is_within, own_nodes, unparse, walk, whole_number
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TORCH = frozenset({"torch", "F", "nn.functional", "torch.nn.functional", "functional"})
"""Modules whose functions get a tensor as their first argument."""

STABLE = {"sigmoid": "logsigmoid", "softmax": "log_softmax"}
"""What computes the logarithm of each function without an underflow."""


@dataclass(frozen=True, slots=True)
class WrittenLog:
    """A logarithm of probabilities: where, their function, and whether it is that of `1 - sigmoid(x)`."""

    location: Location
    function: str
    is_complement: bool


def logs_of_probabilities(source: Source) -> Iterator[WrittenLog]:
    """The logarithms of a sigmoid or softmax that nothing keeps away from zero."""
    for scope in scopes_naming(source, "log"):
        bound = _probabilities_by_name(scope)
        for node in own_nodes(scope):
            inside = _argument_of(node, "log")
            if inside is None:
                continue
            is_complement = False
            match inside:
                case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=right):
                    inside, is_complement = right, True
                case _:
                    pass
            function = _probability(inside) or (bound.get(inside.id) if isinstance(inside, ast.Name) else None)
            is_stable = is_complement if function == "softmax" else _is_of_small_number(scope, inside)
            if function is not None and not is_stable and isinstance(node, ast.Call):
                yield WrittenLog(source.location(node), function, is_complement)


def _is_of_small_number(scope: ast.AST, probability: ast.expr) -> bool:
    """Whether a sigmoid is one of a number that is small by itself, such as the cosine of two vectors."""
    if isinstance(probability, ast.Name):
        probability = last_value(scope, probability) or probability
    given = _argument_of(probability, "sigmoid")
    return given is not None and is_small(scope, given, 4)


def _argument_of(node: ast.AST, name: str) -> ast.expr | None:
    """The tensor that a function of torch, or the method of that name, is applied to."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=given) if attr == name:
            if unparse(owner) in TORCH:
                return given[0] if given else None
            is_module = isinstance(owner, ast.Name) and owner.id in NO_TENSORS
            return None if is_module else owner
        case _:
            return None


NO_TENSORS = frozenset({"np", "numpy", "math", "tf", "jnp", "cmath", "logger", "wandb", "self", "K", "keras", "scipy"})
"""Names with a function or method of the same name that gets no tensor of torch."""


def _probability(node: ast.expr) -> str | None:
    """`sigmoid` or `softmax` if an expression certainly is one of torch, else None."""
    for name in STABLE:
        if _argument_of(node, name) is not None:
            return name
    return None


def _probabilities_by_name(scope: ast.AST) -> dict[str, str]:
    """The names that a scope binds once, to a sigmoid or softmax."""
    found: dict[str, str] = {}
    stored: list[str] = []
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.append(node.id)
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (function := _probability(value)) is not None:
                found[name] = function
            case _:
                pass
    return {name: function for name, function in found.items() if stored.count(name) == 1}


@dataclass(frozen=True, slots=True)
class PermutedView:
    """A `view` of a tensor whose axes were reordered: where, and where they were."""

    location: Location
    permuted: Location
    changed: str


REORDERS = frozenset({"permute", "transpose", "swapaxes", "swapdims", "movedim", "t", "mT", "T"})


def views_of_permuted(source: Source) -> Iterator[PermutedView]:
    """The calls of `view` that join axes which do not follow each other in memory, so that torch refuses them."""
    lines = sorted(node.lineno for node in source.nodes_of(ast.Attribute) if node.attr == "view")
    functions = (each for each in source.nodes_of(ast.FunctionDef) if is_within(lines, each))
    for scope in (source.tree, *functions) if lines else ():
        nodes = own_nodes(scope)
        views = [
            (node, node.func.value)
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view"
        ]
        if not views or len(nodes) > MOST_NODES:
            continue
        orders = _orders_by_name(nodes)
        for view, owner in views:
            made = orders.get(owner.id) if isinstance(owner, ast.Name) else None
            changed = made if made is not None else owner
            groups = _runs_in_memory(changed, nodes)
            sizes = _sizes_of(view)
            if groups is None or sizes is None or sizes >= groups or _is_reordered_before(changed, nodes):
                continue
            yield PermutedView(source.location(view), source.location(changed), unparse(changed))


MOST_NODES = 20_000
"""Nodes of a function that is looked through; a longer one is generated."""


def _orders_by_name(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """The reordered tensors by the only name that they are bound to."""
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    found: dict[str, ast.expr] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if stored.count(name) == 1:
                found[name] = value
            case _:
                pass
    return found


def _is_reordered_before(changed: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Whether a tensor may have been reordered already, so that this puts its axes back into their order."""
    inner = changed.func.value if isinstance(changed, ast.Call) and isinstance(changed.func, ast.Attribute) else changed
    reordered = set[str]()
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value) if node.lineno < changed.lineno:
                if _reorders(value, reordered):
                    reordered.update(
                        each.id for target in targets for each in walk(target) if isinstance(each, ast.Name)
                    )
            case _:
                pass
    return _reorders(inner, reordered)


def _reorders(node: ast.expr, reordered: set[str]) -> bool:
    """Whether an expression reorders axes, or has a name for a tensor whose axes were."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr in REORDERS)
        or (isinstance(each, ast.Name) and each.id in reordered)
        for each in walk(node)
    )


def _sizes_of(view: ast.Call) -> int | None:
    """How many axes a call of `view` gives; None for a dtype, a tuple in a name, or starred sizes."""
    if view.keywords or not view.args or any(isinstance(each, ast.Starred) for each in view.args):
        return None
    if len(view.args) > 1:
        return len(view.args)
    match view.args[0]:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if not any(
            isinstance(each, ast.Starred) for each in elements
        ):
            return len(elements)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return 1
        case _:
            return None


def _runs_in_memory(changed: ast.expr, nodes: Sequence[ast.AST]) -> int | None:
    """The fewest axes that a reordered tensor can be viewed with: runs of axes that follow each other in memory."""
    match changed:
        case ast.Call(func=ast.Attribute(attr="t"), args=[], keywords=[]):
            return 2
        case ast.Call(func=ast.Attribute(attr="permute"), args=given, keywords=[]):
            order = _order_of(given, nodes)
            return None if order is None else _runs(order)
        case ast.Call(func=ast.Attribute(attr="transpose" | "swapaxes" | "swapdims"), args=given, keywords=[]):
            axes = [whole_number(each) for each in given]
            if len(axes) != SWAPPED or None in axes:
                return None
            first, second = sorted(axis for axis in axes if axis is not None)
            if first >= 0:
                order = list(range(second + 1))
                order[first], order[second] = second, first
                return _runs(order)
            return SWAPPED if second < 0 and first != second else None
        case _:
            return None


SWAPPED = 2


def _order_of(given: Sequence[ast.expr], nodes: Sequence[ast.AST]) -> list[int] | None:
    """The axes that `permute` is given, as far as they certainly are: `(1, 0) + tuple(range(2, x.dim()))` begins so."""
    match given:
        case [ast.Tuple(elts=elements) | ast.List(elts=elements)]:
            given = elements
        case [ast.Name(id=name)]:
            bound = [node.value for node in nodes if isinstance(node, ast.Assign) and _binds(node, name)]
            return _order_of(bound, nodes) if len(bound) == 1 and not isinstance(bound[0], ast.Name) else None
        case [ast.BinOp(left=ast.Tuple(elts=elements), op=ast.Add(), right=ast.Call())]:
            given = [*elements, ast.Constant(len(elements))]
        case _:
            pass
    order = [whole_number(each) for each in given]
    known = [axis for axis in order if axis is not None]
    return known if len(known) == len(order) > 1 and sorted(known) == list(range(len(known))) else None


def _binds(node: ast.Assign, name: str) -> bool:
    match node.targets:
        case [ast.Name(id=bound)]:
            return bound == name
        case _:
            return False


def _runs(order: Sequence[int]) -> int:
    return len(order) - sum(following == axis + 1 for axis, following in pairwise(order))


@dataclass(frozen=True, slots=True)
class TensorForParameter:
    """An assignment of a tensor to a weight of a layer: where, which one, and the code of the tensor."""

    location: Location
    target: str
    value: Location
    code: str


def tensors_for_parameters(source: Source) -> Iterator[TensorForParameter]:
    """The assignments of a new tensor to the weight or bias of a layer, which the layer refuses."""
    for scope in scopes_naming(source, "weight", "bias"):
        nodes = own_nodes(scope)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Attribute(value=owner, attr="weight" | "bias") as target], value=value):
                    layer = unparse(owner)
                    if _is_new_tensor(value) and layer != "self" and _is_layer(source, scope, nodes, owner):
                        yield TensorForParameter(
                            source.location(node), unparse(target), source.location(value), unparse(value)
                        )
                case _:
                    pass


NEW = frozenset(
    {"full", "zeros", "ones", "randn", "rand", "tensor", "eye", "zeros_like", "ones_like", "full_like", "empty"}
    | {"randn_like", "rand_like", "from_numpy", "FloatTensor", "Tensor", "arange", "cat", "stack"}
)


def _is_new_tensor(node: ast.expr) -> bool:
    """Whether an expression certainly gives a tensor that is no parameter."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
            return name in NEW
        case ast.Call(func=ast.Attribute(value=owner, attr="to" | "cuda" | "float" | "clone" | "detach")):
            return _is_new_tensor(owner) or (isinstance(owner, ast.Attribute) and owner.attr in {"weight", "bias"})
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() | ast.Add() | ast.Sub(), right=right):
            return _is_new_tensor(left) or _is_new_tensor(right)
        case _:
            return False


LAYER = lazy_pattern(r"^(?:torch\.)?nn\.(?:Conv|Linear|LayerNorm|BatchNorm|Embedding|GroupNorm|Bilinear|InstanceNorm)")
INITIALIZES = lazy_pattern(r"^(?:torch\.)?(?:nn\.)?init\.\w+_$")


def _is_layer(source: Source, scope: ast.AST, nodes: Sequence[ast.AST], owner: ast.expr) -> bool:
    """Whether an expression certainly is a layer: it is made here, or its weights are initialized here."""
    written = unparse(owner)
    if isinstance(scope, ast.FunctionDef) and any(
        isinstance(node, ast.Call) and unparse(node.func).endswith("register_parameter") for node in nodes
    ):
        return False
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=made)) if unparse(target) == written:
                if LAYER.match(unparse(made)):
                    return True
            case ast.Call(func=called, args=[ast.Attribute(value=layer, attr="weight" | "bias"), *_]):
                if unparse(layer) == written and INITIALIZES.match(unparse(called)):
                    return True
            case _:
                pass
    kept = rf"(?m)^\s*{re.escape(written)}\s*=\s*(?:torch\.)?nn\.(?:Conv\dd|Linear|LayerNorm|BatchNorm\dd|Embedding)\("
    return isinstance(owner, ast.Attribute) and source.contains(kept)


LOSS = lazy_pattern(r"(?i)(?:^|[^a-z])(?:\w*_)?(?:loss(?:es)?|nll|xent|cross_?entropy|ce)(?:$|[^a-z])")
PERPLEXITY = lazy_pattern(r"(?i)perplexity|ppl")
POWERS = frozenset({"pow", "power", "float_power"})


def powers_of_two_of_losses(source: Source) -> Iterator[Location]:
    """The powers of 2 whose exponent names a loss, in a statement that names a perplexity."""
    for node in source.nodes_of(ast.BinOp, ast.Call):
        exponent = _exponent_of_two(node)
        if exponent is None or LOSS.search(unparse(exponent)) is None:
            continue
        line = source.lines[node.lineno - 1]
        if PERPLEXITY.search(line) is not None:
            yield source.location(node)


def _exponent_of_two(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.BinOp(left=ast.Constant(value=2 | 2.0), op=ast.Pow(), right=exponent):
            return exponent
        case ast.Call(func=ast.Attribute(attr="exp2"), args=[exponent]):
            return exponent
        case ast.Call(func=ast.Attribute(attr=name), args=[base, exponent]) if name in POWERS:
            digits = [each.value for each in walk(base) if isinstance(each, ast.Constant)]
            return exponent if digits in ([2], [2.0]) else None
        case _:
            return None


MAKES_ROWS = lazy_pattern(
    r"\bFlatten\(\)|\bBatchNorm\dd\(|\.view\(-1, |\.(?:view|reshape)\(\w+\.(?:size\(0\)|shape\[0\]), -1\)|"
    r"flatten\((?:\w+, )?(?:start_dim=)?1\)"
)
"""Code after which the first axis is that of the rows."""


def softmaxes_over_rows(source: Source) -> Iterator[ast.Call]:
    """The softmaxes over axis 0 that end a network whose first axis is certainly that of the rows."""
    for call in source.nodes_of(ast.Call):
        layers = call.args if last_name(call.func) == "Sequential" else []
        last = layers[-1] if layers else None
        if isinstance(last, ast.Call) and is_over_rows(last) and MAKES_ROWS.search(" ".join(map(unparse, layers))):
            yield last
    for owner in source.nodes_of(ast.ClassDef):
        last = next(
            (last_call(each) for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "forward"),
            None,
        )
        if last is not None and is_over_rows(last) and MAKES_ROWS.search(unparse(owner)):
            yield last


def last_call(forward: ast.FunctionDef) -> ast.Call | None:
    """The call whose result a forward pass returns, perhaps under the name that the statement before gives it."""
    match forward.body[-2:]:
        case [*_, ast.Return(value=ast.Call() as call)]:
            return call
        case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call), ast.Return(value=ast.Name(id=given))]:
            return call if name == given else None
        case _:
            return None


def is_over_rows(call: ast.Call) -> bool:
    """Whether a call is a softmax over axis 0."""
    name = last_name(call.func)
    given = [*call.args[name[:1].islower() :], *(each.value for each in call.keywords if each.arg == "dim")]
    is_softmax = name in {"Softmax", "LogSoftmax", "softmax", "log_softmax"}
    return is_softmax and any(isinstance(each, ast.Constant) and each.value == 0 for each in given)
