"""The memory that a step of training holds: projected on tensors without values, or counted in a loop's own steps."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.memory import compare
from lintrain.evidence.memory import PROJECTION_ERROR
from lintrain.evidence.run import Evidence, MemoryEvidence
from lintrain.model.location import Location
from lintrain.rulebook import load_rules
from lintrain.runtime.measure.objects import models as models_module
from lintrain.runtime.measure.objects.models import Models
from lintrain.runtime.measure.projection import Projection, Training
from lintrain.text import read_size, show_size
from tests.support.probing import probe, probe_file

MIB = 2**20
RULE = next(file.rule for file in load_rules() if file.name == "projected-out-of-memory")


class Wide(nn.Module):
    """A layer of 4 MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1024, 1024, bias=False)
        self.dropped = nn.Dropout(0.5)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.dropped(self.layer(rows)))


def training_of(model: nn.Module, optimizer: torch.optim.Optimizer, rows: int = 256) -> Training:
    def passes(batch: torch.Tensor) -> None:
        model(batch).sum().backward()

    return Training((model,), optimizer, torch.zeros(rows, 1024), rows, passes, lambda: None)


def test_a_step_holds_weights_gradients_state_and_what_backward_needs() -> None:
    model = Wide()
    projection = Projection(training_of(model, torch.optim.Adam(model.parameters())), for_gpu=False)
    with projection.open():
        peak = projection.peak(1024)
        assert projection.weights == 4 * MIB
    assert peak.gradients == 4 * MIB
    assert peak.optimizer == pytest.approx(8 * MIB, rel=1e-3)
    assert 4 * MIB + 8 * MIB + 3 * 4 * MIB <= peak.passes <= 4 * MIB + 8 * MIB + 6 * 4 * MIB


def test_a_projection_leaves_model_and_optimizer_as_they_were() -> None:
    model = Wide()
    optimizer = torch.optim.Adam(model.parameters())
    before, weight = model.layer.weight.detach().clone(), model.layer.weight
    with Projection(training_of(model, optimizer), for_gpu=True).open() as projection:
        projection.peak(4)
    assert model.layer.weight is weight
    assert torch.equal(weight, before)
    assert weight.grad is None
    assert not optimizer.state
    assert optimizer.param_groups[0]["foreach"] is None


def test_the_largest_batch_fits_and_one_row_more_does_not() -> None:
    model = Wide()
    device = 64 * MIB
    with Projection(training_of(model, torch.optim.Adam(model.parameters())), for_gpu=True).open() as projection:
        rows = projection.largest_batch(device, 256)
        assert rows is not None
        assert projection.peak(rows).whole <= device < projection.peak(rows + 1).whole


def test_no_row_fits_a_device_smaller_than_the_weights() -> None:
    model = Wide()
    with Projection(training_of(model, torch.optim.Adam(model.parameters())), for_gpu=True).open() as projection:
        assert projection.largest_batch(2 * MIB, 256) == 0


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
def test_a_projection_is_as_near_to_the_measured_peak_as_it_says() -> None:
    # `python tools/dev.py test --more` compares all families.
    assert abs(compare("convnet", 0.5, "cpu").error) <= PROJECTION_ERROR


def evidence_of(peak: int, device: int | None) -> Evidence:
    memory = MemoryEvidence("projected", device, peak, 8, 512, 100, 100, 200, peak - 400, 400, largest_batch=3)
    return Evidence("train.py", "transformers", "Trainer", None, None, "cpu", {}, memory=memory)


@pytest.mark.parametrize(
    ("peak", "outcome"), [(1200, "confirmed"), (1150, "inconclusive"), (900, "inconclusive"), (860, "refuted")]
)
def test_a_device_is_too_small_only_beyond_the_error_of_the_projection(peak: int, outcome: str) -> None:
    evidence = evidence_of(peak, 1000)
    finding = RULE.finding(evidence.location, "a training step needs more memory than the device has")
    assert RULE.verify(finding, evidence).outcome == outcome
    assert [verdict.outcome for _, verdict in RULE.inspect(evidence)] == (
        ["confirmed"] if outcome == "confirmed" else []
    )


def test_nothing_is_judged_where_no_device_is_named() -> None:
    evidence = evidence_of(10**12, None)
    assert RULE.verify(RULE.finding(evidence.location, "too large"), evidence).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GiB", 24 * 2**30),
        ("80GB", 80 * 10**9),
        ("24g", 24 * 2**30),
        ("512 MiB", 2**29),
        ("0B", None),
        ("24", None),
        ("much", None),
    ],
)
def test_a_size_is_read_in_binary_and_decimal_units(text: str, size: int | None) -> None:
    assert read_size(text) == size


def test_a_size_is_shown_with_three_digits() -> None:
    assert [show_size(size) for size in (1, 1536, 24 * 2**30, 700 * MIB)] == ["1 bytes", "1.5 KiB", "24 GiB", "700 MiB"]


DISTILLED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

teacher = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 3)).eval()
student = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 3))
optimizer = torch.optim.Adam(student.parameters())
for (rows,) in DataLoader(TensorDataset(torch.randn(40_000, 256)), batch_size=512):
    with torch.no_grad():
        wanted = teacher(rows)
    optimizer.zero_grad()
    nn.functional.mse_loss(student(rows), wanted).backward()
    optimizer.step()
"""


@pytest.mark.turns(one_in=3, of="file")
def test_a_loop_is_counted_in_its_own_steps_with_its_teacher_and_without_its_data(tmp_path: Path) -> None:
    probed = probe(tmp_path, DISTILLED, "--device-memory", "4MiB")
    memory = probed.run["memory"]
    assert probed.stages["memory"] == "passed"
    assert memory["method"] == "counted"
    student, teacher = 4 * (256 * 512 + 512 + 512 * 3 + 3), 4 * (256 * 1024 + 1024 + 1024 * 3 + 3)
    assert memory["weights"] == student + teacher
    assert memory["gradients"] == student
    assert memory["optimizer"] == 2 * student + 4 * 4
    assert [model["trains"] for model in memory["models"]] == [True, False]
    assert 512 * 512 * 4 < memory["activations"] < 6 * MIB
    assert memory["rows"] == 512
    assert [found for found in probed.verdicts if found[0] == RULE.name] == [(RULE.name, 13, "confirmed")]


LIGHTNING = """
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 3))

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


loader = DataLoader(TensorDataset(torch.randn(40_000, 256), torch.randint(3, (40_000,))), batch_size=512)
L.Trainer(max_epochs=2, logger=False, accelerator="cpu").fit(Module(), loader)
"""


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_a_run_of_lightning_is_counted_without_its_data(tmp_path: Path) -> None:
    memory = probe(tmp_path, LIGHTNING, "--device-memory", "64MiB").run["memory"]
    assert memory["gradients"] == 4 * (256 * 512 + 512 + 512 * 3 + 3)
    assert 2 * 512 * 512 * 4 <= memory["activations"] < 8 * MIB


WEIGHTLESS = """
from datasets import Dataset
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments, default_data_collator

LlamaConfig(num_hidden_layers=8, dtype="bfloat16").save_pretrained("seven")
model = AutoModelForCausalLM.from_pretrained("seven")
ids = list(range(512))
rows = Dataset.from_list([{"input_ids": ids, "labels": ids}] * 16)
args = TrainingArguments("out", per_device_train_batch_size=2, gradient_checkpointing=True)
trainer = Trainer(model, args, train_dataset=rows, data_collator=default_data_collator)
trainer.train()
"""


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_a_model_whose_weights_are_missing_is_projected_from_its_configuration(tmp_path: Path) -> None:
    probed = probe(tmp_path, WEIGHTLESS, "--device-memory", "8GiB")
    memory = probed.run["memory"]
    assert probed.stages["batch"] == probed.stages["memory"] == "passed"
    assert probed.stages["forward"] == "not reached"
    assert memory["without_weights"]
    parameters = 2 * 32_000 * 4096 + 8 * (4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096) + 4096
    assert memory["weights"] == pytest.approx(2 * parameters, rel=0.01)
    assert memory["optimizer"] == pytest.approx(4 * parameters, rel=0.01)
    assert [found for found in probed.verdicts if found[0] == RULE.name] == [(RULE.name, 10, "confirmed")]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize("size", ["large", "24"])
def test_a_size_that_is_none_is_a_usage_error(tmp_path: Path, size: str) -> None:
    (tmp_path / "train.py").write_text(DISTILLED)
    probed = probe_file(tmp_path, "train.py", "--device-memory", size)
    assert probed.code == 2
    assert "24GiB" in probed.err


def test_layers_that_stay_are_not_searched_for_garbage_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(measuring=False, has_begun=False)
    monkeypatch.setattr(models_module, "frame_location", lambda _: Location("train.py", 7, 1, 7, 9))
    collect, collections = gc.collect, list[int]()
    monkeypatch.setattr(gc, "collect", lambda: collections.append(collect()))
    models, layers = Models(session), [nn.Linear(4, 4) for _ in range(12)]
    for layer in layers:
        models.moves(layer)
    assert len(collections) == 2
    assert models._moved[id(layers[-1])].beside == 11 * 80


def test_models_that_a_script_drops_are_collected_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(measuring=False, has_begun=False)
    monkeypatch.setattr(models_module, "frame_location", lambda _: Location("train.py", 7, 1, 7, 9))
    models = Models(session)
    for _ in range(6):
        model: Any = nn.Linear(4, 4)
        model.own = [model]  # a circle of its own
        models.moves(model)
        beside = models._moved[id(model)].beside
    assert beside in (0, 80)
