"""A metric that compares classes receives logits.

Accuracy, F1, precision and recall compare class ids. A row of logits, one number per class, is not a class id: the
first evaluation raises an error, often after a full epoch of training.

In Keras, `metrics=["accuracy"]` chooses the kind of accuracy that fits the loss. The class `keras.metrics.Accuracy`
chooses nothing: it counts how often the output equals the label as a number, which is hardly ever. No error is raised.

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

The classes may be computed before the metric function is called, which also saves memory:

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

Some metrics expect scores, such as the area under the ROC curve:

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

Safe: a metric that compares classes raises an error on logits.

## References

scikit-learn, "Metrics and scoring"; Hugging Face course, chapter 8, "Debugging the training pipeline";
accelerate#3013.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs, metric_verdicts
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, Network, Role, Tensor
from lintrain.pipeline.values.python import Constant, Library, LibraryObject, Sequence, Value, options_of
from lintrain.pipeline.values.training import KerasLabels, Metric, MetricCall
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    one_per_location,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The code that computes the classes, and the location of the metric's call."""

    classes: str
    call: Location


COMPARED = "comparison"
"""The subject of a finding about `outputs == labels`, of which no metric knows."""


class LogitsInMetric(Rule[Claim]):
    level = Level.ERROR
    keywords = "metric|evaluate|==|eq("

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[object]()
        for call in pipeline.metric_calls:
            scores = _scores_given(call)
            if scores is not None and call.predictions is not None and call.predictions.location not in seen:
                seen.add(call.predictions.location)
                yield self._report(pipeline, call, call.predictions.text or "the predictions", scores)
        yield from self._one_hot(pipeline)
        yield from one_per_location(self._of_keras(pipeline))
        compared = (each for each in pipeline.misuses if each.use == "scores compared")
        yield from one_per_location(map(self._report_comparison, compared))

    def _of_keras(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """`Accuracy()` in the `compile` of a network that is trained on a cross-entropy."""
        for run in pipeline.keras_runs:
            loss, metrics = keras_runs.loss_of(run), run.compile_arguments.get("metrics")
            if loss is None or metrics is None or not loss.name.endswith("crossentropy"):
                continue
            for each in metrics.value.items if isinstance(metrics.value, Sequence) else [metrics.value]:
                if isinstance(each, LibraryObject | Library) and each.path == "keras.metrics.Accuracy":
                    yield self.finding(
                        metrics.location,
                        "`Accuracy` counts outputs that equal the label, but these are scores",
                        why="`keras.metrics.Accuracy` compares numbers as they are, and chooses no class. It stays near"
                        " 0, whatever the network has learned, and no error is raised.",
                        help='write `metrics=["accuracy"]`, which chooses the accuracy that fits the loss',
                        subject=COMPARED,
                    )

    def _one_hot(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """Labels that are rows of zeros and ones beside classes that a network chose."""
        for call in pipeline.metric_calls:
            labels, chosen = call.references, call.predictions.value if call.predictions else None
            is_one_hot = labels is not None and isinstance(labels.value, KerasLabels) and labels.value.is_one_hot
            is_choice = isinstance(chosen, Tensor) and chosen.role is Role.CLASSES and chosen.made is not None
            if labels is not None and is_one_hot and is_choice and call.metric.takes_classes:
                made = labels.value.origin
                yield self.finding(
                    labels.location,
                    f"`{labels.text}` holds one-hot rows, but {_named(call.metric)} compares classes",
                    related=[Related(made, "the rows are made here", "origin")] if made else [],
                    help=f"give the numbers of the classes: `{_in_brackets(labels.text)}.argmax(axis=1)`",
                    subject=COMPARED,
                )

    def _report_comparison(self, misuse: Misuse) -> Finding[Claim]:
        scores = misuse.value
        made = scores.made if isinstance(scores, Tensor) else None
        is_sigmoid = isinstance(scores, Tensor) and (_has_sigmoid(scores.model) or (made and made.name == "sigmoid"))
        is_binary = isinstance(scores, Tensor) and (scores.shape.last == 1 or is_sigmoid)
        is_predicted = isinstance(scores, Tensor) and isinstance(scores.model, Network)
        return self.finding(
            misuse.location,
            f"`predict` gives {scores.role}, which no label equals but by chance"
            if is_predicted and isinstance(scores, Tensor)
            else "scores are compared with class numbers, which they never equal",
            related=[Related(made.location, "the scores are computed here", "origin")]
            if made and made.location
            else [],
            help="choose the class with a threshold first"
            if is_binary
            else "compare the class with the highest score: `argmax`",
            subject=COMPARED,
        )

    def _report(self, pipeline: Pipeline, call: MetricCall, text: str, scores: Tensor) -> Finding[Claim]:
        location = call.predictions.location if call.predictions else call.location
        is_one = scores.shape.sizes == (None, 1)
        is_binary = is_one or _has_sigmoid(scores.model)
        threshold = "0" if scores.role is Role.LOGITS else "0.5"
        classes = f"({text} > {threshold}).astype(int)" if is_binary else f"{_in_brackets(text)}.argmax(axis=-1)"
        return self.finding(
            location,
            f"`{text}` holds {scores.role}, but {_named(call.metric)} compares classes",
            related=[*_origins(pipeline, scores), *_loaded(call.metric)],
            help=f"compare the scores with a threshold: `{classes}`"
            if is_binary
            else f"take the class with the highest score: `{classes}`",
            subject="compute_metrics",
            claim=Claim(classes, call.location),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.subject == COMPARED:
            return Verdict.inconclusive("what this comparison gives is not measured")
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
            if here or failure.contains(*metric_verdicts.SCORES_RAISE):
                return Verdict.confirmed(
                    f"predictions of shape {shape} raise {failure.type} in the metric", shape=[*shape]
                )
            where = "elsewhere in" if shape else "before"
            return Verdict.inconclusive(f"{failure.type} was raised {where} the metric function")
        if evaluation is None or not evaluation.metric_function_called:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        metrics = {name: value for name, value in evaluation.metrics.items() if value is not None}
        return Verdict.refuted(
            f"the metric function returned {len(metrics)} values for {evaluation.rows} rows", metrics={**metrics}
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        """The metrics in a training loop or a Lightning module that raise on one score per class."""
        for location, use, verdict in metric_verdicts.metrics_confirmed(evidence, metric_verdicts.on_scores):
            message = f"`{use.function}` compares classes, but receives one score per class"
            yield self.finding(location, message, help="take the class with the highest score"), verdict

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """Whether a finding from the text of the script already reports a line of this call."""
        return cause.rule == self.name and finding.location.line <= cause.location.line <= finding.location.end_line

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        classes = finding.claim.classes
        return fixes.Fix.of(f"compare classes: `{classes}`", fixes.Replace(finding.location, classes), safe=True)


def _scores_given(call: MetricCall) -> Tensor | None:
    """The logits or probabilities of a classifier that a class metric receives; None if that is not certain."""
    given = call.predictions.value if call.predictions else None
    if not call.metric.takes_classes or not isinstance(given, Tensor):
        return None
    if isinstance(given.model, Network):
        return given if given.role in {Role.LOGITS, Role.PROBABILITIES} and given.cut is not None else None
    if not isinstance(given.model, Model):
        return None
    if given.role not in {Role.LOGITS, Role.PROBABILITIES} or _may_have_one_output(given.model):
        return None
    return given


def _may_have_one_output(model: Model) -> bool:
    """Whether there may be one output, which has no argmax: regression, or a missing threshold."""
    return any(isinstance(size, Constant) and size.value == 1 for size in options_of(model.num_labels))


def _has_sigmoid(model: Value) -> bool:
    last = model.last if isinstance(model, Network) else None
    return last is not None and keras_runs.activation_of(last) == "sigmoid"


def _named(metric: Metric) -> str:
    name = f"{metric.name}/{metric.config}" if metric.config else metric.name
    return f"`{name}`" if name else "the metric"


def _in_brackets(text: str) -> str:
    """The code, in brackets if a method cannot be called on it."""
    return text if all(letter.isalnum() or letter in "_.[]()\"'" for letter in text) else f"({text})"


def _origins(pipeline: Pipeline, scores: Tensor) -> Iterator[Related]:
    for binding in pipeline.names_of(scores)[:1]:
        yield Related(binding.location, "the model's output is assigned here", "origin", binding.name)
    if isinstance(scores.model, Model) and scores.model.origin is not None:
        yield Related(scores.model.origin, "the model returns one score per class", "model", scores.model.text)


def _loaded(metric: Metric) -> Iterator[Related]:
    if metric.origin is not None:
        yield Related(metric.origin, "the metric is loaded here", "metric", metric.text)


def _lines(finding: Finding[Claim]) -> tuple[int, int]:
    """The first and the last line of the metric's call."""
    if finding.claim is None:
        return finding.location.line, finding.location.line
    return finding.claim.call.line, finding.claim.call.end_line
