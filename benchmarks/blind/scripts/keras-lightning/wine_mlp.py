# Homework 4: classify three cultivars from chemical measurements with Lightning.
import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import Accuracy, F1Score

L.seed_everything(7, workers=True)

features, target = make_classification(
    n_samples=1200, n_features=13, n_informative=8, n_classes=3, weights=[0.5, 0.3, 0.2], random_state=7
)
x_rest, x_test, y_rest, y_test = train_test_split(features, target, test_size=0.2, stratify=target, random_state=7)
x_train, x_val, y_train, y_val = train_test_split(x_rest, y_rest, test_size=0.2, stratify=y_rest, random_state=7)

scaler = StandardScaler()
x_train = scaler.fit_transform(x_train)
x_val = scaler.transform(x_val)
x_test = scaler.transform(x_test)


def to_dataset(x, y):
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.long))


train_loader = DataLoader(to_dataset(x_train, y_train), batch_size=64, shuffle=True)
val_loader = DataLoader(to_dataset(x_val, y_val), batch_size=64)
test_loader = DataLoader(to_dataset(x_test, y_test), batch_size=64)

counts = np.bincount(y_train, minlength=3)
class_weights = torch.tensor(counts.sum() / (3 * counts), dtype=torch.float32)


class WineNet(L.LightningModule):
    def __init__(self, n_features, n_classes, weights, hidden=64, lr=1e-3):
        super().__init__()
        self.save_hyperparameters(ignore=["weights"])
        self.register_buffer("weights", weights)
        self.net = nn.Sequential(
            nn.Linear(n_features, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, n_classes),
        )
        self.train_acc = Accuracy(task="multiclass", num_classes=n_classes)
        self.val_acc = Accuracy(task="multiclass", num_classes=n_classes)
        self.val_f1 = F1Score(task="multiclass", num_classes=n_classes, average="macro")
        self.test_f1 = F1Score(task="multiclass", num_classes=n_classes, average="macro")

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y, weight=self.weights)
        self.train_acc(logits, y)
        self.log("train_loss", loss)
        self.log("train_acc", self.train_acc, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.val_acc(logits, y)
        self.val_f1(logits, y)
        self.log("val_loss", F.cross_entropy(logits, y, weight=self.weights), prog_bar=True)
        self.log("val_acc", self.val_acc)
        self.log("val_f1", self.val_f1, prog_bar=True)

    def test_step(self, batch, batch_idx):
        x, y = batch
        self.test_f1(self(x), y)
        self.log("test_f1", self.test_f1)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=1e-4)


model = WineNet(13, 3, class_weights)
checkpoint = ModelCheckpoint(dirpath="runs/wine", filename="best", monitor="val_f1", mode="max", save_top_k=1)
stopper = EarlyStopping(monitor="val_f1", mode="max", patience=4)
trainer = L.Trainer(
    max_epochs=12,
    accelerator="auto",
    devices=1,
    callbacks=[checkpoint, stopper],
    logger=False,
    log_every_n_steps=5,
    enable_progress_bar=False,
)
trainer.fit(model, train_loader, val_loader)
trainer.test(model, test_loader, ckpt_path="best")
print("best macro F1 on validation:", float(checkpoint.best_model_score))
