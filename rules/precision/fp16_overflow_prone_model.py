"""A T5 variant is trained in float16, in which its activations overflow.

These models were pretrained in bfloat16, which has the range of float32. Some of their activations exceed 65504, the
largest float16 number: they become infinite, and the loss becomes NaN, immediately or after a while. The Trainer logs
such a loss as 0, so the run looks like perfect training.

## Bad

    from my_project import pairs, words

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
    args = Seq2SeqTrainingArguments("out", fp16=True)  # <- fp16-overflow-prone-model
    trainer = Seq2SeqTrainer(model, args, train_dataset=pairs["train"], data_collator=DataCollatorForSeq2Seq(words))

The weights themselves in float16:

    model = AutoModelForSeq2SeqLM.from_pretrained(
        "google/mt5-small",
        dtype=torch.float16,  # <- fp16-overflow-prone-model
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

Mixed precision in a custom training loop:

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-large")
    accelerator = Accelerator(mixed_precision="fp16")  # <- fp16-overflow-prone-model
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-4))
    for batch in train_loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()

## Good

    from my_project import pairs, words

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
    args = Seq2SeqTrainingArguments("out", bf16=True)
    trainer = Seq2SeqTrainer(model, args, train_dataset=pairs["train"], data_collator=DataCollatorForSeq2Seq(words))

## When it is fine

The original T5 works in float16, at least in its two small sizes:

    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    args = Seq2SeqTrainingArguments("out", fp16=True)
    trainer = Seq2SeqTrainer(model, args, train_dataset=tokenized["train"])

The hardware decides whether float16 is used:

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
    args = Seq2SeqTrainingArguments("out", fp16=not torch.cuda.is_bf16_supported(), bf16=torch.cuda.is_bf16_supported())
    trainer = Seq2SeqTrainer(model, args, train_dataset=tokenized["train"])

Inference keeps the most sensitive layer in float32:

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base", dtype=torch.float16)
    model.generate(**tokenizer("summarize: once upon a time", return_tensors="pt"))

A custom training loop may use bfloat16:

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
    accelerator = Accelerator(mixed_precision="bf16")
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-4))
    for batch in train_loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()

## Fix

Asks first: bfloat16 needs a GPU of the Ampere generation or later.

## References

transformers#10956, transformers#14189, transformers#23918.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import literal, text_of
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, dataclass, fixes, lazy_pattern

PRONE = lazy_pattern(
    r"(^|/)(flan-t5|mt5|umt5|byt5|(t5-)?v1_1|t5-v1_1|long-?t5|t5-(large|3b|11b)|madlad400|flan-ul2|t0(pp|_3b)?$)[\w.-]*",
    re.IGNORECASE,
)
"""Checkpoints of the T5 family, except the small sizes of the original T5, whose activations stay in range."""

QUANTIZED = frozenset({"quantization_config", "load_in_8bit", "load_in_4bit"})
"""Arguments that keep only some layers in a floating-point format."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the code is the argument `fp16=…` of the training arguments."""

    is_argument: bool


class Fp16OverflowProneModel(Rule[Claim]):
    level = Level.WARNING
    judges_configurations = True
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in tuning.trainings(pipeline):
            model = training.model
            if not isinstance(model, Model) or not _is_prone(model) or not tuning.is_left_alone(pipeline, training):
                continue
            location = _fp16_at(pipeline, training)
            if location is not None:
                yield self._report(pipeline, training, model, location)

    def _report(
        self, pipeline: Pipeline, training: tuning.Training, model: Model, location: Location
    ) -> Finding[Claim]:
        name = text_of(model.checkpoint) or model.name
        settings = training.run.settings if training.run else None
        is_argument = settings is not None and settings.locations.get("fp16") == location
        return self.finding(
            location,
            f"`{name.rpartition('/')[2]}` is trained in float16, in which its activations overflow",
            related=[Related(model.origin, "created here; it was pretrained in bfloat16", "origin")]
            if model.origin
            else [],
            help="train in bfloat16 (`bf16=True`, GPUs since Ampere), or in float32",
            subject="fp16",
            claim=Claim(is_argument and pipeline.code(location).startswith("fp16=")),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.is_argument:
            return None
        return fixes.Fix.of("train in bfloat16", fixes.SetArgument(finding.location, "bf16", "True"), safe=False)


def _is_prone(model: Model) -> bool:
    name = literal(model.checkpoint)
    if QUANTIZED & model.arguments.keys():
        return False
    return model.is_pretrained and isinstance(name, str) and PRONE.search(name) is not None


def _fp16_at(pipeline: Pipeline, training: tuning.Training) -> Location | None:
    """The location that makes the training compute in float16; None if the run fails before anything overflows."""
    kept, scaler = tuning.weights_format(pipeline, training), tuning.scales_gradients(pipeline, training)
    if kept is None or kept.name != "float16":
        return scaler
    breaks = training.optimizer is not None and training.optimizer.name in {"Adam", "AdamW"}
    return kept.location if scaler is None and not breaks else None
