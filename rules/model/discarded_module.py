"""A layer or loss is built and dropped.

A class of `torch.nn` as a statement of its own builds an object that nothing keeps. The layer is no part of the
network, and the class weights or the dropout rate that it was given have no effect. No error is raised.

A layer that `forward` builds is dropped after the pass: the next one has new random weights, and no optimizer ever
gets them. The network can only learn around that noise.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 16)
            nn.Dropout(0.5)  # <- discarded-module
            self.output = nn.Linear(16, 3)

        def forward(self, x):
            return self.output(F.relu(self.hidden(x)))

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

Each pass has another layer of random numbers:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 16)

        def forward(self, x):
            x = F.relu(self.hidden(x))
            output = nn.Linear(x.shape[1], 3)  # <- discarded-module
            return output(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 16)
            self.dropout = nn.Dropout(0.5)
            self.output = nn.Linear(16, 3)

        def forward(self, x):
            return self.output(self.dropout(F.relu(self.hidden(x))))

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## When it is fine

Functions that change a module in place return it as well:

    layer = nn.Linear(8, 3)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(layer(x), y).backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()

## Fix

None: the attribute and the place in `forward` are for the author to choose.

## References

PyTorch documentation, `torch.nn.Module`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import built_layers, renewed_layers
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class DiscardedModule(Rule):
    level = Level.ERROR
    keywords = "nn|layers"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.cached(built_layers.may_discard) or source.cached(renewed_layers.may_renew)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                location,
                f"`{name}` is built here, and nothing keeps it",
                help="assign it, or remove the statement",
            )
            for name, location in built_layers.discarded(pipeline)
        )
        yield from one_per_location(
            self.finding(
                location,
                f"`{name}` is built in each pass, so its weights are always new and never trained",
                help=f"build it once, {'in `__init__`' if is_method else 'before the loop'}, and give its parameters to"
                " the optimizer",
            )
            for name, location, is_method in renewed_layers.renewed(pipeline)
        )
