"""A schedule that an object keeps: who could step it."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

KEPT = """
class Training:
    def __init__(self, net):
        self.net = net
        self.optimizer = optim.Adam(net.parameters())
        self.scheduler = optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)

    def epoch(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.optimizer.step()
"""
RUN = "training = Training(nn.Linear(8, 3))\nfor epoch in range(3):\n    training.epoch(loader)\n"


@pytest.mark.parametrize("use", ["", "    print(training.scheduler.get_last_lr())\n"])
def test_a_schedule_that_only_its_object_knows_is_never_stepped(use: str) -> None:
    assert lines_of("unstepped-scheduler", KEPT + RUN + use) == [5]


@pytest.mark.parametrize(
    "code",
    [
        KEPT,
        KEPT + RUN + "    training.scheduler.step()\n",
        KEPT + RUN + "    after_epoch(training)\n",
        KEPT + RUN + "    getattr(training, 'sched' + 'uler').step()\n",
        KEPT + RUN + "    training.__dict__[name].step()\n",
        KEPT.replace("class Training:", "class Training(Framework):") + RUN,
    ],
)
def test_a_schedule_that_somebody_may_reach_through_its_object_is_left_alone(code: str) -> None:
    assert lines_of("unstepped-scheduler", code) == []


def test_preparing_a_schedule_does_not_step_it() -> None:
    code = """
from accelerate import Accelerator
accelerator = Accelerator()
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
net, optimizer, loader, scheduler = accelerator.prepare(net, optimizer, loader, scheduler)
for x, y in loader:
    accelerator.backward(F.cross_entropy(net(x), y))
    optimizer.step()
    optimizer.zero_grad()
"""
    assert lines_of("unstepped-scheduler", code) == [5]
