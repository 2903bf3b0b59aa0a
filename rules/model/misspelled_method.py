"""A method of a network or data set has nearly the name that the library calls.

Python calls `__init__` with two underscores on each side, and calling a network runs `forward`. Under another name the
method is never run: the network has no layer, or the data set no rows. The error comes later, and names something else.

## Bad

    class Net(nn.Module):
        def _init_(self):  # <- misspelled-method
            super(Net, self)._init_()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x)

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()
    # raises ValueError: optimizer got an empty parameter list

A letter is missing:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def foward(self, x):  # <- misspelled-method
            return self.layer(x)

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()
    # raises NotImplementedError

## Good

    class Net(nn.Module):
        def __init__(self):
            super(Net, self).__init__()
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

Something calls the method by its own name, or the class has the right one as well:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self._init_()

        def _init_(self):
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x)

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()

## Fix

None: other calls of the name, in `super()` too, have to change with it.

## References

Python language reference, "Special method names"; PyTorch documentation, `torch.nn.Module`, `torch.utils.data.Dataset`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import module_classes
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets


class MisspelledMethod(Rule):
    level = Level.ERROR
    keywords = "Module|Dataset"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(module_classes.misspelled(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in module_classes.misspelled(pipeline.source):
            owner = found.cls if len(found.cls) <= 30 else "this class"
            yield self.finding(
                found.location,
                f"`{found.name}` is never called: `{owner}` lacks a method `{found.meant}`",
                help=f"name it `{found.meant}`",
            )
