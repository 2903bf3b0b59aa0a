"""Weights in float16 are trained with a gradient scaler.

A scaler multiplies the loss so that small gradients do not underflow in float16, and divides the gradients before the
step. It does so only for float32 weights, because float16 gradients may have overflowed already. The run ends in its
first step with `Attempting to unscale FP16 gradients`. Mixed precision needs the weights themselves in float32. (With
accelerate 1.15 the CPU has no scaler, so a Trainer's run fails only on a GPU.)

Since transformers 5, a model without `dtype` has the format that its checkpoint was saved in. For OPT, Llama 2 and
phi-2 that is float16.

## Bad

    args = TrainingArguments("out", fp16=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
        dtype=torch.float16,  # <- fp16-weights-with-scaler
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The same in a custom training loop:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model.half()  # <- fp16-weights-with-scaler
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    scaler = torch.amp.GradScaler("cpu")
    for batch in train_loader:
        optimizer.zero_grad()
        loss = model(**batch).loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    # raises ValueError: Attempting to unscale FP16 gradients.

## Good

    args = TrainingArguments("out", fp16=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
        dtype=torch.float32,
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The weights of adapters are kept in float32:

    args = TrainingArguments("out", fp16=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, dtype=torch.float16
    )
    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"]))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Without the option there is no scaler:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    args = TrainingArguments("out", fp16=parser.parse_args([]).fp16)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, dtype=torch.float16
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A model that is used only for inference may have any format:

    args = TrainingArguments("out", fp16=True)
    teacher = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", dtype=torch.float16)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: weights in float32 take twice the memory.

## References

transformers#23165; PyTorch documentation, "Automatic Mixed Precision examples".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.values.model import Model
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

TEXT = "Attempting to unscale FP16 gradients"


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the `dtype` argument's value; None if another call sets the format."""

    code: str | None


class Fp16WeightsWithScaler(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in tuning.trainings(pipeline):
            model, kept = training.model, tuning.weights_format(pipeline, training)
            if not isinstance(model, Model) or kept is None or kept.name != "float16":
                continue
            scaler = tuning.scales_gradients(pipeline, training)
            if (
                scaler is None
                or tuning.quantization_of(model) is not None
                or not tuning.is_tuned_whole(pipeline, training)
            ):
                continue
            yield self.finding(
                kept.location,
                "float16 weights are trained with a gradient scaler, which rejects them",
                related=[Related(scaler, "the scaler is enabled here")],
                help="load with `dtype=torch.float32`; mixed precision casts automatically",
                subject="dtype",
                claim=Claim(pipeline.code(kept.location) if kept.is_argument else None),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        # Adapters of a model in float16 are kept in float32.
        if evidence.model is not None and set(evidence.model.formats) == {"float16"}:
            yield self.finding(
                evidence.location_of("cast", "model"),
                "float16 weights are trained with a gradient scaler, which rejects them",
                help="load with `dtype=torch.float32`; mixed precision casts automatically",
                subject="dtype",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.failed_with(TEXT):
            return Verdict.confirmed(f"`{TEXT}`")
        if evidence.model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        count, every = evidence.model.formats.get("float16", 0), sum(evidence.model.formats.values())
        text = f"{count} of {every} trainable tensors are in float16"
        if count and evidence.arguments.get("fp16") is True:
            return Verdict.confirmed(f"{text}, and `fp16=True` scales their gradients on a GPU", float16=count)
        return Verdict.refuted(text, float16=count)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        wanted = '"float32"' if code[:1] in "\"'" else f"{code.rpartition('.')[0] or 'torch'}.float32"
        return fixes.Fix.of(f"write `{wanted}`", fixes.Replace(finding.location, wanted), safe=False)
