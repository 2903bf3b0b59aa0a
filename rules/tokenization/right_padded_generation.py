"""A decoder generates from prompts that are padded at their end.

What is generated is appended to the padding, not to the prompt. The model continues a text of padding tokens, which no
training text contains, so the answers to all but the longest prompt of a batch are worse, and their metrics too low. No
error is raised.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lm_tokenizer.padding_side = "right"
    prompts = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    out = lm.generate(**prompts, max_new_tokens=4)  # <- right-padded-generation
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lm_tokenizer.padding_side = "left"
    prompts = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    out = lm.generate(**prompts, max_new_tokens=4)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

An encoder and decoder generates after a token of its own, and a single prompt is not padded:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lm_tokenizer.padding_side = "right"
    prompt = lm_tokenizer("one two three four", padding=True, return_tensors="pt")
    out = lm.generate(**prompt, max_new_tokens=4)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

None: the same tokenizer may also encode rows for training, which may be padded at either end.

## References

Transformers documentation, "Generation with LLMs", "Wrong padding side"; the warning of `GenerationMixin.generate`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class RightPaddedGeneration(Rule):
    level = Level.WARNING
    keywords = "generate & padding_side"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"\.generate\(") and source.contains("padding_side")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found = (each for each in pipeline.misuses if each.use == "generated after padding")
        yield from one_per_location(
            self.finding(
                each.location,
                "the prompts are padded at their end, and the model continues the padding",
                related=[Related(each.value.origin, "padded here", "padded")] if each.value.origin else [],
                help='set `tokenizer.padding_side = "left"` for generation',
                subject="padding_side",
            )
            for each in found
        )
