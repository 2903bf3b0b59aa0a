"""Which frozen layers a run takes for a head that was left at random values by mistake."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from lintrain.runtime.measure import random_head as measured
from lintrain.runtime.measure.random_head import random_head
from tests.support.probing import path_for_lintrain, probe


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of the script of the run, for what it says of a purpose."""
    said = [""]
    monkeypatch.setattr(measured, "mentions", lambda pattern: re.search(pattern, said[0], re.IGNORECASE) is not None)
    return said


def body() -> list[nn.Module]:
    return [nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()]


def network(head: nn.Module | None = None) -> nn.Sequential:
    """Two layers that train, and a frozen last one."""
    torch.manual_seed(0)
    last = head if head is not None else nn.Linear(32, 5)
    return nn.Sequential(*body(), last.requires_grad_(False))


def found_in(model: nn.Module, output: torch.Tensor | None = None) -> str | None:
    return random_head(model, model(torch.randn(4, 6)) if output is None else output)


def test_the_layer_that_gives_the_output_is_named() -> None:
    assert found_in(network()) == "4"


@pytest.mark.parametrize("score", [nn.LogSoftmax(-1), nn.Sigmoid(), nn.Unflatten(1, (5, 1))], ids=repr)
def test_a_score_or_a_view_after_the_layer_changes_nothing(score: nn.Module) -> None:
    assert found_in(nn.Sequential(*network(), score)) == "4"


def test_a_convolution_is_a_head_too() -> None:
    model = nn.Sequential(nn.Conv1d(6, 8, 1), nn.Conv1d(8, 8, 1), nn.Conv1d(8, 5, 1).requires_grad_(False))
    assert random_head(model, model(torch.randn(2, 6, 9))) == "2"


class WithAdapter(nn.Module):
    """A frozen layer and two small ones next to it that train."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(32, 5).requires_grad_(False)
        self.down, self.up = nn.Linear(32, 2), nn.Linear(2, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.base(x) + self.up(self.down(x))
        return added


def adapted() -> nn.Module:
    return nn.Sequential(*body(), WithAdapter())


def orthogonal() -> nn.Module:
    head = nn.Linear(32, 5)
    nn.init.orthogonal_(head.weight)
    return network(head)


def loaded() -> nn.Module:
    model = network()
    object.__setattr__(model, "lintrain_filled", frozenset({"4.weight", "4.bias"}))  # as the probe's hook leaves it
    return model


def trained_before() -> nn.Module:
    head = nn.Linear(32, 5)
    head.weight.grad = torch.zeros(5, 32)
    return network(head)


def random_features() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 32).requires_grad_(False), nn.ReLU(), nn.Linear(32, 32), nn.Linear(32, 5))


def frozen_but_for_a_prompt() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6, bias=False), *network().requires_grad_(False))


SILENT = [adapted, orthogonal, loaded, trained_before, random_features, frozen_but_for_a_prompt]


@pytest.mark.parametrize("made", SILENT, ids=lambda made: made.__name__)
def test_layers_that_are_frozen_on_purpose_are_left(made: Callable[[], nn.Module]) -> None:
    assert found_in(made()) is None


def test_a_target_of_the_training_is_no_head() -> None:
    """Its frozen layer gives what the model is compared with, and no gradient flows through it."""
    target = nn.Sequential(nn.Linear(6, 32), nn.Linear(32, 5)).requires_grad_(False)
    model = nn.ModuleList([*body(), nn.Linear(32, 5), target])
    assert found_in(model, target(torch.randn(4, 6))) is None


@pytest.mark.parametrize("text", ["p.requires_grad = True", "head.requires_grad_()", "# a fixed random readout"])
def test_a_script_that_says_why_is_left(text: str, script: list[str]) -> None:
    script[0] = text
    assert found_in(network()) is None


TRAINER = """
import torch
from torch import nn
from transformers import Trainer, TrainingArguments


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)

    def forward(self, features=None, labels=None):
        logits = self.head(self.body(features))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


net = Net()
for weight in net.FROZEN.parameters():
    weight.requires_grad = False
rows = [{"features": torch.randn(6), "labels": torch.tensor(row % 3)} for row in range(64)]
arguments = TrainingArguments("out", per_device_train_batch_size=8, max_steps=4, report_to=[], use_cpu=True)
Trainer(model=net, args=arguments, train_dataset=rows).train()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("frozen", ["head", "body[0]"])
def test_the_own_module_of_a_trainer_is_asked_as_well(
    frozen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    found = probe(tmp_path, TRAINER.replace("FROZEN", frozen))
    assert found.stages["step"] == "passed", found.out
    confirmed = [rule for rule, _, outcome in found.verdicts if outcome == "confirmed"]
    assert ("frozen-head" in confirmed) == (frozen == "head")
