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

from bisect import bisect_left
from collections.abc import Iterator

from lintrain.analysis import expressions, statements
from lintrain.analysis.expressions import Assignment, Expression, Kind
from lintrain.pipeline import blocks
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
        for call, name, layer in _additions(pipeline):
            called = f"{layer.written_code}({name})"
            is_whole = statements.is_whole_statement(pipeline, call.location)
            yield self.finding(
                call.location,
                f"`{name}` is a tensor, to which no layer can be added",
                help="call the layer on the tensor",
                claim=Claim(f"{name} = {called}" if is_whole else called),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, finding.claim.code)
        return fixes.Fix.of("call the layer on the tensor", edit, safe=True)


def _additions(pipeline: Pipeline) -> Iterator[tuple[Expression, str, Expression]]:
    """The calls of `add` on a name that was last bound to a tensor, with the name and the added layer."""
    for call in expressions.calls_of_method(pipeline.source, "add"):
        owner, given = call.called_on, call.arguments
        if owner is None or owner.kind is not Kind.NAME or len(given) != 1 or call.keywords:
            continue
        if given[0].called_name[:1].isupper() and _is_tensor(_bound_before(pipeline, owner.name, call.location)):
            yield call, owner.name, given[0]


def _bound_before(pipeline: Pipeline, name: str, call: Location) -> Expression | None:
    """What the last assignment above a call bound a name to; None if that is in another function."""
    bound = pipeline.source.cached(_assigned).get(name, [])
    at = bisect_left(bound, call.line, key=lambda each: each.location.line) - 1
    return bound[at].value if at >= 0 and blocks.is_one_scope(pipeline, call, bound[at].location) else None


def _assigned(source: Source) -> dict[str, list[Assignment]]:
    """The assignments to each plain name, by their lines."""
    found: dict[str, list[Assignment]] = {}
    for made in sorted(expressions.assignments_in_file(source), key=lambda each: each.location.line):
        for target in made.targets:
            if target.kind is Kind.NAME:
                found.setdefault(target.name, []).append(made)
    return found


def _is_tensor(value: Expression | None) -> bool:
    if value is None or value.callee is None:
        return value is not None and value.kind is Kind.ATTRIBUTE and value.name in OUTPUTS
    if value.callee.kind is Kind.CALL:
        return value.callee.called_name[:1].isupper()
    return value.called_name == "Input"
