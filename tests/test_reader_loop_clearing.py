"""Gradients that no loop clears: found through functions and classes, left alone where somebody may clear them."""

from __future__ import annotations

import pytest

from tests.support.loops import MADE, OWN_MODULE, lines_of

BOTH = """
def step(batch):
    x, y = batch
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (MADE + BOTH + "for batch in loader:\n    step(batch)\n", [7]),
        (
            """
def train(model, loader, optimizer):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
""",
            [4],
        ),
        (
            """
class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = optim.Adam(self.net.parameters())

    def fit(self, loader):
        for x, y in loader:
            F.cross_entropy(self.net(x), y).backward()
            self.optimizer.step()

Trainer(nn.Linear(8, 3)).fit(loader)
""",
            [8],
        ),
        (
            MADE
            + """
for index, (x, y) in enumerate(loader):
    (F.cross_entropy(net(x), y) / 4).backward()
    if (index + 1) % 4 == 0:
        optimizer.step()
""",
            [5],
        ),
        (
            MADE
            + """
optimizer.zero_grad()
for x, y in loader:
    F.cross_entropy(net(x), y).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
""",
            [6],
        ),
    ],
)
def test_gradients_that_nothing_clears_are_found_through_functions_and_classes(code: str, lines: list[int]) -> None:
    assert lines_of("missing-zero-grad", code) == lines


@pytest.mark.parametrize(
    "code",
    [
        # the optimizer of a generator clears what the discriminator left behind, or the other way round
        MADE
        + """
other = optim.Adam(net.parameters())
for x, y in loader:
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
    net(y).mean().backward()
    other.step()
""",
        # gradients are cleared by the loop around, once for each window
        MADE
        + """
for window in windows:
    optimizer.zero_grad()
    for x, y in window:
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
""",
        # a function of another module may clear them
        "from engine import begin_step\n"
        + MADE
        + """
for x, y in loader:
    begin_step(optimizer)
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
        # a method that a base class of another module has
        """
from engine import Base
class Trainer(Base):
    def fit(self, loader):
        for x, y in loader:
            self.clear_gradients()
            self.loss(x, y).backward()
            self.optimizer.step()
""",
        # engines clear by themselves
        """
def train(engine, loader):
    for batch in loader:
        loss = engine(batch)
        engine.backward(loss)
        engine.step()
""",
        # an optimizer of the script's own may clear in its step
        """
class Clearing(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad, alpha=-0.1)
                p.grad = None

net = nn.Linear(8, 3)
optimizer = Clearing(net.parameters())
for x, y in loader:
    net(x).mean().backward()
    optimizer.step()
""",
        # a step of something that is no optimizer
        """
def play(agent, env):
    for _ in range(100):
        state, reward = env.step(agent.act())
        agent.loss(state, reward).backward()
""",
        # an unknown step
        "def train(net, solver_of_some_kind):\n    for x in rows:\n        net(x).mean().backward()\n"
        "        solver_of_some_kind.step()\n",
        # another library with the same words
        "import mindspore\n" + MADE + BOTH + "for batch in loader:\n    step(batch)\n",
        # a framework runs the loop
        "import lightning as L\ntrainer = L.Trainer()\n" + MADE + BOTH + "for batch in loader:\n    step(batch)\n",
        # one step only: nothing adds up
        MADE + "net(x).mean().backward()\noptimizer.step()\n",
        # a model that another library made clears its own, also where it was prepared
        """
from accelerate import Accelerator
from accelerate.test_utils import RegressionModel

def baseline(loader):
    line = RegressionModel()
    optimizer = optim.SGD(line.parameters(), lr=0.1)
    for x, y in loader:
        line.zero_grad()
        F.mse_loss(line(x), y).backward()
        optimizer.step()

def prepared(loader):
    accelerator = Accelerator()
    line = RegressionModel()
    optimizer = optim.SGD(line.parameters(), lr=0.1)
    loader, line, optimizer = accelerator.prepare(loader, line, optimizer)
    for x, y in loader:
        line.zero_grad()
        accelerator.backward(F.mse_loss(line(x), y))
        optimizer.step()
""",
    ],
)
def test_gradients_that_may_be_cleared_are_left_alone(code: str) -> None:
    assert lines_of("missing-zero-grad", code) == []


@pytest.mark.parametrize(
    "noise",
    [
        "progress_bar.update(1)",
        "losses.update(loss.item())",
        "writer.add_scalar('train', loss)",
        "batch = prepare_batch(x)",
        "loader.train_sampler.set_epoch(1)",
        "running_loss.double()",
    ],
)
def test_counters_and_progress_bars_hide_no_missing_zero_grad(noise: str) -> None:
    code = (
        "from engine import losses, prepare_batch, progress_bar, writer\n"
        + MADE
        + "for x, y in loader:\n    loss = F.cross_entropy(net(x), y)\n    loss.backward()\n    optimizer.step()\n"
        + f"    {noise}\n"
    )
    assert lines_of("missing-zero-grad", code) == [7]


def test_a_module_of_the_script_that_clears_its_gradients_misses_no_zero_grad() -> None:
    assert lines_of("missing-zero-grad", OWN_MODULE) == []
