"""Tensors that a network keeps as plain attributes, which `to`, `state_dict` and `parameters` skip."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from lintrain.analysis import loose_parameters, origins
from lintrain.analysis.script_text import networks_of
from lintrain.analysis.whole_numbers import COUNTS, counted_in
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

FACTORIES = frozenset(
    {"zeros", "ones", "arange", "linspace", "logspace", "eye", "full", "rand", "randn", "randint", "randperm"}
    | {"from_numpy", "hann_window", "hamming_window", "bartlett_window", "blackman_window", "kaiser_window"}
    | {"FloatTensor", "Tensor", "LongTensor", "tril_indices", "triu_indices", "empty"}
)
"""Functions of torch that create a tensor from numbers."""

MOVES = frozenset({"to", "cuda", "type_as", "device", "is_cuda", "get_device", "new_tensor"})
"""Attributes by which code handles the device of a tensor itself."""

NO_TENSORS = frozenset({"item", "tolist", "numpy", "size", "shape", "dim", "numel", "dtype", "device", "ndim", "cpu"})
"""Attributes of a tensor that are none, or numbers on the CPU."""

MOVES_ITSELF = frozenset({"to", "cuda", "_apply", "parameters", "named_parameters", "__getattr__", "__setattr__"})
"""Methods of a network with which it may handle its tensors itself."""


@dataclass(frozen=True, slots=True)
class PlainTensor:
    """A tensor that the constructor of a network sets: where, as which attribute of which class, and its code.

    `needs_grad` if it was made to be trained; else `used` is where it meets the inputs of a method.
    """

    location: Location
    owner: str
    name: str
    code: str
    needs_grad: bool
    used: Location | None


def plain_tensors(source: Source) -> list[PlainTensor]:
    """The tensors of a file's networks that are neither parameters nor buffers."""
    return source.cached(_plain_tensors)


def _plain_tensors(source: Source) -> list[PlainTensor]:
    owners = [*networks_of(source), *_plain_parts(source)]
    return [found for node in owners for found in _of_network(source, node)]


def _plain_parts(source: Source) -> list[ast.ClassDef]:
    """The classes without a base that a network of the file makes an attribute of, and calls."""
    inside = [node for network in networks_of(source) for node in walk(network)]
    made = {
        unparse(node.value.func)
        for node in inside
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(isinstance(target, ast.Attribute) for target in node.targets)
    }
    return [node for node in source.nodes_of(ast.ClassDef) if not node.bases and node.name in made and _is_called(node)]


def _is_called(node: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == "__call__" for each in node.body)


def _of_network(source: Source, node: ast.ClassDef) -> Iterator[PlainTensor]:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    init = next((each for each in methods if each.name == "__init__"), None)
    others = [each for each in methods if each.name != "__init__"]
    if init is None or any(each.name in MOVES_ITSELF for each in methods):
        return
    known: set[str] = set()
    moved: dict[str, Location] = {}
    for statement in _statements_of(init.body):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = unparse(statement.targets[0])
        given = moved.get(unparse(statement.value))
        if is_moved_parameter(statement.value) or given is not None:
            moved[target] = given or source.location(statement)
            if target.startswith("self."):
                yield PlainTensor(moved[target], node.name, target[5:], "", True, None)
        known.discard(target)
        learns = loose_parameters.needs_grad(statement.value)
        if not is_tensor(statement.value, known) or (is_moved(statement.value) and not learns):
            continue
        known.add(target)
        if isinstance(statement.targets[0], ast.Attribute) and target.startswith("self."):
            name = statement.targets[0].attr
            found = (
                _learning(source, node, init, statement, name)
                if learns
                else _judged(source, node, others, statement, name)
            )
            if found is not None:
                yield found


def _statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a method in order, those under an `if` or in a loop too."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.For | ast.With):
            yield from _statements_of(statement.body)
            yield from _statements_of(getattr(statement, "orelse", []))


def _learning(
    source: Source, owner: ast.ClassDef, init: ast.FunctionDef, statement: ast.Assign, name: str
) -> PlainTensor | None:
    """The attribute if it was made to be trained, and no optimizer can get it."""
    read = loose_parameters.first_read(source, owner, init, name)
    if read is None:
        return None
    code = unparse(statement.value)
    return PlainTensor(source.location(statement), owner.name, name, code, True, source.location(read))


def _judged(
    source: Source, owner: ast.ClassDef, methods: list[ast.FunctionDef], statement: ast.Assign, name: str
) -> PlainTensor | None:
    """The attribute if the network uses it as it is, and no code handles it in another way."""
    code = unparse(statement.value)
    uses = [each for each in source.nodes_of(ast.Attribute) if each.attr == name]
    inside = {each for each in walk(owner) if isinstance(each, ast.Attribute)}
    stored = [each for each in uses if isinstance(each.ctx, ast.Store)]
    if len(stored) != 1:
        return None
    if any(isinstance(each.value, ast.Attribute) and each.value.attr == name for each in _moving(source)):
        return None
    if any(isinstance(each, ast.Constant) and each.value == name for each in walk(owner)):
        return None
    read = {each for each in inside if each.attr == name and isinstance(each.ctx, ast.Load)}
    if read <= origins.read_by_number(owner) and origins.has_one_axis(source, statement.value):
        return None  # a single number moves by itself
    names = [name, *origins.other_names(owner, name)]
    used = next((use for method in methods for each in names for use in _met(source, owner, method, each)), None)
    if used is None or any(_handles_device(method, name) for method in methods):
        return None
    location = source.location(statement)
    return PlainTensor(location, owner.name, name, code, False, source.location(used))


def _moving(source: Source) -> Iterator[ast.Attribute]:
    return (each for each in source.nodes_of(ast.Attribute) if each.attr in MOVES)


def is_tensor(node: ast.expr, known: Collection[str]) -> bool:
    """Whether an expression certainly creates a tensor with at least one axis, or computes one of such tensors."""
    match node:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return unparse(node) in known
        case ast.Call(func=ast.Name(id="Variable"), args=[inner, *_]):
            return is_tensor(inner, known)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=given):
            is_list = bool(given) and _is_list(given[0])
            return name in FACTORIES or (name in {"tensor", "as_tensor"} and is_list) or _has_tensor(given, known)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="F")), args=given):
            return _has_tensor(given, known)
        case ast.Call(func=ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="torch"), ast.Name(id=chosen)])):
            return "window" in chosen
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name not in NO_TENSORS and is_tensor(owner, known)
        case ast.Subscript(value=owner, slice=ast.Slice() | ast.Tuple()):
            return is_tensor(owner, known)
        case ast.BinOp(left=left, right=right):
            return is_tensor(left, known) or is_tensor(right, known)
        case _:
            return False


def is_moved_parameter(node: ast.expr) -> bool:
    """Whether an expression is `nn.Parameter(…).cuda()`: a copy that is to learn, and is no parameter."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=made) as inner, attr="cuda" | "to")):
            learns = "requires_grad=False" not in map(unparse, inner.keywords)
            return (learns and unparse(made).rpartition(".")[2] == "Parameter") or is_moved_parameter(inner)
        case _:
            return False


def _is_list(node: ast.expr) -> bool:
    """Whether an expression certainly is a list: written out, or added to one."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_list(left) or _is_list(right)
        case ast.BinOp(left=left, op=ast.Mult()):
            return _is_list(left)
        case _:
            return isinstance(node, ast.List | ast.ListComp)


def _has_tensor(given: list[ast.expr], known: Collection[str]) -> bool:
    parts = [part for each in given for part in (each.elts if isinstance(each, ast.List | ast.Tuple) else [each])]
    return any(is_tensor(part, known) for part in parts)


def is_moved(node: ast.expr) -> bool:
    """Whether an expression chooses a device."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr in MOVES)
        or (isinstance(each, ast.keyword) and each.arg == "device")
        or _takes_type_of_other(each)
        for each in walk(node)
    )


def _takes_type_of_other(node: ast.AST) -> bool:
    """Whether a tensor gets the type of another one, which may be that of a GPU: `eye.type(x.type())`."""
    is_typed = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "type"
    return is_typed and unparse(node).endswith(".type())")


def _handles_device(method: ast.FunctionDef, name: str) -> bool:
    """Whether a statement of a method that mentions the attribute moves something, or one moves what is made of it."""
    statements = (each for each in walk(method) if isinstance(each, ast.Assign | ast.Return | ast.Expr | ast.If))
    if any(_mentions(each, name) and _moves_any(each) for each in statements):
        return True
    moving = (each for each in walk(method) if isinstance(each, ast.Attribute) and each.attr in {"to", "cuda"})
    return not _names_for(method, name).isdisjoint(unparse(each.value) for each in moving)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == name for each in walk(node))


def _met(source: Source, owner: ast.ClassDef, method: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """The operations of a method, or of a function of the file that it calls, where the attribute meets the inputs."""
    yield from _met_by_inputs(owner, method, name)
    functions = {each.name: each for each in source.tree.body if isinstance(each, ast.FunctionDef)}
    inputs = inputs_of(method)
    for node in walk(method):
        match node:
            case ast.Call(func=ast.Name(id=called), args=given) if called in functions:
                parameters = [each.arg for each in functions[called].args.args]
                pairs = list(zip(parameters, given, strict=False))
                tensors = {parameter for parameter, each in pairs if _is_the_tensor(each, name)}
                others = {parameter for parameter, each in pairs if tensors_in(each) & inputs} - tensors
                if tensors and others and _meet(functions[called], tensors, others):
                    yield node
            case _:
                pass


def _meet(function: ast.FunctionDef, tensors: set[str], others: set[str]) -> bool:
    """Whether an operation of torch in a function gets one of these parameters together with one of the others."""
    if _moves_any(function):
        return False
    for node in walk(function):
        match node:
            case ast.BinOp(left=left, right=right):
                sides = [left, right]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F"), attr=called)) if called not in MAKES:
                sides = _given(node)
            case _:
                continue
        named = [tensors_in(side) for side in sides]
        if any(each & tensors for each in named) and any(each & others and not each & tensors for each in named):
            return True
    return False


def _moves_any(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr in MOVES for each in walk(node))


def _met_by_inputs(owner: ast.ClassDef, method: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """The operations in a method that get the attribute together with one of its inputs, or with weights."""
    inputs, names = inputs_of(method), _names_for(method, name)
    for node in walk(method):
        match node:
            case ast.BinOp(left=left, right=right):
                sides = [left, right]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F"), attr=called)) if called not in MAKES:
                sides = _given(node)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=layer), args=[only]):
                if _is_the_tensor(only, name, names) and layer in _layers_of(owner):
                    yield node
                continue
            case ast.Call(func=ast.Attribute(value=changed, attr=called)) if called in SAME_DEVICE:
                sides = [changed, *_given(node)]
            case ast.Return(value=ast.Subscript() as returned) if method.name == "forward":
                if _is_the_tensor(returned, name, names):
                    yield returned
                continue
            case _:
                continue
        is_met = any(_is_the_tensor(each, name, names) for each in sides)
        others = (each for each in sides if not _is_the_tensor(each, name, names))
        if is_met and any(tensors_in(each) & inputs for each in others):
            yield node


MAKES = frozenset({"arange", "zeros", "ones", "full"})

SAME_DEVICE = frozenset(
    {"add", "bmm", "div", "dot", "eq", "gather", "ge", "gt", "le", "lerp", "lt", "masked_fill", "matmul", "minimum"}
    | {"maximum", "mm", "mul", "mv", "ne", "pow", "scatter", "scatter_add", "sub", "where", "xlogy", "logaddexp"}
    | {"add_", "div_", "masked_fill_", "mul_", "sub_", "addcmul", "masked_select", "index_select"}
)
"""Methods of a tensor whose arguments must be on its device."""

LAYERS = frozenset({"Embedding", "Linear", "Conv1d", "Conv2d", "LayerNorm", "Bilinear", "EmbeddingBag"})


def _given(call: ast.Call) -> list[ast.expr]:
    """What a call is given, the items of lists and tuples each for itself."""
    given = [*call.args, *(each.value for each in call.keywords)]
    return [part for each in given for part in (each.elts if isinstance(each, ast.List | ast.Tuple) else [each])]


def _layers_of(owner: ast.ClassDef) -> set[str]:
    """The attributes of a network that are layers of torch with weights."""
    found: set[str] = set()
    for node in walk(owner):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                value=ast.Call(func=ast.Attribute(attr=made) | ast.Name(id=made)),
            ) if made in LAYERS:
                found.add(name)
            case _:
                pass
    return found


def _names_for(method: ast.FunctionDef, name: str) -> set[str]:
    """The local names that a method gives the attribute: `mask = self.mask[:length]`."""
    found: set[str] = set()
    for node in walk(method):
        match node:
            case ast.Assign(targets=[ast.Name(id=local)], value=value):
                if _is_the_tensor(value, name, found):
                    found.add(local)
                else:
                    found.discard(local)
            case _:
                pass
    return found


def _is_the_tensor(node: ast.expr, name: str, names: Collection[str] = ()) -> bool:
    """Whether an expression is the attribute or one of its names, seen through methods, slices and arithmetic."""
    match node:
        case ast.Name(id=local):
            return local in names
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return attr == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F")), args=[first]):
            return _is_the_tensor(first, name, names)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)):
            return attr not in NO_TENSORS and _is_the_tensor(owner, name, names)
        case ast.Subscript(value=owner):
            return _is_the_tensor(owner, name, names)
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return _is_the_tensor(left, name, names)
        case ast.UnaryOp(operand=inner) | ast.BinOp(left=inner, right=ast.Constant()):
            return _is_the_tensor(inner, name, names)
        case ast.BinOp(left=ast.Constant(), right=inner):
            return _is_the_tensor(inner, name, names)
        case _:
            return False


def inputs_of(method: ast.FunctionDef) -> set[str]:
    """The first parameter of `forward`, and the names that are computed from it."""
    parameters = [each.arg for each in method.args.args[1:]]
    known = set(parameters[:1]) if method.name in {"forward", "__call__"} else set[str]()
    if not known:
        known = {each for each in parameters if each in {"x", "input", "inputs", "hidden", "features", "z", "h"}}
        known -= counted_in(method)
    for node in walk(method):
        if isinstance(node, ast.Assign) and tensors_in(node.value) & known:
            known |= {name for target in node.targets for name in origins.changed_by(target)}
    return known


def tensors_in(node: ast.expr) -> set[str]:
    """The names in an expression, without those of which only the shape or a number is used."""
    found: set[str] = set()
    pending: list[ast.AST] = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Attribute) and each.attr in NO_TENSORS:
            continue
        if isinstance(each, ast.Call) and unparse(each.func).rpartition(".")[2] in COUNTS:
            continue
        if isinstance(each, ast.Name):
            found.add(each.id)
        pending.extend(ast.iter_child_nodes(each))
    return found
