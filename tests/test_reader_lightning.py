"""What Lightning modules log for callbacks, and when the text does not tell it."""

from __future__ import annotations

import pytest

from lintrain.analysis.lightning_modules import logged_values
from tests.support.loops import lines_of, pipeline_of

SCRIPT = """
import lightning as L

class Classifier(L.LightningModule):
    def validation_step(self, batch):
        loss = self.net(batch)
        {logging}

module = Classifier()
trainer = L.Trainer()
trainer.fit(module, loader)
"""


def names_logged(logging: str) -> list[str] | None:
    logged = logged_values(pipeline_of(SCRIPT.format(logging=logging)))
    return None if logged is None else [each.name for each in logged]


def test_names_of_single_values_and_of_dictionaries_are_known() -> None:
    assert names_logged('self.log("loss", loss); self.log_dict({"f1": 1, "recall": 2})') == ["loss", "f1", "recall"]


@pytest.mark.parametrize("watched", ["loss", "loss_step", "loss_epoch", "loss/dataloader_idx_1"])
def test_lightning_logs_a_value_under_several_names(watched: str) -> None:
    logged = logged_values(pipeline_of(SCRIPT.format(logging='self.log("loss", loss)')))
    assert logged is not None
    assert [each.gives(watched) for each in logged] == [True]


def test_what_a_tracker_or_torch_logs_is_not_for_callbacks() -> None:
    assert names_logged('self.log("loss", loss); torch.log(loss); wandb.log({"f1": 1}); self.logger.log(x)') == ["loss"]


@pytest.mark.parametrize(
    "logging",
    [
        'self.log(f"{stage}_loss", loss)',
        'self.log("loss", loss); self.log_dict(self.metrics)',
        'self.log("loss", loss); self.log_dict({"f1": 1, **more})',
        'self.log("loss", loss); self.meter.add(self, loss)',
        'self.log("loss", loss); say = self.log',
        'self.log("loss", loss); self.trainer.callback_metrics["f1"] = 1',
    ],
)
def test_names_that_are_not_in_the_text_leave_all_unknown(logging: str) -> None:
    assert names_logged(logging) is None


def test_a_module_of_another_library_may_log_anything() -> None:
    script = SCRIPT.format(logging='self.log("loss", loss)').replace("L.LightningModule", "base.Module")
    assert logged_values(pipeline_of(f"import base{script}")) is None


FITTED = """
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(L.LightningModule):
    def __init__(self, inputs):
        super().__init__()
        self.net = nn.Linear(inputs, 1)

    def training_step(self, batch, batch_idx):
        return self._step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self._step(batch, "val")

    def _step(self, batch, stage):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log(f"{{stage}}_loss", loss)
        return loss
{more}
class Data(L.LightningDataModule):
    def setup(self, stage=None):
        self.rows = TensorDataset(torch.randn(9, 3), torch.randn(9))

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=3)

rows = TensorDataset(torch.randn(9, 3), torch.randn(9))
L.Trainer().fit({given})
"""


def spread(given: str, more: str = "") -> int:
    return len(lines_of("broadcast-loss", FITTED.format(given=given, more=more)))


@pytest.mark.parametrize(
    "given",
    [
        "Net(3), DataLoader(rows, batch_size=3)",
        "Net(3), datamodule=Data()",
        "model=Net(3), train_dataloaders=DataLoader(rows)",
    ],
)
def test_the_steps_of_a_fitted_module_get_the_batches_of_its_loader(given: str) -> None:
    assert spread(given) == 1


def test_a_module_may_make_its_own_loader() -> None:
    own = "\n    def train_dataloader(self):\n        return DataLoader(rows, batch_size=3)\n"
    assert spread("Net(3)", own) == 1


@pytest.mark.parametrize("given", ["Net(3), loader", "Net(3), [DataLoader(rows), DataLoader(rows)]", "*given"])
def test_batches_of_loaders_that_are_not_known_stay_unknown(given: str) -> None:
    assert spread(given) == 0


def test_a_module_that_changes_batches_before_its_steps_is_left_alone() -> None:
    hook = "\n    def on_after_batch_transfer(self, batch, index):\n        return change(batch)\n"
    assert spread("Net(3), DataLoader(rows)", hook) == 0


def test_names_that_a_shared_step_logs_are_those_of_its_callers() -> None:
    script = FITTED.format(given="Net(3), DataLoader(rows), DataLoader(rows)", more="")
    logged = logged_values(pipeline_of(script))
    assert logged is not None
    assert {each.name for each in logged} == {"train_loss", "val_loss"}
    assert logged_values(pipeline_of(script.replace('self._step(batch, "val")', "run(self._step)"))) is None
