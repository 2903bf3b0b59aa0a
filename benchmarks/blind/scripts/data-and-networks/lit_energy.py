"""Forecast the load of a building from the last day and the weather (Lightning)."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def make_series(hours, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    weather = 15 + 10 * torch.sin(2 * torch.pi * t / (24 * 30)) + torch.randn(hours, generator=g)
    load = 200 + 50 * torch.sin(2 * torch.pi * t / 24) - 3 * (weather - 15) + 5 * torch.randn(hours, generator=g)
    return load, weather


class Windows(Dataset):
    def __init__(self, load, weather, past=24):
        self.load, self.weather, self.past = load, weather, past

    def __len__(self):
        return len(self.load) - self.past

    def __getitem__(self, i):
        history = torch.stack([self.load[i : i + self.past], self.weather[i : i + self.past]], dim=-1)
        return history, self.weather[i + self.past].view(1), self.load[i + self.past]


class LoadData(L.LightningDataModule):
    def __init__(self, batch_size=32):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage=None):
        load, weather = make_series(24 * 60, seed=5)
        cut = int(0.8 * len(load))
        self.load_mean, self.load_std = load[:cut].mean(), load[:cut].std()
        self.weather_mean, self.weather_std = weather[:cut].mean(), weather[:cut].std()
        load = (load - self.load_mean) / self.load_std
        weather = (weather - self.weather_mean) / self.weather_std
        self.train = Windows(load[:cut], weather[:cut])
        self.valid = Windows(load[cut:], weather[cut:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.valid, batch_size=128)


class Forecaster(L.LightningModule):
    def __init__(self, hidden=32, lr=3e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.GRU(2, hidden, batch_first=True)
        self.weather = nn.Sequential(nn.Linear(1, 8), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(hidden + 8, 32), nn.ReLU(), nn.Linear(32, 1))
        self.loss_fn = nn.MSELoss()

    def forward(self, history, weather):
        states, _ = self.encoder(history)
        last = states[:, -1]
        joined = torch.cat([last, self.weather(weather)], dim=1)
        return self.head(joined).squeeze(-1)

    def training_step(self, batch, batch_idx):
        history, weather, target = batch
        loss = self.loss_fn(self(history, weather), target)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        history, weather, target = batch
        predicted = self(history, weather)
        self.log("val_loss", self.loss_fn(predicted, target), prog_bar=True)
        self.log("val_mae", (predicted - target).abs().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}


def main():
    L.seed_everything(3, workers=True)
    trainer = L.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, gradient_clip_val=1.0, enable_progress_bar=False)
    trainer.fit(Forecaster(), datamodule=LoadData())
    print({k: float(v) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
