"""A step of training holds more memory than the device has, and the first long batch ends the run.

Weights, gradients and the optimizer's state lie in memory all the time, and the activations of a batch come on top.
That they do not fit together shows after the download and the preparation; where lengths differ, it shows hours later,
at the longest batch. `lintrain probe --device-memory 24GiB` computes one step on tensors without values, which takes
seconds on a laptop, also for a model that a laptop could never hold.

## Bad

    # lintrain probe --device-memory 100MiB train.py
    small = transformers.GPT2Config(vocab_size=20000, n_embd=384, n_layer=1, n_head=2)
    writer = AutoModelForCausalLM.from_config(small)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    keywords = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    keywords = words.filter(lambda row: len(row["input_ids"]) > 8)
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
    keywords = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    keywords = words.filter(lambda row: len(row["input_ids"]) > 8)
    trainer = Trainer(
        writer,
        TrainingArguments("out", per_device_train_batch_size=4),
        train_dataset=words["train"],
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
    )

## When it is fine

The projection may be off by 15 %, and nothing is claimed within that. Runs that spread a model over several devices
(FSDP, DeepSpeed) and quantized weights are not judged.

## Fix

None: a smaller batch, accumulation, checkpointing and half precision are all reasonable.

## References

PyTorch documentation, "Understanding CUDA Memory Usage"; Korthikanti et al.: Reducing activation recomputation in large
transformer models (2022).
"""

from collections.abc import Iterator

from lintrain.evidence.run import MemoryEvidence
from lintrain.rule import Evidence, Finding, Level, Rule, Verdict
from lintrain.text import sizes


class ProjectedOutOfMemory(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        memory = evidence.memory
        if memory is None:
            return Verdict.inconclusive(evidence.not_reached("memory"))
        said = f"a step of {memory.batch} holds {sizes.show_size(memory.peak)}"
        if memory.device is None:
            return Verdict.inconclusive(f"{said}, and `--device-memory` names no device")
        said = f"{said}, the device has {sizes.show_size(memory.device)}"
        numbers = {"peak": memory.peak, "device": memory.device, "largest_batch": memory.largest_batch}
        if memory.least > memory.device:
            return Verdict.confirmed(f"{said}; {memory.largest}", **numbers)
        if memory.most < memory.device:
            return Verdict.refuted(said, **numbers)
        return Verdict.inconclusive(f"{said}: too near to tell", **numbers)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        memory = evidence.memory
        if memory is not None:
            finding = self.finding(evidence.location, "a training step does not fit the device", help=_cure(memory))
            yield from self.if_confirmed(finding, evidence)


def _cure(memory: MemoryEvidence) -> str:
    if memory.largest_batch:
        return f"take batches of {memory.largest_batch} and add up the gradients of several, or checkpoint activations"
    if memory.fixed > (memory.device or 0):
        return "weights, gradients and optimizer alone are too much: train an adapter, or take a smaller model"
    return "checkpoint the activations, or cut the rows shorter"
