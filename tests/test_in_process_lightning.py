"""`lintrain.probe(trainer, module, data)`: Lightning's `fit` measured in this very process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L  # noqa: N812 - as everybody names it
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch.utils.data import DataLoader, TensorDataset

import lintrain

pytestmark = pytest.mark.slow


class Classifier(L.LightningModule):
    """Dropout, validation, a schedule, and its losses kept by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 3))
        self.losses: list[float] = []

    def training_step(self, batch: Any, index: int) -> Any:
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.losses.append(loss.item())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        x, y = batch
        self.log("val_loss", F.cross_entropy(self.net(x), y))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class Data(L.LightningDataModule):
    """64 rows, 32 to validate on."""

    def setup(self, stage: str) -> None:
        self.rows = TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))

    def train_dataloader(self) -> Any:
        return DataLoader(self.rows, batch_size=8, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(self.rows, batch_size=16)


def made(folder: Path) -> tuple[L.Trainer, Classifier, Data]:
    L.seed_everything(1, verbose=False)
    trainer = L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=1,
        default_root_dir=str(folder),
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=CSVLogger(str(folder / "logs")),
        log_every_n_steps=1,
        callbacks=[ModelCheckpoint(str(folder / "kept"), monitor="val_loss")],
        num_sanity_val_steps=1,
    )
    return trainer, Classifier(), Data()


def trained(folder: Path, *, probes: bool) -> tuple[L.Trainer, Classifier, lintrain.Report | None]:
    trainer, module, data = made(folder)
    report = lintrain.probe(trainer, module, data) if probes else None
    if probes:
        assert module.losses == []
        assert list(folder.iterdir()) == []
        assert (trainer.global_step, trainer.current_epoch, hasattr(data, "rows")) == (0, 0, False)
    trainer.fit(module, datamodule=data)
    return trainer, module, report


def kinds_of(trainer: Any) -> list[type]:
    return [type(each) for each in trainer.callbacks]


@pytest.mark.filterwarnings("ignore")
def test_fit_after_a_probe_is_bit_equal_to_fit_without_it(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "probed").mkdir()
    plain_trainer, plain, _ = trained(tmp_path / "plain", probes=False)
    probed_trainer, probed, report = trained(tmp_path / "probed", probes=True)
    assert (probed.losses, len(probed.losses)) == (plain.losses, 16)
    for (name, one), (_, other) in zip(probed.state_dict().items(), plain.state_dict().items(), strict=True):
        assert torch.equal(one, other), name
    assert probed_trainer.callback_metrics == plain_trainer.callback_metrics
    assert kinds_of(probed_trainer) == kinds_of(plain_trainer)
    assert sorted(path.relative_to(tmp_path / "probed") for path in (tmp_path / "probed").rglob("*")) == sorted(
        path.relative_to(tmp_path / "plain") for path in (tmp_path / "plain").rglob("*")
    )
    assert report is not None
    assert report.evidence is not None
    assert {stage.status for stage in report.evidence.stages} == {"passed"}
    assert (report.ok, report.evidence.framework, report.evidence.arguments["max_epochs"]) == (True, "lightning", 2)


@pytest.mark.filterwarnings("ignore")
def test_an_error_of_the_module_is_the_answer_of_its_stage(tmp_path: Path) -> None:
    trainer, module, data = made(tmp_path)
    module.net[3] = nn.Linear(16, 2)
    report = lintrain.probe(trainer, module, data)
    assert report.evidence is not None
    assert report.evidence.failure is not None
    assert report.evidence.failure.type == "IndexError"
    assert report.exit_code == 1
