"""A number among the inputs tells the target of each row by itself.

The label column was not dropped from the features, a column was filled in once the outcome was known, or the target is
a value of the window that comes before it. The score is nearly perfect, and the model is of no use where the target is
not known yet.

## Bad

    table = torch.randn(96, 6)
    table[:, 5] = (table[:, 0] + 0.5 * torch.randn(96) > 0).float()
    net = nn.Linear(6, 2)
    optimizer = torch.optim.Adam(net.parameters())
    rows = TensorDataset(table, table[:, 5].long())
    for x, y in DataLoader(rows, batch_size=16, shuffle=True):  # <- target-in-inputs
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

The target is the last value of its window:

    series = torch.randn(140).cumsum(0)
    windows = series.unfold(0, 12, 1)
    net = nn.Linear(12, 1)
    optimizer = torch.optim.Adam(net.parameters())
    rows = TensorDataset(windows, windows[:, -1:])
    for x, y in DataLoader(rows, batch_size=16):  # <- target-in-inputs
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()

## Good

    table = torch.randn(96, 6)
    table[:, 5] = (table[:, 0] + 0.5 * torch.randn(96) > 0).float()
    net = nn.Linear(5, 2)
    optimizer = torch.optim.Adam(net.parameters())
    rows = TensorDataset(table[:, :5], table[:, 5].long())
    for x, y in DataLoader(rows, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

A target that follows its window:

    series = torch.randn(140).cumsum(0)
    windows = series.unfold(0, 13, 1)
    net = nn.Linear(12, 1)
    optimizer = torch.optim.Adam(net.parameters())
    rows = TensorDataset(windows[:, :12], windows[:, 12:])
    for x, y in DataLoader(rows, batch_size=16):
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()

## When it is fine

A task that was made to be solved by one number, to see that a network can. Up to 2,000 rows of at most 512 numbers are
read, with one target each. Reported is a single number that has one value for each class, that has one value for a
class and is far from it in all others, or that is a quantity itself, possibly in another unit. If several numbers tell
the target, as in a series of equal steps, none is reported; and neither are numbers that tell it only nearly.

## Fix

None: drop the column, or take the target from what comes after the window.

## References

Kaufman, Rosset, Perlich, Stitelman: Leakage in Data Mining: Formulation, Detection, and Avoidance (2012).
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

TELLS = {
    "class": "has one value for each class",
    "gap": "has one value for all rows of a class, far from those of others",
    "number": "is the target, or the target in another unit,",
}


class TargetInInputs(EvidenceRule):
    level = Level.WARNING
    message = "a number among the inputs tells the target by itself"
    help_text = "leave out the column that the target was made from, or that is only known after it"
    subject = "train_dataset"

    def location_of(self, evidence: Evidence) -> Location:
        return evidence.data_location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        split = evidence.split("train_dataset")
        if split is None or split.sweep is None:
            return Verdict.inconclusive("the rows of the training data were not read")
        copy = split.sweep.target_copy
        if copy is None:
            return Verdict.refuted(f"no number of {split.sweep.rows} rows tells the target by itself")
        number = f"entry {list(copy.indices)} of `{copy.column}`" if copy.indices else f"`{copy.column}`"
        return Verdict.confirmed(f"{number} {TELLS[copy.how]} in {copy.rows} rows", rows=copy.rows)
