"""A few rows contain token ids for which the model has no embedding.

The first batch with such a row raises an index error, on a GPU a device-side assertion without a line. The reasons are
a corrupted row, ids of another tokenizer in a part of the data, or -1 and -100 among the ids. A probe reads all rows,
as far as time allows, and names them.

## Bad

    ids = [[101, 7 + number % 50, 8, 102] for number in range(96)]
    ids[71][1] = 99999
    rows = Dataset.from_dict(
        {"input_ids": ids, "attention_mask": [[1] * 4] * 96, "labels": [number % 3 for number in range(96)]}
    )
    trainer = Trainer(model, args, train_dataset=rows)  # <- token-id-out-of-range

## Good

    ids = [[101, 7 + number % 50, 8, 102] for number in range(96)]
    rows = Dataset.from_dict(
        {"input_ids": ids, "attention_mask": [[1] * 4] * 96, "labels": [number % 3 for number in range(96)]}
    )
    trainer = Trainer(model, args, train_dataset=rows)

## When it is fine

Never: an embedding has no row for such an id.

## Fix

None: the row shows whether it is damaged, or whether the embedding has to be resized.

## References

PyTorch documentation, `torch.nn.Embedding`: "index out of range in self".
"""

from lintrain.rule import Finding, Level, RowsRule, Verdict

EARLIER = {"unresized-embeddings", "tokenizer-model-mismatch"}
"""Mistakes that make such ids in many rows."""


class TokenIdOutOfRange(RowsRule):
    level = Level.ERROR
    message = "some rows have token ids for which the model has no embedding"
    help_text = "look at these rows: they are damaged, or made by another tokenizer"
    subject = "train_dataset"
    faults = ("token id",)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule in EARLIER
