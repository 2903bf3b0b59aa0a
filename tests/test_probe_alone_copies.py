"""What a run shows of rows in both parts of the data, of a second loss and of networks that are cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_probe_alone_loops import HEAD, shown

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3)]

PARTS = """import numpy as np
generator = np.random.default_rng(0)
measured = generator.normal(size=(300, 4)).astype("float32")
measured[:, 1:] = measured[:, 1:].round()
{copied}
order = generator.permutation(len(measured))
cut = len(order) * 3 // 4
def part(numbers):
    x = torch.from_numpy(measured[numbers])
    return TensorDataset(x, (x[:, 0] > 0).long())
train_loader = DataLoader(part(order[:cut]), batch_size=16, shuffle=True)
eval_loader = DataLoader(part(order[cut:]), batch_size=16)
test_loader = DataLoader(part(order[:50]), batch_size=16)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for x, y in eval_loader:
            criterion(net(x), y)
"""
COPIED = "measured = np.concatenate([measured, measured[generator.integers(0, 300, 400)]])"
FEW = "measured = measured.round()"
"""Few different rows, which are equal by nature."""


def test_rows_that_were_copied_before_a_split_are_told_from_rows_that_are_equal_by_nature(tmp_path: Path) -> None:
    assert ("train-data-in-eval", 21) in shown(tmp_path, HEAD + PARTS.format(copied=COPIED))
    for copied in ("", FEW):
        assert "train-data-in-eval" not in {rule for rule, _ in shown(tmp_path, HEAD + PARTS.format(copied=copied))}


STUDENT = """teacher, student = nn.Linear(8, 3), nn.Linear(8, 3)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    with torch.no_grad():
        wanted = teacher(x).softmax(dim=1)
    hard = criterion(student(x), y)
    loss = hard + nn.functional.kl_div(nn.functional.log_softmax(student(x), dim={axis}), wanted, reduction="batchmean")
    loss.backward()
    optimizer.step()
"""


def test_a_softmax_over_the_batch_is_found_in_a_second_loss(tmp_path: Path) -> None:
    bad = {rule for rule, _ in shown(tmp_path, HEAD + STUDENT.format(axis=0))}
    good = {rule for rule, _ in shown(tmp_path, HEAD + STUDENT.format(axis=1))}
    assert ("softmax-over-batch" in bad, "softmax-over-batch" in good) == (True, False)


PLAYERS = """import lightning
class Players(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.maker, self.judge = nn.Linear(8, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.maker(x)
    def training_step(self, batch, number):
        for optimizer, x in zip(self.optimizers(), (self(batch[0]).detach(), self(batch[0]){cut})):
            score = self.judge(x).mean()
            optimizer.zero_grad()
            self.manual_backward(score)
            self.clip_gradients(optimizer, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            optimizer.step()
    def configure_optimizers(self):
        return [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (self.judge, self.maker)]
lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu").fit(Players(), loader)
"""


def test_a_generator_without_a_gradient_is_no_clipping_before_the_backward_pass(tmp_path: Path) -> None:
    cut = {rule for rule, _ in shown(tmp_path, HEAD + PLAYERS.format(cut=".detach()"))}
    assert ("clip-before-backward" in cut, "detached-loss" in cut) == (False, True)
    assert "detached-loss" not in {rule for rule, _ in shown(tmp_path, HEAD + PLAYERS.format(cut=""))}
