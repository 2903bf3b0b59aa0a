"""The arguments of a call, `*args` and `**kwargs` written out as far as they are known."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline import expressions
from lintrain.pipeline.call import Argument, Call
from lintrain.pipeline.scope import Scope
from lintrain.pipeline.values.python import Mapping, Sequence, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


def add_arguments(reader: Reader, call: Call, node: ast.Call, scope: Scope) -> None:
    """Evaluate the arguments of a call into it, from left to right."""
    for argument in node.args:
        value = expressions.evaluate(reader, argument, scope)
        place = reader.source.place(argument)
        if isinstance(argument, ast.Starred):
            if isinstance(value, Sequence) and value.is_complete:
                call.positional.extend(Argument(item, place, "") for item in value.items)
            else:
                call.is_open = True
        else:
            call.positional.append(Argument(value, place, reader.code(place)))
    for keyword in node.keywords:
        value = expressions.evaluate(reader, keyword.value, scope)
        place = reader.source.place(keyword.value)
        if keyword.arg is not None:
            whole = reader.source.place(keyword)
            call.keywords[keyword.arg] = Argument(value, place, reader.code(place), whole)
        else:
            _add_expanded(call, value, place)


def _add_expanded(call: Call, value: Value, place: Place) -> None:
    """`**value` in a call."""
    if not isinstance(value, Mapping):
        call.is_open = call.is_open or not _expands_itself(call, value)
        return
    call.is_open = call.is_open or not value.is_complete
    for name, item in value.entries.items():
        if isinstance(name, str):
            call.keywords.setdefault(name, Argument(item, place, ""))


def _expands_itself(call: Call, value: Value) -> bool:
    """Keep `**batch` as an argument of its own, for models that are called with it."""
    call.keywords.setdefault("**", Argument(value, call.place, ""))
    return False
