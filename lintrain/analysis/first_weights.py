"""What code gives the weights of networks in place of numbers of their own: one number, or another network's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.blocks import is_one_scope
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

FILLS = frozenset({"zeros_", "ones_", "constant_"})
"""Functions of `torch.nn.init` that give every weight one number."""

FILLS_ITSELF = frozenset({"fill_", "zero_"})
"""Methods of a weight that do the same."""

LAYERS = lazy_pattern(r"\b(Linear|Conv[123]d|ConvTranspose[123]d|LSTM|GRU|RNN)\b")
OTHERS = lazy_pattern(r"Norm|Embedding|bias|last|final|out_proj|zero_init|residual")
"""Words of what may start from a constant: scales, and layers that end a branch."""

OF_LAYERS = lazy_pattern(r"\.(modules|children|named_modules|named_children)\(\)$")


@dataclass(frozen=True, slots=True)
class Constant:
    """A statement that fills the weights of layers with one number, and what does so to every layer."""

    location: Location
    spread: Location


def constants(source: Source) -> Iterator[Constant]:
    """The statements of a file that give all layers of a network constant weights."""
    yield from source.cached(_constants)


def _constants(source: Source) -> list[Constant]:
    found: list[Constant] = []
    applied = _applied(source)
    for function in source.nodes_of(ast.FunctionDef):
        given = [each.arg for each in function.args.args if each.arg != "self"]
        if function.name in applied and len(given) == 1:
            found.extend(_in(source, function.body, given[0], applied[function.name]))
    for loop in source.nodes_of(ast.For):
        name = _layer_of(source, loop)
        if name:
            found.extend(_in(source, loop.body, name, source.location(loop)))
    return found


def _applied(source: Source) -> dict[str, Location]:
    """The functions that `network.apply` runs on every module, by their names."""
    found: dict[str, Location] = {}
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr="apply"), args=[ast.Name(id=name) | ast.Attribute(attr=name)]):
                found.setdefault(name, source.location(call))
            case _:
                pass
    return found


def _layer_of(source: Source, loop: ast.For) -> str:
    """The name of the layers that a loop goes through; empty for other loops."""
    over, target = unparse(loop.iter), loop.target
    if isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[-1]
    if not isinstance(target, ast.Name):
        return ""
    is_network = OF_LAYERS.search(over) is not None or over in source.cached(_sequences)
    layers = source.cached(_sequences).get(OF_LAYERS.sub("", over), 2)
    return target.id if is_network and layers > 1 else ""


def _sequences(source: Source) -> dict[str, int]:
    """The code of what a file makes as a sequence of layers, with how many of those have weights to fill."""
    return {
        unparse(node.targets[0]): len(LAYERS.findall(unparse(node.value)))
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and unparse(node.value.func).endswith("Sequential")
    }


def _in(source: Source, body: list[ast.stmt], name: str, spread: Location) -> Iterator[Constant]:
    """The fills of a layer's weights in some statements, where a test asks for layers with weights."""
    for statement in body:
        if not isinstance(statement, ast.If) or not _asks_for_layers(statement.test, name):
            continue
        for node in _run_nodes(statement.body, name):
            if isinstance(node, ast.Call) and _filled(node) in {f"{name}.weight", f"{name}.weight.data"}:
                yield Constant(source.location(node), spread)
        rest = statement.orelse
        yield from _in(source, rest, name, spread) if len(rest) == 1 else ()


def _run_nodes(body: list[ast.stmt], name: str) -> list[ast.AST]:
    """The nodes of some statements, without what is switched off by `if False:`, or asks for another kind of layer."""
    nodes = [each for part in body for each in walk(part)]
    asked = f"isinstance({name}, "
    off = {
        id(part)
        for each in nodes
        if isinstance(each, ast.If)
        and ((isinstance(each.test, ast.Constant) and not each.test.value) or unparse(each.test).startswith(asked))
        for statement in each.body
        for part in walk(statement)
    }
    return [each for each in nodes if id(each) not in off]


def _asks_for_layers(test: ast.expr, name: str) -> bool:
    """`isinstance(m, nn.Linear)`, `type(m) == nn.Linear`; a second condition picks some of them."""
    code = unparse(test)
    is_plain = isinstance(test, ast.Call | ast.Compare)
    return is_plain and name in code and LAYERS.search(code) is not None and OTHERS.search(code) is None


def _filled(call: ast.Call) -> str:
    """The code of what a call fills with one number; empty for other calls."""
    match call:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[weight, *_]) if name in FILLS:
            return unparse(weight)
        case ast.Call(func=ast.Attribute(value=weight, attr=name)) if name in FILLS_ITSELF:
            return unparse(weight)
        case _:
            return ""


def shared(source: Source) -> Iterator[tuple[Location, str]]:
    """The weights of a second network that become those of the first, `target.data = weight.data`, and its code."""
    for loop in source.nodes_of(ast.For):
        match loop:
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]),
                iter=ast.Call(func=ast.Name(id="zip"), args=[ast.Call() as one, ast.Call() as other]),
                body=[ast.Assign(targets=[ast.Attribute(value=ast.Name() as target, attr="data")]) as statement],
            ) if unparse(one).endswith(".parameters()") and unparse(other).endswith(".parameters()"):
                names = {unparse(statement.value).removesuffix(".data"), target.id}
                owners = unparse(one if target.id == first else other)
                if names == {first, second} and SECOND.search(owners):
                    yield source.location(statement.value), source.code(source.location(statement.value))
            case _:
                pass


def shared_layers(source: Source) -> Iterator[tuple[Location, str]]:
    """The layers that get the weights of another network without a copy, where both networks run afterwards."""
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr="data") as target], value=ast.Attribute(attr="data") as value):
                one, other = _root_of(target), _root_of(value)
            case _:
                continue
        after = "\n".join(source.lines[node.end_lineno or node.lineno :])
        is_weight = target.value.attr in {"weight", "bias"} if isinstance(target.value, ast.Attribute) else False
        run = all(re.search(rf"(?<![\w.]){name}(?:\.\w+)*\b", after) for name in (one, other))
        if is_weight and one != other and "self" not in (one, other) and run and re.search(r"\.step\(", after):
            yield source.location(value), source.code(source.location(value))


IN_PLACE = frozenset({"mul_", "add_", "sub_", "lerp_", "copy_"})
"""Methods of a tensor that change its numbers."""


def averages(source: Source) -> Iterator[tuple[Location, str]]:
    """The weights that are put into a mapping without a copy, `shadow[n] = p.data`, and changed in place there."""
    changed = set(source.gathered(_changed_in))
    loops = [(each.target, each.iter, each.body) for each in source.nodes_of(ast.For)] if changed else []
    for target, weights, body in loops:
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Subscript(value=kept)], value=value) if unparse(kept) in changed:
                    if _is_weight_of(value, target, weights):
                        yield source.location(value), source.code(source.location(value))
                case _:
                    pass
    for node in source.nodes_of(ast.Assign) if changed else ():
        match node:
            case ast.Assign(
                targets=[kept], value=ast.DictComp(value=value, generators=[ast.comprehension(target, weights)])
            ) if unparse(kept) in changed and _is_weight_of(value, target, weights):
                yield source.location(value), source.code(source.location(value))
            case _:
                pass


def _changed_in(statement: ast.stmt) -> list[str]:
    return [code for each in walk(statement) if isinstance(each, ast.Call) for code in _changed(each)]


def _changed(call: ast.Call) -> Iterator[str]:
    """The code of `shadow` in `shadow[name].mul_(0.99)`."""
    match call.func:
        case ast.Attribute(value=ast.Subscript(value=mapping), attr=name) if name in IN_PLACE:
            yield unparse(mapping)
        case _:
            pass


def _is_weight_of(value: ast.expr, target: ast.expr, weights: ast.expr) -> bool:
    """Whether a value is the very tensor that a loop over `named_parameters()` gives."""
    match target:
        case ast.Tuple(elts=[_, ast.Name(id=name)]) if unparse(weights).endswith(".named_parameters()"):
            return unparse(value) in {name, f"{name}.data", f"{name}.detach()"}
        case _:
            return False


def same_networks(pipeline: Pipeline) -> Iterator[tuple[Location, str, str]]:
    """The network that a second name gets without a copy, where code writes the weights of one into the other."""
    source = pipeline.source
    written = source.cached(_written_pairs)
    for node in source.nodes_of(ast.Assign) if written or source.contains(SEPARATE) else ():
        if not source.once(_is_second_name, node):
            continue
        second, first = unparse(node.targets[0]), unparse(node.value)
        if _is_kept_apart(source, node, second, first):
            yield source.location(node.value), first, second
            continue
        writes = written.get((second, first), [])
        if SECOND.search(second) is None:
            # A name that says nothing may be that of another network elsewhere.
            writes = [call for call in writes if _is_loaded_beside(pipeline, node, call)]
        if writes and _is_network(source, first):
            others = [each for each in source.nodes_of(ast.Assign) if each is not node]
            if not any(second in map(unparse, each.targets) for each in others):
                yield source.location(node.value), first, second


def _is_second_name(node: ast.Assign) -> bool:
    """Whether something gets a second name, by which it would stay as it is: `target_net = net`."""
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Name() | ast.Attribute() as value):
            second, first = unparse(target), unparse(value)
            return SECOND.search(first) is None and "best" not in second.lower()
        case _:
            return False


def _is_kept_apart(source: Source, bound: ast.Assign, second: str, first: str) -> bool:
    """Whether code lists or freezes the weights of `target_encoder` by themselves, which is another name of `encoder`.

    A second value of either name may be a copy.
    """
    name, of = second.rpartition(".")[2], first.rpartition(".")[2]
    is_named = FOLLOWERS.search(name) is not None and name != of and re.search(rf"(?:^|_){of}(?:_|$)", name) is not None
    code = re.escape(second)
    if not is_named or not source.contains(rf"(?<![\w.]){code}\.(?:parameters\(|requires_grad_\(False|update\()"):
        return False
    around = next(
        (each for each in source.nodes_of(ast.ClassDef) if any(one is bound for one in walk(each))), source.tree
    )
    targets = [each for one in walk(around) if isinstance(one, ast.Assign) for each in one.targets]
    assigned = [unparse(each) for one in targets for each in (one.elts if isinstance(one, ast.Tuple) else [one])]
    is_run = source.contains(rf"(?<![\w.]){re.escape(first)}\(")
    return is_run and assigned.count(second) == 1 and assigned.count(first) == 1


def _is_network(source: Source, code: str) -> bool:
    return source.contains(rf"(?<![\w.]){re.escape(code)}\.(?:parameters|train|state_dict)\(")


def _is_loaded_beside(pipeline: Pipeline, bound: ast.Assign, call: ast.Call) -> bool:
    """Whether `second.load_state_dict(first.state_dict())` is in the scope that binds both names."""
    source = pipeline.source
    is_loaded = isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict"
    return is_loaded and is_one_scope(pipeline, source.location(bound), source.location(call))


def _written_pairs(source: Source) -> dict[tuple[str, str], list[ast.Call]]:
    """The calls that write the weights of one network into another, by the code of both, the one that changes first.

    `second.load_state_dict(first.state_dict())`, `zip(second.parameters(), first.parameters())`, `update(a, b)`.
    """
    found: dict[tuple[str, str], list[ast.Call]] = {}
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict"), args=[state]):
                code = unparse(state)
                pairs = [(unparse(owner), code.removesuffix(".state_dict()"))] if code.endswith(".state_dict()") else []
            case ast.Call(args=[_, _, *_]) if UPDATES.search(unparse(call.func)) is not None:
                codes = sorted({unparse(each).removesuffix(".parameters()") for each in call.args})
                pairs = [(codes[0], codes[1]), (codes[1], codes[0])] if len(codes) == 2 else []
            case _:
                continue
        for pair in pairs:
            found.setdefault(pair, []).append(call)
    return found


UPDATES = re.compile(r"^zip$|update|copy|ema|sync", re.IGNORECASE)
"""Calls that write the weights of one network into another."""


def _root_of(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


SEPARATE = lazy_pattern(r"\b\w*(?:target|ema|teacher|momentum|shadow)\w*\.(?:parameters|requires_grad_|update)\(")
FOLLOWERS = lazy_pattern(r"(?:^|_)(?:target|ema|teacher|momentum|shadow)(?:_|$)")
"""Names of networks that follow another one with weights of their own."""

SECOND = re.compile(r"target|ema|old|prev|teacher|best|copy|avg|average|shadow|momentum|_k\b|fast|clone", re.IGNORECASE)
"""Names of networks that shall stay as they are while the other one trains."""
