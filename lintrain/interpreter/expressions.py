"""Expressions: from a node to the value that it gives."""

from __future__ import annotations

import ast
import builtins
import re
from contextlib import nullcontext

from lintrain.interpreter import narrowing
from lintrain.interpreter.core import arithmetic, dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import expression
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.grad_modes import SWITCHES, modes_set
from lintrain.interpreter.imports import library
from lintrain.model.location import Location
from lintrain.pipeline.record import Arithmetic, Discard
from lintrain.pipeline.values.columns import DataFrame, Series
from lintrain.pipeline.values.data import Dataset, DatasetDict, Tokenizer
from lintrain.pipeline.values.model import Module, Optimizer, Parameter, Parameters, Tensor
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Class,
    Constant,
    Instance,
    Library,
    LibraryObject,
    Literal,
    Mapping,
    OneOf,
    Slice,
    Unknown,
    Value,
    constant,
    join,
    options_of,
)
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.pipeline.values.tensors import Derived
from lintrain.source.fragments import meaning_in, packages_meant, unbuilt_network
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

BUILTINS = frozenset(dir(builtins))

OPTIMIZER = lazy_pattern(r"(?:\w+_)?(?:opt|optim|optimi[sz]er)(?:_\w+)?")
"""What a free name is called that stands for an optimizer."""

TOKENIZER = lazy_pattern(r"(?:\w+_)?tokenizer(?:_\w+)?|tok")
"""What a free name is called that stands for a tokenizer of transformers."""

MODEL = lazy_pattern(r"(?:my_?)?(?:model|net|network|classifier|cnn|rnn|lstm|mlp|autoencoder|vae|unet)", re.IGNORECASE)
"""What a free name is called that stands for the network of a text."""

MOST_YIELDED = 64
"""Items up to this number that `yield from` gives one by one."""

FORGOTTEN = frozenset({"accelerate", "datasets", "evaluate", "peft", "torch", "transformers", "trl"})
"""A name of these that nothing binds is the library with its import forgotten: the rest is judged all the same."""


def evaluate_discarded(reader: Reader, node: ast.Expr, scope: Scope) -> None:
    """Evaluate a statement's expression whose value is thrown away."""
    value = dispatch.evaluate(reader, node.value, scope)
    call = node.value
    if isinstance(value, LibraryObject) and value.path in SWITCHES:
        # `torch.set_grad_enabled(False)` as a statement holds until the function ends, or another one.
        reader.grad_modes.extend((None,) if reader.conditions else modes_set(value))
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return
    record, options = reader.record, options_of(value)
    owner = scope.lookup(call.func.value.id) if isinstance(call.func.value, ast.Name) else None
    if all(isinstance(option, Dataset | DatasetDict) for option in options) or isinstance(owner, DataFrame):
        record.discards.append(_discard(reader, node, call.func, scope, value))
    elif all(isinstance(option, Tensor | Derived) for option in options) or _is_layer(call.func, scope):
        record.lost_tensors.append(_discard(reader, node, call.func, scope, value))


def _is_layer(called: ast.Attribute, scope: Scope) -> bool:
    """Whether `self.dropout(x)` calls a layer of torch."""
    match called:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            network = scope.lookup("self")
            return isinstance(network, Instance) and isinstance(network.attributes.get(name), Module)
        case _:
            return False


def _discard(reader: Reader, node: ast.Expr, method: ast.Attribute, scope: Scope, value: Value) -> Discard:
    location, receiver = reader.source.location(node), method.value
    known = scope.lookup(receiver.id) if isinstance(receiver, ast.Name) else None
    text = reader.code(reader.source.location(receiver))
    return Discard(location, known or UNKNOWN, text, method.attr, value, reader.source.is_displayed(location))


@expression(ast.Constant)
def _constant(reader: Reader, node: ast.Constant, scope: Scope) -> Value:
    # A key of a subscript; elsewhere, as in `field: int = ...`, it stands for something that is not known.
    return Unknown(name="...") if node.value is ... else Constant(node.value, origin=reader.source.location(node))


@expression(ast.Name)
def _name(reader: Reader, node: ast.Name, scope: Scope) -> Value:
    value = scope.lookup(node.id)
    if value is not None:
        return reader.as_tested(value) if reader.narrowed else value
    if node.id in FORGOTTEN and not reader.source.is_partial:
        # `torch.nn.Linear` without `import torch`. Judging the rest is worth more.
        return Library(node.id)
    return Library(f"builtins.{node.id}") if node.id in BUILTINS else _free(reader, node.id, scope)


def _free(reader: Reader, name: str, scope: Scope) -> Value:
    """What a name stands for that nothing binds: in a piece of a script a library, else a thing of that name.

    It is the same thing each time, as one that was imported from an unknown module.
    """
    module = scope.module()
    key = (id(module), name)
    if (known := reader.free.get(key)) is not None:
        return known
    path = meaning_in(reader.source, name)
    value = reader.free[key] = _called(reader, name, module) if path is None else library(path)
    return value


def _called(reader: Reader, name: str, module: Scope) -> Value:
    """What a name is called that no library has: in a piece of a script with PyTorch, `optimizer` is one.

    Next to the class of a network that nothing builds, `model` is an object of it.
    """
    network = assumed_network(reader, name, module)
    if network is not None:
        return network
    if reader.source.is_partial and OPTIMIZER.fullmatch(name) and "torch" in packages_meant(reader.source):
        return Optimizer("torch.optim.Optimizer", trains=(Unknown(name="parameters"),), text=name, is_part=True)
    if reader.source.is_partial and TOKENIZER.fullmatch(name) and _is_of_hub(reader.source):
        return Tokenizer("transformers.AutoTokenizer", Unknown(name="checkpoint"), is_complete=False)
    return Unknown(name=name)


def _is_of_hub(source: Source) -> bool:
    """Whether a piece of a script uses the libraries of Hugging Face; Keras has tokenizers of another kind."""
    return (
        not packages_meant(source).isdisjoint({"transformers", "datasets", "trl"}) and "fit_on_texts" not in source.text
    )


def assumed_network(reader: Reader, name: str, module: Scope) -> Value | None:
    """An object of the one network class that a piece of a script defines and does not build, for `model`."""
    node = unbuilt_network(reader.source) if MODEL.fullmatch(name) else None
    cls = module.lookup(node.name) if node is not None else None
    if node is None or not isinstance(cls, Class):
        return None
    key = (id(module), f"{node.name}()")
    if key not in reader.free:
        call = Call(reader, None, reader.source.location(node), is_open=True)
        reader.free[key] = dispatch.invoke(call, cls)
    return reader.free[key]


@expression(ast.Attribute)
def _attribute(reader: Reader, node: ast.Attribute, scope: Scope) -> Value:
    value = dispatch.evaluate(reader, node.value, scope)
    found = dispatch.attribute(reader, value, node.attr, reader.source.location(node))
    return reader.as_tested(found) if reader.narrowed else found


@expression(ast.Subscript)
def _subscript(reader: Reader, node: ast.Subscript, scope: Scope) -> Value:
    value = dispatch.evaluate(reader, node.value, scope)
    key = dispatch.evaluate(reader, node.slice, scope)
    found = dispatch.subscript(reader, value, key, reader.source.location(node))
    return reader.as_tested(found) if reader.narrowed else found


@expression(ast.Slice)
def _slice(reader: Reader, node: ast.Slice, scope: Scope) -> Value:
    parts = (dispatch.evaluate(reader, part, scope) if part else ABSENT for part in (node.lower, node.upper, node.step))
    return Slice(*parts)


@expression(ast.List, ast.Tuple, ast.Set)
def _sequence(reader: Reader, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Value:
    items: list[Value] = []
    is_complete = is_known = is_closed = True
    for element in node.elts:
        if isinstance(element, ast.Starred):
            inner = dispatch.evaluate(reader, element.value, scope)
            items.extend(_spread(reader, inner))
            is_complete = is_complete and isinstance(inner, SequenceValue) and inner.is_complete
            is_closed = is_closed and (
                isinstance(inner, Parameters) or (isinstance(inner, SequenceValue) and inner.knows_items)
            )
            is_known = is_known and bool(_spread(reader, inner))
        else:
            items.append(dispatch.evaluate(reader, element, scope))
    if not is_known:  # others' parameters may be among them
        # `[*head.parameters(), *others]`: if the optimizer were said to have the head's parameters only,
        # the rules about parameters that no optimizer has would be wrong.
        items = [item for item in items if not isinstance(item, Parameters | Parameter)]
    kind, location = type(node).__name__.lower(), reader.source.location(node)
    return SequenceValue(items, kind, is_complete, is_closed and not is_complete, origin=location)


def _spread(reader: Reader, inner: Value) -> list[Value]:
    """What `*inner` puts into a list: one item stands for all parameters of a module."""
    match inner:
        case SequenceValue(items=items):
            return reader.counted(items)
        case Parameters():
            return [dispatch.element(reader, inner)]
        case _:
            return []


@expression(ast.Dict)
def _mapping(reader: Reader, node: ast.Dict, scope: Scope) -> Value:
    entries: dict[Literal, Value] = {}
    written: dict[Literal, Location] = {}
    is_complete = True
    for key, item in zip(node.keys, node.values, strict=True):
        value = dispatch.evaluate(reader, item, scope)
        if key is None:
            is_complete = operations.update(reader, entries, value) and is_complete
            continue
        name = dispatch.evaluate(reader, key, scope)
        if isinstance(name, Constant):
            entries[name.value] = value
            written[name.value] = reader.source.location(key)
        else:
            is_complete = False
    return Mapping(entries, is_complete, written, origin=reader.source.location(node))


@expression(ast.BinOp)
def _binary(reader: Reader, node: ast.BinOp, scope: Scope) -> Value:
    left = dispatch.evaluate(reader, node.left, scope)
    right = dispatch.evaluate(reader, node.right, scope)
    return computed(reader, node, left, right, (node.left, node.right))


def computed(
    reader: Reader, node: ast.BinOp | ast.AugAssign, left: Value, right: Value, operands: tuple[ast.expr, ast.expr]
) -> Value:
    """What an arithmetic operator gives, with a note of how it was computed where it is no plain literal."""
    location = reader.source.location(node)
    result = operations.binary(reader, left, type(node.op).__name__, right, location)
    if isinstance(result, Constant | SequenceValue) or result is left or result is right:
        return result
    # An object of its own: the record finds how it was computed by its identity, and UNKNOWN is shared by
    # all.
    result = Unknown() if result is UNKNOWN else result
    first, second = (reader.code(reader.source.location(operand)) for operand in operands)
    made = Arithmetic(result, type(node.op).__name__, left, right, first, second, location)
    reader.record.arithmetic[id(result)] = made
    return result


@expression(ast.UnaryOp)
def _unary(reader: Reader, node: ast.UnaryOp, scope: Scope) -> Value:
    operand = dispatch.evaluate(reader, node.operand, scope)
    if isinstance(node.op, ast.Not):
        truth = operations.truth(operand)
        return OneOf(literals=(True, False)) if truth is None else Constant(not truth)
    if isinstance(operand, Constant) and isinstance(operand.value, int | float):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        return constant(sign * operand.value, operand.default) if not isinstance(node.op, ast.Invert) else UNKNOWN
    return operand if isinstance(node.op, ast.USub) or isinstance(operand, Series) else UNKNOWN


@expression(ast.BoolOp)
def _boolean(reader: Reader, node: ast.BoolOp, scope: Scope) -> Value:
    """`a or b` gives one of them; an operand that settles it hides the others."""
    is_or = isinstance(node.op, ast.Or)
    options: list[Value] = []
    for operand in node.values:
        # An operand after one that may settle it may be skipped: `"text" in row and row["text"]`.
        skippable = reader.condition(reader.source.location(node)) if options else nullcontext()
        with skippable:
            value = dispatch.evaluate(reader, operand, scope)
        truth = operations.truth(value)
        # `True or f()` never calls `f`: what comes after an operand that settles it is not read.
        if truth is is_or:
            options.append(value)
            break
        if truth is None or operand is node.values[-1]:
            options.append(value)
    return join(options)


@expression(ast.Compare)
def _compare(reader: Reader, node: ast.Compare, scope: Scope) -> Value:
    left = dispatch.evaluate(reader, node.left, scope)
    results: list[Value] = []
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = dispatch.evaluate(reader, comparator, scope)
        location = reader.source.location(node)
        results.append(operations.compare(reader, left, type(operator).__name__, right, location))
        left = right
    if len(results) == 1:
        return results[0]
    truths = [operations.truth(result) for result in results]
    if False in truths:
        return Constant(False)
    return UNKNOWN if None in truths else Constant(True)


@expression(ast.IfExp)
def _if_expression(reader: Reader, node: ast.IfExp, scope: Scope) -> Value:
    truth = operations.truth(dispatch.evaluate(reader, node.test, scope))
    if truth is not None:
        return dispatch.evaluate(reader, node.body if truth else node.orelse, scope)
    with reader.condition(reader.source.location(node)):
        return join(narrowing.evaluate_sides(reader, node, scope))


@expression(ast.JoinedStr)
def _formatted(reader: Reader, node: ast.JoinedStr, scope: Scope) -> Value:
    """The text itself if all its parts are known."""
    parts = [
        dispatch.evaluate(reader, part.value if isinstance(part, ast.FormattedValue) else part, scope)
        for part in node.values
    ]
    plain = all(not isinstance(part, ast.FormattedValue) or part.format_spec is None for part in node.values)
    constants = [part for part in parts if isinstance(part, Constant)]
    if not plain or len(constants) < len(parts):
        return operations.text_of_parts(reader, parts, reader.source.location(node))
    return arithmetic.together(constants)


@expression(ast.NamedExpr)
def _named(reader: Reader, node: ast.NamedExpr, scope: Scope) -> Value:
    value = dispatch.evaluate(reader, node.value, scope)
    scope.bind(node.target.id, value)
    return value


@expression(ast.Yield, ast.YieldFrom)
def _yield(reader: Reader, node: ast.Yield | ast.YieldFrom, scope: Scope) -> Value:
    value = dispatch.evaluate(reader, node.value, scope) if node.value else Constant(None)
    frame = reader.frame
    items = operations.known_items(value, MOST_YIELDED) if isinstance(node, ast.YieldFrom) else [value]
    is_once = frame.depths == (len(reader.loops), len(reader.conditions)) and items is not None
    # Depths are those at the start of the function: a yield deeper in loops or conditions is one that may
    # repeat or miss.
    frame.yields_once = frame.yields_once and is_once
    frame.yields.extend([dispatch.element(reader, value)] if items is None else items)
    if frame.at_yield is not None:
        frame.at_yield(value)
    return UNKNOWN


@expression(ast.Starred)
def _starred(reader: Reader, node: ast.Starred, scope: Scope) -> Value:
    return dispatch.evaluate(reader, node.value, scope)
