"""`Sequential` gets a list where it needs layers, or layers where it needs a list.

`torch.nn.Sequential` gets its layers one by one, `keras.Sequential` in one list. What Keras gets after the list is
`trainable` and `name`. Either raises an error at once.

## Bad

    network = nn.Sequential([nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)])  # <- sequential-arguments
    optimizer = torch.optim.Adam(network.parameters())
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(network(inputs), labels).backward()
        optimizer.step()
    # raises TypeError: list is not a Module subclass

Keras, the other way round:

    network = keras.Sequential(  # <- sequential-arguments
        keras.layers.Dense(4, activation="relu"),
        keras.layers.Dense(3, activation="softmax"),
    )
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)
    # raises ValueError

One call of `add` takes one layer:

    network = keras.Sequential()
    network.add([keras.layers.Dense(4), keras.layers.Dense(3, activation="softmax")])  # <- sequential-arguments
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)
    # raises ValueError

## Good

    network = nn.Sequential(*[nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)])
    optimizer = torch.optim.Adam(network.parameters())
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(network(inputs), labels).backward()
        optimizer.step()

Keras gets a list:

    network = keras.Sequential([
        keras.layers.Dense(4, activation="relu"),
        keras.layers.Dense(3, activation="softmax"),
    ])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)

## When it is fine

A dictionary of layers with their names, and arguments that are not layers:

    from collections import OrderedDict

    network = nn.Sequential(OrderedDict([("hidden", nn.Linear(8, 4)), ("output", nn.Linear(4, 3))]))
    other = keras.Sequential([keras.layers.Dense(3)], True)

## Fix

None: whether more is to be changed in the call is a guess.

## References

`torch.nn.Sequential` of torch 2.13; `keras.Sequential` of Keras 3.15.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, script_text
from lintrain.analysis.expressions import Expression, Kind
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, lazy_pattern

OF_KERAS = frozenset({"keras.Sequential", "keras.models.Sequential"})
NO_LAYERS = frozenset({"Input", "OrderedDict", "Sequential"})
"""Capitalized names whose result has several layers, or stands for the first one."""

LISTS = frozenset({Kind.LIST, Kind.LIST_COMPREHENSION, Kind.TUPLE})

OF_KERAS_LAYER = lazy_pattern(r"(\w+\.)*(?:Dense|Conv[123]D|LSTM|GRU|Flatten|Dropout|MaxPooling[123]D)\(")
LAYERS_OF_KERAS = r"\b(?:Dense|Conv[123]D|LSTM|GRU|Flatten|MaxPooling[123]D)\s*\("


class SequentialArguments(Rule):
    level = Level.ERROR
    keywords = "Sequential"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        is_keras = "keras" in source.text
        calls = (each for each in expressions.calls_in_file(source) if each.called_name == "Sequential")
        return any(_gives_list(each) or (is_keras and _gives_layers(each)) for each in calls)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for call in pipeline.calls:
            if call.path != "torch.nn.Sequential" and call.path not in OF_KERAS:
                continue
            node = expressions.call_at(pipeline, call.location)
            if node is None or call.is_guarded:
                continue
            if call.path in OF_KERAS and _gives_layers(node) and script_text.mentions(pipeline, LAYERS_OF_KERAS):
                yield self.finding(
                    call.location,
                    "`Sequential` of Keras gets its layers in one list, and here one by one",
                    help="put the layers into one list: `Sequential([…])`",
                )
            elif call.path not in OF_KERAS and _gives_list(node):
                yield self.finding(
                    call.location,
                    "`nn.Sequential` gets its layers one by one, and here a list",
                    help="write `*` before the list, or remove its brackets",
                )
        for added in expressions.calls_of_method(pipeline.source, "add"):
            if _gives_list(added) and any(OF_KERAS_LAYER.match(each.code) for each in added.arguments[0].items):
                yield self.finding(
                    added.location,
                    "`add` of Keras takes one layer, and here a list of them",
                    help="call `add` for each layer, or give the list to `Sequential`",
                )


def _gives_layers(call: Expression) -> bool:
    """Whether the layers are given themselves: calls of classes, or the items of a list."""
    first = call.arguments[0] if call.arguments else None
    if first is not None and first.kind is Kind.SPREAD:
        return len(call.arguments) == 1
    made = first.called_name if first else ""
    return made[:1].isupper() and made not in NO_LAYERS


def _gives_list(call: Expression) -> bool:
    return len(call.arguments) == 1 and not call.keywords and call.arguments[0].kind in LISTS
