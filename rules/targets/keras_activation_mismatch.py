"""The activation of the last layer does not fit the loss.

A cross-entropy over classes expects a softmax, whose outputs sum to 1. A binary cross-entropy judges every output by
itself and expects a sigmoid; a softmax lets several labels only compete. After `relu` or `tanh` outputs are no
probabilities at all: they are clipped, and where all of them are 0 no gradient is left. No error is raised.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="sigmoid")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <- keras-activation-mismatch
    network.fit(x_train, y_train, verbose=0)

An activation that gives no probabilities:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="relu")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <- keras-activation-mismatch
    network.fit(x_train, y_train, verbose=0)

A softmax for a loss that judges every output by itself:

    network = keras.Sequential()
    network.add(keras.layers.Dense(3))
    network.add(keras.layers.Activation("softmax"))
    network.compile(optimizer="adam", loss="binary_crossentropy")  # <- keras-activation-mismatch
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)

The same for the others:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)

One sigmoid for each label:

    network = keras.Sequential()
    network.add(keras.layers.Dense(3))
    network.add(keras.layers.Activation("sigmoid"))
    network.compile(optimizer="adam", loss="binary_crossentropy")
    network.fit(x_train, (x_train[:, :3] > 0).astype("float32"), verbose=0)

## When it is fine

With two classes in one-hot rows, the binary cross-entropy of a softmax equals the categorical one:

    network = keras.Sequential([keras.layers.Dense(2, activation="softmax")])
    network.compile(optimizer="adam", loss="binary_crossentropy")

The activation is chosen elsewhere:

    from my_settings import activation

    network = keras.Sequential([keras.layers.Dense(3, activation=activation)])
    network.compile(optimizer="adam", loss="categorical_crossentropy")

## Fix

None: either the activation or the loss may be the intended one.

## References

Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass

OVER_CLASSES = frozenset({"categorical_crossentropy", "sparse_categorical_crossentropy"})
NO_PROBABILITIES = frozenset({"relu", "tanh", "elu", "selu", "leaky_relu", "softplus", "swish", "silu", "gelu"})

SIGMOIDS = frozenset({"sigmoid", "hard_sigmoid"})

APART, COUPLED, UNBOUNDED, EXCLUSIVE, CUT = "apart", "coupled", "unbounded", "exclusive", "cut"
"""Forms of the mistake: outputs that do not sum to 1, that have to, that are no probabilities, that need not sum to 1
though each row has one class, and scores that are cut before they become probabilities."""

CUTS = frozenset({"relu", "sigmoid", "tanh"})


@dataclass(frozen=True, slots=True)
class Claim:
    """How the activation and the loss differ."""

    form: str


class KerasActivationMismatch(Rule[Claim]):
    level = Level.WARNING
    keywords = "compile|GradientTape"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            loss, activation = keras_runs.loss_of(run), keras_runs.activation_at_end(run)
            if loss is None or activation is None or loss.from_logits is not False:
                continue
            if keras_runs.only_built_from(pipeline, run):
                continue
            form = _form_of(loss.name, activation, keras_runs.output_units(run)) or _form_with_labels(run)
            if form is not None:
                yield self._report(run, loss.name, activation, form)
        for run in pipeline.keras_runs:
            cut, loss = keras_runs.activation_before_end(run), keras_runs.loss_of(run)
            is_softmax = isinstance(run.output, Layer) and keras_runs.activation_of(run.output) == "softmax"
            if cut in CUTS and is_softmax and loss is not None:
                yield self._report(run, loss.name, cut, CUT)

    def _report(self, run: KerasRun, loss: str, activation: str, form: str) -> Finding[Claim]:
        message, remedy = {
            APART: (f"this loss expects a softmax, but the last layer applies {activation}", "softmax"),
            COUPLED: ("this loss judges each output by itself, but softmax couples them", "sigmoid"),
            UNBOUNDED: (f"this loss expects probabilities, but the last layer applies {activation}", ""),
            EXCLUSIVE: ("each row has one class, but this loss judges each class by itself", "softmax"),
            CUT: (f"the scores go through {activation} before the softmax", "linear"),
        }[form]
        wanted = remedy or ("softmax" if loss in OVER_CLASSES else "sigmoid")
        other = {APART: "binary_crossentropy", COUPLED: "categorical_crossentropy"}.get(form)
        also = " and `categorical_crossentropy`" if form is EXCLUSIVE else f", or `{other}`" if other else ""
        made = run.output.origin
        return self.finding(
            made if form is CUT and made is not None else run.compile_arguments["loss"].location,
            message,
            related=[Related(made, f"the last layer applies {activation}", "origin")]
            if made and form is not CUT
            else [],
            help="leave the activation of the layer before it out"
            if form is CUT
            else f'use `activation="{wanted}"`{also}',
            subject="loss",
            level=Level.ERROR if form is UNBOUNDED else Level.WARNING,
            claim=Claim(form),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        keras = evidence.keras
        if keras is None or keras.from_logits is not False or not keras.activation:
            return
        form = _form_of(keras.loss, keras.activation, keras.units)
        if form is not None:
            yield self.finding(
                evidence.location,
                f"`{keras.loss}` does not fit `{keras.activation}`, the activation of the last layer",
                help="use a softmax for a loss over classes, and a sigmoid for one that judges each output by itself",
                subject="loss",
                level=Level.ERROR if form is UNBOUNDED else Level.WARNING,
                claim=Claim(form),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if finding.claim is None or keras is None or not keras.loss or keras.sums is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if finding.claim.form in {EXCLUSIVE, CUT}:
            return Verdict.inconclusive("the outputs of the last layer do not show it")
        if keras.from_logits:
            return Verdict.refuted(f"`{keras.loss}` expects logits and gets {keras.span}")
        sums = f"{keras.span}, with row sums from {keras.sums[0]:.3f} to {keras.sums[1]:.3f}"
        is_over_classes = keras.loss in OVER_CLASSES
        # With one unit, every value between 0 and 1 counts as a distribution.
        is_distribution = bool(keras.are_probabilities) and keras.units != 1
        if finding.claim.form is UNBOUNDED and not is_over_classes:
            fits = bool(keras.are_within_one)
        else:
            fits = is_over_classes is is_distribution
        if fits:
            return Verdict.refuted(f"`{keras.loss}` gets {sums}")
        return Verdict.confirmed(f"`{keras.loss}` gets {sums}", stage="forward")


def _form_with_labels(run: KerasRun) -> str | None:
    """The form that only the labels show: one-hot rows of several classes for outputs that are judged one by one."""
    loss, units = keras_runs.loss_of(run), keras_runs.output_units(run)
    labels = keras_runs.labels_of(run)
    is_apart = loss is not None and loss.name == "binary_crossentropy" and units is not None and units > 2
    is_of_one = labels is not None and labels.is_one_hot is True and keras_runs.activation_at_end(run) in SIGMOIDS
    return EXCLUSIVE if is_apart and is_of_one else None


def _form_of(loss: str, activation: str, units: int | None) -> str | None:
    if loss not in OVER_CLASSES and loss != "binary_crossentropy":
        return None
    if activation in NO_PROBABILITIES:
        return UNBOUNDED
    # One unit is another mistake, which is reported by `keras-single-unit-softmax`.
    if loss in OVER_CLASSES and activation in SIGMOIDS and units != 1:
        return APART
    # With two units and one-hot rows both losses are equal.
    is_coupled = loss == "binary_crossentropy" and activation == "softmax" and units is not None and units > 2
    return COUPLED if is_coupled else None
