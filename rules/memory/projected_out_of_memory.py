"""A training step needs more memory than the device has.

Weights, gradients and optimizer state are in memory during the whole training, together with the activations of a
batch. The out-of-memory error occurs only after the download and the preprocessing; if lengths differ, it occurs hours
later, at the longest batch. `lintrain probe --device-memory 24GiB` computes one step on tensors without values, which
takes seconds on a laptop, even for a model that does not fit in its memory.

## Bad

    # lintrain probe --device-memory 100MiB train.py
    small = transformers.GPT2Config(vocab_size=20000, n_embd=384, n_layer=1, n_head=2)
    writer = AutoModelForCausalLM.from_config(small)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)
    trainer = Trainer(  # <- projected-out-of-memory
        writer,
        TrainingArguments("out", per_device_train_batch_size=4),
        train_dataset=words["train"],
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
    )

## Good

    # lintrain probe --device-memory 100MiB train.py
    small = transformers.GPT2Config(vocab_size=20000, n_embd=32, n_layer=1, n_head=2)
    writer = AutoModelForCausalLM.from_config(small)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)
    trainer = Trainer(
        writer,
        TrainingArguments("out", per_device_train_batch_size=4),
        train_dataset=words["train"],
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
    )

## When it is fine

The projection has an error of up to 15 %, and the rule reports nothing within this range. It does not judge runs that
distribute a model over several devices (FSDP, DeepSpeed), nor quantized weights.

## Fix

None: a smaller batch with gradient accumulation, activation checkpointing, half precision, an adapter and a smaller
checkpoint are all reasonable. The help names those that suit what takes the memory.

## References

PyTorch documentation, "Understanding CUDA Memory Usage"; Korthikanti et al.: Reducing activation recomputation in large
transformer models (2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict
from lintrain.text import show_size

if TYPE_CHECKING:
    from lintrain.evidence.run import MemoryEvidence


class ProjectedOutOfMemory(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        memory = evidence.memory
        if memory is None:
            return Verdict.inconclusive(evidence.not_reached("memory"))
        text = f"a step of {memory.batch} needs {show_size(memory.peak)}"
        if memory.device is None:
            return Verdict.inconclusive(f"{text}, but `--device-memory` is not set")
        text = f"{text}, the device has {show_size(memory.device)}"
        numbers = {"peak": memory.peak, "device": memory.device, "largest_batch": memory.largest_batch}
        if memory.least > memory.device:
            return Verdict.confirmed(f"{text}; {memory.largest}", **numbers)
        if memory.most < memory.device:
            return Verdict.refuted(text, **numbers)
        return Verdict.inconclusive(f"{text}, which is too close to decide", **numbers)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        memory = evidence.memory
        if memory is not None:
            message = "a training step needs more memory than the device has"
            finding = self.finding(evidence.location, message, help=_help(memory))
            yield from self.if_confirmed(finding, evidence)


def _help(memory: MemoryEvidence) -> str:
    if memory.largest_batch:
        smaller = f"use a batch size of {memory.largest_batch} with gradient accumulation"
        return f"{smaller}, checkpoint the activations, or train in bfloat16"
    if memory.fixed > (memory.device or 0):
        alone = "weights, gradients and optimizer alone do not fit"
        return f"{alone}: train an adapter (LoRA), load the weights in lower precision, or use a smaller checkpoint"
    return "checkpoint the activations, train in bfloat16, truncate the rows, or use a smaller checkpoint"
