"""As many tokens as the input has are cut from the output of an encoder-decoder, which does not begin with it.

`generate` of a decoder-only model returns the prompt and what follows it. That of an encoder-decoder, such as T5 or
BART, returns the answer alone. Without its first tokens the answer is cut short or empty, and scores are computed from
what is left. No error is raised.

## Bad

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")
    prompt = t5_tokenizer("one two three", return_tensors="pt")
    out = t5.generate(**prompt, max_new_tokens=5)
    answer = t5_tokenizer.decode(out[0][prompt["input_ids"].shape[1] :])  # <- cut-decoder-output
    print(answer)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")
    prompt = t5_tokenizer("one two three", return_tensors="pt")
    out = t5.generate(**prompt, max_new_tokens=5)
    answer = t5_tokenizer.decode(out[0], skip_special_tokens=True)
    print(answer)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A decoder-only model returns the prompt as well, and an encoder-decoder a start token:

    prompt = lm_tokenizer("The capital of France is", return_tensors="pt")
    out = lm.generate(**prompt, max_new_tokens=5)
    answer = lm_tokenizer.decode(out[0][prompt["input_ids"].shape[1] :])
    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    ids = torch.randint(3, 60, (2, 9))
    new = t5.generate(input_ids=ids, max_new_tokens=5)[:, 1:]
    print(answer, new)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

None: the start token may have to be cut off instead.

## References

Transformers documentation, `GenerationMixin.generate`; "Generation": decoder-only models return the prompt too.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class CutDecoderOutput(Rule):
    level = Level.ERROR
    keywords = "generate("
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"\.generate\(")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                misuse.location,
                "this cuts the input off, but an encoder-decoder returns the answer alone",
                related=[Related(misuse.value.origin, "generated here", "generated")]
                if misuse.value.origin is not None and misuse.value.origin != misuse.location
                else [],
                help="decode all of it, with `skip_special_tokens=True`",
            )
            for misuse in pipeline.misuses
            if misuse.use == "prompt cut"
        )
