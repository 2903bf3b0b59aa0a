"""`lintrain.probe(model=, loader=, optimizer=)`: the parts of one's own loop, also in the middle of training."""

from __future__ import annotations

import random
import subprocess
import sys
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch.utils.data import DataLoader, TensorDataset

import lintrain
from lintrain.evidence.run import StageName

pytestmark = pytest.mark.slow


def net_of(*last: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 3), *last)


class Loop:
    """A loop of one's own over 40 rows of three classes."""

    def __init__(self, net: nn.Module | None = None) -> None:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        rows = TensorDataset(torch.randn(40, 8), torch.randint(3, (40,)))
        self.loader: Any = DataLoader(rows, batch_size=8, shuffle=True)
        self.held_out = DataLoader(TensorDataset(torch.randn(16, 8), torch.randint(3, (16,))), batch_size=8)
        self.net: Any = net or net_of()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.losses: list[float] = []

    def epoch(self) -> None:
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss: Any = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.losses.append(loss.item())

    def probe(self, **given: Any) -> lintrain.Report:
        parts: dict[str, Any] = {"loss": F.cross_entropy, "scheduler": self.schedule, "steps": 20, "max_grad_norm": 1.0}
        parts["eval_loader"] = self.held_out
        return lintrain.probe(model=self.net, loader=self.loader, optimizer=self.optimizer, **{**parts, **given})


def test_the_rows_that_are_asked_for_are_shown() -> None:
    evidence = Loop().probe(rows=[2]).evidence
    assert evidence is not None
    assert [len(table.rows) for table in evidence.tables][:1] == [2]
    with pytest.raises(ValueError, match="no such rows"):
        Loop().probe(rows=["tallest"])


def test_every_stage_of_a_sound_loop_goes_through() -> None:
    report = Loop().probe()
    evidence = report.evidence
    assert evidence is not None
    assert {stage.status for stage in evidence.stages} == {"passed"}
    assert (report.ok, report.findings, evidence.framework) == (True, (), "torch")
    assert evidence.call is not None
    assert evidence.call.path.endswith("test_in_process_loop.py")
    assert evidence.step is not None
    assert (evidence.step.optimizer, evidence.step.changed_tensors, evidence.step.trainable_tensors) == ("AdamW", 6, 6)
    assert evidence.schedule is not None
    assert evidence.schedule.steps == 20
    assert evidence.backward is not None
    assert evidence.backward.clipped_at == 1.0


def test_training_goes_on_bit_equal_after_a_probe_in_its_middle() -> None:
    plain = Loop()
    plain.epoch()
    plain.epoch()
    probed = Loop()
    probed.epoch()
    gradient = probed.net[0].weight.grad
    taps = taps_of()
    probed.probe()
    assert probed.net[0].weight.grad is gradient
    assert taps_of() == taps
    assert sum(len(weight._backward_hooks or {}) for weight in probed.net.parameters()) == 0
    probed.epoch()
    assert (probed.losses, len(probed.losses)) == (plain.losses, 10)
    for (name, one), (_, other) in zip(probed.net.state_dict().items(), plain.net.state_dict().items(), strict=True):
        assert torch.equal(one, other), name


def taps_of() -> list[Any]:
    """What a probe changes in torch while it measures."""
    optimizers: Any = import_module("torch.optim.optimizer")
    return [
        nn.Module.__call__,
        F.cross_entropy,
        torch.Tensor.backward,
        DataLoader.__init__,
        DataLoader.__iter__,
        nn.utils.clip_grad_norm_,
        torch.optim.Optimizer.__init__,
        torch.optim.lr_scheduler.LRScheduler.step,
        torch.amp.GradScaler.scale,
        dict(optimizers._global_optimizer_pre_hooks),
        dict(optimizers._global_optimizer_post_hooks),
    ]


def test_probabilities_in_cross_entropy_are_confirmed_in_the_own_process() -> None:
    report = Loop(net_of(nn.Softmax(dim=1))).probe()
    assert [finding.rule for finding in report.findings] == ["softmax-before-cross-entropy"]
    assert not report.ok


def test_a_label_out_of_range_fails_the_forward_stage_at_the_own_line() -> None:
    loop = Loop()
    report = loop.probe(loss=lambda output, target: F.cross_entropy(output, target + 3))
    evidence = report.evidence
    assert evidence is not None
    assert {stage.name: stage.status for stage in evidence.stages}[StageName.FORWARD] == "failed"
    assert evidence.failure is not None
    assert (evidence.failure.type, "out of bounds" in evidence.failure.message) == ("IndexError", True)
    assert "F.cross_entropy(output, target + 3)" in evidence.failure.code


def test_a_loss_that_takes_other_arguments_is_the_answer_of_the_forward_stage() -> None:
    report = Loop().probe(loss=lambda output: output.sum())
    failure = report.evidence.failure if report.evidence else None
    assert failure is not None
    assert failure.type == "TypeError"


def test_a_loader_without_a_batch_fails_the_batch_stage() -> None:
    loop = Loop()
    loop.loader = DataLoader(loop.loader.dataset, batch_size=64, drop_last=True)
    report = loop.probe(eval_loader=None)
    assert report.reason == "training fails in its batch stage, and no rule explains why"


class OwnLoss(nn.Module):
    """Takes names, gives its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net_of()

    def forward(self, features: Any, labels: Any) -> dict[str, Any]:
        logits = self.net(features)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def named(rows: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {"features": torch.stack([row[0] for row in rows]), "labels": torch.stack([row[1] for row in rows])}


def test_a_model_that_gives_its_own_loss_needs_no_loss_function() -> None:
    loop = Loop(OwnLoss())
    loop.loader = DataLoader(loop.loader.dataset, batch_size=8, collate_fn=named)
    report = loop.probe(loss=None)
    assert report.evidence is not None
    assert {stage.status for stage in report.evidence.stages} == {"passed"}


def test_a_step_of_ones_own_and_a_list_of_batches_are_enough() -> None:
    loop = Loop()
    batches = [torch.randn(4, 8) for _ in range(6)]
    report = lintrain.probe(
        model=loop.net,
        loader=batches,
        optimizer=loop.optimizer,
        training_step=lambda model, batch: model(batch).square().mean(),
    )
    assert report.evidence is not None
    assert report.evidence.passed("step")
    assert report.ok


def test_a_model_without_a_loss_is_told_what_to_pass() -> None:
    loop = Loop()
    loop.loader = [torch.randn(4, 8) for _ in range(6)]
    with pytest.raises(TypeError, match="pass `loss=` or `training_step=`"):
        loop.probe(loss=None)


def test_one_of_several_processes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed: Any = import_module("torch.distributed")
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    with pytest.raises(RuntimeError, match="one of several that train together"):
        Loop().probe()


def functions_of_libraries() -> dict[tuple[str, str], Any]:
    """Every function and method of the loaded modules of torch and transformers, by its place."""
    found: dict[tuple[str, str], Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in {"torch", "transformers"} and type(module) is ModuleType:
            held = [each for each in vars(module).values() if type(each) is type and each.__module__ == name]
            for owner in (module, *held):
                functions = (pair for pair in vars(owner).items() if type(pair[1]) is FunctionType)
                found |= {(f"{name}:{getattr(owner, '__name__', '')}", each): function for each, function in functions}
    return found


@pytest.mark.turns(one_in=3, of="file")
def test_no_function_of_a_library_is_another_one_afterwards() -> None:
    loop = Loop(net_of(nn.Softmax(dim=1)))
    import_module("transformers.modeling_utils")
    loop.probe()
    before = functions_of_libraries()
    changes: list[tuple[str, str]] = []
    for _ in range(2):
        loop.probe()
        after = functions_of_libraries()
        changes += [place for place, function in before.items() if after.get(place) is not function]
    assert changes == []


@pytest.mark.turns(one_in=3, of="file")
def test_the_first_probe_leaves_the_layers_as_they_were() -> None:
    code = (
        "import torch; kinds = torch.nn.Softmax, torch.nn.Sigmoid, torch.nn.LogSoftmax; import lintrain\n"
        "held = [(kind.__init__, kind.forward) for kind in kinds]\n"
        "net = torch.nn.Sequential(torch.nn.Linear(8, 3), torch.nn.Softmax(dim=1))\n"
        "rows = torch.utils.data.TensorDataset(torch.randn(16, 8), torch.randint(3, (16,)))\n"
        "loader = torch.utils.data.DataLoader(rows, batch_size=8)\n"
        "optimizer = torch.optim.AdamW(net.parameters())\n"
        "lintrain.probe(model=net, loader=loader, optimizer=optimizer, loss=torch.nn.functional.cross_entropy)\n"
        "print(held == [(kind.__init__, kind.forward) for kind in kinds])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "True"
