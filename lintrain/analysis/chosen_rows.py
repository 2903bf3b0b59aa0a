"""Predicted classes that are chosen along the wrong axis: over the rows of a batch, or over all scores at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis.hits import loops_over_loaders, same_number
from lintrain.analysis.tensor_forms import TORCH, is_over_rows
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.source.training_syntax import imported_packages
from lintrain.startup.lazy_dataclass import dataclass

CHOOSING = frozenset({"argmax", "max"})
MODULES = frozenset({"np", "numpy", "torch"})
SAME_CLASSES = frozenset({"view_as", "reshape", "view", "to", "cuda", "squeeze", "flatten", "type_as", "long", "cpu"})
"""Methods that leave classes what they are."""

MOVES = frozenset({"to", "cuda", "long", "float", "cpu", "numpy", "detach", "data"})


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """A choice along the wrong axis: where, where its result meets the targets, and whether it has an axis at all."""

    location: Location
    compared: Location
    has_axis: bool


HAVE_METRICS = frozenset({"datasets", "evaluate", "sklearn"})
"""Libraries with metrics for classes."""


def may_measure_choices(source: Source) -> bool:
    """Whether a file imports a library with metrics, and names what chooses classes in its code."""
    return not HAVE_METRICS.isdisjoint(imported_packages(source)) and (
        any(node.attr in CHOOSING for node in source.nodes_of(ast.Attribute))
        or any(node.name in CHOOSING for node in source.nodes_of(ast.alias))
    )


def chosen_rows(source: Source) -> list[ChosenRows]:
    """The choices in a file over the rows of a batch whose results are compared with the targets of its rows."""
    return source.cached(_chosen_rows)


def _chosen_rows(source: Source) -> list[ChosenRows]:
    lines = [call.lineno for call in source.nodes_of(ast.Call) if _is_choice(call)]
    if not lines:
        return []
    functions = (each for each in source.nodes_of(ast.FunctionDef) if _holds_one(each, lines))
    found = list[ChosenRows]()
    for scope in (source.tree, *functions):
        nodes = own_nodes(scope)
        values = _values_of(nodes)
        for node in (each for each in nodes if isinstance(each, ast.expr)):
            for chosen, target in _comparisons(node):
                call = _choice(_followed(chosen, values))
                scores = _followed(_scores_of(call), values) if call is not None else None
                if call is None or scores is None or not isinstance(target, ast.Name):
                    continue
                if _are_of_rows(source, scope, scores, target.id, values):
                    found.append(ChosenRows(source.location(call), source.location(node), _axis_of(call) is not None))
    return found


def _is_choice(call: ast.Call) -> bool:
    """Whether a call chooses along the first axis, or among all scores."""
    match call.func:
        case ast.Attribute(attr="argmax"):
            return _axis_of(call) in {0, None}
        case ast.Attribute(attr="max"):
            return _axis_of(call) == 0
        case _:
            return False


def _holds_one(function: ast.FunctionDef, lines: list[int]) -> bool:
    return any(function.lineno <= line <= (function.end_lineno or line) for line in lines)


def _values_of(nodes: Sequence[ast.AST]) -> Mapping[str, ast.expr]:
    """What each name is given that only one statement binds; `_, chosen = torch.max(…)` gives the second part."""
    found = dict[str, list[ast.expr]]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple(elts=values)) if len(parts) == len(values):
                for part, value in zip(parts, values, strict=True):
                    found.setdefault(unparse(part), []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=name)])], value=value):
                second = ast.Subscript(value=value, slice=ast.Constant(value=1), ctx=ast.Load())
                found.setdefault(name, []).append(second)
            case _:
                pass
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _comparisons(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Both sides of `a == b` and `a.eq(b)`, in both orders."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = _bare(left), _bare(right)
        case ast.Call(func=ast.Attribute(value=left, attr="eq"), args=[right]):
            sides = _bare(left), _bare(right)
        case _:
            return
    one, other = sides
    yield one, other
    yield other, one


def _bare(node: ast.expr) -> ast.expr:
    """An expression without the methods that leave classes what they are."""
    node = same_number(node)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_CLASSES:
        node = same_number(node.func.value)
    return node


def _followed(node: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """An expression, or what the name that it is was given."""
    node = same_number(node)
    return same_number(values[node.id]) if isinstance(node, ast.Name) and node.id in values else node


def _choice(node: ast.expr) -> ast.Call | None:
    """The call that chooses among scores along the first axis, or among all of them."""
    match _bare(node):
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="max")) as call, slice=ast.Constant(value=1)):
            return call if _is_choice(call) else None
        case ast.Call(func=ast.Attribute(attr="argmax")) as call:
            return call if _is_choice(call) else None
        case _:
            return None


def _axis_of(call: ast.Call) -> int | None:
    """The axis that is given to a choice; -1 for one that is no constant, None without one."""
    first = 1 if _is_function(call) else 0
    given = [*call.args[first : first + 1], *(each.value for each in call.keywords if each.arg in {"dim", "axis"})]
    if not given:
        return None
    value = given[0].value if isinstance(given[0], ast.Constant) else None
    return value if isinstance(value, int) else -1


def _is_function(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and unparse(call.func.value) in MODULES


def _scores_of(call: ast.Call) -> ast.expr:
    if _is_function(call) and call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else call


def _are_of_rows(
    source: Source, scope: ast.AST, scores: ast.expr, target: str, values: Mapping[str, ast.expr], *, depth: int = 0
) -> bool:
    """Whether scores are what a network gives for a batch, and a target has the class of each of its rows."""
    if isinstance(scores, ast.Name) and isinstance(scope, ast.FunctionDef) and depth == 0:
        return _are_given_rows(source, scope, scores.id, target)
    match scores:
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name()), args=[ast.Name(id=inputs), *_], keywords=[]):
            callee = unparse(scores.func)
        case _:
            return False
    if callee.rpartition(".")[0] in MODULES | {"F", "tf"} or callee[:1].isupper():
        return False
    return _come_in_batches(source, scope, {inputs, target}) or _is_row_of_classes(values, target)


def _are_given_rows(source: Source, function: ast.FunctionDef, scores: str, target: str) -> bool:
    """Whether every call of a function gives it the scores and targets of a batch."""
    names = [each.arg for each in function.args.args]
    if scores not in names or target not in names:
        return False
    answers = list[bool]()
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        calls = [each for each in nodes if isinstance(each, ast.Call) and unparse(each.func) == function.name]
        if not calls:
            continue
        values = _values_of(nodes)
        for call in calls:
            given = dict(zip(names, call.args, strict=False))
            given |= {each.arg: each.value for each in call.keywords if each.arg}
            of, to = given.get(scores), given.get(target)
            is_known = of is not None and isinstance(to, ast.Name)
            answers.append(
                is_known and _are_of_rows(source, scope, _followed(of, values), to.id, values, depth=1)  # type: ignore[union-attr, arg-type]
            )
    return bool(answers) and all(answers)


def _come_in_batches(source: Source, scope: ast.AST, names: set[str]) -> bool:
    """Whether a loop over a loader gives these names, which nothing but a move to another device binds again."""
    inside = {id(node) for node in own_nodes(scope)}
    for loop, _ in source.cached(loops_over_loaders):
        bound = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
        if id(loop) in inside and names <= bound and not source.contains(r"batch_size\s*=\s*(?:1\b|None)"):
            return not any(_changes(node, names) for node in walk(loop))
    return False


def _changes(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement gives a name something else than the same tensor in another place or type."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MOVES:
                value = value.func.value
            return not (isinstance(value, ast.Name) and value.id == name)
        case ast.AugAssign(target=ast.Name(id=name)):
            return name in names
        case _:
            return False


@dataclass(frozen=True, slots=True)
class MixedRows:
    """A softmax over the rows of what a network gives, and where a class is chosen for each of these rows."""

    softmax: ast.Call
    choice: ast.expr


def softmaxes_before_choices(source: Source) -> Iterator[MixedRows]:
    """The softmaxes over axis 0 after which each row gets its class along axis 1: `softmax(x, 0).argmax(1)`."""
    lines = [call.lineno for call in source.nodes_of(ast.Call) if is_over_rows(call)]
    functions = (each for each in source.nodes_of(ast.FunctionDef) if _holds_one(each, lines))
    for scope in (source.tree, *functions) if lines else ():
        nodes = own_nodes(scope)
        for choice in _choices_for_rows(nodes):
            mixed = _softmax_of(_given_before(_scores_of(choice), nodes))
            if mixed is not None and _is_of_network(_given_before(mixed[1], nodes)):
                yield MixedRows(mixed[0], choice)


def _softmax_of(made: ast.expr) -> tuple[ast.Call, ast.expr] | None:
    """The softmax over axis 0 that an expression is, and what it is computed of."""
    match made:
        case ast.Call(func=ast.Call() as layer, args=[scores]) if is_over_rows(layer):
            return layer, scores
        case ast.Call(func=ast.Attribute(value=owner)) if is_over_rows(made):
            return made, made.args[0] if unparse(owner) in TORCH and made.args else owner
        case _:
            return None


def _choices_for_rows(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="argmax")) if _axis_of(node) == 1:
                yield node
            case (
                ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name()])], value=ast.Call() as call)
                | ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=1))
            ):
                if isinstance(call.func, ast.Attribute) and call.func.attr == "max" and _axis_of(call) == 1:
                    yield call
            case _:
                pass


def _given_before(node: ast.expr, nodes: Sequence[ast.AST]) -> ast.expr:
    """An expression, or what the last statement before it gives the name that it is."""
    node = _bare(node)
    given = [
        each
        for each in nodes
        if isinstance(each, ast.Assign) and isinstance(node, ast.Name) and each.lineno < node.lineno
        if unparse(each.targets[0]) == unparse(node)
    ]
    return _bare(max(given, key=lambda each: each.lineno).value) if given else node


def _is_of_network(scores: ast.expr) -> bool:
    """Whether scores are the result of an object that is called: `model(x)`, `self.net(x)`, `model(**batch).logits`."""
    if isinstance(scores, ast.Attribute) and scores.attr == "logits":
        scores = scores.value
    match scores:
        case ast.Call(func=ast.Name(id=callee)):
            return callee[:1].islower()
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner))):
            return owner == "self"
        case _:
            return False


def _is_row_of_classes(values: Mapping[str, ast.expr], target: str) -> bool:
    """Whether a name holds one class for each of several rows: `torch.randint(3, (90,))`."""
    match values.get(target):
        case ast.Call(func=ast.Attribute(attr="randint"), args=[*_, ast.Tuple(elts=[_])]):
            return True
        case _:
            return False
