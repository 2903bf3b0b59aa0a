"""What is learned from data is learned from the rows that are set aside for the test, too.

A scaler, an imputer, a selector of features or a vectorizer that is fitted before the split has seen the test rows:
their mean, their range, their words. The score on them is better than on rows that nobody has seen, by an amount that
nobody knows.

## Bad

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    scaled = scaler.fit_transform(x_train)  # <- fit-before-split
    inside, outside, y_inside, y_outside = train_test_split(scaled, y_train, random_state=0)
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

What looks at one row at a time learns nothing, and classes need their numbers before the split:

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import LabelEncoder, Normalizer

    normed = Normalizer().fit_transform(x_train)
    numbers = LabelEncoder().fit_transform(y_train)
    inside, outside, y_inside, y_outside = train_test_split(normed, numbers, random_state=0)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(inside, y_inside, validation_data=(outside, y_outside), verbose=0)

The rows may be those of a split that was made before:

    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    x_rest, x_test, y_rest, y_test = train_test_split(x_train, y_train, random_state=0)
    x_rest = StandardScaler().fit_transform(x_rest)
    inside, outside, y_inside, y_outside = train_test_split(x_rest, y_rest, random_state=0)
    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(inside, y_inside, validation_data=(outside, y_outside), verbose=0)

## Fix

Asks first: all that comes later is computed from other numbers. Offered for `fit_transform` right above a split into
two named parts, if its outcome is used nowhere else.

## References

scikit-learn documentation, "Common pitfalls and recommended practices": data leakage.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from lintrain.analysis import leaks
from lintrain.evidence.run import ObjectEvidence
from lintrain.pipeline import blocks
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class FitBeforeSplit(Rule):
    level = Level.WARNING
    keywords = "train_test_split"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for leak in leaks.fitted_before_split(pipeline):
            mended = _mended(pipeline, leak.location, leak.split)
            yield self.finding(
                leak.location,
                f"`{leak.learner}` learns from all rows, those that are split off later among them",
                related=[
                    Related(leak.split, "the rows are split here", "split", pipeline.code(leak.split)),
                    *(mended.reasons if mended else []),
                ],
                help="split first, `fit` on the training rows, and `transform` both parts",
                facts={"rows": mended.rows, "statements": mended.statements} if mended else None,
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        seen = evidence.objects
        learned = [each for each in seen.learned if each.location.meets(finding.location)]
        locations = [reason.location for reason in finding.with_role("split")]
        splits = [each for each in seen.splits if any(each.location.meets(location) for location in locations)]
        for fit in learned:
            later = [split for split in splits if split.moment > fit.moment and split.rows == fit.rows]
            if later:
                apart = later[0].rows - later[0].kept
                return Verdict.confirmed(
                    f"`{fit.learner}` learned from {fit.rows} rows, of which {apart} were set aside later",
                    rows=fit.rows,
                    apart=apart,
                )
        return _of_earlier_splits(seen)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        roles = {role: finding.with_role(role) for role in ("statement", "rows", "split")}
        rows, statements = finding.facts.get("rows"), finding.facts.get("statements")
        if not all(roles.values()) or not isinstance(rows, str) or not isinstance(statements, str):
            return None
        return fixes.Fix.of(
            "learn from the training rows",
            fixes.Replace(roles["statement"][0].location, ""),
            fixes.Replace(roles["rows"][0].location, rows),
            fixes.InsertAfter(roles["split"][0].location, statements),
            safe=False,
        )


def _of_earlier_splits(seen: ObjectEvidence) -> Verdict:
    """Refuted where all that was learned came from the rows that a split had kept for training."""
    kept = [(split.moment, split.kept) for split in seen.splits]
    if not seen.learned or not kept:
        return Verdict.inconclusive(f"{len(seen.learned)} fits and {len(kept)} splits of scikit-learn were seen")
    fit = seen.learned[0]
    if all(any(moment < each.moment and rows == each.rows for moment, rows in kept) for each in seen.learned):
        return Verdict.refuted(f"`{fit.learner}` learned from the {fit.rows} rows that a split had kept", rows=fit.rows)
    return Verdict.inconclusive(f"`{fit.learner}` learned from {fit.rows} rows, which no split was given or had kept")


@dataclass(frozen=True, slots=True)
class _Mended:
    """What a fix writes: other rows for the split, the statements after it, and the places that it changes."""

    rows: str
    statements: str
    reasons: tuple[Related, ...]


def _mended(pipeline: Pipeline, fit: Location, split: Location) -> _Mended | None:
    """The fix of `x = scaler.fit_transform(rows)` above `a, b, … = train_test_split(x, …)`, if that is all of `x`."""
    source = pipeline.source_of(fit)
    match blocks.statement_at(pipeline, fit), blocks.statement_at(pipeline, split):
        case (
            ast.Assign(
                targets=[ast.Name(id=scaled)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=learner), attr="fit_transform"), args=[rows], keywords=[]
                ),
            ) as learned,
            ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=kept), ast.Name(id=apart), *_])],
                value=ast.Call(args=[ast.Name(id=given) as first, *_]),
            ) as parted,
        ) if given == scaled:
            pass
        case _:
            return None
    others = [
        each for each in blocks.uses_of(pipeline, scaled, fit) if each is not first and each not in ast.walk(rows)
    ]
    if others or source.location(parted.value) != split:
        return None
    statements = f"{kept} = {learner}.fit_transform({kept})\n{apart} = {learner}.transform({apart})"
    locations = {"statement": source.location(learned), "rows": source.location(first)}
    reasons = (
        Related(locations["statement"], "learned from here", "statement"),
        Related(locations["rows"], "split", "rows"),
    )
    return _Mended(source.code(source.location(rows)), statements, reasons)
