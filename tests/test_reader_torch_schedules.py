"""Schedules: what they count, how often they step, and what the rules about them leave alone."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of, pipeline_of

MADE = """
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
loader = torch.utils.data.DataLoader(data, batch_size=16)
"""
LOOP = """
for epoch in range(epochs):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
{inner}
{outer}
"""


def loop(inner: str = "", outer: str = "") -> str:
    return LOOP.format(inner=f"        {inner}" if inner else "", outer=f"    {outer}" if outer else "")


@pytest.mark.parametrize(
    "length",
    [
        "len(loader) * epochs",
        "epochs * len(loader)",
        "int(len(loader) * 3)",
        "len(loader) // 4 * epochs",
        "total_steps",
    ],
)
def test_a_length_in_batches_is_known_through_arithmetic(length: str) -> None:
    code = f"{MADE}scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, {length})" + loop(
        outer="scheduler.step()"
    )
    assert lines_of("schedule-unit-mismatch", code) == [4]


@pytest.mark.parametrize("length", ["100", "len(loader) // len(loader) * unknown()[0]", "steps_per_epoch_count", "n"])
def test_a_length_that_does_not_say_what_it_counts_is_left_alone(length: str) -> None:
    made = f"{MADE}scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max={length})"
    assert lines_of("schedule-unit-mismatch", made + loop(inner="scheduler.step()")) == []


def test_a_schedule_stepped_in_a_called_function_is_followed() -> None:
    code = (
        MADE
        + """
def train_one_epoch(net, loader, optimizer, scheduler):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        scheduler.step()

scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=num_epochs)
for epoch in range(num_epochs):
    train_one_epoch(net, loader, optimizer, scheduler)
"""
    )
    assert lines_of("schedule-unit-mismatch", code) == [12]


def test_a_schedule_that_steps_over_phases_is_left_alone() -> None:
    code = (
        MADE
        + """
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
for epoch in range(epochs):
    for phase in ("train", "val"):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        if phase == "train":
            scheduler.step()
"""
    )
    assert lines_of("schedule-unit-mismatch", code) == []


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("[optimizer], [schedule]", True),
        ('{"optimizer": optimizer, "lr_scheduler": schedule}', True),
        ('{"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule}}', True),
        ('[optimizer], [{"scheduler": schedule, "interval": "epoch"}]', True),
        ('({"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule}},)', True),
        ('{"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}', False),
        ('{"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, **settings}}', False),
        ("optimizer", False),
    ],
)
def test_every_form_in_which_lightning_takes_a_schedule_is_read(returned: str, found: bool) -> None:
    code = f"""
import pytorch_lightning as pl

class Module(pl.LightningModule):
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        schedule = optim.lr_scheduler.LinearLR(optimizer, total_iters=self.trainer.estimated_stepping_batches)
        return {returned}
"""
    assert bool(lines_of("schedule-unit-mismatch", code)) is found


def test_a_module_that_optimizes_by_hand_steps_its_schedules_itself() -> None:
    code = """
import lightning as L

class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [optim.lr_scheduler.LinearLR(optimizer, total_iters=self.total_steps)]
"""
    assert lines_of("schedule-unit-mismatch", code) == []


def test_what_lightning_gets_is_known_from_a_method_that_nobody_calls() -> None:
    code = """
import lightning as L

class Module(L.LightningModule):
    def configure_optimizers(self):
        return 1
"""
    assert [returned.method.name for returned in pipeline_of(code).returned] == ["configure_optimizers"]


@pytest.mark.parametrize(
    "use",
    ["fit(scheduler)", "self.scheduler = scheduler", "[scheduler][0].step()", "scheduler.step()", "del scheduler"],
)
def test_a_schedule_that_somebody_else_may_step_is_left_alone(use: str) -> None:
    made = f"{MADE}scheduler = optim.lr_scheduler.StepLR(optimizer, 10)" + loop(outer=use)
    assert lines_of("unstepped-scheduler", made) == []


def test_a_schedule_made_anew_in_each_epoch_needs_no_step() -> None:
    made = MADE + loop(outer="scheduler = optim.lr_scheduler.StepLR(optimizer, 10)")
    assert lines_of("unstepped-scheduler", made) == []


def test_both_steps_under_one_condition_are_compared() -> None:
    code = (
        MADE
        + """
scheduler = optim.lr_scheduler.StepLR(optimizer, 10)
for index, (x, y) in enumerate(loader):
    F.cross_entropy(net(x), y).backward()
    if index % 4 == 3:
        scheduler.step()
        optimizer.step()
        optimizer.zero_grad()
"""
    )
    assert lines_of("scheduler-before-optimizer", code) == [9]


GATHERED = """
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
for epoch in range(epochs):
    for number, (x, y) in enumerate(loader):
        (F.cross_entropy(net(x), y) / 4).backward()
        if {test}:
            optimizer.step()
            optimizer.zero_grad()
            {inner}
        {beside}
"""


@pytest.mark.parametrize(
    ("test", "lines"),
    [
        ("(number + 1) % 4 == 0", [5]),
        ("number % 4 == 0", [5]),
        ("(number + 1) % len(loader) == 0", []),
        ("(number + 1) % wanted == 0", []),
        ("epoch % 4 == 0", []),
        ("seen % 4 == 0", []),
        ("(number + 1) % 4", []),
        ("(number + 1) % 1 == 0", []),
        ("epoch > 3 and (number + 1) % 4 == 0", []),
    ],
)
def test_a_schedule_of_epochs_that_goes_on_with_each_update_is_told_where_the_updates_are_certain(
    test: str, lines: list[int]
) -> None:
    code = MADE + GATHERED.format(test=test, inner="scheduler.step()", beside="pass")
    assert lines_of("schedule-unit-mismatch", code) == lines


def test_a_schedule_that_goes_on_apart_from_the_updates_may_do_so_once_an_epoch() -> None:
    beside = "if number % 4 == 0:\n            scheduler.step()"
    code = MADE + GATHERED.format(test="(number + 1) % 4 == 0", inner="pass", beside=beside)
    assert lines_of("schedule-unit-mismatch", code) == []
