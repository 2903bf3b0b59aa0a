"""Values are passed, or unpacked, in another order than the parameters or results of the same names.

`evaluate(loader, net)` calls `def evaluate(net, loader)`. Python compares no names, so each value gets the meaning of
another one. The call fails where the values are of different kinds; where they are not, two losses trade their
weights, the test rows are those that the model is chosen by, or a model learns to prefer the rejected answers.

## Bad

    def train(rate, decay, epochs):
        optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                optimizer.step()

    rate, decay, epochs = 1e-3, 1e-2, 2
    train(decay, rate, epochs)  # <- swapped-names

Results that are unpacked in another order than the function returns them:

    def load():
        rows = TensorDataset(features, targets)
        train_rows, val_rows, test_rows = torch.utils.data.random_split(rows, [0.6, 0.2, 0.2])
        return train_rows, val_rows, test_rows

    train_rows, test_rows, val_rows = load()  # <- swapped-names
    for x, y in DataLoader(train_rows, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    def train(rate, decay, epochs):
        optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                optimizer.step()

    rate, decay, epochs = 1e-3, 1e-2, 2
    train(rate, decay, epochs)

and

    def load():
        rows = TensorDataset(features, targets)
        train_rows, val_rows, test_rows = torch.utils.data.random_split(rows, [0.6, 0.2, 0.2])
        return train_rows, val_rows, test_rows

    train_rows, val_rows, test_rows = load()
    for x, y in DataLoader(train_rows, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Two sides of something may be exchanged on purpose, as in the network of the way back:

    def translator(in_channels, out_channels):
        return nn.Linear(in_channels, out_channels)

    in_channels, out_channels = 8, 3
    forth, back = translator(in_channels, out_channels), translator(out_channels, in_channels)

## Fix

None: the call may be right, and the order of the parameters or of the results wrong.

## References

Python language reference, "Calls". Python Enhancement Proposal 3102, arguments that are passed by name only.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_pairs, expressions, library_results, preference_sides, swapped_results
from lintrain.interpreter.own_arguments import OTHER_ORDER
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Misuse
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class SwappedNames(Rule):
    level = Level.WARNING
    keywords = "def|train_test_split|chosen|predictions|evaluate|LSTM"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(swapped_results.swapped_splits(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        swapped = (each for each in pipeline.misuses if each.use == OTHER_ORDER and not _is_way_back(pipeline, each))
        yield from one_per_location(self._report_call(misuse, pipeline) for misuse in swapped)
        yield from one_per_location(map(self._report_results, swapped_results.swapped_results(pipeline)))
        yield from one_per_location(map(self._report_results, swapped_results.swapped_splits(pipeline.source)))
        yield from map(self._report_results, library_results.swapped_library_results(pipeline.source))
        yield from map(self._report_pair, evaluation_pairs.swapped_predictions(pipeline.source))

        for found in preference_sides.exchanged_rows(pipeline.source):
            yield self.finding(
                found.location,
                "`chosen` gets what was rejected, and `rejected` what was chosen",
                help="give each side its own answer",
                subject="chosen",
            )

    def _report_call(self, misuse: Misuse, pipeline: Pipeline) -> Finding:
        given, _, taken = misuse.text.partition(" for ")
        defined = misuse.value.origin
        shown = f"`{given}`" if len(given) <= SHOWN else "arguments"
        return self.finding(
            misuse.location,
            f"passes {shown} where the parameters are `{taken}`"
            if len(given) + len(taken) <= SHOWN
            else f"passes {shown} in another order than the parameters of these names",
            related=[Related(defined, f"takes `{taken}`", "definition")] if defined is not None else [],
            help="pass them by name",
        )

    def _report_results(self, found: swapped_results.SwappedResults) -> Finding:
        returned = ", ".join(filter(None, found.returned))
        return self.finding(
            found.location,
            f"the function returns `{returned}`, in this order"
            if len(returned) <= SHOWN
            else "unpacks results in another order than the function returns them",
            related=[Related(found.returned_at, "returned here", "definition")] if found.returned_at else [],
            help="give the results the names that they have in the function",
        )

    def _report_pair(self, found: swapped_results.SwappedResults) -> Finding:
        return self.finding(
            found.location,
            "the Trainer gives the predictions first, then the labels",
            why="The metric takes the logits for labels, so it is wrong, or the first evaluation ends with an error.",
            help="exchange the two names, or read `.predictions` and `.label_ids`",
            subject="compute_metrics",
        )


SHOWN = 40
"""So many characters of names fit into a message."""


def _is_way_back(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether the same function also makes something by the call in the order of the parameters, and keeps both.

    An autoencoder makes its decoder so, and a translation of images its way back: both orders are meant.
    """
    call = expressions.call_at(pipeline, misuse.location)
    if call is None or call.callee is None or expressions.assignment_at(pipeline, misuse.location) is None:
        return False
    given, taken = (text.split(", ") for text in misuse.text.split(" for "))
    moved = [index for index, name in enumerate(given) if name in taken and name != taken[index]]
    return any(
        other.callee is not None
        and other.callee.code == call.callee.code
        and all(_name_at(other, index) == taken[index] for index in moved)
        and blocks.is_one_scope(pipeline, other.location, misuse.location)
        and expressions.assignment_at(pipeline, other.location) is not None
        for other in expressions.calls_in_file(pipeline.source_of(misuse.location))
    )


def _name_at(call: expressions.Expression, index: int) -> str:
    return call.arguments[index].name.lstrip("_") if index < len(call.arguments) else ""
