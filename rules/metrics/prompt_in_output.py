"""A generated text is scored together with the prompt that it was generated from.

`generate` of a causal model returns the tokens of the prompt and then the new ones. A text that is decoded from all of
them is never equal to the answer alone, and scores such as ROUGE and BLEU compare the prompt with the answer.

## Bad

    prompt = lm_tokenizer("The capital of France is", return_tensors="pt")
    out = lm.generate(**prompt, max_new_tokens=5)
    answer = lm_tokenizer.decode(out[0], skip_special_tokens=True)
    hits = int(answer.strip() == "Paris")  # <- prompt-in-output
    print(hits)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The number of prompts in place of the number of their tokens:

    prompt = lm_tokenizer("The capital of France is", return_tensors="pt")
    out = lm.generate(**prompt, max_new_tokens=5)
    answers = lm_tokenizer.batch_decode(out[:, prompt["input_ids"].shape[0] :])  # <- prompt-in-output
    print(answers)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    prompt = lm_tokenizer("The capital of France is", return_tensors="pt")
    out = lm.generate(**prompt, max_new_tokens=5)
    answer = lm_tokenizer.decode(out[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    hits = int(answer.strip() == "Paris")
    print(hits)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The prompt is removed from the text, or the text is searched:

    prompt = lm_tokenizer("The capital of France is", return_tensors="pt")
    out = lm.generate(**prompt, max_new_tokens=5)
    text = lm_tokenizer.decode(out[0], skip_special_tokens=True)
    answer = text[len("The capital of France is") :]
    hits = int(answer.strip() == "Paris") + int("Paris" in text)
    print(hits)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

None: where the prompt ends is known by its number of tokens, whose name is not.

## References

Transformers documentation, "Generation": decoder-only models return the prompt too.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import prompt_lengths
from lintrain.pipeline.values.python import Sequence, Value
from lintrain.pipeline.values.tensors import Generated
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, Source, Targets, one_per_location


class PromptInOutput(Rule):
    level = Level.ERROR
    keywords = "generate & decode"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"\.generate\(")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        compared = (misuse for misuse in pipeline.misuses if misuse.use == "prompt compared")
        yield from one_per_location(self._report(each.location, each.value) for each in compared)
        for call in pipeline.metric_calls:
            found = _generated_in(call.predictions.value) if call.predictions is not None else None
            if found is not None:
                yield self._report(call.location, found)

        yield from one_per_location(map(self._report_cut, prompt_lengths.cut_by_rows(pipeline.source)))

    def _report_cut(self, found: prompt_lengths.CutByRows) -> Finding:
        shown = f"`{found.code}`" if len(found.code) <= 36 else "this"
        return self.finding(
            found.location,
            f"{shown} is the number of prompts, not of their tokens",
            related=[Related(found.generated, "generated here", "generated")],
            help='cut by the length of the prompts: `inputs["input_ids"].shape[1]`',
        )

    def _report(self, location: Location, text: Value) -> Finding:
        return self.finding(
            location,
            "the generated text still begins with its prompt, and is compared with an answer",
            related=[Related(text.origin, "all tokens are decoded here, those of the prompt too", "decoded")]
            if text.origin is not None
            else [],
            help='decode the new tokens alone: `out[:, inputs["input_ids"].shape[1]:]`',
        )


def _generated_in(value: Value) -> Generated | None:
    items = value.items if isinstance(value, Sequence) else [value]
    return next((item for item in items if isinstance(item, Generated)), None)
