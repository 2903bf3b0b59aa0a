"""A text to train on ends with the opening of an answer that is not in it.

`add_generation_prompt=True` is for prompts: it puts the tokens that open an answer behind the last message. Behind a
whole conversation they open a second answer, without any text. The model learns to write this opening where its answer
ends, and then goes on, instead of stopping.

## Bad

    lm_tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    lm_tokenizer.pad_token = lm_tokenizer.unk_token

    def encode(row):
        turns = [{"role": "user", "content": row["text"]}, {"role": "assistant", "content": "Yes."}]
        text = lm_tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)  # <- unfilled-answer
        return lm_tokenizer(text, truncation=True, max_length=64, add_special_tokens=False)

    turns = text.map(encode, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=turns["train"], data_collator=collator)

## Good

    lm_tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    lm_tokenizer.pad_token = lm_tokenizer.unk_token

    def encode(row):
        turns = [{"role": "user", "content": row["text"]}, {"role": "assistant", "content": "Yes."}]
        text = lm_tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=False)
        return lm_tokenizer(text, truncation=True, max_length=64, add_special_tokens=False)

    turns = text.map(encode, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=turns["train"], data_collator=collator)

## When it is fine

The answer follows the opening:

    lm_tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    lm_tokenizer.pad_token = lm_tokenizer.unk_token

    def encode(row):
        turns = [{"role": "user", "content": row["text"]}]
        prompt = lm_tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return lm_tokenizer(prompt + "Yes." + lm_tokenizer.eos_token, truncation=True, max_length=64)

    turns = text.map(encode, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=turns["train"], data_collator=collator)

## Fix

None: where the text is a prompt, the answer has to follow it.

## References

Transformers documentation, "Chat templates": training.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data, token_feeds
from lintrain.pipeline.values.data import Encoding
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import UNKNOWN, Value, is_true, text_of
from lintrain.pipeline.values.tensors import Templated
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, one_per_location


class UnfilledAnswer(Rule):
    level = Level.WARNING
    keywords = "apply_chat_template & Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._reports(pipeline))

    def _reports(self, pipeline: Pipeline) -> Iterator[Finding]:
        for feed in token_feeds.token_feeds(pipeline):
            is_causal = feed.model is not None and feed.model.task is Task.CAUSAL_LM
            if is_causal and feed.encoding is not None:
                yield from self._of_text(feed.encoding, feed.location)
        for run in pipeline.runs:
            rows = run.dataset("train_dataset")
            columns = (rows.columns or {}) if rows is not None else {}
            for name in run_data.text_read(run, set(columns)):
                written = columns[name].written if name in columns else None
                if written is not None:
                    yield from self._of_text(Encoding(UNKNOWN, inputs=written), run.construction)

    def _of_text(self, encoding: Encoding, trained: Location) -> Iterator[Finding]:
        texts = token_feeds.written_texts(encoding)
        for text in texts:
            if text.origin is not None and all(map(_opens_answer, texts)):
                yield self.finding(
                    text.origin,
                    "this text to train on ends with the opening of another answer",
                    related=[Related(trained, "trained on here", "training")],
                    help="leave out `add_generation_prompt=True`: the conversation has its answer",
                )


def _opens_answer(text: Value) -> bool:
    """Whether a text opens an answer behind the last message, which is one itself."""
    is_open = isinstance(text, Templated) and is_true(text.adds_prompt)
    return is_open and isinstance(text, Templated) and text_of(text.last_role) == "assistant"
