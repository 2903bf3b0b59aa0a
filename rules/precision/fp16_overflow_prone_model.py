"""A T5 of the later kinds is trained in float16, which its activations overflow.

These models were trained in bfloat16, whose range is that of float32. Some of their activations are larger than 65504,
the largest float16 number: they become infinite, and the loss NaN, at once or after a while. The Trainer logs such a
loss as 0, so that the run looks as if it had learned everything.

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

Mixed precision in a loop of one's own:

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

The first T5 works in float16, in its two small sizes at least:

    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    args = Seq2SeqTrainingArguments("out", fp16=True)
    trainer = Seq2SeqTrainer(model, args, train_dataset=tokenized["train"])

Whether it is float16 is for the user to say, or depends on the machine:

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
    args = Seq2SeqTrainingArguments("out", fp16=not torch.cuda.is_bf16_supported(), bf16=torch.cuda.is_bf16_supported())
    trainer = Seq2SeqTrainer(model, args, train_dataset=tokenized["train"])

Using a model keeps its most sensitive layer in float32:

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base", dtype=torch.float16)
    model.generate(**tokenizer("summarize: once upon a time", return_tensors="pt"))

A loop of one's own may ask for bfloat16:

    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
    accelerator = Accelerator(mixed_precision="bf16")
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-4))
    for batch in train_loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()

## Fix

Asks first: bfloat16 needs a GPU of the Ampere generation or a later one.

## References

transformers#10956, transformers#14189, transformers#23918.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import literal, text_of
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, fixes, lazy_pattern

PRONE = lazy_pattern(
    r"(^|/)(flan-t5|mt5|umt5|byt5|(t5-)?v1_1|t5-v1_1|long-?t5|t5-(large|3b|11b)|madlad400|flan-ul2|t0(pp|_3b)?$)[\w.-]*",
    re.IGNORECASE,
)
"""Checkpoints of the T5 family but for the first T5 in its small sizes, which holds its activations in bounds."""

QUANTIZED = frozenset({"quantization_config", "load_in_8bit", "load_in_4bit"})
"""Arguments that leave only some layers in a float format."""


class Fp16OverflowProneModel(Rule):
    level = Level.WARNING
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for training in tuning.trainings(pipeline):
            model = training.model
            if not isinstance(model, Model) or not _is_prone(model) or not tuning.is_left_alone(pipeline, training):
                continue
            location = _fp16_at(pipeline, training)
            if location is not None:
                yield self._report(pipeline, training, model, location)

    def _report(self, pipeline: Pipeline, training: tuning.Training, model: Model, location: Location) -> Finding:
        name = text_of(model.checkpoint) or model.name
        settings = training.run.settings if training.run else None
        is_argument = settings is not None and settings.locations.get("fp16") == location
        return self.finding(
            location,
            f"`{name.rpartition('/')[2]}` is trained in float16, which its activations overflow",
            related=[Related(model.origin, "made here; it was trained in bfloat16", "origin")] if model.origin else [],
            help="train in bfloat16 (`bf16=True`, GPUs since Ampere), or in float32",
            subject="fp16",
            facts={"is_argument": is_argument and pipeline.code(location).startswith("fp16=")},
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        if not finding.facts.get("is_argument"):
            return None
        return fixes.Fix.of("train in bfloat16", fixes.Replace(finding.location, "bf16=True"), safe=False)


def _is_prone(model: Model) -> bool:
    name = literal(model.checkpoint)
    if QUANTIZED & model.arguments.keys():
        return False
    return model.is_pretrained and isinstance(name, str) and PRONE.search(name) is not None


def _fp16_at(pipeline: Pipeline, training: tuning.Training) -> Location | None:
    """What certainly makes a training compute in float16, unless that ends the run before anything overflows."""
    kept, scaler = tuning.weights_format(pipeline, training), tuning.scales_gradients(pipeline, training)
    if kept is None or kept.name != "float16":
        return scaler
    breaks = training.optimizer is not None and training.optimizer.name in {"Adam", "AdamW"}
    return kept.location if scaler is None and not breaks else None
