"""A head with one output is trained on class ids.

One output means regression: the loss is the squared distance to the class id, as if class 2 were twice class 1. No
error appears. The `argmax` over a single output is always class 0, so the accuracy stays at the share of that class,
whatever the model learns.

## Bad

    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=1,  # <- regression-head-for-classes
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Scores are not classes:

    scores = Dataset.from_dict({"text": ["good", "bad"] * 8, "label": [0.9, 0.2] * 8})
    scores = scores.map(lambda rows: tokenizer(rows["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=1)
    trainer = Trainer(model, args, train_dataset=scores, data_collator=collator)

Regression on class ids may be intended if the script sets `problem_type`:

    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=1, problem_type="regression"
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A custom loss may use one output for two classes:

    class BinaryTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            labels = inputs.pop("labels").float()
            output = model(**inputs)
            loss = F.binary_cross_entropy_with_logits(output.logits.squeeze(-1), (labels > 0).float())
            return (loss, output) if return_outputs else loss

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=1)
    trainer = BinaryTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The kind of imported labels is unknown:

    from my_data import train_rows

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=1)
    trainer = Trainer(model, args, train_dataset=train_rows, data_collator=collator)

## Fix

Asks first: a different head trains with a different loss.

## References

simpletransformers#454, peft#876; Transformers documentation, `problem_type`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.values.data import Kind
from lintrain.pipeline.values.model import Model, Role, Task, Tensor
from lintrain.pipeline.values.python import Absent, is_missing, literal
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

HEADS = frozenset({Task.SEQUENCE_CLASSIFICATION, Task.IMAGE_CLASSIFICATION, Task.AUDIO_CLASSIFICATION})
LOSS_METHODS = frozenset({"compute_loss", "training_step"})
MOST_CLASSES = 20


@dataclass(frozen=True, slots=True)
class Claim:
    """The number of classes to write for `num_labels`; None if it is unknown or `num_labels` is not in the call."""

    count: int | None


class RegressionHeadForClasses(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in tuning.trainings(pipeline):
            model, run = training.model, training.run
            if run is None or not isinstance(model, Model) or not _regresses(model) or not _has_plain_loss(run):
                continue
            reasons, count = _classes(pipeline, training, run)
            location = model.argument_locations.get("num_labels", model.origin)
            if reasons and location is not None:
                yield self._report(pipeline, model, location, reasons, count)

    def _report(
        self, pipeline: Pipeline, model: Model, location: Location, reasons: tuple[Related, ...], count: int | None
    ) -> Finding[Claim]:
        is_argument = "num_labels" in model.argument_locations
        usage = f"is trained on {count} classes" if count else "is evaluated by its argmax"
        return self.finding(
            location,
            f"a head with one output {usage}",
            related=reasons,
            help=f"pass `num_labels={count or '<number of classes>'}`",
            subject="num_labels",
            claim=Claim(count if is_argument else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        classes = {len(split.labels.names) for split in evidence.splits if split.labels is not None}
        model, is_own_loss = evidence.model, {"compute_loss", "compute_loss_func"} & set(evidence.overrides)
        # A loop has called the model before it is measured: what the configuration says may be the library's guess.
        is_meant = model is None or model.problem_type is not None or evidence.loop is not None or is_own_loss
        if model is not None and model.num_labels == 1 and len(classes) == 1 and not is_meant:
            yield self.finding(
                evidence.location_of("model"),
                "a head with one output is trained on classes",
                help=f"pass `num_labels={max(classes) or '<number of classes>'}` where the model is loaded",
                subject="num_labels",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        model = evidence.model
        columns = [split.labels for split in evidence.splits if split.labels is not None]
        if model is None or not columns or model.num_labels is None:
            return Verdict.inconclusive("no labels of a classifier were measured")
        if model.num_labels != 1:
            return Verdict.refuted(f"the head has {model.num_labels} outputs", outputs=model.num_labels)
        counts, kinds = {value for column in columns for value, _ in column.counts}, {column.kind for column in columns}
        text = f"the head has 1 output, the labels have {len(counts)} values of kind {', '.join(kinds)}"
        if kinds <= {"class label"} and len(counts) > 1:
            return Verdict.confirmed(text, values=len(counts))
        if kinds <= {"integer", "class label"} and len(counts) <= MOST_CLASSES:
            return Verdict.inconclusive(f"{text}, which may be grades")
        return Verdict.refuted(text, values=len(counts))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        count = finding.claim.count if finding.claim else None
        if count is None:
            return None
        return fixes.Fix.of(f"write `{count}`", fixes.Replace(finding.location, str(count)), safe=False)


def _regresses(model: Model) -> bool:
    """Whether a model's head certainly has one output, and no `problem_type` is set."""
    is_set = not isinstance(model.problem_type, Absent)
    return model.task in HEADS and literal(model.num_labels) == 1 and not is_set and model.is_complete


def _has_plain_loss(run: TrainerRun) -> bool:
    return run.is_plain and not run.overrides & LOSS_METHODS and is_missing(run.value("compute_loss_func"))


def _classes(pipeline: Pipeline, training: tuning.Training, run: TrainerRun) -> tuple[tuple[Related, ...], int | None]:
    """The locations that show that the labels are classes, and their number: the label column, or an argmax metric."""
    dataset = pipeline.rows_of(run.collated_rows)
    label = dataset.label if dataset is not None else None
    if dataset is not None and label is not None and (label.kind is Kind.CLASS or label.shown_classes):
        count = len(label.class_names) or label.num_classes or label.shown_classes
        if count and count > 1:
            return dataset.origins(f"`{label.name}` has {count} classes"), count
    for call in pipeline.metric_calls:
        given = call.predictions.value if call.predictions else None
        if not isinstance(given, Tensor) or given.role is not Role.CLASSES or "argmax" not in given.text:
            continue
        if given.model is training.model:
            return (Related(call.location, "the argmax of one output is always class 0"),), None
    return (), None
