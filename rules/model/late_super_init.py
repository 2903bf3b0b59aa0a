"""A network sets a layer before `super().__init__()`, or never calls it.

`nn.Module.__init__` makes the places where layers and parameters are registered. What is set before it raises
`AttributeError: cannot assign module before Module.__init__() call` as soon as the network is built.

## Bad

    class Net(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(8, 3)  # <- late-super-init

        def forward(self, x):
            return self.layer(x)

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()
    # raises AttributeError: cannot assign module before Module.__init__() call

Too late:

    class Net(nn.Module):
        def __init__(self):
            self.scale = nn.Parameter(torch.ones(3))  # <- late-super-init
            super(Net, self).__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x) * self.scale

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()
    # raises AttributeError: cannot assign parameters before Module.__init__() call

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x)

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()

## When it is fine

Numbers may be set before, and the base class may be called by its name:

    class Net(nn.Module):
        def __init__(self):
            self.size = 8
            nn.Module.__init__(self)
            self.layer = nn.Linear(self.size, 3)

        def forward(self, x):
            return self.layer(x)

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()

## Fix

None: what the base class of a base class requires is not always known.

## References

PyTorch documentation, `torch.nn.Module`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import module_classes
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets


class LateSuperInit(Rule):
    level = Level.ERROR
    keywords = "Module"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(module_classes.set_too_early(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for location, name, is_late in module_classes.set_too_early(pipeline.source):
            shown = name if len(name) <= 20 else "layer"
            yield self.finding(
                location,
                f"`self.{shown}` is set {'before' if is_late else 'without'} `super().__init__()`",
                help="begin with `super().__init__()`",
            )
