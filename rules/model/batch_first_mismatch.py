"""A recurrent layer has time on its first axis, and the code takes it for the batch.

`nn.LSTM`, `nn.GRU` and `nn.RNN` expect `(time, batch, features)` unless they get `batch_first=True`. With rows on the
first axis they run across the rows of a batch, and `states[:, -1]` is the last row in place of the last token. The
sizes fit, so no error is raised.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32)
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            states, _ = self.lstm(x)
            return self.head(states[:, -1])  # <- batch-first-mismatch

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.unsqueeze(1).repeat(1, 5, 1)), y).backward()
        optimizer.step()

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32, batch_first=True)
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            states, _ = self.lstm(x)
            return self.head(states[:, -1])

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.unsqueeze(1).repeat(1, 5, 1)), y).backward()
        optimizer.step()

## When it is fine

The axes are swapped before, and the last token is on the first axis:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32)
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            states, _ = self.lstm(x.transpose(0, 1))
            return self.head(states[-1])

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.unsqueeze(1).repeat(1, 5, 1)), y).backward()
        optimizer.step()

## Fix

None: either the layer or the order of the axes is wrong.

## References

PyTorch documentation, `torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import last_rows, prescreen, seen_tokens
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Tensor
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    lazy_pattern,
)

SAME = 1e-3
"""A change of answers that sums in another order make too."""

TAKES = {
    "last row of a sequence": "so this is the last row of the batch",
    "first row of a sequence": "so this is the first row of the batch",
    "mean over rows of a sequence": "so this averages the rows of the batch",
}
"""What code takes of the states of such a layer, by the use."""

HAS_TIME_FIRST = lazy_pattern(r"\b(?:LSTM|GRU|RNN|TransformerEncoderLayer|MultiheadAttention)\b")
"""The layers that have time on their first axis by default."""


class BatchFirstMismatch(Rule):
    level = Level.ERROR
    keywords = "LSTM|GRU|RNN|Transformer|MultiheadAttention"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        may_read = source.contains(HAS_TIME_FIRST) and prescreen.may_read_rows_as_time(source)
        return may_read or any(last_rows.last_rows(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        taken_first = [misuse for misuse in pipeline.misuses if misuse.use in TAKES]
        layers = {_layer(misuse) for misuse in taken_first}
        # What a layer reads and what is taken of its states are one mistake.
        read = [each for each in pipeline.misuses if each.use == "rows as time" and _layer(each) not in layers]
        for misuse in (*taken_first, *read):
            found.setdefault(misuse.location, self._report(misuse))
        for location, name in seen_tokens.rows_as_positions(pipeline.source):
            found.setdefault(location, self._report_positions(location, name))
        for taken in last_rows.last_rows(pipeline.source):
            found.setdefault(taken.location, self._report_last(taken))
        yield from found.values()

    def _report_last(self, taken: last_rows.LastRow) -> Finding:
        return self.finding(
            taken.location,
            f"`{taken.code}` is the last row of the batch, not the last step",
            related=[Related(taken.layer, "made with `batch_first=True`", "origin")],
            help=f"take the last step of each row: `{taken.code.removesuffix('[-1]')}[:, -1]`",
        )

    def _report_positions(self, location: Location, name: str) -> Finding:
        return self.finding(
            location,
            f"`{name}.size(0)` is the number of rows here: each row gets one position",
            help=f"take the positions of the tokens: `self.pe[:{name}.size(1)].transpose(0, 1)`",
        )

    def _report(self, misuse: Misuse) -> Finding:
        layer, is_read = _layer(misuse), misuse.use == "rows as time"
        taken = "but this batch has its rows there" if is_read else TAKES[misuse.use]
        is_last = misuse.use == "last row of a sequence"
        swap = "swap the axes and take `[-1]`" if is_last else "swap the first two axes before"
        return self.finding(
            misuse.location,
            f"`{misuse.text}` has time on its first axis, {taken}",
            related=[Related(layer, "made without `batch_first=True`", "origin")] if layer else [],
            help=f"make the layer with `batch_first=True`, or {swap}",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        mixed = evidence.responses.mixed if evidence.responses is not None else None
        if mixed is not None and mixed.layer and mixed.at is not None:
            yield self.finding(
                mixed.at,
                f"the {mixed.layer} reads the rows of the batch as steps in time",
                help="make the layer with `batch_first=True`, or swap the first two axes of what it reads",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        responses = evidence.responses
        mixed = responses.mixed if responses is not None else None
        if responses is None or mixed is None:
            return Verdict.inconclusive("the model was not called with one row replaced")
        text = f"with one row replaced the answers of the other {mixed.rows - 1} change by {mixed.change:.1%}"
        if mixed.change <= SAME:
            return Verdict.refuted(text, change=mixed.change)
        return (Verdict.confirmed if mixed.layer else Verdict.inconclusive)(text, change=mixed.change)


def _layer(misuse: Misuse) -> Location | None:
    """Where the layer was made that reads the batch, or whose states are read."""
    return misuse.value.model.origin if isinstance(misuse.value, Tensor) else None
