"""`argmax` without an axis, or over the rows, does not give a class for each row.

Without an axis, NumPy and PyTorch search the whole array, and return the position of its highest score. The metric
expects a prediction for each row and raises an error, after the whole evaluation set was computed.

Over dimension 0, the row with the highest score is chosen for each class. Compared with the targets of a batch, that
raises an error, or with as many rows as classes counts hits by chance. The scores of a head for tokens have a third
axis: along dimension 1 a token is chosen for each class. A run sees which axis the loss reads as classes.

## Bad

    def compute_metrics(predicted):
        logits, labels = predicted
        classes = np.argmax(logits)  # <- argmax-without-axis
        return metric.compute(predictions=classes, references=labels)

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )
    trainer.evaluate()

Over the rows of the batch:

    hits = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (net(x).argmax(0) == y).sum().item()  # <- argmax-without-axis
    # raises RuntimeError: The size of tensor a (3) must match

## Good

    def compute_metrics(predicted):
        logits, labels = predicted
        classes = np.argmax(logits, axis=-1)
        return metric.compute(predictions=classes, references=labels)

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )
    trainer.evaluate()

and in a loop:

    hits = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (net(x).argmax(1) == y).sum().item()

## When it is fine

The class of a single text, which no metric gets:

    logits = model(**tokenizer("a b", return_tensors="pt")).logits
    name = model.config.id2label[logits.argmax().item()]
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Safe: a metric refuses the single number.

## References

NumPy documentation, `numpy.argmax`: by default, the index is into the flattened array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import chosen_probabilities, chosen_rows, evaluation_pairs, expressions, metric_names
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, Tensor
from lintrain.pipeline.values.training import MetricCall
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
    one_per_location,
)

if TYPE_CHECKING:
    from lintrain.evidence.run import OddCall

MODULES = frozenset({"np", "numpy", "torch", "jnp"})
AXES = frozenset({"axis", "dim"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The argument to add: `axis` of NumPy or `dim` of torch."""

    argument: str


ONE_NUMBER = ("numpy.int64' has no len", "numpy.int64' object is not iterable", "Singleton array")
"""Parts of the errors of metrics that get one whole number for their predictions."""


OVER_ROWS = (
    "The result has an entry for each class, so a comparison with the targets raises an error. With as many rows as"
    " classes, it counts hits by chance."
)
OVER_ALL = (
    "The result is the position of the highest score of the whole batch. A comparison with the targets repeats this one"
    " number for each of them without an error, so the hits are wrong. A metric of a library raises an error."
)
"""What a choice along the rows, and one among all scores, does to the hits that are counted with it."""


class ArgmaxWithoutAxis(Rule[Claim]):
    level = Level.ERROR
    keywords = "argmax|max("
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        may_measure = source.contains(metric_names.MEASURES) and chosen_rows.may_measure_choices(source)
        return may_measure or bool(chosen_rows.chosen_rows(source)) or _chooses_rows(source)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[Location]()
        for call in pipeline.metric_calls:
            found = _argmax_of(pipeline, call)
            if found is None or found.location in seen:
                continue
            seen.add(found.location)
            if found.keywords.keys() & AXES or len(found.arguments) > _is_function(found):
                yield self._over_rows(chosen_rows.ChosenRows(found.location, call.location, True))
                continue
            owner = found.called_on.code if found.called_on else ""
            yield self.finding(
                found.location,
                "`argmax` without an axis is one number, and not a class for each row",
                related=[Related(call.location, "expects a prediction for each row", "metric")],
                help="pass `axis=-1`",
                subject="compute_metrics",
                claim=Claim("dim" if owner == "torch" else "axis"),
            )

        for location in evaluation_pairs.argmax_of_all(pipeline.source):
            if location not in seen:
                seen.add(location)
                yield self._of_all(location)
        rows = [found for found in chosen_rows.chosen_rows(pipeline.source) if found.location not in seen]
        yield from one_per_location(map(self._over_rows, rows))
        seen |= {found.location for found in rows}
        for chosen in chosen_probabilities.chosen_probabilities(pipeline.source):
            if chosen.location not in seen:
                yield self._of_probabilities(chosen)
        over_tokens = (misuse for misuse in pipeline.misuses if misuse.use == "argmax over tokens")
        yield from one_per_location(map(self._over_tokens, over_tokens))

        of_classes = (misuse for misuse in pipeline.misuses if misuse.use == "argmax of classes")
        yield from one_per_location(map(self._of_classes, of_classes))
        of_tokens = (misuse for misuse in pipeline.misuses if misuse.use == "argmax of tokens")
        yield from one_per_location(map(self._of_tokens, of_tokens))

    def _of_all(self, location: Location) -> Finding[Claim]:
        return self.finding(
            location,
            "`argmax` without an axis is one number, and not a class for each row",
            why=OVER_ALL,
            help="choose along the last axis: `axis=-1`",
            subject="compute_metrics",
        )

    def _of_probabilities(self, found: chosen_probabilities.ChosenProbabilities) -> Finding[Claim]:
        return self.finding(
            found.location,
            "this is a row for each class, and not a class for each row",
            related=[Related(found.softmax, "the classes are along dimension 1 here", "softmax")],
            why=OVER_ROWS,
            help="choose along dimension 1",
        )

    def _of_classes(self, found: Misuse) -> Finding[Claim]:
        return self.finding(
            found.location,
            "these are classes already, so a second `argmax` chooses a row",
            why="The position of the highest class id says nothing about a prediction. A metric that expects a class"
            " for each row raises an error, or its score is meaningless.",
            help="remove one of the two: classes come from `preprocess_logits_for_metrics`, or from an `argmax` above",
            subject="compute_metrics",
        )

    def _of_tokens(self, found: Misuse) -> Finding[Claim]:
        return self.finding(
            found.location,
            "these are generated token ids, so `argmax` chooses a position in each text",
            why="The position of the highest token id says nothing about a text. The metric scores these positions in"
            " place of the generated texts.",
            help="decode them as they are: `generate` has chosen the tokens",
            subject="compute_metrics",
        )

    def _over_tokens(self, found: Misuse) -> Finding[Claim]:
        model = found.value.model if isinstance(found.value, Tensor) else None
        made = model.origin if isinstance(model, Model) else None
        return self.finding(
            found.location,
            "axis 1 has the tokens of a text, so this chooses a token for each class",
            related=[Related(made, "has scores for each token", "model")] if made is not None else [],
            why="The result has a position for each class, and not a class for each token. The metric raises an error"
            " because the labels have another shape, or its score is meaningless.",
            help="choose along the last axis: `axis=-1`",
            subject="compute_metrics",
        )

    def _over_rows(self, found: chosen_rows.ChosenRows) -> Finding[Claim]:
        chosen = "this is a row for each class" if found.has_axis else "`argmax` without an axis is one number"
        return self.finding(
            found.location,
            f"{chosen}, and not a class for each row",
            related=[Related(found.compared, "compared with the class of each row", "metric")],
            why=OVER_ROWS if found.has_axis else OVER_ALL,
            help="choose along dimension 1",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for call in _other_axes(evidence):
            yield self.finding(
                call.location,
                "this chooses along another axis than that of the classes",
                why="The result is the position of a row or token, and not a class. Hits that are counted with it are"
                " hits by chance.",
                help="choose along the axis of the classes, which the loss reads",
            )
        failed = evidence.stage("evaluation")
        failure = failed.failure if failed is not None else None
        if failure is not None and failure.location is not None and failure.contains(*ONE_NUMBER):
            yield self.finding(
                failure.location,
                "the metric gets one number, and not a class for each row",
                help="pass `axis=-1` to `argmax`",
                subject="compute_metrics",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        for call in _other_axes(evidence):
            if call.location.meets(finding.location):
                return Verdict.confirmed(call.text, times=call.times)
        if finding.subject is None:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        evaluation, stage = evidence.evaluation, evidence.stage("evaluation")
        if stage is not None and stage.failure is not None:
            failure, shape = stage.failure, list(evaluation.predictions_shape) if evaluation else []
            rows = f"for predictions of shape {shape}" if shape else "before any predictions"
            is_this = bool(shape) and failure.type in {"TypeError", "ValueError"}
            text = f"the metric function raised {failure.type} {rows}"
            return (Verdict.confirmed if is_this else Verdict.inconclusive)(text)
        if evaluation is None or not evaluation.metric_function_called:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        return Verdict.refuted(f"the metric function ran on predictions of shape {list(evaluation.predictions_shape)}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.AddArgument(finding.location, finding.claim.argument, "-1")
        return fixes.Fix.of("choose a class for each row", edit, safe=True)


def _chooses_rows(source: Source) -> bool:
    return any(True for _ in chosen_probabilities.chosen_probabilities(source))


def _other_axes(evidence: Evidence) -> Iterator[OddCall]:
    """The calls of a run that look for the greatest score along tokens, positions or rows."""
    return (call for call in evidence.odd_calls if call.kind == "other axis")


def _argmax_of(pipeline: Pipeline, call: MetricCall) -> expressions.Expression | None:
    """The `argmax` over a whole array, or over its rows, that gave a metric its predictions."""
    value = call.predictions.value if call.predictions else None
    if not isinstance(value, Tensor) or value.origin is None:
        return None
    found = expressions.call_at(pipeline, value.origin)
    if found is None or found.called_name != "argmax" or found.called_on is None:
        return None
    along = [*found.arguments[_is_function(found) :], *(found.keywords[each] for each in AXES & found.keywords.keys())]
    # Along axis 0 an array of one axis gives one number, and an array of scores a row for each class.
    return found if not along or [each.code for each in along] == ["0"] else None


def _is_function(call: expressions.Expression) -> bool:
    return call.called_on is not None and call.called_on.code in MODULES
