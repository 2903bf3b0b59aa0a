"""Python's builtin functions and the methods of its literals, as far as configurations and data pipelines use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lintrain.interpreter import functions, objects
from lintrain.interpreter.core import dispatch, module_parts, operations, storing
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.items import any_of
from lintrain.interpreter.core.registry import ENTRIES, STORED_ATTRIBUTES, function, method_of, of_type
from lintrain.pipeline.values.certainty import UNCERTAIN, Default
from lintrain.pipeline.values.data import ColumnNames, ColumnValues, Features, Kind
from lintrain.pipeline.values.loading import Collated
from lintrain.pipeline.values.model import Parameters
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Either,
    Instance,
    Library,
    Literal,
    Mapping,
    Partial,
    Range,
    Sequence,
    Super,
    Unknown,
    Value,
    constant,
    first_default,
    join,
    literal,
    options_of,
    text_of,
)
from lintrain.pipeline.values.tensors import Count, Real, Whole
from lintrain.pipeline.values.training import Predictions
from lintrain.source.nodes import unparse

if TYPE_CHECKING:
    pass

CONVERSIONS: dict[str, Callable[[Any], Literal]] = {
    "builtins.int": int,
    "builtins.float": float,
    "builtins.str": str,
    "builtins.bool": bool,
}
"""Any: a literal of the wrong type raises TypeError, which is caught."""

MOST_NUMBERS = 64
"""A `range` up to this length is known item by item."""


@function("builtins.len")
def _len(call: Call) -> Value:
    match call.value("obj", 0):
        case Sequence(items=items, is_complete=True):
            return Constant(len(items))
        case Mapping(entries=entries, is_complete=True):
            return Constant(len(entries))
        case Constant(value=str(text), default=default):
            return constant(len(text), default)
        case value:
            found = _own_length(call, value)
            return Whole(origin=call.location) if found is None or found is UNKNOWN else found


def _own_length(call: Call, value: Value) -> Value | None:
    """What `__len__` of an object returns; None if it has none."""
    if isinstance(value, Instance):
        return objects.special(call.reader, value, "__len__", [], call.location)
    if method_of(value, "__len__") is None:
        return None
    return dispatch.call(call.reader, Bound(value, "__len__"), [], location=call.location)


@function("builtins.range")
def _range(call: Call) -> Value:
    given = [argument.value for argument in call.positional]
    bounds = [literal(value) for value in given]
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    made = Range([Whole(name="index")], "range", False, origin=call.location)
    match given:
        case [stop]:
            made.stop = stop
        case [start, stop]:
            made.start, made.stop = start, stop
        case [start, stop, step]:
            made.start, made.stop, made.step = start, stop, step
        case _:
            return made
    known = range(*numbers) if len(numbers) == len(bounds) and 0 not in numbers[2:] else None
    if known is not None and not known[MOST_NUMBERS:]:  # of a range that is too long, `len` is an error
        made.items, made.is_complete = [Constant(number) for number in known], True
    return made


@function("builtins.enumerate")
def _enumerate(call: Call) -> Value:
    over = call.value("iterable", 0)
    start = call.value("start", 1)
    first = 0 if isinstance(start, Absent) else literal(start)
    items = operations.known_items(over, MOST_NUMBERS)
    if items is None or not isinstance(first, int):
        return Sequence([Sequence([Whole(), dispatch.element(call.reader, over)], "tuple")], "list", False)
    return Sequence([Sequence([Constant(first + index), item], "tuple") for index, item in enumerate(items)])


@function("builtins.zip")
def _zip(call: Call) -> Value:
    row = dispatch.element(call.reader, call.spread) if len(call.positional) == 0 and call.is_open else UNKNOWN
    if isinstance(row, Sequence) and row.is_complete:
        # `zip(*rows)`: as many columns as a row has items
        return Sequence([Sequence([item], "tuple", False) for item in row.items])
    parts = [operations.known_items(argument.value, MOST_NUMBERS) for argument in call.positional]
    if parts and not call.is_open and all(part is not None for part in parts):
        rows = zip(*(part for part in parts if part is not None), strict=False)
        return Sequence([Sequence(list(row), "tuple") for row in rows])
    each = [dispatch.element(call.reader, argument.value) for argument in call.positional]
    return Sequence([Sequence(each, "tuple", not call.is_open)], "list", False)


@function(
    "builtins.list", "builtins.tuple", "builtins.set", "builtins.sorted", "builtins.reversed", "builtins.frozenset"
)
def _collection(call: Call) -> Value:
    kind = call.path.rpartition(".")[2]
    kind = kind if kind in {"tuple", "set"} else "list"
    if not call.positional:
        return Sequence([], kind, not call.is_open, origin=call.location)
    over = call.positional[0].value
    over = over.names if isinstance(over, Features) else over
    if isinstance(over, ColumnNames):
        return replace(over)
    if isinstance(over, ColumnValues) and over.whole is not None and over.column.kind is Kind.TOKENS and kind == "list":
        return over.copied(call.location)  # the tokens of one row
    items = operations.known_items(over, MOST_NUMBERS)
    if items is not None:
        # `sorted` and `set` put the items in an order that is not computed, so each place may hold any of
        # them.
        order_holds = call.path in {"builtins.list", "builtins.tuple"}
        kept = items if order_holds else [join(items)] * len(items) if items else []
        return Sequence(list(kept), kind, kind != "set", origin=call.location)
    is_closed = isinstance(over, Parameters)
    return Sequence([dispatch.element(call.reader, over)], kind, False, is_closed, origin=call.location)


@function("builtins.dict")
def _dict(call: Call) -> Value:
    entries: dict[Literal, Value] = {}
    is_complete = not call.is_open
    others: Value | None = None
    for argument in call.positional:
        pairs = _pairs(call, argument.value)
        if pairs is None:
            is_complete = operations.update(call.reader, entries, argument.value) and is_complete
            continue
        known, others = pairs
        entries.update(known)
        is_complete = is_complete and others is None
    entries.update({name: argument.value for name, argument in call.keywords.items() if name != "**"})
    return Mapping(entries, is_complete and "**" not in call.keywords, others=others, origin=call.location)


def _pairs(call: Call, given: Value) -> tuple[dict[Literal, Value], Value | None] | None:
    """`dict(zip(words, range(n)))`: the entries with known keys, and any of the others; None of anything else."""
    if not isinstance(given, Sequence) or not given.items:
        return None
    rows = [item.items for item in call.reader.counted(given.items) if isinstance(item, Sequence) and item.is_complete]
    if len(rows) < len(given.items) or any(len(row) != 2 for row in rows):
        return None
    entries = {key.value: value for key, value in rows if isinstance(key, Constant)}
    rest = [value for key, value in rows if not isinstance(key, Constant)]
    is_open = not given.is_complete
    return entries, any_of([*rest, *(entries.values() if is_open else ())]) if rest or is_open else None


MADE: dict[str, type[Unknown]] = {"builtins.int": Whole, "builtins.float": Real}
"""What a conversion makes of something that is not known."""


@function("builtins.int", "builtins.float", "builtins.str", "builtins.bool")
def _convert(call: Call) -> Value:
    value = call.value("object", 0)
    if not isinstance(value, Constant):
        # A count of rows or steps stays one: `int(len(train) / batch_size)` is still about the length of
        # `train`.
        kept = isinstance(value, Count) and call.path in {"builtins.int", "builtins.float"}
        made = MADE.get(call.path)
        return value if kept else made() if made else UNKNOWN
    try:
        return constant(CONVERSIONS[call.path](value.value), value.default)
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN


@function("builtins.max", "builtins.min", "builtins.abs", "builtins.round")
def _number(call: Call) -> Value:
    values = [argument.value for argument in call.positional]
    if len(values) == 1 and isinstance(values[0], Sequence) and values[0].is_complete:
        values = values[0].items
    if len(values) > 1 and not call.keywords and any(isinstance(value, Whole) for value in values):
        return Whole(origin=call.location) if all(map(_is_whole, values)) else UNKNOWN
    numbers = [value.value for value in values if isinstance(value, Constant) and isinstance(value.value, int | float)]
    if not numbers or len(numbers) != len(values) or call.keywords:
        return UNKNOWN
    name = call.path.rpartition(".")[2]
    default = first_default(*values)
    match name:
        case "max":
            return constant(max(numbers), default)
        case "min":
            return constant(min(numbers), default)
        case "abs":
            return constant(abs(numbers[0]), default)
        case _:
            return UNKNOWN


def _is_whole(value: Value) -> bool:
    return isinstance(value, Whole) or type(literal(value)) is int


@function("builtins.any", "builtins.all")
def _any_or_all(call: Call) -> Value:
    over = call.value("iterable", 0)
    if not isinstance(over, Sequence) or not over.is_complete:
        return UNKNOWN
    truths = [operations.truth(item) for item in over.items]
    is_any = call.path == "builtins.any"
    if is_any in truths:
        return Constant(is_any)
    return UNKNOWN if None in truths else Constant(not is_any)


@function("builtins.isinstance")
def _isinstance(call: Call) -> Value:
    """Whether predictions are a tuple, a literal is of a builtin type, or an object of one of the script's classes."""
    value, kind = call.value("obj", 0), call.value("class_or_tuple", 1)
    kinds = kind.items if isinstance(kind, Sequence) else [kind]
    functions = [each for each in kinds if isinstance(each, Class)]
    if isinstance(value, Instance) and len(functions) == len(kinds):
        # A base that was not understood may derive from the class that is asked for, so only a yes is
        # certain.
        is_one = any(each in functions for each in value.cls.lineage())
        return Constant(is_one) if is_one or not value.cls.has_unknown_base else UNKNOWN
    if len(functions) == len(kinds) > 0 and not any(_derives(each) for each in functions):
        # An object of a library is none of a class that derives from nothing.
        return UNKNOWN if isinstance(value, Unknown | Either | Absent) else Constant(False)
    if isinstance(value, Constant) and not value.default and all(_is_plain_type(each) for each in kinds):
        names = {each.path.rpartition(".")[2] for each in kinds if isinstance(each, Library)}
        return Constant(any(base.__name__ in names for base in type(value.value).__mro__))
    asked = {each.path for each in kinds if isinstance(each, Library)}
    if isinstance(value, Collated) and (held := _is_batch(value.content, asked)) is not None:
        return Constant(held)
    if isinstance(value, Mapping) and asked == {"builtins.dict"} and len(kinds) == 1:
        return Constant(True)
    if asked & {"builtins.tuple", "builtins.list"} and len(asked) == len(kinds):
        if isinstance(value, Sequence):
            return Constant(f"builtins.{value.kind}" in asked)
        if not isinstance(value, Unknown | Predictions) and type(value).__name__ == "Tensor":
            return Constant(False)
    return UNKNOWN


def _is_batch(content: Value, asked: set[str]) -> bool | None:
    """Whether a batch that torch or the script put together is of one of these kinds; None if that is not known."""
    is_row = isinstance(content, Sequence) and content.kind in {"tuple", "list"}
    # What rows are as tuples, batches may be as lists.
    if asked == {"builtins.tuple", "builtins.list"} and isinstance(content, Sequence | Mapping):
        return is_row
    is_dict = asked == {"builtins.dict"} and isinstance(content, Sequence | Mapping)
    return isinstance(content, Mapping) if is_dict else None


def _derives(cls: Class) -> bool:
    """Whether a class has a base, or a metaclass that may answer for other objects."""
    return any(owner.bases or owner.node.keywords for owner in cls.lineage())


def _is_plain_type(kind: Value) -> bool:
    return isinstance(kind, Library) and kind.path.startswith("builtins.")


@function("builtins.getattr")
def _getattr(call: Call) -> Value:
    name = text_of(call.value("name", 1))
    if name is None or not call.positional or _is_asked_for(call):
        return _any_of(call.positional[0].value) if call.positional else UNKNOWN
    call.reader.record.note_choice(call.value("name", 1))
    value, default = call.positional[0].value, call.value("default", 2)
    if isinstance(value, Instance) and not isinstance(default, Absent) and functions.lacks(value, name):
        return default
    return call.reader.as_tested(dispatch.attribute(call.reader, value, name, call.location))


def _is_asked_for(call: Call) -> bool:
    """Whether the name is an option that a test around the call asks for: then it need not be the default."""
    given = call.argument("name", 1)
    if given is None or not isinstance(given.value, Constant) or given.value.default is None or given.source is None:
        return False
    return any(given.text in unparse(condition.test) for condition in call.reader.conditions if condition.test)


def _any_of(owner: Value) -> Value:
    """Any of the classes of a module: an optimizer, a schedule or a network, whichever it is."""
    name = ANY_OF.get(owner.path) if isinstance(owner, Library) else None
    return Library(f"{owner.path}.{name}") if name and isinstance(owner, Library) else UNKNOWN


ANY_OF = {"torch.optim": "Any", "torch.optim.lr_scheduler": "Any", "torchvision.models": "any"}
"""Modules whose members are of one kind, with a name that stands for any of them."""


@function("builtins.setattr")
def _setattr(call: Call) -> Value:
    if len(call.positional) != 3:
        return Constant(None)
    owner, name, value = (argument.value for argument in call.positional)
    known = text_of(name)
    if known is not None:
        storing.store_attribute(call.reader, owner, known, value, call.location)
        return Constant(None)
    # `for k, v in vars(args).items(): setattr(self, k, v)`: with an unknown name every plain attribute may
    # have changed.
    module_parts.note_some_part(call.reader, owner, name, value, call.location)
    for option in options_of(owner):
        for each in _attribute_names(option):
            held = join([dispatch.attribute(call.reader, option, each, call.location), value])
            storing.store_attribute(call.reader, option, each, held, call.location)
    return Constant(None)


def _attribute_names(owner: Value) -> list[str]:
    """The attributes that may be meant where the name is not known: those of an object that holds settings."""
    if isinstance(owner, Instance | Class):
        # Later ones win: an object's own attribute hides that of its class.
        classes = (owner if isinstance(owner, Class) else owner.cls).lineage()
        found = {name: value for each in reversed(classes) for name, value in each.attributes.items()}
        found.update(owner.attributes)
        return [name for name, value in found.items() if isinstance(value, Constant) and not name.startswith("__")]
    held = of_type(ENTRIES, owner) if of_type(STORED_ATTRIBUTES, owner) else None
    return [str(name) for name in held(owner)[0]] if held else []


@function("builtins.next")
def _next(call: Call) -> Value:
    return dispatch.element(call.reader, call.value("iterator", 0))


@function("builtins.iter", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.std.tqdm", "tqdm.tqdm_notebook")
@function("tqdm.rich.tqdm", "tqdm.autonotebook.tqdm", "tqdm.asyncio.tqdm")
def _same(call: Call) -> Value:
    """What wraps an iterable without changing what it gives."""
    return call.value("iterable", 0)


@function("tqdm.trange", "tqdm.auto.trange")
def _trange(call: Call) -> Value:
    return Sequence([UNKNOWN], "range", False)


@function("builtins.print", "builtins.hasattr", "builtins.callable", "builtins.id", "builtins.repr", "builtins.type")
def _harmless(call: Call) -> Value:
    """What looks at its arguments and changes nothing."""
    return UNKNOWN


@function("builtins.super")
def _super(call: Call) -> Value:
    receiver, below = call.value("object", 1), call.value("type", 0)
    return Super(receiver, below) if isinstance(receiver, Instance) and isinstance(below, Class) else UNKNOWN


@function("functools.partial")
def _partial(call: Call) -> Value:
    if not call.positional or call.is_open:
        return UNKNOWN
    first, *others = (argument.value for argument in call.positional)
    return Partial(first, others, {name: argument.value for name, argument in call.keywords.items()})


@function("os.environ.get", "os.getenv")
def _environment(call: Call) -> Value:
    default = call.value("default", 1)
    name = text_of(call.value("key", 0))
    if not isinstance(default, Constant):
        return UNKNOWN
    if not name or default.value in {None, ""}:
        return Constant(default.value, UNCERTAIN)
    return constant(default.value, Default(f"{name}=", str(default.value), call.location), call.location)
