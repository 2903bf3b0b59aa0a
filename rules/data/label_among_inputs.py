"""The column of the labels, or the row that is to be predicted, is also among the inputs.

The network learns to copy it, so its scores are almost perfect, also on validation and test rows. Rows whose label is
not known yet have no such column, so what was trained is of no use there. No error is raised.

A target that is the last value of its window of a series is copied in the same way: the next value is what comes after.

## Bad

    import pandas as pd

    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "left": [0, 1, 0, 1]})
    inputs = torch.tensor(frame.values, dtype=torch.float32)  # <- label-among-inputs
    labels = torch.tensor(frame["left"].values)
    rows = TensorDataset(inputs, labels)
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    for x, y in DataLoader(rows, batch_size=2, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(layer(x), y).backward()
        optimizer.step()

A target that is a part of its window:

    class Windows(torch.utils.data.Dataset):
        def __init__(self, series, size):
            self.series, self.size = series, size

        def __len__(self):
            return len(self.series) - self.size

        def __getitem__(self, i):
            end = i + self.size
            return self.series[i:end], self.series[end - 1]  # <- label-among-inputs

    layer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(layer.parameters())
    for x, y in DataLoader(Windows(torch.randn(64), 8), batch_size=4, shuffle=True):
        optimizer.zero_grad()
        F.mse_loss(layer(x).squeeze(1), y).backward()
        optimizer.step()

## Good

    import pandas as pd

    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "left": [0, 1, 0, 1]})
    inputs = torch.tensor(frame.drop(columns=["left"]).values, dtype=torch.float32)
    labels = torch.tensor(frame["left"].values)
    rows = TensorDataset(inputs, labels)
    layer = nn.Linear(1, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    for x, y in DataLoader(rows, batch_size=2, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(layer(x), y).backward()
        optimizer.step()

## When it is fine

The label of a later row, for which the earlier ones are known:

    import pandas as pd

    frame = pd.DataFrame({"price": [20.0, 30.0, 40.0, 50.0], "volume": [0.0, 1.0, 0.0, 1.0]})
    inputs = torch.tensor(frame.values[:-1], dtype=torch.float32)
    labels = torch.tensor(frame["price"].values[1:], dtype=torch.float32)
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(layer.parameters())
    for x, y in DataLoader(TensorDataset(inputs, labels), batch_size=2, shuffle=True):
        optimizer.zero_grad()
        F.mse_loss(layer(x).squeeze(1), y).backward()
        optimizer.step()

## Fix

None: the columns are chosen in many ways.

## References

Kaufman et al., "Leakage in Data Mining: Formulation, Detection, and Avoidance", section 2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import label_columns, window_targets
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class LabelAmongInputs(Rule):
    level = Level.ERROR
    keywords = "pandas|numpy|torch & fit|TensorDataset|train_test_split|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, label_columns.leaked_labels(pipeline.source)))

        yield from one_per_location(map(self._report_target, window_targets.targets_inside(pipeline.source)))

    def _report_target(self, found: window_targets.InsideTarget) -> Finding:
        rows = "the last row" if found.rows == 1 else f"the last {found.rows} rows"
        return self.finding(
            found.location,
            f"the target begins with {rows} of its window, so the inputs hold it",
            related=[Related(found.window, "the window is cut here", "window")],
            why="The network copies these values from its inputs, and does not have to predict them. Its scores are too"
            " good, also on test rows, and no error is raised.",
            help="begin the target where the window ends",
        )

    def _report(self, found: label_columns.LeakedLabel) -> Finding:
        code = f"`{found.code}`" if len(found.code) <= SHOWN else "the inputs"
        label = f"`{found.label}`" if len(found.label) <= SHOWN else "it"
        return self.finding(
            found.location,
            f"{code} {'holds' if code[0] == '`' else 'hold'} the label, {label}, too",
            related=[Related(found.labels, "the labels are taken here", "labels")],
            help="leave the label out of the inputs: `drop(columns=[...])`",
        )


SHOWN = 24
"""So many characters of code fit into a message."""
