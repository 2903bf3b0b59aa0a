"""`__len__` of a data set returns the length of an encoding, which counts its keys and not its rows.

What a tokenizer returns is a dictionary: its length is 2 or 3, for `input_ids`, `attention_mask` and `token_type_ids`.
Training and evaluation read only the first two or three rows, and raise no error.

## Bad

    from torch.utils.data import Dataset

    encodings = tokenizer(["good", "bad", "fine", "poor"], truncation=True, padding=True)


    class Reviews(Dataset):
        def __init__(self, encodings, labels):
            self.encodings = encodings
            self.labels = labels

        def __getitem__(self, index):
            row = {name: torch.tensor(values[index]) for name, values in self.encodings.items()}
            row["labels"] = torch.tensor(self.labels[index])
            return row

        def __len__(self):
            return len(self.encodings)  # <- encoding-length


    trainer = Trainer(model, args, train_dataset=Reviews(encodings, [1, 0, 1, 0]))

## Good

    from torch.utils.data import Dataset

    encodings = tokenizer(["good", "bad", "fine", "poor"], truncation=True, padding=True)


    class Reviews(Dataset):
        def __init__(self, encodings, labels):
            self.encodings = encodings
            self.labels = labels

        def __getitem__(self, index):
            row = {name: torch.tensor(values[index]) for name, values in self.encodings.items()}
            row["labels"] = torch.tensor(self.labels[index])
            return row

        def __len__(self):
            return len(self.labels)


    trainer = Trainer(model, args, train_dataset=Reviews(encodings, [1, 0, 1, 0]))

## When it is fine

What an imported function returns may be a list of rows:

    from my_rows import encode
    from torch.utils.data import Dataset


    class Reviews(Dataset):
        def __init__(self, encodings):
            self.encodings = encodings

        def __getitem__(self, index):
            return self.encodings[index]

        def __len__(self):
            return len(self.encodings)


    trainer = Trainer(model, args, train_dataset=Reviews(encode(["good", "bad"])), data_collator=collator)

## Fix

None: the labels, or one of the columns, count the rows.

## References

Transformers documentation, "Fine-tuning with custom datasets"; `BatchEncoding` of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.data import Encoding
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class EncodingLength(Rule):
    level = Level.ERROR
    keywords = "__len__"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for misuse in pipeline.misuses:
            if misuse.use != "length of a data set" or not isinstance(misuse.value, Encoding):
                continue
            made = misuse.value.origin
            yield self.finding(
                misuse.location,
                f"`{misuse.text}` counts the keys of an encoding, and not its rows",
                related=[Related(made, "a dictionary of columns is made here")] if made is not None else [],
                help='count the rows: `len(self.labels)`, or `len(self.encodings["input_ids"])`',
            )
