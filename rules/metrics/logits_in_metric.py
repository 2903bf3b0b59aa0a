"""A metric that compares classes is given logits.

Accuracy, F1, precision and recall compare one class with another. A row of logits, one number for each class, is no
class: the first evaluation raises an error, after a whole epoch of training if that is when it comes.

## Bad

    def compute_metrics(prediction):
        logits, labels = prediction
        return metric.compute(predictions=logits, references=labels)  # <- logits-in-metric

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

## Good

    def compute_metrics(prediction):
        logits, labels = prediction
        return metric.compute(predictions=logits.argmax(axis=-1), references=labels)

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

## When it is fine

The classes may be chosen before the metric function is called, which also spares memory:

    def choose(logits, labels):
        return logits.argmax(dim=-1)

    def compute_metrics(prediction):
        classes, labels = prediction
        return metric.compute(predictions=classes, references=labels)

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=choose,
    )

Some metrics want scores, like the area under the ROC curve:

    def compute_metrics(prediction):
        probabilities = torch.softmax(torch.tensor(prediction.predictions), dim=-1)
        return {"auc": roc_auc_score(prediction.label_ids, probabilities, multi_class="ovr", labels=[0, 1, 2])}

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

## Fix

Safe: a metric of classes ends with an error on logits.

## References

scikit-learn, "Metrics and scoring"; Hugging Face course, chapter 8, "Debugging the training pipeline";
accelerate#3013.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import metric_verdicts
from lintrain.pipeline.values.model import Model, Role, Tensor
from lintrain.pipeline.values.python import Constant, options_of
from lintrain.pipeline.values.training import Metric, MetricCall
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes


class LogitsInMetric(Rule):
    level = Level.ERROR
    keywords = "metric|evaluate"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[object]()
        for call in pipeline.metric_calls:
            scores = _scores_given(call)
            if scores is not None and call.predictions is not None and call.predictions.location not in seen:
                seen.add(call.predictions.location)
                yield self._report(pipeline, call, call.predictions.text or "the predictions", scores)

    def _report(self, pipeline: Pipeline, call: MetricCall, text: str, scores: Tensor) -> Finding:
        location = call.predictions.location if call.predictions else call.location
        classes = f"{_in_brackets(text)}.argmax(axis=-1)"
        return self.finding(
            location,
            f"`{text}` holds {scores.role}, and {_named(call.metric)} compares classes",
            related=[*_origins(pipeline, scores), *_loaded(call.metric)],
            help=f"choose the class with the largest score: `{classes}`",
            subject="compute_metrics",
            facts={"classes": classes, "line": call.location.line, "end_line": call.location.end_line},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        followed = metric_verdicts.metric_at(
            evidence, finding.location.path, _lines(finding), metric_verdicts.on_scores
        )
        if followed is not None:
            return followed
        evaluation, stage = evidence.evaluation, evidence.stage("evaluation")
        shape = list(evaluation.predictions_shape) if evaluation else []
        if stage is not None and stage.failure is not None:
            failure = stage.failure
            here = failure.location is not None and _lines(finding)[0] <= failure.location.line <= _lines(finding)[1]
            if here or failure.says(*metric_verdicts.SCORES_RAISE):
                return Verdict.confirmed(
                    f"predictions of shape {shape} raise {failure.type} in the metric", shape=[*shape]
                )
            where = "elsewhere in" if shape else "before"
            return Verdict.inconclusive(f"evaluation ended {where} the metric function, with {failure.type}")
        if evaluation is None or not evaluation.metric_function_called:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        metrics = {name: value for name, value in evaluation.metrics.items() if value is not None}
        return Verdict.refuted(
            f"the metric function gave {len(metrics)} numbers on {evaluation.rows} rows", metrics={**metrics}
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        """A metric of classes in a loop or a module of Lightning raises, for it got numbers for each class."""
        for location, use, verdict in metric_verdicts.metrics_confirmed(evidence, metric_verdicts.on_scores):
            message = f"`{use.function}` compares classes, and is given a number for each class"
            yield self.finding(location, message, help="choose the class with the largest"), verdict

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """What was read of the script says it already, of one of the lines of this call."""
        return cause.rule == self.name and finding.location.line <= cause.location.line <= finding.location.end_line

    def fix(self, finding: Finding) -> fixes.Fix | None:
        classes = finding.facts.get("classes")
        if not isinstance(classes, str):
            return None
        return fixes.Fix.of(f"compare classes: `{classes}`", fixes.Replace(finding.location, classes), safe=True)


def _scores_given(call: MetricCall) -> Tensor | None:
    """The logits or probabilities of a classifier that a class metric is given; None where it may get anything else."""
    given = call.predictions.value if call.predictions else None
    if not call.metric.takes_classes or not isinstance(given, Tensor) or not isinstance(given.model, Model):
        return None
    if given.role not in {Role.LOGITS, Role.PROBABILITIES} or _may_have_one_output(given.model):
        return None
    return given


def _may_have_one_output(model: Model) -> bool:
    """With one output there is no largest to choose: regression, or a threshold that is missing."""
    return any(isinstance(size, Constant) and size.value == 1 for size in options_of(model.num_labels))


def _named(metric: Metric) -> str:
    name = f"{metric.name}/{metric.config}" if metric.config else metric.name
    return f"`{name}`" if name else "the metric"


def _in_brackets(text: str) -> str:
    """The code as something that a method can be called on."""
    return text if all(letter.isalnum() or letter in "_.[]()\"'" for letter in text) else f"({text})"


def _origins(pipeline: Pipeline, scores: Tensor) -> Iterator[Related]:
    for binding in pipeline.names_of(scores)[:1]:
        yield Related(binding.location, "what the model gives comes in here", "origin", binding.name)
    if isinstance(scores.model, Model) and scores.model.origin is not None:
        yield Related(scores.model.origin, "the model gives one number for each class", "model", scores.model.text)


def _loaded(metric: Metric) -> Iterator[Related]:
    if metric.origin is not None:
        yield Related(metric.origin, "the metric is loaded here", "metric", metric.text)


def _lines(finding: Finding) -> tuple[int, int]:
    first, last = finding.facts.get("line"), finding.facts.get("end_line")
    return (
        (first, last)
        if isinstance(first, int) and isinstance(last, int)
        else (finding.location.line, finding.location.line)
    )
