"""A custom loss is averaged over one batch, and the Trainer does not divide it by the accumulation steps.

With `gradient_accumulation_steps`, the Trainer counts the labels of all batches in a step and leaves the division to
the loss function. If it does not use `num_items_in_batch`, the logged loss and all gradients are too large by the
number of batches.

## Bad

    class WeightedTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=0):  # <- unscaled-compute-loss
            labels = inputs.pop("labels")
            outputs = model(**inputs)
            loss = F.cross_entropy(outputs.logits, labels, weight=torch.tensor([1.0, 2.0, 2.0]))
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    trainer = WeightedTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A function passed as `compute_loss_func`:

    def weighted(outputs, labels, num_items_in_batch=None):  # <- unscaled-compute-loss
        return F.cross_entropy(outputs["logits"], labels)

    args = TrainingArguments("out", gradient_accumulation_steps=2)
    trainer = Trainer(
        model, args, train_dataset=tokenized["train"], data_collator=collator, compute_loss_func=weighted
    )

## Good

    class WeightedTrainer(Trainer):
        loss_is_scaled_for_ga = False

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=0):
            labels = inputs.pop("labels")
            outputs = model(**inputs)
            loss = F.cross_entropy(outputs.logits, labels, weight=torch.tensor([1.0, 2.0, 2.0]))
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    trainer = WeightedTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

In a function, divide by the number of labels in the whole step:

    def weighted(outputs, labels, num_items_in_batch=None):
        if num_items_in_batch is None:
            return F.cross_entropy(outputs["logits"], labels)
        return F.cross_entropy(outputs["logits"], labels, reduction="sum") / num_items_in_batch

    args = TrainingArguments("out", gradient_accumulation_steps=2)
    trainer = Trainer(
        model, args, train_dataset=tokenized["train"], data_collator=collator, compute_loss_func=weighted
    )

## When it is fine

Without accumulation there is nothing to divide:

    class PlainTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

    trainer = PlainTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The loss may be divided in the method itself:

    class DividingTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            steps = self.args.gradient_accumulation_steps if model.training else 1
            loss = outputs.loss / steps
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    trainer = DividingTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Unknown code may use the keyword arguments:

    from somewhere import focal

    class FocalTrainer(Trainer):
        def compute_loss(self, model, inputs, **kwargs):
            return focal(self, model, inputs, **kwargs)

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    trainer = FocalTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: the Trainer then divides the loss, which changes the effect of the learning rate.

## References

transformers#35203, transformers#37766; `Trainer.training_step` of transformers 5.0 to 5.23, and of 4.50 for
`compute_loss_func`. `loss_is_scaled_for_ga` exists since 5.20; earlier, set `self.model_accepts_loss_kwargs = False`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, gradients, trainer_methods
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import Function
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

COUNT = "num_items_in_batch"
DIVIDES = "loss_is_scaled_for_ga = False"
OTHER_STEPS = {"training_step", "get_batch_samples", "_get_num_items_in_batch"}
LABELLED = {
    Task.SEQUENCE_CLASSIFICATION,
    Task.TOKEN_CLASSIFICATION,
    Task.MULTIPLE_CHOICE,
    Task.CAUSAL_LM,
    Task.MASKED_LM,
    Task.SEQ2SEQ_LM,
}


@dataclass(frozen=True, slots=True)
class Claim:
    """The number of batches in a step."""

    steps: int


class UnscaledComputeLoss(Rule[Claim]):
    level = Level.WARNING
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            accumulation = gradients.accumulation_of(run)
            if (
                accumulation is None
                or not run.is_plain
                or gradients.declares_loss_scaling(run)
                or run.overrides & OTHER_STEPS
            ):
                continue
            function = _own_loss(pipeline, run)
            if function is not None and _is_mean(pipeline, function):
                yield self._report(pipeline, run, function, accumulation)

    def _report(
        self, pipeline: Pipeline, run: TrainerRun, function: Function, accumulation: gradients.Accumulation
    ) -> Finding[Claim]:
        owner = trainer_methods.own_class(run, "compute_loss")
        class_location = (
            owner.origin
            if owner is not None and gradients.is_since(pipeline.targets, "transformers", (5, 20))
            else None
        )
        reasons = [Related(accumulation.location, f"{accumulation.steps} batches per step", "accumulation")]
        if class_location is not None:
            reasons.append(Related(class_location, "the trainer's class", "class"))
        return self.finding(
            trainer_methods.head_of(pipeline, function),
            f"this loss is not divided by the {accumulation.steps} batches of a step",
            related=reasons,
            help=f"set `{DIVIDES}` in the class, or divide by `{COUNT}`" if class_location else f"divide by `{COUNT}`",
            subject="compute_loss",
            claim=Claim(accumulation.steps),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        location = evidence.locations.get("compute_loss")
        if evidence.accumulation is not None and location is not None and "training_step" not in evidence.overrides:
            yield self.finding(
                location,
                "this loss is not divided by the number of batches of a step",
                help=f"divide by `{COUNT}`, or set `{DIVIDES}` in the class of the trainer",
                subject="compute_loss",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        return gradients.verdict_on_accumulation(evidence)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        classes = finding.with_role("class")
        if not classes:
            return None
        return fixes.Fix.of(f"set `{DIVIDES}`", fixes.InsertAtTop(classes[0].location, DIVIDES), safe=False)


def _own_loss(pipeline: Pipeline, run: TrainerRun) -> Function | None:
    """The script's loss function, if the Trainer certainly leaves the division to it."""
    function = trainer_methods.own_method(run, "compute_loss")
    if function is not None:
        counts = gradients.is_since(pipeline.targets, "transformers", (5, 0)) and gradients.counts_labels(run)
        return function if counts and _has_labels(pipeline, run, function) else None
    is_left = gradients.is_since(pipeline.targets, "transformers", (4, 50))
    return trainer_methods.own_function(run.value("compute_loss_func")) if is_left else None


def _is_mean(pipeline: Pipeline, function: Function) -> bool:
    """Whether the function takes the number of labels without using it, and computes no sum."""
    if (
        not trainer_methods.accepts(function, COUNT)
        or trainer_methods.reads(function, COUNT)
        or trainer_methods.passes_keywords_on(function)
    ):
        return False
    return not any(_sums(part) for part in expressions.expressions_in(pipeline, function))


def _sums(part: expressions.Expression) -> bool:
    """Whether an expression is named after a sum, or a call whose `reduction` is not certainly the mean."""
    reduction = part.keywords.get("reduction")
    is_reduced = reduction is not None and reduction.value != "mean"
    return is_reduced or part.name == "sum" or "accumul" in part.name or part.value == "sum"


def _has_labels(pipeline: Pipeline, run: TrainerRun, function: Function) -> bool:
    """Whether batches certainly have `labels`; without them the Trainer divides the loss itself."""
    if trainer_methods.contains_text(function, "labels"):
        return True
    others = {str(part.value) for part in expressions.expressions_in(pipeline, function)}
    return run.model is not None and run.model.task in LABELLED and not any("label" in text for text in others)
