"""What the reader makes of plain torch: modules, modes, gradients, optimizers, in the order in which they happen."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from lintrain.pipeline.layer_modes import ignores_mode
from lintrain.pipeline.values.model import Module, Optimizer, Tensor
from lintrain.pipeline.values.python import Constant, Instance, Unknown, number_of
from tests.support.loops import PRELUDE, acts_of, pipeline_of

LOOP = """
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""


def order_of(code: str) -> list[str]:
    return [event.act.value for event in acts_of(code, *set(Act) - {Act.ESCAPE, Act.LEAVE, Act.OPTIMIZER, Act.SHARE})]


def test_a_loop_is_read_in_the_order_of_its_effects() -> None:
    assert order_of(LOOP) == ["zero_grad", "forward", "backward", "step"]


def test_effects_in_a_function_belong_to_the_loop_that_calls_it() -> None:
    code = """
    def update(net, optimizer, x, y):
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    net = nn.Linear(8, 3)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        update(net, optimizer, x, y)
    """
    (step,) = acts_of(code, Act.STEP)
    assert isinstance(step.subject, Optimizer)
    assert [loop.header for loop in step.loops] == ["loader"]
    assert step.function == "update"


def test_the_script_s_own_module_runs_its_forward_once_for_the_outermost_call() -> None:
    code = """
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 3)

        def forward(self, x):
            return self.inner(x)

    block = Block()
    block(x)
    """
    (forward,) = acts_of(code, Act.FORWARD)
    assert isinstance(forward.subject, Instance)


def test_a_closure_runs_before_its_step() -> None:
    code = """
    net = nn.Linear(8, 3)
    optimizer = optim.LBFGS(net.parameters())

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    for epoch in range(3):
        optimizer.step(closure)
    """
    assert order_of(code) == ["zero_grad", "forward", "backward", "step"]


@pytest.mark.parametrize(
    ("backward", "step"),
    [
        ("scaler.scale(loss).backward()", "scaler.step(optimizer)"),
        ("accelerator.backward(loss)", "optimizer.step()"),
        ("fabric.backward(loss)", "optimizer.step()"),
        ("torch.autograd.backward(loss)", "optimizer.step()"),
    ],
)
def test_backward_and_step_are_known_through_what_wraps_them(backward: str, step: str) -> None:
    code = f"""
from accelerate import Accelerator
from lightning.fabric import Fabric
scaler = torch.amp.GradScaler("cuda")
accelerator, fabric = Accelerator(), Fabric()
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
net, optimizer = accelerator.prepare(net, optimizer)
loss = net(x).mean()
{backward}
{step}
"""
    events = acts_of(code, Act.BACKWARD, Act.STEP)
    assert [event.act for event in events] == [Act.BACKWARD, Act.STEP]
    assert isinstance(events[1].subject, Optimizer)


@pytest.mark.parametrize(
    "clears",
    [
        "optimizer.zero_grad(set_to_none=True)",
        "net.zero_grad()",
        "for p in net.parameters(): p.grad = None",
        "for p in net.parameters(): p.grad.zero_()",
        "for group in optimizer.param_groups:\n    for p in group['params']:\n        p.grad = None",
    ],
)
def test_every_way_to_clear_gradients_is_known(clears: str) -> None:
    made = "net = nn.Linear(8, 3)\noptimizer = optim.SGD(net.parameters(), lr=0.1)\n"
    assert acts_of(made + clears, Act.ZERO_GRAD)


@pytest.mark.parametrize(
    ("call", "rate", "is_default"),
    [
        ("optim.Adam(net.parameters())", 1e-3, True),
        ("optim.AdamW(net.parameters(), 2e-5)", 2e-5, False),
        ("optim.RMSprop(net.parameters())", 1e-2, True),
        ("torch.optim.adamw.AdamW(net.parameters(), lr=5e-5)", 5e-5, False),
    ],
)
def test_an_optimizer_has_its_learning_rate_or_the_default(call: str, rate: float, is_default: bool) -> None:
    (optimizer,) = pipeline_of(PRELUDE + f"net = nn.Linear(8, 3)\noptimizer = {call}\n").optimizers
    assert number_of(optimizer.learning_rate) == rate
    assert isinstance(optimizer.learning_rate, Constant)
    assert bool(optimizer.learning_rate.default) is is_default


@pytest.mark.parametrize(
    ("given", "is_part", "has_groups"),
    [
        ("net.parameters()", False, False),
        ("[p for p in net.parameters() if p.requires_grad]", True, False),
        ("[{'params': net.parameters(), 'lr': 0.1}]", True, True),
        ("filter(lambda p: p.requires_grad, net.parameters())", True, False),
    ],
)
def test_an_optimizer_knows_whose_parameters_it_was_given(given: str, is_part: bool, has_groups: bool) -> None:
    (optimizer,) = pipeline_of(PRELUDE + f"net = nn.Linear(8, 3)\noptimizer = optim.Adam({given})\n").optimizers
    assert [type(module) for module in optimizer.trains] == [Module]
    assert (optimizer.is_part, optimizer.has_groups) == (is_part, has_groups)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 3))", True),
        ("nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1))", False),
        ("nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.0))", True),
        ("nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16))", False),
        ("nn.Sequential(nn.Linear(8, 16), blocks.Gate())", False),
        ("nn.Sequential(*layers)", False),
        ("nn.LSTM(8, 16)", True),
        ("nn.LSTM(8, 16, dropout=0.2)", False),
        ("Own(nn.Linear(8, 16))", True),
        ("Own(nn.Dropout(0.2))", False),
    ],
)
def test_it_is_known_whether_the_modes_differ(layers: str, expected: bool) -> None:
    code = f"""
class Own(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)

{layers}(x)
"""
    assert [ignores_mode(event.subject) for event in acts_of(code, Act.FORWARD)] == [expected]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("with torch.no_grad():\n    net(x)", True),
        ("with torch.inference_mode():\n    net(x)", True),
        ("with torch.set_grad_enabled(training):\n    net(x)", False),
        ("with torch.autocast('cuda'):\n    net(x)", False),
        ("with other.scope():\n    net(x)", True),
        ("with torch.no_grad() if quick else torch.enable_grad():\n    net(x)", True),
    ],
)
def test_autograd_counts_as_on_only_where_that_is_certain(block: str, expected: bool) -> None:
    (forward,) = acts_of("net = nn.Linear(8, 3)\n" + block, Act.FORWARD)
    assert forward.without_grad is expected
    assert forward.switches == (("training",) if "training" in block else ())


@pytest.mark.parametrize(
    ("loss", "is_known"),
    [
        ("loss = 0\nfor part in parts:\n    loss += F.mse_loss(net(part), y)", True),
        ("loss = 0.0\nfor part in parts:\n    loss = loss + F.mse_loss(net(part), y)", True),
        ("loss = 0\nfor part in parts:\n    loss += part.size(0)", False),
        (
            "loss = F.mse_loss(net(x), y)\nif a:\n    loss = loss.mean()\nif b:\n    loss = loss / 2\n"
            "if c:\n    loss = loss / 3",
            True,
        ),
    ],
)
def test_a_loss_is_known_that_loops_and_branches_put_together(loss: str, is_known: bool) -> None:
    backwards = acts_of(f"net = nn.Linear(8, 3)\n{loss}\nloss.backward()", Act.BACKWARD)
    assert {isinstance(event.subject, Tensor) for event in backwards} == {is_known}


def test_the_scaled_loss_of_apex_is_the_loss() -> None:
    loss = "from apex import amp\nloss = F.mse_loss(net(x), y)\n"
    (backward,) = acts_of(f"{loss}with amp.scale_loss(loss, adam) as scaled:\n    scaled.backward()", Act.BACKWARD)
    assert isinstance(backward.subject, Tensor)


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("net.train()", Act.TRAIN_MODE),
        ("net.train(True)", Act.TRAIN_MODE),
        ("net.train(False)", Act.EVAL_MODE),
        ("net.eval()", Act.EVAL_MODE),
        ("net.train(flag)", Act.ESCAPE),
        ("nn.DataParallel(net).eval()", Act.EVAL_MODE),
    ],
)
def test_modes_are_known_by_what_sets_them(call: str, act: Act) -> None:
    events = acts_of("net = nn.Linear(8, 3)\n" + call, Act.TRAIN_MODE, Act.EVAL_MODE, Act.ESCAPE)
    assert [event.act for event in events if isinstance(event.subject, Module)] == [act]


def test_a_function_that_nobody_calls_follows_its_own_unknown_parameters() -> None:
    code = """
    def train(model, loader, optimizer):
        for batch in loader:
            model(batch).loss.backward()
            optimizer.step()
    """
    forward, backward, step = acts_of(code, Act.FORWARD, Act.BACKWARD, Act.STEP)
    assert all(isinstance(event.subject, Unknown) and event.uncalled for event in (forward, backward, step))


@pytest.mark.parametrize("receiver", ["scheduler", "lr_scheduler", "env", "profiler"])
def test_steps_of_other_things_are_no_optimizer_steps(receiver: str) -> None:
    assert acts_of(f"def run({receiver}):\n    {receiver}.step()\n", Act.STEP) == []


def test_a_module_handed_to_unknown_code_escapes() -> None:
    code = "from other import tune\nnet = nn.Linear(8, 3)\ntune(net)\n"
    assert any(isinstance(event.subject, Module) for event in acts_of(code, Act.ESCAPE))


def test_a_loader_keeps_its_data_set_and_collator() -> None:
    code = PRELUDE + "loader = torch.utils.data.DataLoader(rows, 32, True, collate_fn=pad)\n"
    (loader,) = pipeline_of(code).loaders
    assert number_of(loader.arguments["batch_size"]) == 32
    assert loader.arguments.keys() == {"dataset", "batch_size", "shuffle", "collate_fn"}


def test_the_transforms_of_weights_are_no_network() -> None:
    code = "import torchvision\nweights = torchvision.models.ViT_B_16_Weights.DEFAULT\nweights.transforms()(image)\n"
    assert acts_of(code, Act.FORWARD) == []
    assert acts_of("import torchvision\ntorchvision.models.vit_b_16()(image)\n", Act.FORWARD)


def test_a_deep_copy_is_another_module() -> None:
    code = "import copy\nnet = nn.Linear(8, 3)\naverage = copy.deepcopy(net)\nnet.train()\naverage.eval()\n"
    train, switch = acts_of(code, Act.TRAIN_MODE, Act.EVAL_MODE)
    assert train.subject is not switch.subject
