"""A streaming data set is used like one in memory: it has no length, no positions and no splits.

`load_dataset(…, streaming=True)` gives an `IterableDataset`, which reads its rows one after the other. `len` of it is a
TypeError, and it has none of the methods `select`, `sort` and `train_test_split`: an AttributeError, often after the
tokenizer and the model were loaded.

## Bad

    lines = load_dataset("allenai/c4", "en", split="train", streaming=True)
    steps = len(lines) // 32  # <- random-access-on-stream
    parts = lines.train_test_split(test_size=0.01)  # <- random-access-on-stream
    trainer = Trainer(model, args, train_dataset=parts["train"], data_collator=collator)

## Good

    lines = load_dataset("allenai/c4", "en", split="train", streaming=True)
    held_out, rest = lines.take(1000), lines.skip(1000)
    args = TrainingArguments("out", max_steps=10_000)
    trainer = Trainer(model, args, train_dataset=rest, eval_dataset=held_out, data_collator=collator)

## When it is fine

A data set in memory has a length, and so has one of several splits:

    lines = load_dataset("glue", "mnli", split="train")
    steps = len(lines) // 32
    parts = lines.train_test_split(test_size=0.01)
    splits = load_dataset("allenai/c4", "en", streaming=True)
    count = len(splits)

## Fix

None: how many rows a stream has, and which of them are held out, is to be decided.

## References

Datasets documentation, "Differences between Dataset and IterableDataset"; the methods of both in datasets 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Dataset
from lintrain.rule import Finding, Level, Pipeline, Rule, one_per_location

ADVICE = {
    "len": "set the number of steps, or count the rows once",
    "train_test_split": "hold out the first rows: `take(n)` and `skip(n)`",
    "select": "use `take(n)` and `skip(n)`",
    "[…]": "use `next(iter(…))` for one row, `take(n)` for several",
}


class RandomAccessOnStream(Rule):
    level = Level.ERROR
    keywords = "streaming|IterableDataset|to_iterable_dataset"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found = (misuse for misuse in pipeline.misuses if misuse.use == "stream as table")
        yield from one_per_location(map(self._report, found))

    def _report(self, misuse: Misuse) -> Finding:
        rows = misuse.value if isinstance(misuse.value, Dataset) else None
        lacks = {"len": "has no length", "[…]": "has no positions"}
        return self.finding(
            misuse.location,
            f"a streaming data set {lacks.get(misuse.text, f'has no `{misuse.text}`')}",
            related=run_data.origin_of(rows) if rows is not None else [],
            help=ADVICE.get(misuse.text, "load it without `streaming=True`"),
            subject=misuse.text,
        )
