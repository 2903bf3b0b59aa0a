from __future__ import annotations

from dataclasses import asdict, dataclass

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.regression import MeanAbsoluteError


@dataclass
class Config:
    hours: int = 2400
    lookback: int = 48
    horizon: int = 6
    hidden: int = 32
    layers: int = 2
    dropout: float = 0.1
    batch_size: int = 64
    max_lr: float = 5e-3
    epochs: int = 3
    seed: int = 3


def make_load(hours: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    daily = 10 * np.sin(2 * np.pi * t / 24)
    weekly = 4 * np.sin(2 * np.pi * t / 168)
    return (60 + daily + weekly + rng.normal(0, 1.5, hours)).astype(np.float32)


class Windows(Dataset):
    def __init__(self, series: np.ndarray, lookback: int, horizon: int):
        self.series = torch.from_numpy(series)
        self.lookback = lookback
        self.horizon = horizon

    def __len__(self) -> int:
        return len(self.series) - self.lookback - self.horizon + 1

    def __getitem__(self, i: int):
        past = self.series[i : i + self.lookback]
        future = self.series[i + self.lookback : i + self.lookback + self.horizon]
        return past.unsqueeze(-1), future


class LoadData(L.LightningDataModule):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg

    def setup(self, stage: str | None = None) -> None:
        load = make_load(self.cfg.hours, self.cfg.seed)
        a, b = int(0.7 * len(load)), int(0.85 * len(load))
        self.mean, self.std = load[:a].mean(), load[:a].std()
        scaled = (load - self.mean) / self.std
        lb, hz = self.cfg.lookback, self.cfg.horizon
        self.train_set = Windows(scaled[:a], lb, hz)
        self.val_set = Windows(scaled[a:b], lb, hz)
        self.test_set = Windows(scaled[b:], lb, hz)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train_set, batch_size=self.cfg.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val_set, batch_size=self.cfg.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test_set, batch_size=self.cfg.batch_size)


class LoadForecaster(L.LightningModule):
    def __init__(self, hidden: int, layers: int, horizon: int, dropout: float, max_lr: float, **_: object):
        super().__init__()
        self.save_hyperparameters()
        self.rnn = nn.LSTM(1, hidden, num_layers=layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(hidden, horizon)
        self.loss = nn.SmoothL1Loss()
        self.val_mae = MeanAbsoluteError()
        self.test_mae = MeanAbsoluteError()

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        out, _ = self.rnn(past)
        return self.head(out[:, -1])

    def training_step(self, batch, batch_idx):
        past, future = batch
        loss = self.loss(self(past), future)
        self.log("train/loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        past, future = batch
        self.val_mae.update(self(past), future)

    def on_validation_epoch_end(self):
        self.log("val/mae", self.val_mae.compute(), prog_bar=True)
        self.val_mae.reset()

    def test_step(self, batch, batch_idx):
        past, future = batch
        self.test_mae(self(past), future)
        self.log("test/mae", self.test_mae)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.max_lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=self.hparams.max_lr,
            total_steps=self.trainer.estimated_stepping_batches,
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def run(cfg: Config) -> float:
    L.seed_everything(cfg.seed, workers=True)
    data = LoadData(cfg)
    model = LoadForecaster(**asdict(cfg))
    best = ModelCheckpoint(monitor="val/mae", mode="min", filename="best-{epoch}", auto_insert_metric_name=False)
    trainer = L.Trainer(
        max_epochs=cfg.epochs,
        gradient_clip_val=1.0,
        logger=CSVLogger("runs/load"),
        callbacks=[best, LearningRateMonitor(logging_interval="step")],
        enable_progress_bar=False,
        log_every_n_steps=5,
    )
    trainer.fit(model, datamodule=data)
    trainer.test(model, datamodule=data, ckpt_path="best")

    restored = LoadForecaster.load_from_checkpoint(best.best_model_path, map_location="cpu")
    restored.eval()
    past, future = next(iter(data.test_dataloader()))
    with torch.no_grad():
        guess = restored(past) * float(data.std) + float(data.mean)
    actual = future * float(data.std) + float(data.mean)
    return (guess - actual).abs().mean().item()


if __name__ == "__main__":
    print(f"MAE of the first test batch: {run(Config()):.2f} kWh")
