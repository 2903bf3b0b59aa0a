"""Classes of points as a LightningModule with a schedule per step and the best epoch kept."""

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Points(L.LightningDataModule):
    def __init__(self, batch_size=16):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage=None):
        generator = torch.Generator().manual_seed(3)
        features = torch.randn(240, 8, generator=generator)
        labels = features[:, :3].argmax(dim=1)
        self.train_set = TensorDataset(features[:180], labels[:180])
        self.validation_set = TensorDataset(features[180:], labels[180:])

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.validation_set, batch_size=self.batch_size)


class Classifier(L.LightningModule):
    def __init__(self, rate=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))

    def forward(self, features):
        return self.layers(features)

    def training_step(self, batch, batch_idx):
        features, labels = batch
        loss = F.cross_entropy(self(features), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        features, labels = batch
        logits = self(features)
        self.log("val_loss", F.cross_entropy(logits, labels), prog_bar=True)
        self.log("val_accuracy", (logits.argmax(dim=1) == labels).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.rate)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.rate, total_steps=self.trainer.estimated_stepping_batches
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main():
    L.seed_everything(1, workers=True)
    trainer = L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        callbacks=[
            EarlyStopping(monitor="val_loss", patience=2),
            ModelCheckpoint(dirpath="points", monitor="val_accuracy", mode="max"),
        ],
    )
    trainer.fit(Classifier(), datamodule=Points())


if __name__ == "__main__":
    main()
