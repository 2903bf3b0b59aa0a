"""Modes and gradients of evaluation: what is certain is found, what may be otherwise is left alone."""

from __future__ import annotations

import pytest

from tests.support.loops import MADE, OWN_MODULE, TRAINS, lines_of

PRETRAINED = "from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification\n"


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
        "def evaluate(model, val_loader):\n    for x, y in val_loader:\n        model(x)\n",
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


def test_clearing_the_gradients_of_a_module_hides_no_eval_mode() -> None:
    validation = "    net.eval()\n    with torch.no_grad():\n        for x, y in test_loader:\n            net(x)\n"
    assert lines_of("eval-mode-in-training", OWN_MODULE + validation) == [16]
