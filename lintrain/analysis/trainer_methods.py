"""The script's own methods and functions that a Trainer calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.blocks import spread_names
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import (
    Absent,
    Bound,
    Class,
    Constant,
    Either,
    Function,
    Partial,
    Value,
    is_missing,
    options_of,
)
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


def own_method(run: TrainerRun, name: str) -> Function | None:
    """A method of Trainer that the script's subclass overrides; None if it does not."""
    found = run.instance.cls.lookup(name) if run.instance else None
    return found[1] if found and isinstance(found[1], Function) else None


def own_class(run: TrainerRun, name: str) -> Class | None:
    """The script's class that defines a method of its trainer."""
    found = run.instance.cls.lookup(name) if run.instance else None
    return found[0] if found else None


def own_function(value: Value) -> Function | None:
    """The function of the script behind a value: the function itself, or that of a bound method or partial."""
    match value:
        case Function():
            return value
        case Bound(function=Function() as function):
            return function
        case Partial(function=inner):
            return own_function(inner)
        case Either():
            # `compute_metrics=score if evaluates else None`: if there is one, it is this one.
            given = [each for each in options_of(value) if not is_missing(each)]
            return own_function(given[0]) if len(given) == 1 else None
        case _:
            return None


def accepts(function: Function, name: str) -> bool:
    """Whether a function accepts this keyword argument."""
    given = function.node.args
    return given.kwarg is not None or any(each.arg == name for each in (*given.args, *given.kwonlyargs))


def nodes_of(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function's body."""
    body = function.node.body
    for statement in body if isinstance(body, list) else [body]:
        yield from walk(statement)


def takes_best(value: Value) -> bool:
    """Whether a function takes the best token at each position of logits."""
    function = own_function(value)
    return function is not None and any(
        isinstance(node, ast.Attribute) and node.attr == "argmax" for node in nodes_of(function)
    )


def branches(function: Function) -> bool:
    """Whether a function contains an `if` or a loop."""
    return any(isinstance(node, ast.If | ast.For | ast.While) for node in nodes_of(function))


def reads(function: Function, name: str) -> bool:
    """Whether a function uses a name, or an attribute or a keyword of that name."""
    return any(
        (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and node.attr == name)
        or (isinstance(node, ast.keyword) and node.arg == name)
        for node in nodes_of(function)
    )


def passes_keywords_on(function: Function) -> bool:
    """Whether a function passes on its own `**kwargs`, or all its local names."""
    kwarg = function.node.args.kwarg
    own = {kwarg.arg} if kwarg else set[str]()
    names = own | {"locals", "vars"}
    return any(isinstance(node, ast.Name) and node.id in names for node in nodes_of(function))


def unpacks_into(function: Function, name: str) -> bool:
    """Whether a function calls `name(**…)`."""
    calls = (node for node in nodes_of(function) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name)
    return any(keyword.arg is None for call in named for keyword in call.keywords)


def contains_text(function: Function, text: str) -> bool:
    """Whether a function's body contains this string literal."""
    return any(isinstance(node, ast.Constant) and node.value == text for node in nodes_of(function))


def returns_nothing(function: Function) -> bool:
    """Whether a method has statements, ends, and gives nothing back."""
    nodes = list(nodes_of(function))
    ends = any(isinstance(node, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom) for node in nodes)
    return isinstance(function.node.body, list) and not ends and not function.decorators


def assigned_last(function: Function, name: str) -> ast.Assign | None:
    """The last statement that gives a name its value in a function."""
    assigned = [node for node in nodes_of(function) if isinstance(node, ast.Assign)]
    named = [node for node in assigned if unparse(node.targets[0]) == name]
    return max(named, key=lambda node: node.lineno, default=None)


def leaves_graph(value: ast.expr) -> bool:
    """Whether code certainly gives a number, or a tensor without a graph."""
    match value:
        case ast.Call(func=ast.Attribute(attr="item" | "detach" | "tolist" | "numpy"), args=[]):
            return True
        case ast.Call(func=ast.Name(id="float"), args=[_]):
            return True
        case _:
            return False


NUMBERS = frozenset({"float", "int", "len", "sum", "mean", "item", "max", "min"})
"""Functions and methods whose result is one number."""


def returns_one_number(function: Function) -> bool:
    """Whether all that a function returns are single numbers by their code."""
    body = function.node.body
    returned = [body] if isinstance(body, ast.expr) else list(_returned(body))
    sums = _sums_in(function)
    return bool(returned) and all(
        value is not None and (_is_one_number(value) or (isinstance(value, ast.Name) and value.id in sums))
        for value in returned
    )


def repeats_one_value(function: Function) -> bool:
    """Whether all that a function returns are lists of one computed value as often as needed: `[mean] * len(rows)`."""
    body = function.node.body
    returned = [body] if isinstance(body, ast.expr) else list(_returned(body))
    return bool(returned) and all(value is not None and _is_one_value(value) for value in returned)


def returns_one_item(function: Function) -> bool:
    """Whether all that a function returns are lists of a single item: `[score]`."""
    body = function.node.body
    returned = [body] if isinstance(body, ast.expr) else list(_returned(body))
    return bool(returned) and all(_is_one_item(value) for value in returned)


def _is_one_item(node: ast.expr | None) -> bool:
    return isinstance(node, ast.List) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred)


def _is_one_value(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=ast.List(elts=[item]), op=ast.Mult()):
            own = set[str]()
        case ast.BinOp(op=ast.Mult(), right=ast.List(elts=[item])):
            own = set[str]()
        case ast.ListComp(elt=item, generators=[ast.comprehension(target=ast.Name(id=target))]):
            own = {target}
        case _:
            return False
    names = {each.id for each in walk(item) if isinstance(each, ast.Name)}
    calls = (each.func for each in walk(item) if isinstance(each, ast.Call))
    # What is called once for each item, such as `random()` or `next(scores)`, may give another value each time.
    is_computed_once = isinstance(node, ast.BinOp) or not any(True for _ in calls)
    return bool(names) and not names & own and is_computed_once


def _sums_in(function: Function) -> set[str]:
    """The names that start as a number and are only ever increased or decreased by numbers."""
    started, counted = set[str](), set[int]()
    nodes = list(nodes_of(function))
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Constant(value=int() | float())):
                started.add(name)
                counted.add(id(target))
            case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value) if _is_one_number(value):
                counted.add(id(target))
            case _:
                pass
    stored = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return started - {node.id for node in stored if id(node) not in counted}


def _returned(body: list[ast.stmt]) -> Iterator[ast.expr | None]:
    """What the `return` statements of a function return, without those of functions inside it."""
    for statement in body:
        if isinstance(statement, ast.Return):
            yield statement.value
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt | ast.ExceptHandler))
            yield from _returned([part for each in inner for part in _statements(each)])


def _statements(part: ast.stmt | ast.ExceptHandler) -> list[ast.stmt]:
    return part.body if isinstance(part, ast.ExceptHandler) else [part]


def _is_one_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Div(), right=right):
            return _is_one_number(left) and _is_one_number(right)
        case ast.Call(func=ast.Name(id=name), args=[_]) | ast.Call(func=ast.Attribute(attr=name), args=[]):
            return name in NUMBERS
        case ast.IfExp(body=first, orelse=second):
            return _is_one_number(first) and _is_one_number(second)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Popped:
    """Labels that were taken out of a batch before the pass whose loss is read: where both are, and the batch."""

    read: Location
    taken: Location
    name: str


def popped_labels(source: Source) -> Iterator[Popped]:
    """The losses of passes `model(**inputs)` that a function reads after `inputs.pop("labels")`."""
    for function in source.nodes_of(ast.FunctionDef):
        taken = {name: each for each in function.body if (name := _popped_from(each))}
        statements = [each for each in walk(function) if isinstance(each, ast.stmt)] if taken else []
        for name, statement in taken.items():
            given_back = any(_gives_labels(each, name) for each in statements if each.lineno > statement.lineno)
            passes = {} if given_back else dict(_passes_of(statements, name, statement.lineno))
            for node in walk(function) if passes else ():
                match node:
                    case ast.Attribute(value=ast.Name(id=output), attr="loss", ctx=ast.Load()) if output in passes:
                        yield Popped(source.location(node), source.location(statement), name)
                    case _:
                        pass


def _popped_from(statement: ast.stmt) -> str:
    """The name of the batch that a statement takes the labels out of; empty if it does not."""
    match statement:
        case ast.Assign(value=value) | ast.Expr(value=value):
            pass
        case _:
            return ""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[ast.Constant(value="labels")]):
            return name
        case _:
            return ""


def _gives_labels(statement: ast.stmt, name: str) -> bool:
    """Whether a statement puts labels into a batch again, or makes it another one."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner))]):
            return owner == name
        case ast.Assign(targets=[ast.Name(id=target)]):
            return target == name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="update" | "setdefault"))):
            return owner == name
        case _:
            return False


def _passes_of(statements: list[ast.stmt], name: str, after: int) -> Iterator[tuple[str, int]]:
    """The names of outputs of calls that get a batch as `**name` and no labels, where each is bound once."""
    bound = [
        target.id
        for each in statements
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    ]
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=output)], value=ast.Call(args=[], keywords=keywords)) if (
                statement.lineno > after
            ):
                spread = [each.value.id for each in keywords if each.arg is None and isinstance(each.value, ast.Name)]
                named = {each.arg for each in keywords}
                if spread == [name] and "labels" not in named and bound.count(output) == 1:
                    yield output, statement.lineno
            case _:
                pass


def location_in(pipeline: Pipeline, function: Function, node: ast.expr) -> Location:
    """The location of a node of a function's body."""
    source = function.source or pipeline.source
    return source.location(node)


def head_of(pipeline: Pipeline, function: Function) -> Location:
    """The location of a function's `def name`, or of a lambda."""
    node = function.node
    source = function.source or pipeline.source
    whole = source.location(node)
    if isinstance(node, ast.Lambda):
        return whole
    line = source.lines[whole.line - 1]
    end = line.find(node.name, whole.column - 1) + len(node.name) + 1
    return Location(whole.path, whole.line, whole.column, whole.line, max(end, whole.column + 3))


def decodes_predictions(function: Function) -> bool:
    """Whether a metric function certainly turns what the model predicted into text, as it gets it from the trainer."""
    names = [each.arg for each in function.node.args.args if each.arg != "self"]
    nodes = list(nodes_of(function))
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    if not names or names[0] in stored:
        return False
    held = {name for node in nodes for name in _predictions_in(node, names[0]) if stored.count(name) == 1}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="batch_decode"), args=[ast.Name(id=name), *_]) if name in held:
                return True
            case ast.Call(func=ast.Attribute(attr="batch_decode"), args=[given, *_]) if _is_predictions(
                given, names[0]
            ):
                return True
            case _:
                pass
    return False


def _predictions_in(node: ast.AST, given: str) -> Iterator[str]:
    """The names that an assignment gives to the predictions in what a metric function gets."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_predictions(value, given):
            yield name
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), _])], value=ast.Name(id=whole)) if whole == given:
            yield name
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), _])], value=ast.Tuple(elts=[value, _])):
            if _is_predictions(value, given):
                yield name
        case _:
            pass


def _is_predictions(node: ast.expr, given: str) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr="predictions"):
            return owner == given
        case _:
            return False


def generates_nothing(run: TrainerRun) -> bool:
    """Whether the evaluation of a sequence-to-sequence trainer certainly runs a forward pass and generates no text."""
    settings = run.settings
    wanted = settings.value("predict_with_generate") if settings else None
    is_off = isinstance(wanted, Constant) and wanted.value is False and not wanted.may_differ
    return isinstance(wanted, Absent) or is_off


def stays_in_script(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether the trainer is used only for its attributes and methods, or passed to the script's own functions."""
    bound = {binding.name for binding in pipeline.names_of(run)}
    if not bound or not all(name.isidentifier() for name in bound):
        return False
    names, handed = spread_names(pipeline.source, bound)
    owners = {id(node.value) for node in pipeline.source.nodes_of(ast.Attribute)}
    loads = [node for node in pipeline.source.nodes_of(ast.Name) if isinstance(node.ctx, ast.Load)]
    return all(id(node) in owners or node in handed for node in loads if node.id in names)
