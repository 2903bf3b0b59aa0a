"""A function for single rows is mapped with `batched=True`.

With `batched=True` the function gets up to 1,000 rows at once: `row["text"]` is a list of texts, not a text. What works
for one text fails for a list, and one text in place of a list is refused as a column.

## Bad

    prompts = Dataset.from_dict({"question": ["2 + 2?", "3 + 3?"], "answer": ["4", "6"]})
    prompts = prompts.map(lambda row: {"text": "Q: " + row["question"]}, batched=True)  # <- row-function-on-batches
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises TypeError: can only concatenate str (not "list") to str

One text for all rows of a batch:

    prompts = Dataset.from_dict({"question": ["2 + 2?", "3 + 3?"], "answer": ["4", "6"]})

    def write(row):
        text = f"Question: {row['question']} Answer: {row['answer']}"
        return {"text": text}  # <- row-function-on-batches

    prompts = prompts.map(write, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises TypeError

## Good

    prompts = Dataset.from_dict({"question": ["2 + 2?", "3 + 3?"], "answer": ["4", "6"]})
    prompts = prompts.map(lambda row: {"text": "Question: " + row["question"]})
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The rows one by one, inside the function:

    prompts = Dataset.from_dict({"question": ["2 + 2?", "3 + 3?"], "answer": ["4", "6"]})
    prompts = prompts.map(lambda rows: {"text": ["Question: " + each for each in rows["question"]]}, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A function that asks what it got:

    prompts = Dataset.from_dict({"question": ["2 + 2?", "3 + 3?"]})

    def lower(rows):
        if isinstance(rows["question"], str):
            return {"question": rows["question"].lower()}
        return {"question": [each.lower() for each in rows["question"]]}

    prompts = prompts.map(lower, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A format whose columns are no lists is not judged.

## Fix

None: mapping rows one by one and a loop inside the function are both reasonable, and the second is faster.

## References

Datasets documentation, "Batch mapping"; `Dataset.map` of datasets 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import batch_functions, script_text
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets

OWN_FORMATS = r"\b(?:set_format|with_format|set_transform|with_transform)\b"
"""In another format than Python's, a column is an array or a series, which has operations that a list lacks."""


class RowFunctionOnBatches(Rule):
    level = Level.ERROR
    keywords = "batched & map"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(batch_functions.uses_of_single_rows(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if script_text.mentions(pipeline, OWN_FORMATS):
            return
        for mapped, use in batch_functions.uses_of_single_rows(pipeline.source):
            yield self.finding(
                use.location,
                use.message,
                related=[Related(mapped, "mapped with `batched=True`", "map")],
                help="remove `batched=True`, or go through the rows of the batch in the function",
            )
