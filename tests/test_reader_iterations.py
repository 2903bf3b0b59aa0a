"""What the reader keeps of loops: how values were computed, what outlives an iteration, and who prepares and scales."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from lintrain.pipeline.values.python import Constant
from tests.support.loops import acts_of, lines_of, pipeline_of

MADE = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
"""
ACCELERATE = """
from accelerate import Accelerator
"""


def test_a_sum_that_was_there_before_the_loop_keeps_what_is_added() -> None:
    events = acts_of("total = 0\nfor x in loader:\n    total += x\n    total = total + x\n", Act.RETAIN)
    assert [event.location.line for event in events] == [6, 7]


@pytest.mark.parametrize(
    "body",
    ["total = 0\n    total += x", "rows = []\n    rows.append(x)", "total += x.item()", "total += float(x)"],
)
def test_what_is_made_anew_or_is_a_number_is_not_kept(body: str) -> None:
    assert acts_of(f"total, rows = 0, []\nfor x in loader:\n    {body}\n", Act.RETAIN) == []


def test_the_number_of_batches_in_a_test_of_the_step_is_known() -> None:
    code = "every = 4\nfor i, x in enumerate(loader):\n    if (i + 1) % every == 0:\n        optimizer.step()\n"
    (step,) = acts_of(code, Act.STEP)
    (condition,) = step.conditions
    assert condition.period_text == "every"
    assert isinstance(condition.period, Constant)
    assert condition.period.value == 4


def test_arithmetic_on_unknown_values_can_be_followed_back() -> None:
    pipeline = pipeline_of("import torch\nloss = compute()\nhalf = loss / 2\nhalf.backward()\n")
    (backward,) = pipeline.acts(Act.BACKWARD)
    made = pipeline.arithmetic[id(backward.details["loss"])]
    assert (made.operator, made.left_text, made.right_text) == ("Div", "loss", "2")


def test_a_scaler_that_came_in_by_a_parameter_steps_the_optimizer() -> None:
    code = "def train(scaler, optimizer):\n    scaler.step(optimizer)\n    scaler.update()\n"
    events = acts_of(code, Act.STEP, Act.SCALER_UPDATE)
    assert [event.act for event in events] == [Act.STEP, Act.SCALER_UPDATE]
    assert "scaler" in events[0].details


def test_what_may_be_none_is_the_object_where_its_methods_are_called() -> None:
    code = MADE + "scaler = torch.amp.GradScaler() if amp else None\nscaler.step(optimizer)\n"
    assert [event.act for event in acts_of(code, Act.STEP, Act.ESCAPE)] == [Act.STEP]


def test_a_launcher_knows_what_it_prepared() -> None:
    pipeline = pipeline_of(
        ACCELERATE + "import torch\naccelerator = Accelerator(False, True, 'fp16', 4)\n"
        "optimizer = torch.optim.SGD(net.parameters())\noptimizer, net = accelerator.prepare(optimizer, net)\n"
    )
    (launcher,) = pipeline.launchers
    assert set(launcher.argument_locations) == {
        "device_placement",
        "split_batches",
        "mixed_precision",
        "gradient_accumulation_steps",
    }
    assert launcher.prepared[0] is pipeline.optimizers[0]


@pytest.mark.parametrize(
    ("rule", "code", "lines"),
    [
        (
            "retained-graph",
            """
def step(batch):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss

total = 0
for batch in loader:
    total += step(batch)
""",
            [13],
        ),
        (
            "retained-graph",
            """
class Meter:
    def __init__(self):
        self.sum = 0
    def update(self, value, n):
        self.sum += value * n

meter = Meter()
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    meter.update(loss, 1)
""",
            [8],
        ),
        (
            "retained-graph",
            """
seen = 0
for x, y in loader:
    n = count(x)
    optimizer.zero_grad()
    loss = summed(net(x), y) / n
    loss.backward()
    optimizer.step()
    seen += n
""",
            [],
        ),
        (
            "retained-graph",
            """
total = 0
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    loss = loss.detach()
    total += loss
""",
            [],
        ),
        (
            "clip-before-unscale",
            """
def train(net, loader, optimizer, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(net(x), y)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
""",
            [8],
        ),
        (
            "clip-before-unscale",
            """
scaler = torch.amp.GradScaler()
for x, y in loader:
    if len(x) < 2:
        continue
    optimizer.zero_grad()
    scaler.scale(F.cross_entropy(net(x), y)).backward()
    if clips:
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
            [11],
        ),
        (
            "clip-before-unscale",
            """
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    if use_amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    if not use_amp:
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if use_amp:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
""",
            [],
        ),
        (
            "wrong-step-order",
            """
other = nn.Linear(8, 3)
both = optim.SGD(list(net.parameters()) + list(other.parameters()), lr=0.1)
for x, y in loader:
    F.cross_entropy(net(x) + other(x), y).backward()
    both.step()
    net.zero_grad()
    optimizer.step()
    both.zero_grad()
""",
            [9],
        ),
    ],
)
def test_rules_follow_loops_through_functions_and_branches(rule: str, code: str, lines: list[int]) -> None:
    assert lines_of(rule, MADE + code) == lines
