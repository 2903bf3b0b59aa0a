"""A metric function returns a number, and the Trainer wants names for its numbers.

The Trainer adds its own results to what the metric function returns, under names. A bare number takes no names, and the
run ends with an error at the first evaluation.

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

So does a number that is rounded or made plain first:

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

What a metric computes is a dictionary already, and so may be what another function gives:

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

`float` may be another function's name:

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

Safe: anything but a dictionary ends the evaluation with an error.

## References

`Trainer.evaluation_loop` of transformers 4.46 to 5.23; its documentation, `Trainer`, parameter `compute_metrics`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, trainer_methods
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Constant, Function, LibraryObject, Sequence, Value, options_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

OWN_EVALUATION = {"evaluation_loop", "prediction_loop", "evaluate"}
NUMBERS = frozenset({"float", "int", "len"})
"""Python's functions that give one number whatever they are given."""

MAY_BE_NAMED = {"classification_report"}
"""What scikit-learn gives as text or, when asked, as a dictionary."""


class NonDictMetrics(Rule):
    level = Level.ERROR
    keywords = "Trainer & compute_metrics"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[int]()
        for run in pipeline.runs:
            function = trainer_methods.own_function(run.value("compute_metrics"))
            if function is None or not run.is_plain or run.overrides & OWN_EVALUATION or id(function) in seen:
                continue
            given = trainer_methods.returns_of(function)
            if given and evaluation_schedule.is_evaluated(pipeline, run) and _are_bare(pipeline, run.metrics, given):
                seen.add(id(function))
                yield self._report(pipeline, run, function, given[-1])

    def _report(self, pipeline: Pipeline, run: TrainerRun, function: Function, returned: ast.expr) -> Finding:
        location = trainer_methods.location_in(pipeline, function, returned)
        name = returned.id if isinstance(returned, ast.Name) else None
        return self.finding(
            location,
            f"this metric function returns {_kind(options_of(run.metrics)[0])}, and the Trainer wants a dictionary",
            related=[Related(run.construction, "this trainer calls it", "trainer")],
            help=f'give it a name: `{{"{name or "score"}": …}}`',
            subject="compute_metrics",
            facts={"name": name},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evaluation is None or not evaluation.metric_function_called or not evaluation.returned:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if evaluation.metrics or evaluation.returned == "dict":
            return Verdict.refuted(f"the metric function returns {len(evaluation.metrics)} numbers by name")
        return Verdict.confirmed(f"on {evaluation.rows} rows the metric function returns a `{evaluation.returned}`")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        name = finding.facts.get("name")
        if not isinstance(name, str):
            return None
        return fixes.Fix.of(f"name it `{name}`", fixes.Replace(finding.location, f'{{"{name}": {name}}}'), safe=True)


def _are_bare(pipeline: Pipeline, metrics: Value, given: list[ast.expr]) -> bool:
    """Whether all that a function may return are bare: by what they are, or as calls that give numbers alone."""
    if all(_is_bare(each) for each in options_of(metrics)):
        return True
    return all(_gives_number(each) for each in given) and not _renames_numbers(pipeline)


def _renames_numbers(pipeline: Pipeline) -> bool:
    """Whether `float` or another of these may be something else in the script."""
    names = {binding.name for binding in pipeline.bindings}
    for node in pipeline.source.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
            case _:
                pass
    return bool(names & {*NUMBERS, "round"})


def _gives_number(node: ast.expr) -> bool:
    """Whether an expression is `float(…)` or another of Python's own functions that give one number."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    is_rounded = node.func.id == "round" and bool(node.args) and _gives_number(node.args[0])
    return node.func.id in NUMBERS or is_rounded


def _is_bare(value: Value) -> bool:
    """Whether a value is certainly a number, an array or a tuple."""
    match value:
        case Constant(value=int() | float(), is_default=False) | Tensor():
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
