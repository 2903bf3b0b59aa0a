"""The class numbers are divided like the pixels.

A loss for classes reads a label as the number of a class. Divided by 255, all of them are fractions near 0: a sparse
cross-entropy truncates them to class 0, and the network learns to predict that class always.

## Bad

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    x_train, y_train = x_train / 255.0, y_train / 255.0  # <- scaled-class-numbers
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    network.compile(loss="sparse_categorical_crossentropy", optimizer="adam")
    network.fit(x_train, y_train)

## Good

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    x_train, y_train = x_train / 255.0, y_train
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    network.compile(loss="sparse_categorical_crossentropy", optimizer="adam")
    network.fit(x_train, y_train)

## When it is fine

Numbers that are predicted as numbers:

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
    network.compile(loss="mse", optimizer="adam")
    network.fit(x_train / 255.0, y_train / 9.0)

## Fix

Safe: no class has the number that the division gives.

## References

Keras documentation, `keras.datasets.mnist.load_data`: labels are integers from 0 to 9.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.python import number_of
from lintrain.pipeline.values.training import KerasLabels
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Verdict, dataclass, fixes

SPARSE = "sparse_categorical"
"""In the name of a loss that reads labels as numbers of classes."""
PIXEL_VALUES = frozenset({255.0, 256.0, 127.5})
"""What code divides pixels by."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the labels before the division."""

    labels: str


class ScaledClassNumbers(Rule[Claim]):
    level = Level.ERROR
    keywords = "255|256|127.5"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for made in pipeline.arithmetic.values():
            if made.operator == "Div" and isinstance(made.left, KerasLabels) and not made.left.is_one_hot:
                divisor = number_of(made.right)
                if divisor in PIXEL_VALUES:
                    yield self.finding(
                        made.location,
                        f"`{made.left_text}` holds class numbers, which become fractions",
                        help="scale only the images",
                        claim=Claim(made.left_text),
                    )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.keras is not None:
            yield self.finding(
                evidence.location, "the labels of a loss for classes are fractions", help="scale only the images"
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or keras.fractions is None or SPARSE not in keras.loss:
            return Verdict.inconclusive("0 labels of a sparse cross-entropy were seen")
        text = f"{keras.fractions:.0%} of the labels of `{keras.loss}` are fractions"
        return (Verdict.confirmed if keras.fractions else Verdict.refuted)(text, fractions=keras.fractions)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, finding.claim.labels)
        return fixes.Fix.of("keep the class numbers", edit, safe=True)
