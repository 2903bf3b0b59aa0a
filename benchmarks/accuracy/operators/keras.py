"""Mistakes in Keras models."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import is_text
from benchmarks.accuracy.mutants import injects


@injects("keras-logits-loss", shows="printed", not_run="what Keras computes leaves no trace here")
def name_the_loss_by_a_word(code: Code) -> Iterator[list[Edit]]:
    """A loss that takes logits for probabilities."""
    for loss in code.calls("SparseCategoricalCrossentropy"):
        if code.argument(loss, "from_logits"):
            yield [code.here(loss), code.replace(loss, '"sparse_categorical_crossentropy"')]


@injects("keras-logits-loss", shows="printed", not_run="what Keras computes leaves no trace here")
def leave_out_the_softmax(code: Code) -> Iterator[list[Edit]]:
    """A last layer without its activation."""
    for layer in code.calls("Dense"):
        activation = code.argument(layer, "activation")
        if activation and is_text(activation.value, "softmax"):
            losses = [code.argument(call, "loss") for call in code.calls("model.compile")]
            yield [*(code.here(loss) for loss in losses if loss), code.drop_argument(layer, "activation")]


@injects("keras-softmax-logits-loss", shows="printed", not_run="what Keras computes leaves no trace here")
def normalise_before_a_logits_loss(code: Code) -> Iterator[list[Edit]]:
    """Softmax before a loss that takes logits."""
    for loss in code.calls("SparseCategoricalCrossentropy"):
        for layer in list(code.calls("Dense"))[-1:]:
            if code.argument(loss, "from_logits"):
                marks = [code.here(code.statement(loss)), code.here(loss), code.here(layer)]
                yield [*dict.fromkeys(marks), code.add_argument(layer, 'activation="softmax"')]


@injects("keras-single-unit-softmax", shows="printed", not_run="what Keras computes leaves no trace here")
def normalise_one_output(code: Code) -> Iterator[list[Edit]]:
    """Softmax over one output."""
    for layer in code.calls("Dense"):
        activation = code.argument(layer, "activation")
        if activation and is_text(activation.value, "sigmoid"):
            yield [code.here(code.statement(layer)), code.here(layer), code.replace(activation.value, '"softmax"')]


@injects("keras-sparse-mismatch", shows="error")
def give_one_hot_rows_to_a_sparse_loss(code: Code) -> Iterator[list[Edit]]:
    """A sparse loss for one-hot labels."""
    for compiled in code.calls("model.compile"):
        loss = code.argument(compiled, "loss")
        if loss and is_text(loss.value, "categorical_crossentropy"):
            fits = [code.here(code.statement(call)) for call in code.calls("model.fit")]
            marks = [code.here(code.statement(compiled)), code.here(loss), *fits]
            yield [*dict.fromkeys(marks), code.replace(loss.value, '"sparse_categorical_crossentropy"')]


@injects("unavailable-monitor", shows="printed warnings", not_run="what Keras computes leaves no trace here")
def watch_what_is_not_there(code: Code) -> Iterator[list[Edit]]:
    """Early stopping on a validation that is not made."""
    for fit in code.calls("model.fit"):
        stops = list(code.calls("EarlyStopping", "ModelCheckpoint"))
        if stops and code.argument(fit, "validation_data"):
            yield [*(code.here(stop) for stop in stops), code.drop_argument(fit, "validation_data")]


@injects("unavailable-monitor", shows="error warnings")
def watch_another_name(code: Code) -> Iterator[list[Edit]]:
    """A monitor that Lightning's module does not log."""
    for stop in code.calls("EarlyStopping", "ModelCheckpoint"):
        monitor = code.argument(stop, "monitor")
        if monitor and "lightning" in code.text and isinstance(monitor.value, ast.Constant):
            marks = [code.here(stop), code.here(code.statement(stop)), code.here(monitor)]
            yield [*dict.fromkeys(marks), code.replace(monitor.value, '"valid_metric"')]
