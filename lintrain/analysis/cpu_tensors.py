"""Tensors that a function makes on the CPU, and uses together with what was moved to another device."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis import device_moves, own_networks
from lintrain.analysis.plain_tensors import (
    MOVES,
    NO_TENSORS,
    SAME_DEVICE,
    inputs_of,
    is_moved,
    is_tensor,
    tensors_in,
)
from lintrain.analysis.script_text import networks_of
from lintrain.model.location import Location
from lintrain.source.nodes import is_within, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ON_DEVICE = lazy_pattern(r"cuda|device|gpu|rank", re.IGNORECASE)
"""Code of a device other than the CPU."""

MAY_MOVE = lazy_pattern(r"cuda|\.to\(|device|accelerat|lightning|Trainer\b|\bmps\b", re.IGNORECASE)
MOVES_ALL = lazy_pattern(r"set_default_(tensor_type|device)|with torch\.device|hpu|xla_device|torch\.onnx\.op")
MOVES_NOTHING = lazy_pattern(
    r"(?:\bdevice\s*=\s*)?\b(?!(?:self|args|opts?|config|cfg|hparams|params|torch)\.)[a-z]\w*\.device\b"
    r"|\.to\(\s*(?:dtype\s*=\s*)?torch\.(?:b?float|double|half|u?int|long|bool)\w*\s*\)"
)
"""The device of a tensor, as in `torch.arange(4, device=x.device)`, and another number format."""

TRAINS = lazy_pattern(r"\.backward\(|\.fit\(|\.train\(\)")

BATCH_METHODS = frozenset(
    {"training_step", "validation_step", "test_step", "handle_batch", "_handle_batch", "compute_loss", "on_batch_start"}
)
"""Methods to which a framework passes a batch that it has moved."""


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """A tensor that a function makes on the CPU, with its code, and where it meets something that was moved."""

    location: Location
    code: str
    used: Location
    by: str


def local_tensors(source: Source) -> list[LocalTensor]:
    """The tensors of a file's functions that are made on the CPU and used with what may be on a GPU."""
    return source.cached(_local_tensors)


def _local_tensors(source: Source) -> list[LocalTensor]:
    if source.contains(MOVES_ALL):
        return []
    if source.contains(TRAINS) and (not _may_move(source.text) or _stays_on_cpu(source)):
        return []
    lines = _lines_of_torch(source)
    functions = [each for each in source.nodes_of(ast.FunctionDef) if is_within(lines, each)] if lines else []
    if not functions:
        return []
    layers = {
        node: own_networks.parts_with_weights(source, node)
        for node in networks_of(source)
        if not _is_transform(source, node)
    }
    owners = {method: node for node in layers for method in node.body}
    found: list[LocalTensor] = []
    for function in functions:
        owner = owners.get(function)
        if function.name in _reached_while_made(owner) if owner else function.name == "__init__":
            continue
        if not _may_make_tensor(source.code(source.location(function))):
            continue
        if owner is None or not own_networks.is_before_the_move(owner, function):
            found.extend(_of_function(source, function, owner, layers.get(owner) if owner else None))
    return found


def _may_move(text: str) -> bool:
    """Whether any line of a file may move something to another device."""
    for found in MAY_MOVE.finditer(text):
        begin, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        if MAY_MOVE.search(MOVES_NOTHING.sub("", text[begin : end if end >= 0 else len(text)])):
            return True
    return False


NEEDS_GPU = r"(?i)cuda|accelerat|lightning|trainer\b|\bmps\b|device_map|argparse"


def _stays_on_cpu(source: Source) -> bool:
    """Whether all moves of a file go to the CPU: `device = "cpu"` at its top."""
    if source.contains(NEEDS_GPU):
        return False
    moves = [
        each for each in source.nodes_of(ast.Call) if isinstance(each.func, ast.Attribute) and each.func.attr == "to"
    ]
    return bool(moves) and not any(device_moves.goes_to_device(source, each) for each in moves)


def _reached_while_made(owner: ast.ClassDef) -> frozenset[str]:
    """The methods of a network that only its constructor calls, itself included: nothing is moved before it ends."""
    called = {
        each.name: {
            part.attr
            for part in walk(each)
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"
        }
        for each in owner.body
        if isinstance(each, ast.FunctionDef)
    }
    made = {"__init__"}
    while True:
        around = {name for name, used in called.items() if name in made for name in used & called.keys()} | made
        others = {name for caller, used in called.items() if caller not in around for name in used}
        if around - others <= made:
            return frozenset(made)
        made |= around - others


NO_MAKERS = frozenset({"no_grad", "nn", "device", "save", "load", "cuda", "optim", "utils", "backends"})
"""What torch has besides functions that make tensors."""


def _lines_of_torch(source: Source) -> list[int]:
    """The lines that may make a tensor with a function of torch: only such a tensor is certainly on the CPU."""
    others = {id(node.value) for node in source.nodes_of(ast.Attribute) if node.attr in NO_MAKERS}
    return sorted(each.lineno for each in source.nodes_of(ast.Name) if each.id == "torch" and id(each) not in others)


def _may_make_tensor(code: str) -> bool:
    """Whether a function may make a tensor that stays on the CPU: one of a GPU would raise an error at `numpy()`."""
    return "torch" in code and (".numpy()" not in code or ".cpu()" in code)


def _of_function(
    source: Source, function: ast.FunctionDef, owner: ast.ClassDef | None, layers: frozenset[str] | None
) -> Iterator[LocalTensor]:
    """`layers` are those with weights of the network that the function is a method of; None if it is no method."""
    nodes = walk(function)
    made = _made_on_cpu(nodes, own_networks.methods_on_cpu(owner) if owner else {})
    met = [
        (use, sides)
        for use, sides in _meetings(nodes, layers or frozenset())
        if any(_cpu_tensor(each, made) for each in sides)
    ]
    if not met:
        return
    given = _batch_names(function) | (inputs_of(function) if layers is not None else set[str]())
    first, without_gpu = _moved_names(nodes, given), _without_gpu(nodes)
    # A parameter that is given a tensor of the CPU if it is None.
    bound = [pair for node in nodes if isinstance(node, ast.Assign) for pair in _pairs(node.targets[0], node.value)]
    fresh = ((name, value) for name, value in bound if name in given and name not in tensors_in(value))
    left = {name for name, value in fresh if isinstance(value, ast.Call) and _cpu_tensor(value, made) is not None}
    for use, sides in met:
        if id(use) in without_gpu:
            continue
        moved = given | {name for name, line in first.items() if line < use.lineno}
        moved -= (_bound_around(nodes, use) | left) if moved else set()
        for side in sides:
            tensor = _cpu_tensor(side, made)
            others = [each for each in sides if each is not side]
            is_layer = layers is not None and isinstance(use, ast.Call) and unparse(use.func) in layers
            if tensor is not None and (is_layer or any(_is_moved_tensor(each, moved, made) for each in others)):
                by = unparse(use.func) if isinstance(use, ast.Call) else ""
                yield LocalTensor(source.location(tensor), unparse(tensor), source.location(use), by)


NAMES_GPU = lazy_pattern(r"cuda|gpu|\bmps\b|\bcpu\b", re.IGNORECASE)


def _without_gpu(nodes: Sequence[ast.AST]) -> set[int]:
    """The nodes that only run without a GPU: the `else` of `if cuda:`, the body of `if device.type == "cpu":`."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp) and NAMES_GPU.search(test := unparse(node.test)):
            is_negated = test.startswith("not ") or "!=" in test or " is not " in test
            branch = node.body if ("cpu" in test.lower()) != is_negated else node.orelse
            found.update(id(part) for each in (branch if isinstance(branch, list) else [branch]) for part in walk(each))
    return found


def _bound_around(nodes: Sequence[ast.AST], use: ast.expr) -> set[str]:
    """The names that are those of a comprehension around an operation, whatever the function calls so elsewhere."""
    around = [each for each in nodes if isinstance(each, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp)]
    targets = [made.target for each in around if use in walk(each) for made in each.generators]
    return {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)}


def _cpu_tensor(node: ast.expr, made: Mapping[str, ast.expr]) -> ast.expr | None:
    """The expression that makes the tensor on the CPU that an operand is, seen through methods and slices."""
    match node:
        case ast.Name(id=name):
            return made.get(name)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"))):
            return node if is_tensor(node, ()) and not is_moved(node) else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")) as method):
            return made.get(unparse(method))
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)):
            return None if attr in NO_TENSORS | MOVES else _cpu_tensor(owner, made)
        case ast.Subscript(value=owner):
            return _cpu_tensor(owner, made)
        case ast.BinOp(left=left, right=right):
            return next((found for each in (left, right) if (found := _cpu_tensor(each, made))), None)
        case _:
            return None


def _made_on_cpu(nodes: Sequence[ast.AST], methods: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """The names that a function binds once, to a tensor on the CPU that no code moves, with what makes it.

    `methods` are what it may call for such a tensor, which the result has too.
    """
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    if not methods and not any(_may_be_made(node.value) for node in assigned):
        return {}
    stores = Counter(each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    handled = {
        part.id
        for each in nodes
        if isinstance(each, ast.Attribute) and each.attr in MOVES
        for part in walk(each.value)
        if isinstance(part, ast.Name)
    }
    made: dict[str, ast.expr] = dict(methods)
    for node in assigned:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if stores[name] == 1 and name not in handled:
                if methods and isinstance(value, ast.Call) and unparse(value.func) in methods:
                    made[name] = methods[unparse(value.func)]
                elif is_tensor(value, made) and not is_moved(value):
                    made[name] = value
            case _:
                pass
    return made


def _may_be_made(value: ast.expr) -> bool:
    """Whether an expression makes a tensor, of other tensors too, before any name is known to be one."""
    return is_tensor(value, ()) and not is_moved(value)


def _meetings(nodes: Sequence[ast.AST], layers: frozenset[str]) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """The operations of a function that need all their operands on one device."""
    for node in nodes:
        match node:
            case ast.BinOp(left=left, right=right):
                yield node, [left, right]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=attr), args=given) if attr in MEETS:
                yield node, [part for each in given for part in _parts(each)]
            case ast.Call(func=ast.Attribute() | ast.Name() as func, args=given) if layers and unparse(func) in layers:
                yield node, [part for each in given for part in _parts(each)]
            case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=given) if attr in SAME_DEVICE:
                yield node, [owner, *given]
            case _:
                pass


MEETS = frozenset(
    {"cat", "concat", "stack", "matmul", "bmm", "mm", "where", "add", "mul", "addmm", "baddbmm", "einsum"}
)
"""Functions of torch that refuse tensors on several devices."""


def _parts(node: ast.expr) -> list[ast.expr]:
    return [part for each in node.elts for part in _parts(each)] if isinstance(node, ast.List | ast.Tuple) else [node]


def _is_moved_tensor(node: ast.expr, moved: set[str], made: Mapping[str, ast.expr]) -> bool:
    """Whether an operand is computed from what was moved, and from nothing that stayed on the CPU."""
    names = tensors_in(node)
    return bool(names & moved) and not names & made.keys() and not _counts(node)


def _counts(node: ast.expr) -> bool:
    """Whether an expression is a number on the CPU: `x.shape[0]`, `len(x)`."""
    match node:
        case ast.Attribute(attr=attr) | ast.Call(func=ast.Attribute(attr=attr)) if attr in NO_TENSORS:
            return True
        case ast.Subscript(value=owner):
            return _counts(owner)
        case ast.Call(func=ast.Name(id=name)):
            return name in {"len", "int", "float", "range", "min", "max", "sum"}
        case _:
            return False


def _moved_names(nodes: Sequence[ast.AST], given: set[str]) -> dict[str, int]:
    """The names that a function binds to something that it moves, each with the first line that does.

    `y.to(x.device)` moves only if `x` is one of them, or of those given: else both may be on the CPU.
    """
    found: dict[str, int] = {}
    assigned = [each for each in nodes if isinstance(each, ast.Assign)]
    for node in sorted(assigned, key=lambda each: each.lineno):
        for name, value in (pair for target in node.targets for pair in _pairs(target, node.value)):
            beside = _moved_beside(value)
            if _moves_to_device(value) and (beside is None or beside in given or beside in found):
                found[name] = min(found.get(name, node.lineno), node.lineno)
    return found


def _moved_beside(node: ast.expr) -> str | None:
    """The plain name of the tensor whose device another one is moved to: `x` in `y.to(x.device)`."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr="to"),
            args=[ast.Attribute(value=ast.Name(id=name), attr="device") as place, *_],
        ) if MOVES_NOTHING.fullmatch(unparse(place)):
            return name
        case _:
            return None


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for each, given in zip(targets, values, strict=True):
                yield from _pairs(each, given)
        case ast.Tuple(elts=targets), ast.ListComp(elt=item) | ast.GeneratorExp(elt=item):
            yield from ((each.id, item) for each in targets if isinstance(each, ast.Name))
        case ast.Tuple(), ast.Call(func=ast.Name(id="tuple" | "list"), args=[ast.GeneratorExp() as items]):
            yield from _pairs(target, items)
        case ast.Name(id=name), _:
            yield name, value
        case _:
            pass


def _moves_to_device(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[place, *_]):
            return ON_DEVICE.search(unparse(place)) is not None
        case ast.Call(func=ast.Attribute(value=owner, attr="float" | "long" | "half" | "detach")):
            return _moves_to_device(owner)
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[ast.GeneratorExp() | ast.ListComp() as items]):
            return _moves_to_device(items.elt)
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item) | ast.DictComp(value=item):
            return _moves_to_device(item)
        case _:
            return False


def _batch_names(function: ast.FunctionDef) -> set[str]:
    """The names that a method gets from a batch that a framework has moved."""
    if function.name not in BATCH_METHODS:
        return set()
    known = {each.arg for each in function.args.args if each.arg in {"batch", "inputs"}}
    for node in walk(function):
        match node:
            case ast.Assign(targets=[target], value=value) if tensors_in(value) & known or _is_part_of_batch(value):
                known |= {part.id for part in walk(target) if isinstance(part, ast.Name)}
            case _:
                pass
    return known


def _is_part_of_batch(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "batch"


def _is_transform(source: Source, owner: ast.ClassDef) -> bool:
    """Whether a class changes single rows, which are on the CPU: it replaces `__call__`, or is part of a `Compose`."""
    methods = {each.name for each in owner.body if isinstance(each, ast.FunctionDef)}
    if "__call__" in methods and "forward" not in methods:
        return True
    return owner.name in source.cached(_composed)


def _composed(source: Source) -> frozenset[str]:
    """The names in the calls of `Compose`."""
    calls = (each for each in source.nodes_of(ast.Call) if unparse(each.func).rpartition(".")[2] == "Compose")
    return frozenset(part.id for each in calls for part in walk(each) if isinstance(part, ast.Name))
