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


TAGS = """tags = TensorDataset(torch.randint(1, 60, (96, 10)), torch.randint(3, (96, 10)))
held_out = DataLoader(tags, batch_size=8)
tagger = nn.Sequential(nn.Embedding(60, 16), nn.Linear(16, 3))
optimizer = torch.optim.Adam(tagger.parameters())
for epoch in range(2):
    for x, y in DataLoader(tags, batch_size=16):
        optimizer.zero_grad()
        scores = tagger(x)
        criterion(scores.{moved}, y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in held_out:
            print((tagger(x).{chosen} == y[:, :3]).float().mean())
"""


def test_a_class_is_chosen_along_the_axis_that_the_loss_reads(tmp_path: Path) -> None:
    moved = "transpose(1, 2)"
    for chosen, is_wrong in (("argmax(dim=1)", True), ("max(1).indices", True), ("argmax(-1)[:, :3]", False)):
        found = shown(tmp_path, HEAD + TAGS.format(moved=moved, chosen=chosen))
        assert (("argmax-without-axis", 22) in found, "view-for-permute" in {rule for rule, _ in found}) == (
            is_wrong,
            False,
        )


def test_a_view_that_makes_classes_of_tokens_is_found_at_one_size_of_batch(tmp_path: Path) -> None:
    assert ("view-for-permute", 18) in shown(tmp_path, HEAD + TAGS.format(moved="view(-1, 3, 10)", chosen="sum()"))


RIGHT = """answers = TensorDataset(torch.randn(96, 8), torch.randint(2, (96,)).float())
held_out = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(2, (32,)).float()), batch_size=8)
scorer = nn.Linear(8, 1)
optimizer = torch.optim.Adam(scorer.parameters())
for epoch in range(2):
    for x, y in DataLoader(answers, batch_size=16):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(scorer(x), y.unsqueeze(1)).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in held_out:
            print({compared})
"""


def test_predictions_that_are_compared_with_all_labels_are_found_and_pairs_of_labels_are_not(tmp_path: Path) -> None:
    compared = {
        "((scorer(x) > 0).float() == y).sum()": True,
        "(scorer(x).squeeze(1) > 0).float().eq(y).sum()": False,
        "(y.unsqueeze(1) == y).sum(), scorer(x)": False,
    }
    for code, is_wrong in compared.items():
        found = shown(tmp_path, HEAD + RIGHT.format(compared=code))
        assert (("broadcast-loss", 21) in found, bool(found)) == (is_wrong, is_wrong)


RATES = """import lightning
class Scorer(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
    def training_step(self, batch, number):
        return criterion(self.layer(batch[0]), batch[1])
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
        return [optimizer], [{{"scheduler": schedule, "interval": "{interval}"}}]
trainer = lightning.Trainer(max_epochs=8, logger=False, enable_checkpointing=False, accelerator="cpu")
trainer.fit(Scorer(), DataLoader(rows, batch_size=8))
"""


def test_a_schedule_that_spends_its_rate_in_an_epoch_is_found(tmp_path: Path) -> None:
    for interval, is_wrong in (("step", True), ("epoch", False)):
        found = {rule for rule, _ in shown(tmp_path, HEAD + RATES.format(interval=interval))}
        assert ("schedule-unit-mismatch" in found) == is_wrong


WEIGHTED = """marks = (torch.rand(96) < 0.2).float()
scorer = nn.Linear(8, 1)
optimizer = torch.optim.Adam(scorer.parameters())
weighted = nn.BCEWithLogitsLoss(pos_weight=({weight}).view(1))
for x, y in DataLoader(TensorDataset(torch.randn(96, 8), marks), batch_size=16, shuffle=True):
    optimizer.zero_grad()
    weighted(scorer(x).squeeze(1), y).backward()
    optimizer.step()
"""


def test_a_weight_of_the_rare_class_is_compared_with_its_rows_in_floats(tmp_path: Path) -> None:
    for weight, is_wrong in (("marks.sum() / (1 - marks).sum()", True), ("(1 - marks).sum() / marks.sum()", False)):
        found = {rule for rule, _ in shown(tmp_path, HEAD + WEIGHTED.format(weight=weight))}
        assert ("inverted-class-weights" in found) == is_wrong
