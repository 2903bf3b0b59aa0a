"""A preprocessor is fitted a second time, on the test rows.

The test rows are then scaled by their own mean and range, or encoded with their own vocabulary, and the model sees
other numbers than in training. The score is not that of the trained model on new rows.

## Bad

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x_inside, x_outside, y_inside, y_outside = train_test_split(x_train, y_train, random_state=0)
    scaler = StandardScaler()
    x_inside = scaler.fit_transform(x_inside)
    x_outside = scaler.fit_transform(x_outside)  # <- refitted-preprocessor
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_inside, y_inside, validation_data=(x_outside, y_outside), verbose=0)

## Good

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x_inside, x_outside, y_inside, y_outside = train_test_split(x_train, y_train, random_state=0)
    scaler = StandardScaler()
    x_inside = scaler.fit_transform(x_inside)
    x_outside = scaler.transform(x_outside)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_inside, y_inside, validation_data=(x_outside, y_outside), verbose=0)

## When it is fine

A preprocessor that is made again for other columns, and one that is fitted on training rows only:

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x_inside, x_outside, y_inside, y_outside = train_test_split(x_train, y_train, random_state=0)
    scaler = StandardScaler()
    x_inside = scaler.fit_transform(x_inside)
    x_outside = scaler.transform(x_outside)
    scaler = StandardScaler()
    targets = scaler.fit_transform(y_inside.reshape(-1, 1))
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_inside, y_inside, validation_data=(x_outside, y_outside), verbose=0)

## Fix

Asks first: the results on the test rows change.

## References

scikit-learn documentation, "Common pitfalls and recommended practices": inconsistent preprocessing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import refits
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
)

if TYPE_CHECKING:
    from lintrain.evidence.run import LearnedRows


@dataclass(frozen=True, slots=True)
class Claim:
    """The method that should be `transform`, with its owner; None if only `fit` is called."""

    callee: Location
    code: str


class RefittedPreprocessor(Rule[Claim]):
    level = Level.WARNING
    keywords = "fit_transform|scale(|fit_on_texts|get_dummies|.adapt("
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return refits.has_classifier(source)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for refit in refits.refitted(pipeline):
            shown = f"`{refit.learner}`" if len(refit.learner) <= 30 else "this preprocessor"
            if refit.learner.endswith("get_dummies"):
                yield self._of_dummies(refit)
                continue
            yield self.finding(
                refit.location,
                f"{shown} is fitted again, on the test rows",
                related=[Related(refit.first, "fitted on the training rows here", "fit")],
                help="leave out this call" if refit.is_adapted else "only `transform` the test rows",
                claim=Claim(refit.callee, f"{refit.learner}.transform") if refit.callee is not None else None,
            )

    def _of_dummies(self, refit: refits.Refit) -> Finding[Claim]:
        return self.finding(
            refit.location,
            "the test rows get columns of their own, for the values that are in them",
            related=[Related(refit.first, "the training rows have columns for other values", "fit")],
            help="give them the columns of the training rows: `.reindex(columns=train.columns, fill_value=0)`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for first, second in _refitted(evidence):
            # Encoded labels are the same where all classes are in both parts.
            if second.learner.endswith(("Encoder", "Binarizer")):
                continue
            yield self.finding(
                second.location,
                f"`{second.learner}` is fitted again, on the test rows",
                related=[Related(first.location, "fitted on the training rows here", "fit")],
                help="only `transform` the test rows",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        seen = evidence.objects
        for first, second in _refitted(evidence):
            if second.location.meets(finding.location):
                text = f"`{second.learner}` was fitted on {first.rows} rows, and again on the other {second.rows}"
                return Verdict.confirmed(text, rows=second.rows)
        if seen.splits and seen.learned:
            return Verdict.refuted(f"0 of {len(seen.learned)} fits are on the rows that a split keeps for the test")
        return Verdict.inconclusive(f"{len(seen.splits)} splits and {len(seen.learned)} fits were seen")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.claim.callee, finding.claim.code)
        return fixes.Fix.of("only transform the test rows", edit, safe=False)


def _refitted(evidence: Evidence) -> Iterator[tuple[LearnedRows, LearnedRows]]:
    """Fits of one class on the rows that a split keeps for training, then on as many as some split leaves for a test.

    Rows that are divided twice have two such parts: those for the validation, and those for the test.
    """
    seen = evidence.objects
    for split in seen.splits:
        after = [each for each in seen.learned if each.moment > split.moment]
        held_out = {each.rows - each.kept for each in seen.splits} - {split.kept}
        for first in (each for each in after if each.rows == split.kept):
            later = (each for each in after if each.moment > first.moment and each.learner == first.learner)
            yield from ((first, second) for second in later if second.rows in held_out)
