"""Layers of Keras models that are frozen or freed after a fit, where the next fit uses what was compiled before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.keras_misuse import names_in
from lintrain.model.location import Location
from lintrain.source.nodes import NESTED, own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LateChange:
    """A change of `trainable` between two fits of a model without a `compile` after it: where, its code, the fits."""

    location: Location
    code: str
    first: Location
    second: Location


FITS = frozenset({"fit", "fit_generator"})
PLAIN = (ast.Assign, ast.For, ast.Expr)
"""Statements that run whenever their block does."""


def late_changes(source: Source) -> Iterator[LateChange]:
    """The layers that are frozen or freed after a fit, where the next fit uses what was compiled before."""
    if source.contains("KERAS_BACKEND"):
        return  # PyTorch leaves out frozen weights without a new step
    parts = _names_in_values(source)
    compiling = {
        each.name
        for each in source.nodes_of(ast.FunctionDef)
        if any(isinstance(node, ast.Attribute) and node.attr == "compile" for node in walk(each))
    }
    changing = source.cached(_changing)
    bodies = [source.tree.body, *(each.body for each in source.nodes_of(ast.FunctionDef))]
    for body in bodies:
        yield from _Order(source, parts, compiling, changing).read(body)


class _Changing(NamedTuple):
    """A function that does nothing but change `trainable`: its parameters, what it changes first, and to what."""

    parameters: list[str]
    of: ast.expr
    value: object


def _changing(source: Source) -> dict[str, _Changing]:
    """The functions of a file whose only effect is on `trainable`, by name."""
    found = dict[str, _Changing]()
    for function in source.nodes_of(ast.FunctionDef):
        effects = [_change_of(statement) for statement in function.body]
        changes = [each for each in effects if isinstance(each, tuple)]
        if changes and None not in effects:
            found[function.name] = _Changing([each.arg for each in function.args.args], *changes[0])
    return found


def _change_of(statement: ast.stmt) -> tuple[ast.expr, object] | bool | None:
    """What a statement changes `trainable` of, and to what; True if it has no effect, None if it does anything else."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr="trainable", value=owner)], value=ast.Constant(value=to)):
            return owner, to
        case ast.For(iter=of, body=[inner], orelse=[]) if isinstance(inner_change := _change_of(inner), tuple):
            return of, inner_change[1]
        case ast.Return() | ast.Pass() | ast.Expr(value=ast.Constant() | ast.Call(func=ast.Name(id="print"))):
            return True
        case _:
            return None


def _names_in_values(source: Source) -> dict[str, set[str]]:
    """The names in what each name is built from: `network = Model(base.input, head)`, `network.add(base)`."""
    names = dict[str, set[str]]()
    for assign in source.nodes_of(ast.Assign):
        for target in assign.targets:
            if isinstance(target, ast.Name):
                names.setdefault(target.id, set()).update(names_in(assign.value))
            elif isinstance(target, ast.Tuple) and isinstance(assign.value, ast.Call):
                # What one function returns may belong together: `base, network = build()`.
                for each in target.elts:
                    names.setdefault(unparse(each), set()).update(names_in(target))
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="add"), args=[part]):
                names.setdefault(name, set()).update(names_in(part))
            case _:
                pass
    return names


class _Order:
    """The fits and changes of one block, in the order of its statements."""

    def __init__(
        self, source: Source, parts: dict[str, set[str]], compiling: set[str], changing: dict[str, _Changing]
    ) -> None:
        self.source = source
        self.parts = parts
        self.compiling = compiling
        self.changing = changing
        self.fitted = dict[str, ast.Call]()
        self.changed = dict[str, ast.Assign | ast.Call]()
        self.values = dict[str, object]()

    def read(self, body: list[ast.stmt]) -> Iterator[LateChange]:
        for statement in body:
            for node in () if isinstance(statement, NESTED) else (statement, *own_nodes(statement)):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=model), attr=method)) if method in FITS:
                        yield from self.fit(model, node)
                    case ast.Call(func=ast.Name(id=name)) if name in self.changing:
                        self.change_by(statement, self.changing[name], node)
                    case ast.Call():
                        self.call(node)
                    case ast.Assign(targets=[ast.Attribute(attr="trainable", value=owner)], value=ast.Constant() as to):
                        self.change(
                            statement, statement.iter if isinstance(statement, ast.For) else owner, to.value, node
                        )
                    case ast.Name(id=name, ctx=ast.Store()):
                        self.fitted.pop(name, None)
                    case _:
                        pass

    def fit(self, model: str, call: ast.Call) -> Iterator[LateChange]:
        change, first = self.changed.pop(model, None), self.fitted.get(model)
        if change is not None and first is not None:
            at, before, after = (self.source.location(each) for each in (change, first, call))
            yield LateChange(at, unparse(change), before, after)
        self.fitted[model] = call

    def call(self, call: ast.Call) -> None:
        """A call that compiles a model, or may do it, since it gets the model."""
        name = last_name(call.func) or ""
        if "compile" in name.lower() or name in self.compiling:
            self.fitted.clear()
        for argument in (*call.args, *(each.value for each in call.keywords)):
            if isinstance(argument, ast.Name):
                self.fitted.pop(argument.id, None)

    def change_by(self, statement: ast.stmt, function: _Changing, call: ast.Call) -> None:
        """A call of a function of the file that changes `trainable` of what it is given, or of a name of the file."""
        given = dict(zip(function.parameters, call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg}
        of: ast.expr = function.of
        if (root := _root(of)) in function.parameters:
            if root not in given:
                return
            of = (
                given[root] if isinstance(of, ast.Name) else ast.parse(_within(of, root, given[root]), mode="eval").body
            )
        self.change(statement, of, function.value, call)

    def change(self, statement: ast.stmt, of: ast.expr, value: object, node: ast.Assign | ast.Call) -> None:
        """A value for `trainable`, of one part or in a loop over parts; what a condition decides is left out."""
        is_new = self.values.get(unparse(of)) is not value
        self.values[unparse(of)] = value
        if (
            isinstance(of, ast.Subscript)
            and isinstance(of.slice, ast.Slice)
            and any(map(self.changed.get, self.fitted))
        ):
            return  # a part that keeps its state while the rest is changed
        for model in self.fitted if isinstance(statement, PLAIN) else ():
            if is_new and self.changed.pop(model, None) is None and names_in(of) & self.within(model):
                self.changed[model] = node

    def within(self, model: str) -> set[str]:
        """The names of a model and of what it is built from."""
        found, pending = set[str](), [model]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self.parts.get(name, ()))
        return found


def _root(node: ast.expr) -> str:
    """The name that an expression starts with: `base` of `base.layers[-20:]`; empty if none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _within(of: ast.expr, parameter: str, given: ast.expr) -> str:
    """The code of a part of what a parameter is given: `base.layers` for `model.layers` and `base`."""
    return f"({unparse(given)}){unparse(of).removeprefix(parameter)}"
