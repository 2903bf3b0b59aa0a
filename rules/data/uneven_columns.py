"""A mapped function gives another number of rows, but columns of the old rows stay.

`map` keeps the columns that the function does not return. A function that cuts long texts into windows, or joins texts
and cuts them into blocks, returns more or fewer rows than it got, and the old columns still have one value for each old
row: Arrow refuses columns of different lengths, with an `ArrowInvalid` at the first batch.

## Bad

The windows of a text are several rows, and its label is one:

    def encode(rows):
        return tokenizer(
            rows["premise"], rows["hypothesis"], truncation=True, max_length=16, return_overflowing_tokens=True
        )

    encoded = raw.map(encode, batched=True)  # <- uneven-columns
    trainer = Trainer(model, args, train_dataset=encoded["train"], data_collator=collator)
    # raises Column 4 named input_ids expected length

## Good

Each window gets the label of its text:

    def encode(rows):
        windows = tokenizer(
            rows["premise"], rows["hypothesis"], truncation=True, max_length=16, return_overflowing_tokens=True
        )
        windows["labels"] = [rows["label"][text] for text in windows.pop("overflow_to_sample_mapping")]
        return windows

    encoded = raw.map(encode, batched=True, remove_columns=raw["train"].column_names)
    trainer = Trainer(model, args, train_dataset=encoded["train"], data_collator=collator)

## When it is fine

All old columns are removed, or replaced by blocks of tokens:

    def encode(rows):
        return tokenizer(rows["premise"])

    def group(rows):
        joined = {name: sum(rows[name], []) for name in rows}
        size = len(joined["input_ids"]) // 32 * 32
        return {name: [tokens[i : i + 32] for i in range(0, size, 32)] for name, tokens in joined.items()}

    encoded = raw["train"].map(encode, batched=True, remove_columns=raw["train"].column_names)
    blocks = encoded.map(group, batched=True)

## Fix

None: a column may be meant to be removed, or to be repeated for each new row.

## References

Datasets documentation, "Batch mapping", different number of rows; datasets#1817, datasets#2226.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.record import Misuse
from lintrain.rule import Finding, Level, Pipeline, Rule, one_per_location


class UnevenColumns(Rule):
    level = Level.ERROR
    keywords = "map & batched"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found = (misuse for misuse in pipeline.misuses if misuse.use == "uneven columns")
        yield from one_per_location(map(self._report, found))

    def _report(self, misuse: Misuse) -> Finding:
        return self.finding(
            misuse.location,
            f"`{misuse.text}` keeps one value per old row, but the function makes other rows",
            help="pass `remove_columns=…` with all old columns, and repeat those that are needed for each new row",
            subject=misuse.text,
        )
