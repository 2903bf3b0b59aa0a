"""The metric function does not return a dictionary.

The Trainer adds its own results to the dictionary that the metric function returns. It cannot add them to a number, and
the run ends with an error in the first evaluation.

## Bad

    def judge(prediction):
        score = accuracy_score(prediction.label_ids, prediction.predictions.argmax(-1))
        return score  # <- non-dict-metrics

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )
    # raises TypeError: 'float' object does not support item assignment

The same for a number that is rounded or converted first:

    def judge(prediction):
        hits = prediction.predictions.argmax(-1) == prediction.label_ids
        return round(float(np.mean([bool(hit) for hit in hits])), 3)  # <- non-dict-metrics

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )
    # raises TypeError: 'float' object does not support item assignment

## Good

    def judge(prediction):
        score = accuracy_score(prediction.label_ids, prediction.predictions.argmax(-1))
        return {"score": score}

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## When it is fine

`compute` of a metric already returns a dictionary, and so may another function:

    from somewhere import report

    def judge(prediction):
        logits, labels = prediction
        if labels is None:
            return report(logits)
        return metric.compute(predictions=logits.argmax(-1), references=labels)

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

`float` may be the name of another function:

    from somewhere import report as float

    def judge(prediction):
        return float(prediction.predictions)

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## Fix

Safe: anything but a dictionary raises an error in the evaluation.

## References

`Trainer.evaluation_loop` of transformers 4.46 to 5.23; its documentation, `Trainer`, parameter `compute_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_pairs, evaluation_schedule, expressions, script_text, trainer_methods
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Constant, Function, LibraryObject, Sequence, Value, is_missing, options_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

OWN_EVALUATION = {"evaluation_loop", "prediction_loop", "evaluate"}
NUMBERS = frozenset({"float", "int", "len"})
"""Built-in functions that return one number for any argument."""

MAY_BE_NAMED = {"classification_report"}
"""Functions of scikit-learn that return text or, on request, a dictionary."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The name of the returned variable; None if another expression is returned."""

    name: str | None


class NonDictMetrics(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer & compute_metrics"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen, reported = set[int](), set[Location]()
        for run in pipeline.runs:
            function = trainer_methods.own_function(run.value("compute_metrics"))
            if function is None or not run.is_plain or run.overrides & OWN_EVALUATION or id(function) in seen:
                continue
            given = expressions.returned_by(pipeline, function)
            if not given and _may_be_evaluated(pipeline, run) and _is_nothing(run.metrics):
                seen.add(id(function))
                yield self._report_nothing(pipeline, run, function)
            if given and _may_be_evaluated(pipeline, run) and _are_bare(pipeline, run.metrics, given):
                seen.add(id(function))
                reported.add(given[-1].location)
                yield self._report(run, given[-1])
        for location in evaluation_pairs.bare_results(pipeline.source):
            if location not in reported:
                yield self.finding(
                    location,
                    "`compute_metrics` returns a number instead of a dictionary",
                    help='return a dictionary: `{"score": …}`',
                    subject="compute_metrics",
                    claim=Claim(None),
                )

    def _report(self, run: TrainerRun, returned: expressions.Expression) -> Finding[Claim]:
        name = returned.name if returned.kind is expressions.Kind.NAME else None
        return self.finding(
            returned.location,
            f"`compute_metrics` returns {_kind(options_of(run.metrics)[0])} instead of a dictionary",
            related=[Related(run.construction, "this trainer calls it", "trainer")],
            help=f'return a dictionary: `{{"{name or "score"}": …}}`',
            subject="compute_metrics",
            claim=Claim(name),
        )

    def _report_nothing(self, pipeline: Pipeline, run: TrainerRun, function: Function) -> Finding[Claim]:
        return self.finding(
            trainer_methods.head_of(pipeline, function),
            "`compute_metrics` returns nothing instead of a dictionary",
            related=[Related(run.construction, "this trainer calls it", "trainer")],
            help="return the dictionary of metrics",
            subject="compute_metrics",
            claim=Claim(None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        evaluation = evidence.evaluation
        if evaluation is not None and evaluation.returned and not OWN_EVALUATION & set(evidence.overrides):
            yield self.finding(
                evaluation.returned_at or evidence.location,
                f"`compute_metrics` returns a `{evaluation.returned}` instead of a dictionary",
                help='return a dictionary: `{"score": …}`',
                subject="compute_metrics",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evaluation is None or not evaluation.metric_function_called or not evaluation.returned:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if evaluation.metrics or evaluation.returned == "dict":
            return Verdict.refuted(f"the metric function returned a dictionary of {len(evaluation.metrics)} values")
        return Verdict.confirmed(f"for {evaluation.rows} rows the metric function returned a `{evaluation.returned}`")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        name = finding.claim.name if finding.claim else None
        if name is None:
            return None
        edit = fixes.Replace(finding.location, f'{{"{name}": {name}}}')
        return fixes.Fix.of(f"return it as `{name}` in a dictionary", edit, safe=True)


def _is_nothing(metrics: Value) -> bool:
    return isinstance(metrics, Constant) and metrics.value is None and not metrics.may_differ


def _may_be_evaluated(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether a run evaluates, or may do so by settings from elsewhere on the data that it gets for that."""
    is_set_elsewhere = "args" in run.arguments and run.settings is None and not is_missing(run.value("eval_dataset"))
    return is_set_elsewhere or evaluation_schedule.is_evaluated(pipeline, run)


def _are_bare(pipeline: Pipeline, metrics: Value, given: list[expressions.Expression]) -> bool:
    """Whether nothing that a function may return is a dictionary: by its value, or as a call that returns a number."""
    if all(_is_bare(each) for each in options_of(metrics)):
        return True
    return all(_gives_number(each) for each in given) and not _renames_numbers(pipeline)


def _renames_numbers(pipeline: Pipeline) -> bool:
    """Whether `float` or another of these names may be redefined in the script."""
    names = {binding.name for binding in pipeline.bindings} | script_text.declared_names(pipeline.source)
    return bool(names & {*NUMBERS, "round"})


def _gives_number(part: expressions.Expression) -> bool:
    """Whether an expression is `float(…)` or another built-in function that returns one number."""
    if part.called_on is not None:
        return False
    is_rounded = part.called_name == "round" and bool(part.arguments) and _gives_number(part.arguments[0])
    return part.called_name in NUMBERS or is_rounded


def _is_bare(value: Value) -> bool:
    """Whether a value is certainly a number, an array or a tuple."""
    match value:
        case Constant(value=int() | float(), may_differ=False) | Tensor():
            return True
        case Sequence(kind="tuple" | "list", is_complete=True):
            return True
        case LibraryObject(path=path):
            is_metric = path.startswith("sklearn.metrics.") and path.rpartition(".")[2] not in MAY_BE_NAMED
            return is_metric or path == "evaluate.number"
        case _:
            return False


def _kind(value: Value) -> str:
    match value:
        case Sequence(kind=kind):
            return f"a {kind}"
        case Tensor():
            return "an array or a number"
        case _:
            return "a number"
