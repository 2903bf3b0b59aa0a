"""Steps of loops: those that are missing, and those that may stand elsewhere."""

from __future__ import annotations

import pytest

from tests.support.loops import MADE, fixes_of, lines_of


@pytest.mark.parametrize(
    "code",
    [
        # attribution: the gradient of the input is what is wanted
        MADE
        + """
for x, y in loader:
    optimizer.zero_grad()
    x.requires_grad_()
    net(x).max().backward()
    maps.append(x.grad.abs())
""",
        # the optimizer steps inside the backward pass
        MADE
        + """
for p in net.parameters():
    p.register_post_accumulate_grad_hook(lambda p: None)
for x, y in loader:
    optimizer.zero_grad()
    net(x).mean().backward()
""",
        # the step is in a function of another module
        "from engine import finish\n"
        + MADE
        + "for x, y in loader:\n    optimizer.zero_grad()\n    net(x).mean().backward()\n    finish(optimizer)\n",
        # the step is elsewhere in the class
        """
class Trainer:
    def __init__(self):
        self.optimizer = optim.Adam(nn.Linear(8, 3).parameters())

    def forward_backward(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            self.loss(x).backward()

    def finish(self):
        self.optimizer.step()
""",
        # gradients alone, for a check or a benchmark
        "net = nn.Linear(8, 3)\nfor x, y in loader:\n    net.zero_grad()\n    net(x).mean().backward()\n",
    ],
)
def test_a_backward_pass_without_a_step_may_be_meant(code: str) -> None:
    assert lines_of("missing-step", code) == []


LEARNS = """
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
"""


def test_the_missing_step_of_the_only_optimizer_is_offered_and_not_written_unasked() -> None:
    (fix,) = fixes_of("missing-step", MADE + LEARNS)
    assert (fix.title, fix.safe) == ("insert `optimizer.step()` after `backward`", False)


@pytest.mark.parametrize(
    "code",
    [
        # which one is to step
        MADE + "other = optim.SGD(net.parameters(), lr=0.1)\n" + LEARNS,
        # no plain name
        MADE
        + LEARNS.replace("optimizer.zero_grad", "parts['optimizer'].zero_grad").replace(
            "\nfor", "\nparts = {'optimizer': optimizer}\nfor"
        ),
        # only every fourth batch is meant to step
        MADE + LEARNS.replace("    optimizer.zero", "    if done:\n        optimizer.zero"),
        # the scaler is to step it
        MADE
        + "scaler = torch.amp.GradScaler('cuda')\n"
        + LEARNS.replace("loss.backward", "scaler.scale(loss).backward"),
        # after which of the two
        MADE + LEARNS + "    net(x).mean().backward()\n",
    ],
)
def test_a_step_that_could_stand_elsewhere_is_reported_without_a_fix(code: str) -> None:
    assert lines_of("missing-step", code)
    assert fixes_of("missing-step", code) == []


def test_an_attribute_that_counts_in_a_loop_is_not_known_there() -> None:
    code = """
class Training:
    def __init__(self):
        self.net = nn.Linear(8, 3)
        self.optimizer = optim.SGD(self.net.parameters(), 0.1)
        self.count = 0

    def backward(self, loss):
        loss.backward()
        self.count += 1
        if self.count % 4:
            return
        self.optimizer.step()

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            self.backward(F.cross_entropy(self.net(x), y))

Training().fit(loader)
"""
    assert lines_of("missing-step", code) == []


def test_steps_after_a_try_that_may_skip_the_batch_are_compared() -> None:
    code = """
        import torch
        model, scaler = torch.nn.Linear(2, 2), torch.amp.GradScaler()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in batches:
            optimizer.zero_grad()
            try:
                scaler.scale(model(batch).sum()).backward()
            except RuntimeError:
                continue
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    """
    assert lines_of("clip-before-unscale", code) == [10]
