"""The data."""

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split


class PointData(L.LightningDataModule):
    def __init__(self, count: int = 200, batch_size: int = 20):
        super().__init__()
        self.count = count
        self.batch_size = batch_size

    def setup(self, stage: str | None = None):
        features = torch.randn(self.count, 6, generator=torch.Generator().manual_seed(1))
        data = TensorDataset(features, features[:, :4].argmax(dim=1))
        self.train_data, self.val_data = random_split(data, [0.8, 0.2], generator=torch.Generator().manual_seed(2))

    def train_dataloader(self):
        return DataLoader(self.train_data, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_data, batch_size=self.batch_size)
