"""Weights that code keeps for later without a copy: they change with the model that trains on."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from lintrain.analysis import kept_uses, origins
from lintrain.analysis.kept_uses import BEST, TRAINS, Loop
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

OTHER_STATES = re.compile(r"opt|sched|scaler|sampler|loader", re.IGNORECASE)
"""Owners whose state is not the weights of a model."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A model's weights, or the model, under another name: where, the code, and where they are used later."""

    location: Location
    code: str
    name: str
    used: Location
    is_model: bool


def aliased(pipeline: Pipeline) -> Iterator[Alias]:
    """What is kept of a model while it trains on, and is used afterwards as if it were what it was then."""
    source = pipeline.source
    yield from _in_mappings(pipeline)
    yield from _in_attributes(source)
    for node in source.nodes_of(ast.Assign):
        for name, value in source.once(_kept_under_names, node):
            yield from _under_name(pipeline, node, name, value)


def _kept_under_names(node: ast.Assign) -> list[tuple[str, ast.expr]]:
    """The names that may keep weights of a model from an assignment, or a model, with what they are given."""
    return [(each.id, value) for each, value in _pairs(node) if isinstance(each, ast.Name) and _keeps(each, value)]


def _keeps(name: ast.Name, value: ast.expr) -> bool:
    is_best = isinstance(value, ast.Name) and BEST.search(name.id) is not None
    return is_best or bool(_owner_of_weights(value) or _weights_in(value)) or _is_list_of_weights(value)


def _under_name(pipeline: Pipeline, node: ast.Assign, name: str, value: ast.expr) -> Iterator[Alias]:
    source, owner = pipeline.source, _owner_of_weights(value)
    weights, is_list = _weights_in(value), _is_list_of_weights(value)
    scope = blocks.scope_of(pipeline, source.location(node))
    if weights:
        used = _compared_again(source, scope, node, name, weights)
    elif is_list:
        used = None if origins.is_of_copy(source, value) else _compared_later(source, scope, node, name)
    elif owner:
        used = _loaded_again(source, scope, node, name, owner) or _compared_later(source, scope, node, name)
        used = used or (kept_uses.used_as_best(source, scope, node, name, owner) if BEST.search(name) else None)
    else:
        used = kept_uses.used_as_best(source, scope, node, name, unparse(value))
    if used is not None:
        yield _alias(source, value, name, used, is_model=isinstance(value, ast.Name))


KEEPS = re.compile(r"=\s*[\w.]+\.state_dict\(\)|best_\w*\s*=\s*(model|net)\b")


def may_keep(source: Source) -> bool:
    """Whether a file that trains nothing itself may keep the best weights of a model."""
    return source.contains(KEEPS)


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment gives to what: also one by one, `best, weights = loss, model.state_dict()`."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=False)
        case ast.Assign(targets=[target]):
            yield target, node.value
        case _:
            pass


def _alias(source: Source, value: ast.expr, name: str, used: ast.expr, *, is_model: bool = False) -> Alias:
    location = source.location(value)
    return Alias(location, source.code(location), name, source.location(used), is_model)


def _in_attributes(source: Source) -> Iterator[Alias]:
    """Weights that an object keeps where a score improves, `self.state = model.state_dict()`, and loads again."""
    called = calls_of(source, ("load_state_dict",))
    loads = [each for each in called if isinstance(each.func, ast.Attribute) and each.args]
    for test in source.nodes_of(ast.If) if loads else ():
        nodes = [node for node in test.body if isinstance(node, ast.Assign)] if _compares(test.test) else []
        for target, value in (pair for node in nodes for pair in _pairs(node)):
            match target:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if _owner_of_weights(value):
                    used = next((each for each in loads if unparse(each.args[0]).endswith(f".{name}")), None)
                case _:
                    continue
            if used is not None:
                yield _alias(source, value, f"self.{name}", used)


def kept_by_name(pipeline: Pipeline) -> Iterator[Alias]:
    """The weights that a loop puts into a dictionary without a copy, and that are compared after training."""
    source = pipeline.source
    for loop in source.nodes_of(ast.For):
        if not unparse(loop.iter).endswith((".named_parameters()", ".state_dict().items()")):
            continue
        for node in loop.body:
            match node, loop.target:
                case (
                    ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value),
                    ast.Tuple(elts=[_, ast.Name(id=weight)]),
                ) if unparse(value) in _same_numbers(weight):
                    scope = blocks.scope_of(pipeline, source.location(node))
                    used = _compared_later(source, scope, node, name)
                    if used is not None:
                        yield _alias(source, value, name, used)
                case _:
                    pass


def _in_mappings(pipeline: Pipeline) -> Iterator[Alias]:
    """Weights put under a key where a score improves: `best["weights"] = model.state_dict()`, or a mapping with it."""
    source = pipeline.source
    for node in source.nodes_of(ast.Assign):
        for name, entry, value in source.once(_weights_under_keys, node):
            used = _used_outside(blocks.scope_of(pipeline, source.location(node)), node, name, entry)
            if used is not None:
                yield _alias(source, value, entry, used)


def _weights_under_keys(node: ast.Assign) -> list[tuple[str, str, ast.expr]]:
    return [entry for entry in _entries(node) if _owner_of_weights(entry[2])]


def _entries(node: ast.Assign) -> Iterator[tuple[str, str, ast.expr]]:
    """The entries of a mapping that an assignment sets: the name of the mapping, the code of the entry, the value."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant()) as target], value=value):
            yield name, unparse(target), value
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys, values=values)):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant):
                    yield name, f"{name}[{unparse(key)}]", value
        case _:
            pass


def _used_outside(scope: ast.AST, node: ast.Assign, name: str, entry: str) -> ast.Call | None:
    """The call that saves the mapping, or loads the entry, whether or not the score has improved since."""
    loop = kept_uses.loop_around(scope, node, TRAINS)
    if loop is None or any(each is not node.targets[0] for each in kept_uses.bound(loop, name)):
        return None
    tests = [each for each in walk(loop) if isinstance(each, ast.If) and any(part is node for part in each.body)]
    if not any(_compares(test.test) for test in tests):
        return None
    inside = {part for test in tests for part in walk(test)}
    calls = (each for each in walk(scope) if isinstance(each, ast.Call) and each.args and each not in inside)
    # `checkpoint = torch.load(…)` is another mapping of this name.
    stores = (each for each in walk(scope) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    rebound = min((each.lineno for each in stores if each.id == name and each.lineno > node.lineno), default=math.inf)
    used = (
        each
        for each in calls
        if _gets(each, "save", name) or (_gets(each, "load_state_dict", entry) and node.lineno < each.lineno <= rebound)
    )
    return next(used, None)


def _compares(test: ast.expr) -> bool:
    """Whether a test asks which of two numbers is larger, rather than for every tenth epoch."""
    orders = (ast.Lt, ast.Gt, ast.LtE, ast.GtE)
    compared = [each for each in walk(test) if isinstance(each, ast.Compare)]
    return any(isinstance(each.ops[0], orders) and "%" not in unparse(each) for each in compared)


def _gets(call: ast.Call, method: str, code: str) -> bool:
    """Whether a method is called with some code as its first argument."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == method and unparse(call.args[0]) == code


def _owner_of_weights(node: ast.expr) -> str:
    """The code of `model` in `model.state_dict()`, `copy.copy(model.state_dict())` or `model.state_dict().copy()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="copy"), args=[inner]):
            return _owner_of_weights(inner)
        case ast.Call(func=ast.Name(id="dict" | "OrderedDict"), args=[inner]):
            return _owner_of_weights(inner)
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="items"), args=[]):
            return _owner_of_weights(inner)
        case ast.DictComp(value=kept, generators=[ast.comprehension(target=ast.Tuple(elts=[_, name]), iter=inner)]):
            return _owner_of_weights(inner) if unparse(kept) in _same_numbers(unparse(name)) else ""
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="copy"), args=[], keywords=[]):
            return _owner_of_weights(inner)
        case ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[], keywords=[]):
            code = unparse(owner)
            return "" if OTHER_STATES.search(code) else code.removesuffix(".module")
        case _:
            return ""


def _same_numbers(name: str) -> set[str]:
    """What a tensor is without a copy."""
    return {name, f"{name}.data", f"{name}.detach()"}


def _weights_in(node: ast.expr) -> str:
    """The code of a parameter that an expression gives without a copy, `net.fc.weight` of `net.fc.weight.data`."""
    while True:
        match node:
            case (
                ast.Attribute(value=inner, attr="data")
                | ast.Call(func=ast.Attribute(value=inner, attr="detach"), args=[])
            ):
                node = inner
            case ast.Attribute(attr="weight" | "bias"):
                return unparse(node)
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="list"), args=[ast.Call(func=ast.Attribute(attr="parameters"))]),
                slice=ast.Constant() | ast.UnaryOp(),
            ):
                return unparse(node)
            case _:
                return ""


COMPARES = frozenset({"equal", "allclose", "isclose", "eq", "array_equal", "dist"})


def _compared_again(source: Source, scope: ast.AST, node: ast.Assign, name: str, weights: str) -> ast.expr | None:
    """The expression that compares what was kept of a parameter with the parameter, after a step."""
    for each in walk(scope):
        match each:
            case ast.BinOp(left=left, op=ast.Sub(), right=right) | ast.Compare(left=left, comparators=[right]):
                sides = (left, right)
            case ast.Call(func=ast.Attribute(attr=called, value=owner), args=[first, *others]) if called in COMPARES:
                sides = (others[0] if others else owner, first)
            case _:
                continue
        code = {_weights_in(side) or unparse(side).removesuffix(".data") for side in sides}
        code = {_kept_as(scope, side, name) or side for side in code}
        if code == {name, weights} and _steps_between(source, node, each):
            return each
    return None


def _kept_as(scope: ast.AST, side: str, name: str) -> str:
    """The code of the weights that another name was given, `after = net.fc.weight`."""
    if not side.isidentifier() or side == name:
        return ""
    assigned = [each for each in walk(scope) if isinstance(each, ast.Assign) and unparse(each.targets[0]) == side]
    return _weights_in(assigned[-1].value) if assigned else ""


def _is_list_of_weights(node: ast.expr) -> bool:
    """`list(net.parameters())`, `[p.data for p in net.parameters()]`."""
    match node:
        case ast.Call(func=ast.Name(id="list"), args=[ast.Call(func=ast.Attribute(attr="parameters"))]):
            return True
        case ast.ListComp(elt=item, generators=[ast.comprehension(target=ast.Name(id=name), iter=weights, ifs=[])]):
            return unparse(item) in _same_numbers(name) and unparse(weights).endswith(".parameters()")
        case _:
            return False


def _compared_later(source: Source, scope: ast.AST, node: ast.Assign, name: str) -> ast.expr | None:
    """Where what was kept of a model is compared with the model, after it trained."""
    handed_on = {part for call in walk(scope) if isinstance(call, ast.Call) for part in _uses_them(call)}
    gradients = (each.value for each in walk(scope) if isinstance(each, ast.Attribute) and each.attr == "grad")
    handed_on |= {part for each in gradients for part in walk(each) if isinstance(part, ast.expr)}
    for each in walk(scope):
        if not kept_uses.reads(each, name) or not isinstance(each, ast.Name) or each.lineno <= node.lineno:
            continue
        if each in handed_on or _is_replaced(scope, node, name, each):
            continue
        lines = source.lines[(node.end_lineno or node.lineno) : each.lineno - 1]
        code = _code_of_items(scope, each)
        itself = re.compile(COMPARED_ITSELF.format(name=name))
        is_used = COMPARED.search(code) if code else itself.search(source.lines[each.lineno - 1])
        if TRAINS.search("\n".join(lines)) and is_used and ".shape" not in code:
            return each
    return None


def _code_of_items(scope: ast.AST, use: ast.Name) -> str:
    """The code of the loop that reads single weights of what was kept: in its head, or by their names."""
    loop = kept_uses.innermost_loop(scope, use)
    heads = [loop.iter] if isinstance(loop, ast.For) else []
    items = [each.value for each in (walk(loop) if loop is not None else ()) if isinstance(each, ast.Subscript)]
    return unparse(loop) if loop is not None and (use in items or any(use in walk(each) for each in heads)) else ""


USES_WEIGHTS = re.compile(r"optim|adam|sgd|clip_grad|accelerator|adagrad|rmsprop|lion|adafactor", re.IGNORECASE)
"""Calls that train the weights that they get, or scale their gradients."""


def _uses_them(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that trains weights: what they are is no matter there."""
    named = [each.value for each in call.keywords if each.arg in {"parameters", "params"}]
    return named if USES_WEIGHTS.search(unparse(call.func)) is None else [*call.args, *named]


COMPARED_ITSELF = (
    r"(?:equal|allclose)\([^\n]*\b{name}\b|\b{name}\b(?:\[[^\]]*\])?\)?\s*(?:==|!=|-)"
    r"|(?:==|!=|-) *\(?{name}\b(?!\.|\[[^\]]*\]\.)"
)
COMPARED = re.compile(r"\b(?:equal|allclose|eq)\(|==|!=|\) ?- ?\w|\w - \w")


def _steps_between(source: Source, node: ast.Assign, use: ast.expr) -> bool:
    return TRAINS.search("\n".join(source.lines[(node.end_lineno or node.lineno) : use.lineno - 1])) is not None


def _loaded_again(source: Source, scope: ast.AST, node: ast.Assign, name: str, owner: str) -> ast.expr | None:
    """The call that loads the weights into the same model after it trained, if nothing else is done with them."""
    loads: list[ast.Call] = []
    known = set(kept_uses.passed_on(scope, name))
    for each in walk(scope):
        match each:
            case ast.Call(func=ast.Attribute(value=loaded, attr="load_state_dict"), args=[ast.Name(id=given), *_]) if (
                given == name
            ):
                known.add(each.args[0])
                if unparse(loaded).removesuffix(".module") == owner:
                    loads.append(each)
            case _:
                pass
    reads = {each for each in walk(scope) if kept_uses.reads(each, name)}
    if reads - known or _is_bound_again(scope, owner):
        return None
    kept = [load for load in loads if not _is_replaced(scope, node, name, load)]
    return next((load for load in kept if _trains_between(source, scope, node, load)), None)


def _is_replaced(scope: ast.AST, node: ast.Assign, name: str, use: ast.expr) -> bool:
    """Whether the name gets weights of another origin before they are used: `weights = mean(states)`."""
    inside = range(node.lineno + 1, use.lineno)
    nodes = (each for each in walk(scope) if isinstance(each, ast.Assign) and each.lineno in inside)
    return any(unparse(each.targets[0]) == name and not _owner_of_weights(each.value) for each in nodes)


def _is_bound_again(scope: ast.AST, owner: str) -> bool:
    """Whether a scope gives the model's name to several models, of which one may be the one that was kept."""
    nodes = walk(scope)
    given = [(unparse(each.value), each.targets) for each in nodes if isinstance(each, ast.Assign)]
    same = re.compile(rf"{re.escape(owner)}\.|[\w.]*(DataParallel|DDP|compile|prepare)\({re.escape(owner)}\b")
    kept = {id(target) for code, targets in given if same.match(code) and "copy" not in code for target in targets}
    names = (each for each in nodes if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store))
    return sum(unparse(each) == owner and id(each) not in kept for each in names) > 1


def _trains_between(source: Source, scope: ast.AST, node: ast.Assign, load: ast.expr) -> bool:
    """Whether the model trains after its weights were kept and before they are loaded."""
    around = [each for each in walk(scope) if isinstance(each, Loop) and any(part is node for part in walk(each))]
    # No iteration comes back to a load that is done before the loops.
    if any(each.lineno < load.lineno for each in around) and kept_uses.loop_around(scope, node, TRAINS) is not None:
        return True
    return load.lineno > node.lineno and _steps_between(source, node, load)
