"""Gradients are accumulated over several batches, but the losses are not divided by their number.

With `gradient_accumulation_steps`, the Trainer of transformers 5 leaves the division to every model that accepts extra
keyword arguments. The heads for classification, masked language modeling and translation accept them, but still average
over their own batch: the logged loss and all gradients are too large by the number of batches in a step.

## Bad

    args = TrainingArguments("out", gradient_accumulation_steps=4)  # <- stock-loss-not-scaled
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    model.accepts_loss_kwargs = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Heads of causal language models divide by the number of labels in the whole step:

    words = text["train"].map(lambda rows: lm_tokenizer(rows["text"]), batched=True, remove_columns=["text"])
    words = words.filter(lambda row: len(row["input_ids"]) > 4)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    trainer = Trainer(
        lm,
        TrainingArguments("out", gradient_accumulation_steps=4),
        train_dataset=words,
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
    )

A trainer may declare that its loss is the mean of one batch:

    class DividingTrainer(Trainer):
        loss_is_scaled_for_ga = False

    args = TrainingArguments("out", gradient_accumulation_steps=4)
    trainer = DividingTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The number of batches may be an option, with a default of 1:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    args = TrainingArguments("out", gradient_accumulation_steps=parser.parse_args([]).accumulate)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: the Trainer then divides the loss, which changes the effect of the learning rate.

## References

transformers#47688, transformers#47836; `Trainer.training_step` of transformers 5.0 to 5.23; measured on 5.23: for
heads of 27 families, 4 batches of 2 rows give 4 times the loss and gradient norm of one batch of 8 rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradients, library_arguments
from lintrain.knowledge import api
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The number of batches in a step, and the name of the model; None without a fix."""

    steps: int
    model: str | None


OWN_LOSSES = frozenset({"compute_loss", "compute_loss_func", "training_step"})
"""What a script replaces to compute the loss itself."""


class StockLossNotScaled(Rule[Claim]):
    level = Level.WARNING
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not gradients.is_since(pipeline.targets, "transformers", (5, 0)) or _is_for_older_release(pipeline):
            return
        for run in pipeline.runs:
            accumulation, model = gradients.accumulation_of(run), run.model
            if accumulation is None or model is None or _has_custom_loss(run) or gradients.smooths_labels(run):
                continue
            if gradients.averages_each_batch(model) and not gradients.declares_loss_scaling(run):
                yield self._report(run, accumulation, model)

    def _report(self, run: TrainerRun, accumulation: gradients.Accumulation, model: Model) -> Finding[Claim]:
        name = run.arguments["model"].text if "model" in run.arguments else ""
        is_named = name.isidentifier() and not model.is_adapted
        related = [Related(model.origin, "averages its loss over one batch", "model")] if model.origin else []
        return self.finding(
            accumulation.location,
            f"each step sums the losses of {accumulation.steps} batches without dividing them",
            related=[*related, Related(run.construction, "leaves the division to the model", "trainer")],
            help=f"set `{name if is_named else 'model'}.accepts_loss_kwargs = False` before creating the trainer",
            subject="gradient_accumulation_steps",
            claim=Claim(accumulation.steps, name if is_named else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.accumulation is not None and OWN_LOSSES.isdisjoint(evidence.overrides):
            yield self.finding(
                evidence.location_of("arguments"),
                f"each step sums the losses of {evidence.accumulation.parts} batches or more without dividing them",
                help="set `model.accepts_loss_kwargs = False` before creating the trainer",
                subject="gradient_accumulation_steps",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        return gradients.verdict_on_accumulation(evidence)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.model is None:
            return None
        (trainer,) = finding.with_role("trainer")
        statement = f"{claim.model}.accepts_loss_kwargs = False"
        return fixes.Fix.of(f"insert `{statement}`", fixes.InsertBefore(trainer.location, statement), safe=False)


def _is_for_older_release(pipeline: Pipeline) -> bool:
    """Whether a call passes an argument that transformers 5 refuses from its first release on."""
    passed = library_arguments.keyword_arguments(pipeline)
    known = (api.keyword_state(each.call.path, each.name, pipeline.targets) for each in passed)
    gone = (each for each in known if each.state == "gone" and each.package == "transformers")
    return any((each.last_with or "").startswith("4.") for each in gone)


def _has_custom_loss(run: TrainerRun) -> bool:
    """Whether the script computes the loss itself, which `unscaled-compute-loss` checks."""
    is_own = bool(run.overrides & gradients.LOSS_METHODS) or not is_missing(run.value("compute_loss_func"))
    return is_own or not run.is_plain
