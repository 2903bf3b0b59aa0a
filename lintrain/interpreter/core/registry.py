"""The tables that the interpreter dispatches over, and the decorators that fill them.

The modules of the language register what nodes of syntax mean, and those of `lintrain.libraries` what functions and
values of a library do. Functions and classes of libraries are found by their dotted path, and what is done to a value
by its type, or by the nearest of its bases.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from lintrain.installed.facts import Facts
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.values.python import Function, LibraryObject, Literal, Mapping, Value

Evaluate = Callable[[Reader, Any, Scope], Value]
"""What an expression gives. Any: each function takes its own type of node, and is registered under it."""

Execute = Callable[[Reader, Any, Scope], Flow]
"""What a statement does. Any: each function takes its own type of node, and is registered under it."""

Invoke = Callable[[Call, Any], Value]
"""What calling a value of the language gives. Any: each function takes its own type of value."""

Transfer = Callable[[Call], Value]
"""A library function: from a call with its arguments to the value that it gives."""

Attribute = Callable[[Reader, Any, str, Location], Value | None]
"""`value.name`: None leaves it to the type's methods. Any: each function takes its own type of value."""

Subscript = Callable[[Reader, Value, Value, Location], Value]
"""`value[key]`."""

Element = Callable[[Reader, Value], Value]
"""What a loop over the value gets each time."""

Unpack = Callable[[Reader, Value, int], list[Value] | None]
"""What `a, b = value` binds; None if that is not known."""

StoreAttribute = Callable[[Reader, Value, str, Value, Location], None]
"""`value.name = new`."""

StoreItem = Callable[[Reader, Value, Value, Value, Location], None]
"""`value[key] = new`."""

Operate = Callable[[Reader, Value, str, Value, Location], Value | None]
"""A binary operator or comparison (named as in `ast`: `Add`, `Gt`) with the value on either side; None if not known."""

Family = Callable[[str], Transfer | None]
"""Library functions recognized by the form of their dotted path: the transfer for a path, None for other paths."""

Named = Callable[[Reader], Value]
"""What a dotted name of a library stands for."""

Entries = Callable[[Value], tuple[dict[Literal, Value], bool]]
"""What a value holds as a mapping, by key, and whether that is all of it."""

Decorating = Callable[[Reader, Function, LibraryObject], None]
"""What a decorator with arguments changes in the function below it, such as the defaults of its parameters."""

EXPRESSIONS: dict[type[ast.expr], Evaluate] = {}
STATEMENTS: dict[type[ast.stmt], Execute] = {}
CALLEES: dict[type[Value], Invoke] = {}
FUNCTIONS: dict[str, Transfer] = {}
NAMED: dict[str, Named] = {}
DECORATORS: dict[str, Decorating] = {}
FAMILIES: dict[str, list[Family]] = {}
METHODS: dict[tuple[type[Value], str], Transfer] = {}
CALLED: dict[type[Value], Transfer] = {}
ATTRIBUTES: dict[type[Value], Attribute] = {}
SUBSCRIPTS: dict[type[Value], Subscript] = {}
ELEMENTS: dict[type[Value], Element] = {}
UNPACKED: dict[type[Value], Unpack] = {}
STORED_ATTRIBUTES: dict[type[Value], StoreAttribute] = {}
STORED_ITEMS: dict[type[Value], StoreItem] = {}
OPERATORS: dict[type[Value], Operate] = {}
ENTRIES: dict[type[Value], Entries] = {}
BASE_CALLS: dict[str, Transfer] = {}
BASES: dict[str, Transfer] = {}
INSTANCE_METHODS: dict[tuple[str, str], Transfer] = {}
INSTANCES_CALLED: dict[str, Transfer] = {}
CLASS_METHODS: dict[tuple[str, str], Transfer] = {}
DERIVED_CALLS: dict[str, Transfer] = {}

Handler = TypeVar("Handler")
EvaluateType = TypeVar("EvaluateType", bound=Evaluate)
ExecuteType = TypeVar("ExecuteType", bound=Execute)
InvokeType = TypeVar("InvokeType", bound=Invoke)
Key = TypeVar("Key")


def _registrar(table: dict[Key, Handler], *keys: Key) -> Callable[[Handler], Handler]:
    def register(transfer: Handler) -> Handler:
        for key in keys:
            table[key] = transfer
        return transfer

    return register


def expression(*kinds: type[ast.expr]) -> Callable[[EvaluateType], EvaluateType]:
    """Register what these kinds of expressions give."""

    def register(evaluate: EvaluateType) -> EvaluateType:
        EXPRESSIONS.update(dict.fromkeys(kinds, evaluate))
        return evaluate

    return register


def statement(*kinds: type[ast.stmt]) -> Callable[[ExecuteType], ExecuteType]:
    """Register what these kinds of statements do."""

    def register(execute: ExecuteType) -> ExecuteType:
        STATEMENTS.update(dict.fromkeys(kinds, execute))
        return execute

    return register


def callee(*kinds: type[Value]) -> Callable[[InvokeType], InvokeType]:
    """Register what calling these kinds of values of the language gives: functions, classes, methods."""

    def register(invoke: InvokeType) -> InvokeType:
        CALLEES.update(dict.fromkeys(kinds, invoke))
        return invoke

    return register


def function(*paths: str) -> Callable[[Transfer], Transfer]:
    """Register what calling these dotted names gives (functions, classes, class methods)."""
    return _registrar(FUNCTIONS, *paths)


def family(package: str) -> Callable[[Family], Family]:
    """Register functions of a package that are too many to be listed, like the model classes of transformers."""

    def register(choose: Family) -> Family:
        FAMILIES.setdefault(package, []).append(choose)
        return choose

    return register


def function_at(path: str) -> Transfer | None:
    """What calling a dotted name gives, or None if no library file knows it."""
    if path in FUNCTIONS:
        return FUNCTIONS[path]
    package = path.partition(".")[0]
    return next((transfer for choose in FAMILIES.get(package, ()) if (transfer := choose(path))), None)


def named(*paths: str) -> Callable[[Named], Named]:
    """Register what these dotted names of a library stand for, where that is no function: `wandb.config`."""
    return _registrar(NAMED, *paths)


def named_value(reader: Reader, path: str) -> Value | None:
    """What a dotted name of a library stands for where it is a value; None for any other."""
    return NAMED[path](reader) if path in NAMED else None


@cache
def leads_to_function(path: str) -> bool:
    """Whether a dotted name is a function or value of the tables, or a module that has one."""
    return any(known == path or known.startswith(f"{path}.") for known in (*FUNCTIONS, *NAMED))


def decorating(*paths: str) -> Callable[[Decorating], Decorating]:
    """Register what decorators of these dotted names change in a function of the script."""
    return _registrar(DECORATORS, *paths)


def method(kind: type[Value], *names: str) -> Callable[[Transfer], Transfer]:
    """Register what these methods of a kind of value do; the value is `call.receiver`."""
    return _registrar(METHODS, *((kind, name) for name in names))


def called(kind: type[Value]) -> Callable[[Transfer], Transfer]:
    """Register what calling a value of this kind gives; the value is `call.receiver`."""
    return _registrar(CALLED, kind)


def attribute_of(kind: type[Value]) -> Callable[[Attribute], Attribute]:
    """Register what the attributes of a kind of value are."""
    return _registrar(ATTRIBUTES, kind)


def subscript_of(kind: type[Value]) -> Callable[[Subscript], Subscript]:
    """Register what subscripts of a kind of value give."""
    return _registrar(SUBSCRIPTS, kind)


def element_of(kind: type[Value]) -> Callable[[Element], Element]:
    """Register what a loop over a kind of value gets."""
    return _registrar(ELEMENTS, kind)


def unpacked(kind: type[Value]) -> Callable[[Unpack], Unpack]:
    """Register what unpacking a kind of value gives."""
    return _registrar(UNPACKED, kind)


def stored_attribute_of(kind: type[Value]) -> Callable[[StoreAttribute], StoreAttribute]:
    """Register what setting an attribute of a kind of value does."""
    return _registrar(STORED_ATTRIBUTES, kind)


def stored_item_of(kind: type[Value]) -> Callable[[StoreItem], StoreItem]:
    """Register what setting an item of a kind of value does."""
    return _registrar(STORED_ITEMS, kind)


def operated(kind: type[Value]) -> Callable[[Operate], Operate]:
    """Register what operators and comparisons with a kind of value give."""
    return _registrar(OPERATORS, kind)


def entries_of(kind: type[Value]) -> Callable[[Entries], Entries]:
    """Register what a kind of value holds when it is taken for a mapping, as in `dict(value)` or `{**value}`."""
    return _registrar(ENTRIES, kind)


def base_call(*paths: str) -> Callable[[Transfer], Transfer]:
    """Register what making an object of a script's class gives that derives from these library classes.

    `call.receiver` is the script's Class.
    """
    return _registrar(BASE_CALLS, *paths)


def base(*paths: str) -> Callable[[Transfer], Transfer]:
    """Register what a script's object has from these library classes: a parser, the entries of a dictionary.

    The call is that of the class, or of `super().__init__`.
    """
    return _registrar(BASES, *paths)


def derived_call(*paths: str) -> Callable[[Transfer], Transfer]:
    """Register what making an object of an installed class gives that derives from these library classes.

    `call.receiver` is the InstalledName.
    """
    return _registrar(DERIVED_CALLS, *paths)


def derived_transfer(facts: Facts) -> Transfer | None:
    """What makes an object of an installed class, by what it derives from; None if no library file knows it."""
    found = (DERIVED_CALLS[path] for path in lineage_of(facts.bases) if path in DERIVED_CALLS)
    return next(found, None) if facts.kind == "class" else None


def instance_method(path: str, *names: str) -> Callable[[Transfer], Transfer]:
    """Register what a method does that a script's object has from this library class; `call.receiver` is the object."""
    return _registrar(INSTANCE_METHODS, *((path, name) for name in names))


def class_method(path: str, *names: str) -> Callable[[Transfer], Transfer]:
    """Register what a method of a library class does, called on a script's class below; `call.receiver` is that."""
    return _registrar(CLASS_METHODS, *((path, name) for name in names))


def instance_called(path: str) -> Callable[[Transfer], Transfer]:
    """Register what calling a script's object gives that derives from this library class."""
    return _registrar(INSTANCES_CALLED, path)


def of_type(table: dict[type[Value], Handler], value: Value) -> Handler | None:
    """The entry of a table for a value's type, or for the nearest of its bases that has one."""
    for kind in type(value).__mro__:
        if kind in table:
            return table[kind]
    return None


def held_by(value: Value) -> tuple[dict[Literal, Value], bool]:
    """What a value holds by key where it is a mapping of any kind, and whether that is all of it."""
    if isinstance(value, Mapping):
        return dict(value.entries), value.is_complete
    held = of_type(ENTRIES, value)
    return held(value) if held else ({}, False)


def method_of(value: Value, name: str) -> Transfer | None:
    """What a method of a value does, or None if its type has no such method."""
    for kind in type(value).__mro__:
        if (kind, name) in METHODS:
            return METHODS[kind, name]
    return None
