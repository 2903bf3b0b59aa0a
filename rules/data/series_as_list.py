"""A column of pandas is used as if it were a list.

A column is read by the labels of its index, not by position, and libraries that check for a list do not accept it. The
script ends with an error: a tokenizer raises ValueError when it is called, a lookup raises KeyError within the first
epoch.

## Bad

    import pandas as pd
    from datasets import Dataset

    frame = pd.DataFrame({"text": ["good", "bad", "fine", "poor"], "label": [1, 0, 1, 0]})
    encodings = tokenizer(frame["text"], truncation=True, padding=True)  # <- series-as-list
    rows = Dataset.from_dict({**encodings, "labels": frame["label"].tolist()})
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)
    # raises ValueError: text input must be of type `str`

After a random split, a column has the numbers of its rows in the whole as its index: `column[0]` is the row with the
label 0, which may be in the other part:

    import pandas as pd
    import torch
    from sklearn.model_selection import train_test_split
    from torch.utils.data import DataLoader, Dataset

    frame = pd.DataFrame({"text": ["good", "bad", "fine", "poor"], "label": [1, 0, 1, 0]})
    train_texts, test_texts, train_labels, test_labels = train_test_split(
        frame["text"], frame["label"], test_size=0.5, random_state=3
    )


    class Reviews(Dataset):
        def __init__(self, texts, labels):
            self.texts = texts
            self.labels = labels

        def __len__(self):
            return len(self.texts)

        def __getitem__(self, index):
            row = tokenizer(self.texts[index], truncation=True)  # <- series-as-list
            row["labels"] = self.labels.iloc[index]
            return row


    batch = next(iter(DataLoader(Reviews(train_texts, train_labels), batch_size=2, collate_fn=collator)))
    # raises KeyError

## Good

    import pandas as pd
    from datasets import Dataset

    frame = pd.DataFrame({"text": ["good", "bad", "fine", "poor"], "label": [1, 0, 1, 0]})
    encodings = tokenizer(frame["text"].tolist(), truncation=True, padding=True)
    rows = Dataset.from_dict({**encodings, "labels": frame["label"].tolist()})
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)

and

    import pandas as pd
    import torch
    from sklearn.model_selection import train_test_split
    from torch.utils.data import DataLoader, Dataset

    frame = pd.DataFrame({"text": ["good", "bad", "fine", "poor"], "label": [1, 0, 1, 0]})
    train_texts, test_texts, train_labels, test_labels = train_test_split(
        frame["text"].tolist(), frame["label"].tolist(), test_size=0.5, random_state=3
    )


    class Reviews(Dataset):
        def __init__(self, texts, labels):
            self.texts = texts
            self.labels = labels

        def __len__(self):
            return len(self.texts)

        def __getitem__(self, index):
            row = tokenizer(self.texts[index], truncation=True)
            row["labels"] = self.labels[index]
            return row


    batch = next(iter(DataLoader(Reviews(train_texts, train_labels), batch_size=2, collate_fn=collator)))

## When it is fine

A split that does not shuffle leaves the first rows, with the first numbers, in the first part; and `reset_index` counts
the rows from 0 again:

    import pandas as pd
    from sklearn.model_selection import train_test_split

    frame = pd.DataFrame({"text": ["good", "bad", "fine", "poor"], "label": [1, 0, 1, 0]})
    train, test = train_test_split(frame, test_size=0.5, random_state=3)
    labels = torch.tensor(train.reset_index(drop=True)["label"])

## Fix

None: `tolist()`, `iloc` and `reset_index(drop=True)` all fix it, at different lines.

## References

pandas documentation, "Indexing and selecting data"; `PreTrainedTokenizerBase.__call__` of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.columns import DataFrame, Series
from lintrain.pipeline.values.data import ColumnValues, Encoding, Tokenizer
from lintrain.pipeline.values.python import Value
from lintrain.rule import Finding, Level, Pipeline, Related, Rule

TEXTS = ("text", "text_pair", "text_target", "text_pair_target")
REMEDIES = {
    "label": "read by position with `.iloc`, or split lists (`.tolist()`)",
    "read by label": "pass an array: `.values`, or split lists (`.tolist()`)",
}
"""What helps, by the use of the column."""

WHY_TEXTS = "The tokenizer checks the type of its texts, and raises ValueError for any other one when this line runs."
WHY = {
    "label": "The labels are the numbers of the rows before the split. A number whose row is in the other part raises "
    "KeyError, usually within the first epoch.",
    "read by label": "The values are looked up by the labels 0, 1, 2 and so on, not by position. The first label whose "
    "row is in the other part raises KeyError.",
}
"""What the use of the column ends with."""


class SeriesAsList(Rule):
    level = Level.ERROR
    keywords = "pandas"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from self._texts(pipeline)
        yield from self._items(pipeline)

    def _texts(self, pipeline: Pipeline) -> Iterator[Finding]:
        for encoding in pipeline.encodings:
            if encoding.origin is None or not _takes_lists_only(encoding):
                continue
            for name in TEXTS:
                what = _kind_of(pipeline, encoding.arguments.get(name))
                if what:
                    called = encoding.text.partition("(")[0]
                    yield self.finding(
                        encoding.origin,
                        f"`{called}` gets {what}, but takes a text or a list of texts",
                        why=WHY_TEXTS,
                        help="pass a list: `column.tolist()`",
                        subject=name,
                    )

    def _items(self, pipeline: Pipeline) -> Iterator[Finding]:
        for misuse in pipeline.misuses:
            if (
                misuse.use in REMEDIES
                and isinstance(misuse.value, DataFrame | Series)
                and misuse.value.gaps is not None
            ):
                yield self.finding(
                    misuse.location,
                    f"`{misuse.text}` looks up a label, and a split left gaps in the index",
                    related=[Related(misuse.value.gaps, "rows keep the labels that they have in the whole")],
                    why=WHY[misuse.use],
                    help=REMEDIES[misuse.use],
                )


def _takes_lists_only(encoding: Encoding) -> bool:
    """Whether the tokenizer checks the type of what it gets, and it is known what that is."""
    tokenizer = encoding.tokenizer
    if not isinstance(tokenizer, Tokenizer) or tokenizer.is_processor or "Tapas" in tokenizer.path:
        return False
    # `batch_encode_plus` of the tokenizers in Python iterates over what it gets (transformers 4).
    return not encoding.text.partition("(")[0].endswith("batch_encode_plus")


def _kind_of(pipeline: Pipeline, value: Value | None) -> str:
    """What is given instead of texts, for the message; empty if it may be texts."""
    if isinstance(value, Series) and not value.is_row:
        return "a column of pandas"
    if isinstance(value, ColumnValues) and value.axes == 1 and value.origin is not None:
        code = pipeline.code(value.origin)
        return "an array" if code.endswith((".values", ".to_numpy()")) else ""
    return ""
