"""A preprocessor is fitted on all rows, including those that are held out for testing.

What is fitted on all rows learns from the test rows as well: their mean, range or vocabulary. The test score is better
than on unseen rows, by an unknown amount, and no error is raised.

Arithmetic does the same: `(rows - rows.mean(0)) / rows.std(0)` before the split.

## Bad

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    scaled = scaler.fit_transform(x_train)  # <- fit-before-split
    inside, outside, y_inside, y_outside = train_test_split(scaled, y_train, random_state=0)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(inside, y_inside, validation_data=(outside, y_outside), verbose=0)

A split whose parts are not what the scaler is fitted on:

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    inside, outside, y_inside, y_outside = train_test_split(x_train, y_train, random_state=0)
    scaler = StandardScaler()
    scaler.fit(x_train)  # <- fit-before-split
    inside, outside = scaler.transform(inside), scaler.transform(outside)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(inside, y_inside, validation_data=(outside, y_outside), verbose=0)

## Good

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    inside, outside, y_inside, y_outside = train_test_split(x_train, y_train, random_state=0)
    inside = scaler.fit_transform(inside)
    outside = scaler.transform(outside)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(inside, y_inside, validation_data=(outside, y_outside), verbose=0)

## When it is fine

A transformer that processes rows one by one learns nothing, and class labels can be encoded before the split:

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import LabelEncoder, Normalizer

    normed = Normalizer().fit_transform(x_train)
    numbers = LabelEncoder().fit_transform(y_train)
    inside, outside, y_inside, y_outside = train_test_split(normed, numbers, random_state=0)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(inside, y_inside, validation_data=(outside, y_outside), verbose=0)

The rows may come from an earlier split:

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x_rest, x_test, y_rest, y_test = train_test_split(x_train, y_train, random_state=0)
    x_rest = StandardScaler().fit_transform(x_rest)
    inside, outside, y_inside, y_outside = train_test_split(x_rest, y_rest, random_state=0)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(inside, y_inside, validation_data=(outside, y_outside), verbose=0)

## Fix

Asks first: all later results change. Offered for `fit_transform` directly above a split into two named parts, if its
result is not used elsewhere.

## References

scikit-learn documentation, "Common pitfalls and recommended practices": data leakage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import fitted_names, leaks, refits
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
    from lintrain.evidence.run import ObjectEvidence


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the fix: the rows that the split gets, and the statements after it."""

    rows: str
    statements: str


WHY_TARGET = (
    "The mean of a group includes the targets of its test rows, so the feature contains a part of what the model is to "
    "predict. The test score is better than on unseen rows, and no error is raised."
)


class FitBeforeSplit(Rule[Claim]):
    level = Level.WARNING
    keywords = "train_test_split|fit_transform|.fit(|random_split|mean|min"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return refits.has_classifier(source)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[Location]()
        for leak in leaks.fitted_before_split(pipeline):
            if leak.location in seen:
                continue  # rows and labels of one frame
            seen.add(leak.location)
            edit = None if leak.is_after_split else _edit(pipeline, leak.location, leak.split)
            yield self.finding(
                leak.location,
                _what(leak),
                related=[
                    Related(leak.split, "the rows are split here", "split", pipeline.code(leak.split)),
                    *(edit.related if edit else []),
                ],
                why=WHY_TARGET if leak.target else "",
                help="split first, `fit` on the training rows, and `transform` both parts"
                if leak.learner
                else "split first, and take the means of the training rows for both parts"
                if leak.target
                else "split first, and scale both parts by the statistics of the training rows",
                claim=edit.claim if edit else None,
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        splits = evidence.objects.splits
        for fit in evidence.objects.learned:
            is_of_part = any(split.moment < fit.moment and split.kept == fit.rows for split in splits)
            for split in () if is_of_part or fit.learner not in fitted_names.LEARNERS else splits:
                if fit.moment < split.moment and fit.rows == split.rows:
                    yield self.finding(
                        fit.location,
                        f"`{fit.learner}` is fitted on all rows, including those that are held out later",
                        related=[Related(split.location, "the rows are split here", "split")],
                        help="split first, `fit` on the training rows, and `transform` both parts",
                    )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        seen = evidence.objects
        learned = [each for each in seen.learned if each.location.meets(finding.location)]
        locations = [reason.location for reason in finding.with_role("split")]
        splits = [each for each in seen.splits if any(each.location.meets(location) for location in locations)]
        for fit in learned:
            whole = [split for split in splits if split.rows == fit.rows]
            if whole:
                held_out, when = whole[0].rows - whole[0].kept, " later" if whole[0].moment > fit.moment else ""
                return Verdict.confirmed(
                    f"`{fit.learner}` was fitted on {fit.rows} rows, of which {held_out} were held out{when}",
                    rows=fit.rows,
                    apart=held_out,
                )
        return _of_earlier_splits(seen)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        roles = {role: finding.with_role(role) for role in ("statement", "rows", "split")}
        if claim is None or not all(roles.values()):
            return None
        return fixes.Fix.of(
            "fit on the training rows only",
            fixes.Replace(roles["statement"][0].location, ""),
            fixes.Replace(roles["rows"][0].location, claim.rows),
            fixes.InsertAfter(roles["split"][0].location, claim.statements),
            safe=False,
        )


def _what(leak: leaks.Leak) -> str:
    if leak.target:
        shown = f"the target `{leak.target}`" if len(leak.target) <= 8 else "the target"
        return f"means of {shown} over all rows, also those that are held out later"
    if leak.learner:
        when = "" if leak.is_after_split else " later"
        return f"`{leak.learner}` is fitted on all rows, including those that are held out{when}"
    return "the rows are scaled by statistics of all rows, including those that are held out later"


def _of_earlier_splits(seen: ObjectEvidence) -> Verdict:
    """Refuted if every fit used the training rows of an earlier split."""
    kept = [(split.moment, split.kept) for split in seen.splits]
    if not seen.learned or not kept:
        return Verdict.inconclusive(f"the run made {len(seen.learned)} fits and {len(kept)} splits with scikit-learn")
    fit = seen.learned[0]
    if all(any(moment < each.moment and rows == each.rows for moment, rows in kept) for each in seen.learned):
        return Verdict.refuted(f"`{fit.learner}` was fitted on the {fit.rows} training rows of a split", rows=fit.rows)
    return Verdict.inconclusive(f"`{fit.learner}` was fitted on {fit.rows} rows, which belong to no split")


@dataclass(frozen=True, slots=True)
class _Edit:
    """The claim with the code of a fix, and the locations that the fix changes."""

    claim: Claim
    related: tuple[Related, ...]


def _edit(pipeline: Pipeline, fit: Location, split: Location) -> _Edit | None:
    """The fix, where the rows of the split are the only use of what the fit gives."""
    found = refits.fit_and_split(pipeline, fit, split)
    if found is None:
        return None
    kept, held_out = found.parts
    statements = f"{kept} = {found.learner}.fit_transform({kept})\n{held_out} = {found.learner}.transform({held_out})"
    related = (Related(found.statement, "fitted here", "statement"), Related(found.given, "split", "rows"))
    return _Edit(Claim(pipeline.code(found.rows), statements), related)
