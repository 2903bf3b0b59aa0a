"""Callbacks that watch the first steps of a real run: they change nothing, and stop it with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as everybody names it

import lintrain
from lintrain.callbacks import LightningWatch, TrainerWatch
from lintrain.callbacks.watching import MistakeWarning
from lintrain.evidence.stages import TRAINING_STAGES
from tests.test_in_process_lightning import Classifier, made
from tests.test_in_process_trainer import history_of, same, state_of, trainer_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("accumulated", [1, 2])
def test_losses_and_weights_are_the_same_with_a_watch(tmp_path: Path, accumulated: int) -> None:
    plain = trainer_of(tmp_path, gradient_accumulation_steps=accumulated)
    expected = history_of(plain)
    watched, watch = trainer_of(tmp_path, gradient_accumulation_steps=accumulated), TrainerWatch(steps=3)
    watched.add_callback(watch)
    assert history_of(watched) == expected
    assert same(state_of(watched)["weights"], state_of(plain)["weights"])
    module: Any = watched.model
    assert [len(part._forward_hooks) for part in module.modules() if part._forward_hooks] == []
    assert [weight for weight in module.parameters() if weight._post_accumulate_grad_hooks] == []
    report = watch.report
    assert report is not None
    assert (report.ok, report.reason) == (True, "1 step ran, nothing confirmed")
    assert report.evidence is not None
    statuses = {stage.name: stage.status for stage in report.evidence.stages}
    assert [statuses[name] for name in TRAINING_STAGES] == ["passed"] * 4
    assert report.evidence.backward is not None
    assert len(report.evidence.backward.norms) == 3  # one of the warm-up, two near the peak
    assert report.evidence.step is not None
    assert report.evidence.step.unchanged == ()


def test_the_gradients_are_those_before_clipping(tmp_path: Path) -> None:
    trainer, watch = trainer_of(tmp_path), TrainerWatch(steps=2)
    trainer.add_callback(watch)
    norms = [norm for _, norm in history_of(trainer)]
    assert watch.report is not None
    assert watch.report.evidence is not None
    assert watch.report.evidence.backward is not None
    assert watch.report.evidence.backward.norms == pytest.approx(
        norms[: len(watch.report.evidence.backward.norms)], rel=1e-4
    )


def test_a_loss_that_is_no_number_stops_the_run_before_its_first_step(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    module: Any = trainer.model
    with torch.no_grad():
        module.classifier.bias[0] = float("nan")
    before = module.bert.pooler.dense.weight.clone()
    trainer.add_callback(TrainerWatch())
    with pytest.raises(lintrain.MistakesError, match="losses are not finite") as raised:
        trainer.train()
    assert [finding.rule for finding in raised.value.report.findings] == ["nan-loss"]
    assert torch.equal(module.bert.pooler.dense.weight, before)
    assert len(module._forward_hooks) == 0
    assert trainer.state.global_step == 0


def outside(trainer: Any) -> Any:
    trainer.optimizer = torch.optim.AdamW(trainer.model.classifier.parameters(), lr=1e-2)
    return trainer


def test_weights_outside_the_optimizer_stop_the_run_with_a_warning(tmp_path: Path) -> None:
    trainer, watch = outside(trainer_of(tmp_path)), TrainerWatch(steps=2, on_mistake="stop")
    trainer.add_callback(watch)
    with pytest.warns(MistakeWarning, match="did not change in 2 steps"):
        trainer.train()
    assert trainer.state.global_step < 6
    assert watch.report is not None
    assert [finding.rule for finding in watch.report.findings] == ["unchanged-parameters"]


def test_a_watch_that_only_warns_lets_the_run_go_on(tmp_path: Path) -> None:
    trainer = outside(trainer_of(tmp_path))
    trainer.add_callback(TrainerWatch(steps=2, on_mistake="warn"))
    with pytest.warns(MistakeWarning):
        trainer.train()
    assert trainer.state.global_step == 6


def test_a_rate_of_zero_is_named(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    trainer.args.learning_rate = 0.0
    trainer.add_callback(TrainerWatch(steps=2))
    with pytest.raises(lintrain.MistakesError, match="the learning rate of all 2 groups is 0"):
        trainer.train()


def test_a_warm_up_longer_than_the_watch_is_no_mistake(tmp_path: Path) -> None:
    trainer, watch = trainer_of(tmp_path), TrainerWatch(steps=2)
    trainer.args.warmup_steps = 1000
    trainer.add_callback(watch)
    trainer.train()
    assert watch.report is not None
    assert watch.report.ok
    assert watch.report.evidence is not None
    assert not watch.report.evidence.passed("step")


def watched(folder: Path, watch: LightningWatch | None, module: Classifier | None = None) -> tuple[Any, Classifier]:
    folder.mkdir()
    given: Any = made(folder)
    trainer, own, data = given
    if watch is not None:
        trainer.callbacks.append(watch)
    trainer.fit(module or own, datamodule=data)
    return trainer, module or own


@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_the_same_with_a_watch(tmp_path: Path) -> None:
    _, plain = watched(tmp_path / "plain", None)
    watch = LightningWatch(steps=3)
    _, module = watched(tmp_path / "watched", watch)
    assert (module.losses, len(module.losses)) == (plain.losses, 16)
    assert same(dict(module.state_dict()), dict(plain.state_dict()))
    assert [weight for weight in module.parameters() if weight._post_accumulate_grad_hooks] == []
    assert watch.report is not None
    assert watch.report.ok
    assert watch.report.evidence is not None
    assert watch.report.evidence.passed("step")
    assert watch.report.evidence.forward is not None
    assert watch.report.evidence.forward.losses == pytest.approx(plain.losses[:3])


class Diverges(Classifier):
    """A loss that is no number from the start."""

    def training_step(self, batch: Any, index: int) -> Any:
        x, y = batch
        return F.cross_entropy(self.net(x), y) * float("inf")


@pytest.mark.filterwarnings("ignore")
def test_lightning_is_stopped_before_its_first_step(tmp_path: Path) -> None:
    module = Diverges()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(lintrain.MistakesError, match="losses are not finite"):
        watched(tmp_path / "run", LightningWatch(), module)
    assert same(dict(module.state_dict()), before)


def test_what_happens_on_a_mistake_is_one_of_three_words() -> None:
    with pytest.raises(ValueError, match="on_mistake is 'raise', 'stop' or 'warn', not 'ask'"):
        TrainerWatch(on_mistake="ask")  # type: ignore[arg-type]


def test_the_module_of_callbacks_loads_neither_library() -> None:
    code = "import sys, lintrain.callbacks; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "transformers", "lightning"} & set(done.stdout.split()) == set()
