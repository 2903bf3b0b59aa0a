"""The module."""

import lightning as L
import torch
from torch import nn


class PointModule(L.LightningModule):
    def __init__(self, inputs: int, classes: int, rate: float = 1e-3):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, classes))
        self.criterion = nn.CrossEntropyLoss()
        self.rate = rate

    def _step(self, batch, name):
        features, labels = batch
        loss = self.criterion(self.network(features), labels)
        self.log(f"{name}_loss", loss)
        return loss

    def training_step(self, batch, batch_idx):
        return self._step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self._step(batch, "val")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.rate)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)]
