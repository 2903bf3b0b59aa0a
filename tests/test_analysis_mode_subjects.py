"""What runs in an evaluation: objects without a mode, networks that were never trained, any network of a long list."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

SOLVER = """
class HeldNetworks{bases}:
    def __init__(self, body, head):
        self.body = body
        self.head = head

    def forward(self, x):
        return self.head.forward(self.body.forward(x))


class Solver:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def train(self, model: {annotation}, train_loader, val_loader):
        for epoch in range(3):
            for x, y in train_loader:
                self.optimizer.zero_grad()
                F.cross_entropy(model.forward(x), y).backward()
                self.optimizer.step()
            for x, y in val_loader:
                print(model.forward(x).argmax(1))
"""


@pytest.mark.parametrize("annotation", ["HeldNetworks", '"HeldNetworks"', "library.HeldNetworks"])
def test_an_annotation_with_a_class_without_bases_shows_that_there_is_no_mode(annotation: str) -> None:
    assert lines_of("train-mode-in-eval", SOLVER.format(bases="", annotation=annotation)) == []


@pytest.mark.parametrize(
    ("bases", "annotation"),
    [("(nn.Module)", "HeldNetworks"), ("(Base)", "HeldNetworks"), ("", "OtherNetworks"), ("", "nn.Module")],
)
def test_an_annotation_with_another_class_shows_nothing(bases: str, annotation: str) -> None:
    assert lines_of("train-mode-in-eval", SOLVER.format(bases=bases, annotation=annotation)) == [21]


TIMED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x)

net = Net()
{between}
net.train()
for x, y in val_loader:
    F.cross_entropy(net(x), y)
"""


def test_the_mode_of_a_network_that_is_never_trained_does_not_matter() -> None:
    assert lines_of("train-mode-in-eval", TIMED.format(between="start = time.time()")) == []


@pytest.mark.parametrize(
    "between",
    [
        "net.load_state_dict(torch.load(path))",
        "train_all(net)",
        "F.cross_entropy(net(x), y).backward()",
    ],
)
def test_the_mode_of_a_network_that_may_be_trained_matters(between: str) -> None:
    assert lines_of("train-mode-in-eval", TIMED.format(between=between)) == [13]


LISTED = """
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(8, width), nn.Dropout(0.1), nn.Linear(width, 3)

    def forward(self, x):
        return self.last(self.drop(self.first(x)))

def fit(net):
    net.train()
    optimizer = optim.SGD(net.parameters(), 0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

def predict(nets, chosen):
    with torch.no_grad():
        for x, y in val_loader:
            nets[chosen](x)

nets = [Net(8), Net(16), Net(24), Net(32), Net(40), Net(48)]
for index in order:
    fit(nets[index])
{between}
predict(nets, best)
"""


def test_the_mode_of_any_item_of_a_long_list_is_that_which_its_items_were_given() -> None:
    assert lines_of("train-mode-in-eval", LISTED.format(between="for index in order:\n    nets[index].eval()")) == []
