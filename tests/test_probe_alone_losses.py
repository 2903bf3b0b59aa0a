"""What a run shows of the targets and weights of losses, with no help from the text: mistakes with a correct twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_probe_alone_loops import HEAD, STEPS, shown

pytestmark = pytest.mark.usefixtures("warm")

LOADED = """labels = torch.tensor([0] * {first} + [1] * {second} + [2] * {third})
loader = DataLoader(TensorDataset(torch.randn(len(labels), 8), labels), batch_size=16, shuffle=True)
share = torch.tensor([{shares}])
criterion = nn.CrossEntropyLoss(share)
for x, y in loader:
"""
PADDED = """padded = torch.tensor([[3, 1, 2, 0, 0], [4, 5, 6, 7, 1]])
net = nn.Linear(8, 9)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    scores = net(torch.randn(20, 2, 8)).log_softmax(-1)
    loss = nn.functional.ctc_loss(
        scores, {targets}, torch.tensor([{frames}, {frames}]), target_lengths=torch.tensor([{lengths}])
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
REGRESSION = """heights = 500 + 10 * torch.randn(96, 1)
train = TensorDataset(torch.randn(64, 8), heights[:64])
held_out = TensorDataset(torch.randn(32, 8), heights[64:]{later})
net = nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.MSELoss()
for epoch in range(2):
    for x, y in DataLoader(train, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x), {trained}).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        print(sum(criterion({predicted}, {wanted}).item() for x, y in DataLoader(held_out, batch_size=16)))
    net.train()
"""


def weighted(shares: str) -> str:
    """A loop over 48, 12 and 36 rows of three classes with these weights."""
    return HEAD + LOADED.format(first=48, second=12, third=36, shares=shares) + STEPS


def padded(lengths: str, targets: str = "padded", frames: int = 20) -> str:
    """A loop with CTC loss whose targets are padded with the blank."""
    return HEAD + PADDED.format(lengths=lengths, targets=targets, frames=frames)


def regression(wanted: str, *, predicted: str = "net(x)", trained: str = "(y - 500) / 10", later: str = "") -> str:
    """A loop whose targets are scaled, with an evaluation of these predictions and targets."""
    return HEAD + REGRESSION.format(wanted=wanted, predicted=predicted, trained=trained, later=later)


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(
    ("rule", "bad", "good", "line"),
    [
        ("inverted-class-weights", weighted("0.5, 0.125, 0.375"), weighted("2.0, 8.0, 8 / 3"), 16),
        ("inverted-class-weights", weighted("2.0, 8 / 3, 8.0"), weighted("3.0, 1.0, 2.0"), 16),
        ("blank-in-ctc-targets", padded("5, 5"), padded("3, 5"), 15),
        ("blank-in-ctc-targets", padded("2, 2", "padded[:, :2].flatten() - 1"), padded("2, 2", "padded[:, :2]"), 15),
        ("short-ctc-inputs", padded("5, 5", "padded.clamp(min=3)", 6), padded("5, 5", "padded + 1", 6), 15),
        ("shifted-eval-data", regression("y"), regression("(y - 500) / 10"), 23),
        ("shifted-eval-data", regression("y"), regression("y", predicted="net(x) * 10 + 500"), 23),
        (
            "shifted-eval-data",
            regression("y", trained="y", later=" + 2000"),
            regression("y", trained="y", later=" + 200"),
            23,
        ),
    ],
    ids=[
        "frequencies as weights",
        "weights in another order",
        "padding that counts",
        "a letter with the blank's number",
        "a repeated class that needs a blank",
        "targets scaled in the training loop only",
        "predictions that are scaled back",
        "a series that has grown",
    ],
)
def test_a_run_shows_targets_and_weights_and_leaves_the_twin(
    tmp_path: Path, rule: str, bad: str, good: str, line: int
) -> None:
    assert (rule, line) in shown(tmp_path, bad)
    assert rule not in {found for found, _ in shown(tmp_path, good)}


BALANCED = """labels = torch.tensor([0] * 72 + [1] * 24)
class Balanced:
    def __iter__(self):
        for _ in range(6):
            yield [*torch.randint(72, (4,)).tolist(), *torch.randint(72, 96, (12,)).tolist()]
    def __len__(self):
        return 6
loader = DataLoader(TensorDataset(torch.randn(96, 8), labels), batch_sampler=Balanced())
net = nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss(torch.tensor([0.75, 0.25]))
for x, y in loader:
"""


def test_weights_of_batches_that_are_chosen_by_class_are_left_alone(tmp_path: Path) -> None:
    assert shown(tmp_path, HEAD + BALANCED + STEPS) == set()
