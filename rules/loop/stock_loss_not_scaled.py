"""Gradients are accumulated over several batches, and nobody divides their losses.

With `gradient_accumulation_steps` the Trainer of transformers 5 leaves the division to every model that accepts extra
keywords. The heads for classification, masked words and translation accept them and take the mean of their own batch
all the same: the loss in the log, and each gradient, is as many times too large as there are batches in a step.

## Bad

    args = TrainingArguments("out", gradient_accumulation_steps=4)  # <- stock-loss-not-scaled
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    model.accepts_loss_kwargs = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Heads of causal language models divide by the number of labels of the whole step:

    keywords = text["train"].map(lambda rows: lm_tokenizer(rows["text"]), batched=True, remove_columns=["text"])
    keywords = words.filter(lambda row: len(row["input_ids"]) > 4)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    trainer = Trainer(
        lm,
        TrainingArguments("out", gradient_accumulation_steps=4),
        train_dataset=words,
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
    )

A trainer may say by itself that its loss is the mean of one batch:

    class DividingTrainer(Trainer):
        loss_is_scaled_for_ga = False

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    trainer = DividingTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The number of batches may be the user's to choose, and 1 is a choice:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    args = TrainingArguments("out", gradient_accumulation_steps=parser.parse_args([]).accumulate)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: the loss is divided by the Trainer then, so that the learning rate acts differently.

## References

transformers#47688, transformers#47836; `Trainer.training_step` of transformers 5.0 to 5.23; measured on 5.23: heads
of 27 families give 4 times the loss and gradient norm for 4 batches of 2 rows that they give for one of 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradient_accumulation
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes


class StockLossNotScaled(Rule):
    level = Level.WARNING
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not gradient_accumulation.is_since(pipeline.targets, "transformers", (5, 0)):
            return
        for run in pipeline.runs:
            accumulation, model = gradient_accumulation.accumulation_of(run), run.model
            if (
                accumulation is None
                or model is None
                or _has_loss_of_its_own(run)
                or gradient_accumulation.smooths_labels(run)
            ):
                continue
            if gradient_accumulation.averages_each_batch(model) and not gradient_accumulation.says_who_divides(run):
                yield self._report(run, accumulation, model)

    def _report(self, run: TrainerRun, accumulation: gradient_accumulation.Accumulation, model: Model) -> Finding:
        name = run.arguments["model"].text if "model" in run.arguments else ""
        is_named = name.isidentifier() and not model.is_adapted
        related = [Related(model.origin, "its loss is the mean of one batch", "model")] if model.origin else []
        return self.finding(
            accumulation.location,
            f"nobody divides the losses of the {accumulation.steps} batches that each step adds up",
            related=[*related, Related(run.construction, "this trainer leaves the division to the model", "trainer")],
            help=f"set `{name if is_named else 'model'}.accepts_loss_kwargs = False` before the trainer is made",
            subject="gradient_accumulation_steps",
            facts={"steps": accumulation.steps, "name": name if is_named else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        return gradient_accumulation.verdict_on_accumulation(evidence)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        name = finding.facts.get("name")
        if not isinstance(name, str):
            return None
        (made,) = finding.with_role("trainer")
        statement = f"{name}.accepts_loss_kwargs = False"
        return fixes.Fix.of(
            f"let the Trainer divide: `{statement}`", fixes.InsertBefore(made.location, statement), safe=False
        )


def _has_loss_of_its_own(run: TrainerRun) -> bool:
    """Whether the script decides what the loss is: then it is another rule's business."""
    is_own = bool(run.overrides & gradient_accumulation.LOSS_METHODS) or not is_missing(run.value("compute_loss_func"))
    return is_own or not run.is_plain
