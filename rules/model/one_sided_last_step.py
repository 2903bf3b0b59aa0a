"""The last step of a bidirectional layer is taken, where its second direction has read one token.

The second direction of a bidirectional `nn.LSTM`, `nn.GRU` or `nn.RNN` reads from the end. Its state at the last step
has seen the last token alone, often padding, so half of `states[:, -1]` says nearly nothing about the text. What it
knows after the whole text is its state at the first step, which the layer also returns as the last hidden state.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            states, _ = self.lstm(x)
            return self.head(states[:, -1])  # <- one-sided-last-step

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
            self.lstm = nn.LSTM(8, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            states, (hidden, _) = self.lstm(x)
            return self.head(torch.cat((hidden[-2], hidden[-1]), dim=1))

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.unsqueeze(1).repeat(1, 5, 1)), y).backward()
        optimizer.step()

## When it is fine

The first direction alone is taken from the last step:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 3)

        def forward(self, x):
            states, _ = self.lstm(x)
            return self.head(torch.cat((states[:, -1, :32], states[:, 0, 32:]), dim=1))

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x.unsqueeze(1).repeat(1, 5, 1)), y).backward()
        optimizer.step()

## Fix

None: the last hidden states, a mean and a maximum over the steps are all reasonable.

## References

PyTorch documentation, `torch.nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Tensor
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, lazy_pattern, one_per_location

DIVIDES = lazy_pattern(r"\[:, ?0\b|\[0, ?:|\[:, ?[\w.]+ ?:\]|\[:, ?:[\w.]+")
"""Code that may divide the directions, or take the second one from the first step, as it is meant."""


class OneSidedLastStep(Rule):
    level = Level.WARNING
    keywords = "bidirectional & LSTM|GRU|RNN"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"-1\s*[\],]")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        taken = (each for each in pipeline.misuses if each.use == "last step of both directions")
        yield from one_per_location(self._report(each) for each in taken if not _is_split(pipeline, each))

    def _report(self, misuse: Misuse) -> Finding:
        layer = misuse.value.model.origin if isinstance(misuse.value, Tensor) else None
        return self.finding(
            misuse.location,
            f"one direction of `{misuse.text}` has read a single token at the last step",
            related=[Related(layer, "reads in both directions", "origin")] if layer else [],
            help="take the last hidden states, `torch.cat((hidden[-2], hidden[-1]), dim=1)`, or a mean over the steps",
        )


def _is_split(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether code near by may divide the directions, and take each from its own end."""
    source = pipeline.source_of(misuse.location)
    line = misuse.location.line
    return DIVIDES.search("\n".join(source.lines[max(0, line - 6) : line + 6])) is not None
