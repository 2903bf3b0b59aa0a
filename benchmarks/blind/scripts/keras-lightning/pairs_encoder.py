"""Self-supervised pre-training on two noisy views per item, then a linear probe."""
import copy
import math

import pytorch_lightning as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


class TwoViews(Dataset):
    def __init__(self, items, noise=0.3, drop=0.2):
        self.items, self.noise, self.drop = items, noise, drop

    def __len__(self):
        return len(self.items)

    def view(self, x):
        keep = (torch.rand_like(x) > self.drop).float()
        return x * keep + self.noise * torch.randn_like(x)

    def __getitem__(self, i):
        x = self.items[i]
        return self.view(x), self.view(x)


def mlp(n_in, n_hidden, n_out):
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.BatchNorm1d(n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_out))


class PairEncoder(pl.LightningModule):
    def __init__(self, n_in=32, n_hidden=64, n_out=32, lr=1e-3, weight_decay=1e-2, tau=0.99, temperature=0.2, warmup=20):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = mlp(n_in, n_hidden, n_hidden)
        self.projector = mlp(n_hidden, n_hidden, n_out)
        self.target_encoder = copy.deepcopy(self.encoder)
        self.target_projector = copy.deepcopy(self.projector)
        for p in self.target_parameters():
            p.requires_grad_(False)

    def online_parameters(self):
        yield from self.encoder.parameters()
        yield from self.projector.parameters()

    def target_parameters(self):
        yield from self.target_encoder.parameters()
        yield from self.target_projector.parameters()

    def forward(self, x):
        return self.encoder(x)

    def contrast(self, query, key):
        query = F.normalize(query, dim=-1)
        key = F.normalize(key, dim=-1)
        logits = query @ key.t() / self.hparams.temperature
        labels = torch.arange(query.size(0), device=query.device)
        return F.cross_entropy(logits, labels)

    def training_step(self, batch, batch_idx):
        a, b = batch
        query_a = self.projector(self.encoder(a))
        query_b = self.projector(self.encoder(b))
        with torch.no_grad():
            key_a = self.target_projector(self.target_encoder(a))
            key_b = self.target_projector(self.target_encoder(b))
        loss = 0.5 * (self.contrast(query_a, key_b) + self.contrast(query_b, key_a))
        self.log("pretrain/loss", loss, prog_bar=True)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        tau = self.hparams.tau
        for online, target in zip(self.online_parameters(), self.target_parameters()):
            target.mul_(tau).add_(online, alpha=1 - tau)

    def configure_optimizers(self):
        decay, plain = [], []
        for p in self.online_parameters():
            (decay if p.ndim > 1 else plain).append(p)
        groups = [
            {"params": decay, "weight_decay": self.hparams.weight_decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=self.hparams.lr)
        total = self.trainer.estimated_stepping_batches

        def scale(step):
            if step < self.hparams.warmup:
                return (step + 1) / self.hparams.warmup
            done = (step - self.hparams.warmup) / max(1, total - self.hparams.warmup)
            return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, scale)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Probe(pl.LightningModule):
    def __init__(self, encoder, n_hidden, n_classes, lr=1e-2):
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.linear = nn.Linear(n_hidden, n_classes)
        self.lr = lr

    def on_train_epoch_start(self):
        self.encoder.eval()

    def step(self, batch, stage):
        x, y = batch
        logits = self.linear(self.encoder(x))
        self.log(f"probe/{stage}_acc", (logits.argmax(dim=1) == y).float().mean(), on_step=False, on_epoch=True)
        return F.cross_entropy(logits, y)

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self.step(batch, "val")

    def configure_optimizers(self):
        return torch.optim.SGD(self.linear.parameters(), lr=self.lr, momentum=0.9)


if __name__ == "__main__":
    pl.seed_everything(21, workers=True)
    centres = torch.randn(6, 32) * 1.5
    labels = torch.randint(0, 6, (1800,))
    items = centres[labels] + torch.randn(1800, 32)

    options = dict(accelerator="auto", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    n_train = int(0.8 * len(items))
    train, val = random_split(TensorDataset(items, labels), [n_train, len(items) - n_train], torch.Generator().manual_seed(21))
    views = DataLoader(TwoViews(items[train.indices]), batch_size=128, shuffle=True, drop_last=True)
    model = PairEncoder()
    pl.Trainer(max_epochs=5, gradient_clip_val=1.0, **options).fit(model, views)

    probe = Probe(model.encoder, 64, 6)
    trainer = pl.Trainer(max_epochs=5, **options)
    trainer.fit(probe, DataLoader(train, batch_size=128, shuffle=True), DataLoader(val, batch_size=256))
    print({k: round(v.item(), 3) for k, v in trainer.callback_metrics.items()})
