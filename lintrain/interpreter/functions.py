"""The script's own functions: made where they are defined, their parameters bound where they are called."""

from __future__ import annotations

import ast
from collections.abc import Collection

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import expression
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.values.python import Constant, Function, Sequence, Unknown, Value, mapping_of
from lintrain.source.nodes import children, walk
from lintrain.source.source import Source

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@expression(ast.Lambda)
def make_function(reader: Reader, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> Function:
    """A function's value: its defaults and decorators are evaluated where it is defined."""
    reader.record.circles.add(scope)
    arguments = node.args
    defaults: dict[str, Value] = {}
    ordered = [*arguments.posonlyargs, *arguments.args]
    # Defaults belong to the last parameters: both lists are paired from their ends.
    for parameter, default in zip(reversed(ordered), reversed(arguments.defaults), strict=False):
        defaults[parameter.arg] = dispatch.evaluate(reader, default, scope)
    for parameter, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if given is not None:
            defaults[parameter.arg] = dispatch.evaluate(reader, given, scope)
    marks = [] if isinstance(node, ast.Lambda) else node.decorator_list
    decorators = tuple(dispatch.evaluate(reader, mark, scope) for mark in marks)
    return Function(node, scope, defaults, decorators, reader.frame.source, origin=reader.source.location(node))


def bind_parameters(call: Call, function: Function, receiver: Value | None, scope: Scope) -> None:
    """Bind a call's arguments to a function's parameters; defaults fill what the call leaves out."""
    arguments = function.node.args
    names = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    given = [argument.value for argument in call.positional]
    if receiver is not None:
        given.insert(0, receiver)
    keywords = {name: argument.value for name, argument in call.keywords.items() if name != "**"}
    bound = dict(zip(names, given, strict=False))
    for name in [*names, *(parameter.arg for parameter in arguments.kwonlyargs)]:
        if name in keywords:
            bound[name] = keywords.pop(name)
        elif name not in bound:
            # A value of its own for each parameter, so that one unknown thing can be followed through the
            # function by its identity.
            bound[name] = Unknown(name=name) if call.is_open else function.defaults.get(name, Unknown(name=name))
    if arguments.vararg is not None:
        bound[arguments.vararg.arg] = Sequence(given[len(names) :], "tuple", not call.is_open)
    if arguments.kwarg is not None:
        # What no parameter took. Their locations come along only if the function passes them on untouched:
        # then a wrong keyword at the outermost call is still the cause of an error at the innermost one.
        rest = mapping_of(keywords, is_complete=not call.is_open)
        if call.reader.once(hands_all_on, function.node):
            locations = {name: call.keywords[name].keyword or call.keywords[name].named_at for name in keywords}
            rest.written.update({name: location for name, location in locations.items() if location is not None})
        bound[arguments.kwarg.arg] = rest
    scope.names.update(bound)


def hands_all_on(node: ast.AST) -> bool:
    """Whether a function does nothing with its `**kwargs` but give them to calls as they came."""
    arguments = node.args if isinstance(node, FUNCTIONS) else None
    name = arguments.kwarg.arg if arguments is not None and arguments.kwarg is not None else ""
    return all(used.id != name for used in _other_names(walk(node)))


def dictionaries_of(source: Source) -> dict[str, ast.Dict]:
    """The dictionaries that all of a file binds once to a name and reads only as `**name`."""
    made = {
        node.targets[0].id: node.value
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Dict) and isinstance(node.targets[0], ast.Name)
    }
    uses: dict[str, int] = {}
    for node in _other_names(source.nodes) if made else ():
        uses[node.id] = uses.get(node.id, 0) + 1
    return {name: dictionary for name, dictionary in made.items() if uses.get(name) == 1}


def _other_names(nodes: Collection[ast.AST]) -> list[ast.Name]:
    """Every name, but for `**name` in a call."""
    expanded = {id(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg is None}
    return [node for node in nodes if isinstance(node, ast.Name) and id(node) not in expanded]


def is_generator(node: ast.FunctionDef) -> bool:
    """Whether a function yields."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(children(part))
    return False


def attribute_default(value: Value) -> Value:
    """A literal as a default: what it is unless the user gives another."""
    return Constant(value.value, True) if isinstance(value, Constant) else value
