"""A regression whose rate falls when the validation loss stands still."""

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Regression(LightningModule):
    def __init__(self, inputs: int):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(inputs, 24), nn.SiLU(), nn.Linear(24, 1))
        self.criterion = nn.MSELoss()

    def step(self, batch):
        features, targets = batch
        return self.criterion(self.network(features).squeeze(-1), targets)

    def training_step(self, batch, batch_idx):
        loss = self.step(batch)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.step(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {
                "scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
                "monitor": "val_loss",
            },
        }


seed_everything(9, workers=True)
features = torch.randn(160, 5)
data = TensorDataset(features, features.sum(dim=1))
train_set, validation_set = random_split(data, [120, 40], generator=torch.Generator().manual_seed(1))
trainer = Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir="plateau")
trainer.fit(
    Regression(5),
    train_dataloaders=DataLoader(train_set, batch_size=20, shuffle=True),
    val_dataloaders=DataLoader(validation_set, batch_size=40),
)
