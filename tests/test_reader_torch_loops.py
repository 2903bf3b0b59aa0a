"""The rules about hand-written loops: what they find beyond their pages, and where they cannot know and are silent."""

from __future__ import annotations

import pytest

from tests.loops import fixes_of, lines_of

MADE = """
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
"""
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
        "import lightning as L\n" + MADE + BOTH + "for batch in loader:\n    step(batch)\n",
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


TRAINS = "        optimizer.zero_grad()\n        F.cross_entropy(net(x), y).backward()\n        optimizer.step()\n"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        # a validation function leaves the model in eval mode
        (
            MADE
            + """
def validate(model):
    model.eval()
    with torch.no_grad():
        return model(x)

for epoch in range(3):
    for x, y in loader:
"""
            + TRAINS
            + "    validate(net)\n",
            [5],
        ),
        # within the epoch: `train()` only comes with the next one
        (
            MADE
            + """
for epoch in range(3):
    net.train()
    for step, (x, y) in enumerate(loader):
"""
            + TRAINS
            + """
        if step % 100 == 0:
            net.eval()
            with torch.no_grad():
                net(x)
""",
            [12],
        ),
    ],
)
def test_a_model_that_is_left_in_eval_mode_is_found(code: str, lines: list[int]) -> None:
    assert lines_of("eval-mode-in-training", code) == lines


@pytest.mark.parametrize(
    "code",
    [
        # validation ends with train()
        MADE + "for epoch in range(3):\n    for x, y in loader:\n" + TRAINS + "    net.eval()\n    net.train()\n",
        # the mode is put back to what it was
        MADE
        + "for epoch in range(3):\n    for x, y in loader:\n"
        + TRAINS
        + "    before = net.training\n    net.eval()\n    net.train(before)\n",
        # one phase for each mode
        MADE
        + """
for epoch in range(3):
    for phase in ["train", "val"]:
        if phase == "train":
            net.train()
        else:
            net.eval()
        for x, y in loaders[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = F.cross_entropy(net(x), y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
""",
        # eval mode on purpose, for the whole of training
        MADE + "for epoch in range(3):\n    net.eval()\n    for x, y in loader:\n" + TRAINS,
        # only the statistics of normalisation are frozen
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.norm(x))

net = Net()
optimizer = optim.Adam(net.parameters())
for epoch in range(3):
    for x, y in loader:
"""
        + TRAINS
        + "    net.norm.eval()\n",
        # the loop ends with the evaluation
        MADE + "for epoch in range(3):\n    for x, y in loader:\n" + TRAINS + "    if done:\n        net.eval()\n"
        "        break\n",
        # whoever trains the next epoch may call train()
        "from engine import begin_epoch\n"
        + MADE
        + "for epoch in range(3):\n    begin_epoch(net)\n    for x, y in loader:\n"
        + TRAINS
        + "    net.eval()\n",
        # evaluation after training
        MADE + "for epoch in range(3):\n    for x, y in loader:\n" + TRAINS + "net.eval()\nnet(x)\n",
        # another model is evaluated
        MADE
        + "teacher = nn.Sequential(nn.Linear(8, 3), nn.Dropout(0.1))\n"
        + "for epoch in range(3):\n    for x, y in loader:\n"
        + TRAINS
        + "    teacher.eval()\n",
    ],
)
def test_a_model_that_may_train_in_train_mode_is_left_alone(code: str) -> None:
    assert lines_of("eval-mode-in-training", code) == []


PRETRAINED = "from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification\n"
OWN_LOOP = """
optimizer = optim.AdamW(model.parameters(), lr=5e-5)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        ("model = AutoModelForSequenceClassification.from_pretrained('bert-base-uncased')\n", [6]),
        ("model = AutoModelForCausalLM.from_pretrained('gpt2')\n", [6]),
        # no dropout to be missed
        ("model = AutoModelForCausalLM.from_pretrained('meta-llama/Llama-3.2-1B')\n", []),
        # a model that is not from a checkpoint starts in train mode
        ("model = AutoModelForSequenceClassification.from_config(config)\n", []),
        ("model = AutoModelForSequenceClassification.from_pretrained('bert-base-uncased').train()\n", []),
        ("model = tune(AutoModelForSequenceClassification.from_pretrained('bert-base-uncased'))\n", []),
    ],
)
def test_from_pretrained_gives_eval_mode_to_a_plain_loop(made: str, lines: list[int]) -> None:
    assert lines_of("eval-mode-in-training", PRETRAINED + made + OWN_LOOP) == lines


EVALUATES = "    for x, y in val_loader:\n        net(x)\n"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        # never put into eval mode since it was made
        (MADE + "for epoch in range(3):\n    for x, y in loader:\n" + TRAINS + EVALUATES, [9]),
        # a function that evaluates the model it is given in train mode
        (
            MADE
            + "net.train()\nfor epoch in range(3):\n    for x, y in loader:\n"
            + TRAINS
            + "def evaluate(model, rows):\n    for x, y in rows:\n        model(x)\nevaluate(net, loader)\n",
            [11],
        ),
    ],
)
def test_evaluation_in_train_mode_is_found(code: str, lines: list[int]) -> None:
    assert lines_of("train-mode-in-eval", code) == lines


@pytest.mark.parametrize(
    "code",
    [
        # the caller has called eval()
        MADE
        + "net.train()\nfor x, y in loader:\n    net(x).mean().backward()\nnet.eval()\n"
        + "def evaluate(model):\n    for x, y in val_loader:\n        model(x)\nevaluate(net)\n",
        # nothing in the model differs between the modes
        "net = nn.Linear(8, 3)\nnet.train()\nfor x, y in val_loader:\n    net(x)\n",
        # it may be in either mode
        MADE + "if training:\n    net.train()\nfor x, y in val_loader:\n    net(x)\n",
        # a forward pass of the training itself
        MADE + "net.train()\nfor x, y in loader:\n    with torch.no_grad():\n        net(x)\n",
        # unknown code may have switched
        "from engine import prepare\n" + MADE + "net.train()\nprepare(net)\nfor x, y in val_loader:\n    net(x)\n",
    ],
)
def test_evaluation_that_may_be_in_eval_mode_is_left_alone(code: str) -> None:
    assert lines_of("train-mode-in-eval", code) == []


@pytest.mark.parametrize(
    "code",
    [
        # somebody else may have turned autograd off
        "def evaluate(model, val_loader):\n    model.eval()\n    for x, y in val_loader:\n        model(x)\n",
        "from engine import frozen\n"
        + MADE
        + "net.eval()\nwith frozen(net):\n    for x, y in val_loader:\n        net(x)\n",
        "from engine import no_gradients\n"
        + MADE
        + "@no_gradients\ndef test():\n    net.eval()\n    for x, y in val_loader:\n        net(x)\ntest()\n",
        MADE + "torch.set_grad_enabled(False)\nnet.eval()\nfor x, y in val_loader:\n    net(x)\n",
        # nothing wants a gradient
        MADE + "net.requires_grad_(False)\nnet.eval()\nfor x, y in val_loader:\n    net(x)\n",
        MADE
        + "for p in net.parameters():\n    p.requires_grad = False\nnet.eval()\nfor x, y in val_loader:\n    net(x)\n",
        # the evaluation needs gradients
        MADE + "net.eval()\nfor x, y in val_loader:\n    torch.autograd.grad(net(x).sum(), x)\n",
        # a model that generates has autograd off
        PRETRAINED + "model = AutoModelForCausalLM.from_pretrained('gpt2')\nmodel.eval()\n"
        "for batch in val_loader:\n    model.generate(batch)\n",
    ],
)
def test_evaluation_that_may_run_without_gradients_is_left_alone(code: str) -> None:
    assert lines_of("missing-no-grad", code) == []


def test_evaluation_with_gradients_is_found_in_a_function_that_is_called() -> None:
    code = (
        MADE
        + "def test(model):\n    model.eval()\n    for x, y in test_loader:\n        correct = model(x)\ntest(net)\n"
    )
    assert lines_of("missing-no-grad", code) == [6]


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


def test_a_model_of_another_module_is_followed_by_the_name_that_it_gets() -> None:
    code = """
from engine import build
network, data = build()
optimizer = optim.Adam(network.parameters())

def train():
    optimizer.zero_grad()
    network(data).mean().backward()
    optimizer.step()

def test():
    network.eval()
    return network(data)

for epoch in range(3):
    train()
    test()
"""
    assert lines_of("eval-mode-in-training", code) == [11]
    assert lines_of("missing-no-grad", code) == [12]


def test_a_class_whose_name_ends_like_a_model_is_no_model() -> None:
    code = "from shapes import ModelNet\nfor name in names:\n    for split in test_splits:\n        ModelNet(split)\n"
    assert lines_of("missing-no-grad", MADE + "net(x).mean().backward()\nnet.eval()\n" + code) == []


def test_an_evaluation_function_without_a_loop_is_found_in_train_mode() -> None:
    code = MADE + (
        "def evaluate(model):\n    with torch.no_grad():\n        return model(x)\n"
        "for epoch in range(3):\n    net.train()\n    for x, y in loader:\n" + TRAINS + "    evaluate(net)\n"
    )
    assert lines_of("train-mode-in-eval", code) == [5]


OWN_MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x)

net = Net()
optimizer = optim.Adam(net.parameters())
for epoch in range(3):
    for x, y in loader:
        net.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
"""


def test_a_module_of_the_script_that_clears_its_gradients_misses_no_zero_grad() -> None:
    assert lines_of("missing-zero-grad", OWN_MODULE) == []


def test_clearing_the_gradients_of_a_module_hides_no_eval_mode() -> None:
    validation = "    net.eval()\n    with torch.no_grad():\n        for x, y in test_loader:\n            net(x)\n"
    assert lines_of("eval-mode-in-training", OWN_MODULE + validation) == [16]


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
