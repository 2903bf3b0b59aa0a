"""The arguments of a call, `*args` and `**kwargs` written out as far as they are known."""

from __future__ import annotations

import ast

from lintrain.interpreter import functions
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import Mapping, Sequence, Value


def add_arguments(reader: Reader, call: Call, node: ast.Call, scope: Scope) -> None:
    """Evaluate the arguments of a call into it, from left to right."""
    source = reader.source
    for argument in node.args:
        value = dispatch.evaluate(reader, argument, scope)
        location = source.location(argument)
        if isinstance(argument, ast.Starred):
            if isinstance(value, Sequence) and value.is_complete:
                reader.spend(len(value.items))
                call.positional.extend(Argument(item, location) for item in value.items)
            else:
                call.is_open, call.spread = True, value
        else:
            call.positional.append(Argument(value, location, source))
    for keyword in node.keywords:
        value = dispatch.evaluate(reader, keyword.value, scope)
        location = source.location(keyword.value)
        if keyword.arg is not None:
            call.keywords[keyword.arg] = Argument(value, location, source, source.location(keyword))
        else:
            _add_expanded(call, value, location, is_as_written=_is_as_written(reader, keyword.value, value))


def _is_as_written(reader: Reader, node: ast.expr, value: Value) -> bool:
    """Whether nothing but calls that expand it can have seen the dictionary of `**node` since it was written."""
    function = reader.frame.function
    if isinstance(node, ast.Dict) or not isinstance(node, ast.Name):
        return isinstance(node, ast.Dict)
    if function is not None and function.node.args.kwarg is not None and function.node.args.kwarg.arg == node.id:
        return reader.once(functions.hands_all_on, function.node)
    dictionary = reader.source.told(functions.dictionaries_of).get(node.id)
    return dictionary is not None and value.origin == reader.source.location(dictionary)


def _add_expanded(call: Call, value: Value, location: Location, *, is_as_written: bool) -> None:
    """`**value` in a call; `**batch` is kept as an argument of its own, for models that are called with it."""
    if not isinstance(value, Mapping):
        call.keywords.setdefault("**", Argument(value, call.location))
        call.is_open = True
        return
    call.is_open = call.is_open or not value.is_complete
    call.reader.spend(len(value.entries))
    for name, item in value.entries.items():
        if isinstance(name, str):
            named_at = value.written.get(name) if is_as_written else None
            call.keywords.setdefault(name, Argument(item, location, named_at=named_at))
