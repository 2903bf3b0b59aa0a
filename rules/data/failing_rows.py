"""A few rows of a data set will end the run: they cannot be read, or not collated with the others.

One row among thousands has another size, a missing value, a key too few, or its file is damaged. The first batches run
without an error, and training stops when a batch has the row, perhaps after an hour. A probe reads all rows, as far as
time allows, and collates each odd one with a usual one, by the run's own collator.

## Bad

    rows = [(torch.randn(8), number % 3) for number in range(96)]
    rows[71] = (torch.randn(9), 0)
    loader = DataLoader(rows, batch_size=16)  # <- failing-rows
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## Good

    rows = [(torch.randn(8), number % 3) for number in range(96)]
    loader = DataLoader(rows, batch_size=16)
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## When it is fine

A collator that pads or crops takes rows of any size, and a sampler may leave rows out or put those of one size
together: neither is reported. A row of another number format is a warning, because only its batch has this format.

## Fix

None: repairing the row, leaving it out and padding all rows are all reasonable.

## References

PyTorch documentation, `torch.utils.data.default_collate`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, RowsRule, Verdict

HELP = "repair these rows or leave them out, or give the loader a `collate_fn` that takes them"


class FailingRows(RowsRule):
    level = Level.ERROR
    message = "some rows cannot be read or collated with the others"
    help_text = HELP
    faults = ("raises", "collation", "dtype")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        for split in dict.fromkeys(split.argument for split, _ in evidence.wrong_rows(*self.faults)):
            ends = any(each.argument == split for each, _ in evidence.wrong_rows("raises", "collation"))
            what = "training" if split == "train_dataset" else "evaluation"
            fails = f"some {what} rows cannot be read or collated with the others"
            finding = self.finding(
                evidence.data_location,
                fails if ends else f"the number format of some {what} rows is not that of the others",
                help=HELP,
                subject=split,
                level=Level.ERROR if ends else Level.WARNING,
            )
            yield from self.if_confirmed(finding, evidence)
