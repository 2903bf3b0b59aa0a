"""A layer is added to the output of another one, as if that were a network.

`add` is a method of `Sequential`. What a layer gives, or `output` of a network, is a tensor without it, so the script
ends with an AttributeError. In the functional way to write networks, a layer is called on the tensor.

## Bad

    inputs = keras.Input((8,))
    x = keras.layers.Dense(4, activation="relu")(inputs)
    x.add(keras.layers.Dropout(0.1))  # <- keras-add-on-tensor
    outputs = keras.layers.Dense(3, activation="softmax")(x)
    network = keras.Model(inputs, outputs)
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)
    # raises AttributeError

## Good

    inputs = keras.Input((8,))
    x = keras.layers.Dense(4, activation="relu")(inputs)
    x = keras.layers.Dropout(0.1)(x)
    outputs = keras.layers.Dense(3, activation="softmax")(x)
    network = keras.Model(inputs, outputs)
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)

## When it is fine

A network gets its layers one by one:

    x = keras.Sequential()
    x.add(keras.Input((8,)))
    x.add(keras.layers.Dense(3, activation="softmax"))
    x.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    x.fit(x_train, y_train, verbose=0)

## Fix

Safe: no tensor of Keras has this method.

## References

Keras documentation, "The functional API".
"""

from __future__ import annotations

import ast  # the rule is about what the statement before bound a name to, whatever its value
from bisect import bisect_left
from collections.abc import Iterator

from lintrain.rule import Finding, Level, Location, Pipeline, Rule, Source, dataclass, fixes

OUTPUTS = frozenset({"output", "outputs"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The code that calls the layer on the tensor."""

    code: str


class KerasAddOnTensor(Rule[Claim]):
    level = Level.ERROR
    keywords = ".add( & keras"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        source = pipeline.source
        whole = {node.value for node in source.nodes_of(ast.Expr)}
        for call, name, layer in _additions(source):
            called = f"{source.code(source.location(layer))}({name})"
            yield self.finding(
                source.location(call),
                f"`{name}` is a tensor, to which no layer can be added",
                help="call the layer on the tensor",
                claim=Claim(f"{name} = {called}" if call in whole else called),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, finding.claim.code)
        return fixes.Fix.of("call the layer on the tensor", edit, safe=True)


def _additions(source: Source) -> Iterator[tuple[ast.Call, str, ast.Call]]:
    """The calls of `add` on a name that was last bound to a tensor, with the name and the added layer."""
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="add"), args=[ast.Call() as layer]):
                if _last_name(layer.func)[:1].isupper() and _is_tensor(_bound_before(source, name, call)):
                    yield call, name, layer
            case _:
                pass


def _bound_before(source: Source, name: str, call: ast.Call) -> ast.expr | None:
    """What the last assignment above a call bound a name to; None if that is in another function."""
    bound = source.cached(_assigned).get(name, [])
    at = bisect_left(bound, call.lineno, key=lambda node: node.lineno) - 1
    if at < 0:
        return None
    here, there = source.location(call), source.location(bound[at])
    return bound[at].value if _function_around(source, here) is _function_around(source, there) else None


def _assigned(source: Source) -> dict[str, list[ast.Assign]]:
    """The assignments to each plain name, by their lines."""
    found: dict[str, list[ast.Assign]] = {}
    for node in sorted(source.nodes_of(ast.Assign), key=lambda node: node.lineno):
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(node)
    return found


def _function_around(source: Source, location: Location) -> ast.FunctionDef | None:
    around = [node for node in source.nodes_of(ast.FunctionDef) if source.location(node).holds(location)]
    return around[-1] if around else None


def _is_tensor(value: ast.expr | None) -> bool:
    match value:
        case ast.Attribute(attr=name):
            return name in OUTPUTS
        case ast.Call(func=ast.Call(func=made)):
            return _last_name(made)[:1].isupper()
        case ast.Call(func=made):
            return _last_name(made) == "Input"
        case _:
            return False


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
