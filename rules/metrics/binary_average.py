"""F1, precision or recall of more than two classes is computed without `average`.

By default these metrics score a single positive class. With three classes in the labels they raise an error in the
first evaluation, after the first epoch of training.

## Bad

    f1 = evaluate.load("f1")

    def judge(prediction):
        logits, labels = prediction
        return f1.compute(predictions=np.argmax(logits, axis=-1), references=labels)  # <- binary-average

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )
    # raises ValueError: Target is multiclass but average='binary'

## Good

    f1 = evaluate.load("f1")

    def judge(prediction):
        logits, labels = prediction
        return f1.compute(predictions=np.argmax(logits, axis=-1), references=labels, average="macro")

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## When it is fine

One class against the rest is a binary problem:

    def judge(prediction):
        logits, labels = prediction
        return {"f1_of_neutral": f1_score(labels == 1, logits.argmax(-1) == 1)}

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

The number of classes may be unknown:

    def judge(prediction):
        logits, labels = prediction
        return {"f1": f1_score(labels, logits.argmax(-1))}

    classes = int(os.environ.get("CLASSES") or 3)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=classes)
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        data_collator=collator,
        compute_metrics=judge,
    )

## Fix

Asks first: `macro`, `micro` and `weighted` are different scores.

## References

transformers#16641, scikit-learn#30334; scikit-learn documentation, `f1_score`, parameter `average`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, metric_verdicts
from lintrain.pipeline.values import python, training
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Model, Role, Tensor
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes
from lintrain.source import nodes

OF_ONE_CLASS = frozenset(
    {"f1", "precision", "recall", "f1_score", "precision_score", "recall_score", "fbeta_score", "jaccard_score"}
)

HAVE_AVERAGE = frozenset({"evaluate", "sklearn"})
"""Libraries whose metrics take `average` in the call; torchmetrics takes it in the constructor."""


AVERAGES = 'pass `average="macro"`, `"weighted"` or `"micro"`'


@dataclass(frozen=True, slots=True)
class Claim:
    """The number of classes; `function` names the metric that a run showed, empty if its call takes no `average`."""

    classes: int | None = None
    function: str | None = None


class BinaryAverage(Rule[Claim]):
    level = Level.ERROR
    keywords = "metric|evaluate & f1|precision|recall|fbeta|jaccard"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[object]()
        for call in pipeline.metric_calls:
            names = [part.name for part in call.metric.every() if part.name in OF_ONE_CLASS]
            model = _model_of(call)
            classes = _classes_of(model) if model is not None else None
            if not names or model is None or classes is None or classes < 3 or not python.is_missing(call.average):
                continue
            if call.is_written and call.location not in seen:
                seen.add(call.location)
                yield self._report(call, names[0] or "", model, classes)

    def _report(self, call: training.MetricCall, name: str, model: Model, classes: int) -> Finding[Claim]:
        locations = [Related(model.origin, f"the head has {classes} classes", "model")] if model.origin else []
        loaded = call.metric.origin
        return self.finding(
            call.location,
            f"`{name}` is computed without `average`, but the model has {classes} classes",
            related=[*locations, *([Related(loaded, "the metric is loaded here", "metric")] if loaded else [])],
            help=AVERAGES,
            subject="compute_metrics",
            claim=Claim(classes),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        lines = (finding.location.line, finding.location.end_line)
        followed = metric_verdicts.metric_at(evidence, finding.location.path, lines, metric_verdicts.on_classes)
        if followed is not None:
            return followed
        evaluation, stage = evidence.evaluation, evidence.stage("evaluation")
        classes = evaluation.label_classes if evaluation else None
        if evaluation is None or not evaluation.metric_function_called or classes is None:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if stage is not None and stage.failure is not None:
            if stage.failure.contains(metric_verdicts.BINARY_RAISES):
                return Verdict.confirmed(f"{classes} classes in {evaluation.labels} labels raise {stage.failure.type}")
            return Verdict.inconclusive(f"the metric function raised {stage.failure.type} on {classes} classes")
        if classes < 3:
            return Verdict.inconclusive(f"only {classes} classes occur in {evaluation.labels} labels")
        return Verdict.refuted(f"the metric function accepts {classes} classes in {evaluation.labels} labels")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        """The metrics that raise this error in a training loop or a Lightning module."""
        for location, use, verdict in metric_verdicts.metrics_confirmed(evidence, metric_verdicts.on_classes):
            message = f"`{use.function}` scores one positive class, but the labels have {use.classes} classes"
            takes_average = use.library in HAVE_AVERAGE and "average" not in use.options
            claim = Claim(use.classes, use.function if takes_average else "")
            yield self.finding(location, message, help=AVERAGES, claim=claim), verdict

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        function = finding.claim.function if finding.claim else None
        if function is not None and not _is_called(finding, function):
            return None
        return fixes.Fix.of(
            'average over the classes: `"macro"`', fixes.AddArgument(finding.location, "average", '"macro"'), safe=False
        )


def _is_called(finding: Finding[Claim], function: str) -> bool:
    """Whether the call that a run located is the call of the metric itself."""
    callee = nodes.callee_in(finding)
    return bool(function) and callee is not None and callee[1].rpartition(".")[2] in {function, "compute"}


def _model_of(call: training.MetricCall) -> Model | None:
    """The classifier whose classes are compared with unchanged labels; None if that is not certain."""
    predicted, wanted = _tensor(call.predictions), _tensor(call.references)
    if predicted is None or wanted is None or predicted.role is not Role.CLASSES or wanted.role is not Role.LABELS:
        return None
    if not isinstance(predicted.model, Model) or _compares(predicted) or _compares(wanted):
        return None
    return predicted.model


def _tensor(argument: Argument | None) -> Tensor | None:
    value = argument.value if argument else None
    return value if isinstance(value, Tensor) else None


def _compares(array: Tensor) -> bool:
    """Whether the code of an array compares its entries, which leaves two classes."""
    try:
        code = expressions.parsed(array.text.strip())
    except SyntaxError:
        return True
    return any(_is_comparison(part) for part in code.parts_outside_indexes())


def _is_comparison(part: expressions.Expression) -> bool:
    is_call_of_one = part.called_name in {"where", "isin", "gt", "ge", "lt", "le", "astype", "bool"}
    return is_call_of_one or part.kind in {expressions.Kind.COMPARISON, expressions.Kind.OPERATION}


def _classes_of(model: Model) -> int | None:
    """The size of the head; None if neither the script nor the checkpoint determines it."""
    if not isinstance(model.problem_type, python.Absent):
        return None
    size = python.literal(model.num_labels)
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    return model.labels_by_default if python.is_missing(model.num_labels) else None
