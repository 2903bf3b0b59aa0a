"""A network sets an attribute with the name of a method that training calls.

`nn.Module` has methods such as `modules`, `parameters`, `train` and `to`. An attribute of that name takes their place:
the next call of the method raises an error that such an object cannot be called. A layer is kept elsewhere, so there
the name still gives the method, which has no items.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.modules = nn.ModuleDict({"first": nn.Linear(8, 4), "second": nn.Linear(4, 3)})  # <- hidden-method

        def forward(self, x):
            return self.modules["second"](torch.relu(self.modules["first"](x)))

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()
    # raises TypeError: 'method' object is not subscriptable

A flag:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.train = True  # <- hidden-method

        def forward(self, x):
            return self.layer(x)

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    small.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()
    # raises TypeError: 'bool' object is not callable

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleDict({"first": nn.Linear(8, 4), "second": nn.Linear(4, 3)})

        def forward(self, x):
            return self.layers["second"](torch.relu(self.layers["first"](x)))

    small = Net()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()

## When it is fine

A function takes the place of a method, and other classes may have any attribute:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.parameters = self.layer.parameters

        def forward(self, x):
            return self.layer(x)

    class Options:
        def __init__(self):
            self.train = True

    small, options = Net(), Options()
    optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()

## Fix

None: the attribute has to change its name wherever it is used.

## References

PyTorch documentation, `torch.nn.Module`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import module_classes
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets


class HiddenMethod(Rule):
    level = Level.ERROR
    keywords = "Module"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(module_classes.hidden_methods(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for location, name in module_classes.hidden_methods(pipeline.source):
            yield self.finding(
                location,
                f"`self.{name}` has the name of a method of `nn.Module`",
                help="choose another name for the attribute",
            )
