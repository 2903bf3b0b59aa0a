import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchmetrics.classification import MultilabelF1Score

N_WORDS = 120
N_TOPICS = 6
LENGTH = 20


def make_documents(n):
    ids = torch.randint(1, N_WORDS, (n, LENGTH))
    lengths = torch.randint(8, LENGTH + 1, (n,))
    ids[torch.arange(LENGTH)[None, :] >= lengths[:, None]] = 0
    topics = torch.zeros(n, N_TOPICS)
    for topic in range(N_TOPICS):
        low = 1 + topic * 12
        topics[:, topic] = ((ids >= low) & (ids < low + 3)).any(dim=1).float()
    return ids, topics


class TopicModel(pl.LightningModule):
    def __init__(self, dim=32, depth=2, lr=2e-3, total_steps=60):
        super().__init__()
        self.lr = lr
        self.total_steps = total_steps
        self.embed = nn.Embedding(N_WORDS, dim, padding_idx=0)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.LayerNorm(dim)) for _ in range(depth)])
        self.attend = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, N_TOPICS)
        self.f1 = MultilabelF1Score(num_labels=N_TOPICS)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        scores = self.attend(x).squeeze(-1)
        scores = scores.masked_fill(ids == 0, float("-inf"))
        weights = torch.softmax(scores, dim=1)
        pooled = (weights.unsqueeze(-1) * x).sum(dim=1)
        return self.out(pooled)

    def training_step(self, batch, batch_idx):
        ids, topics = batch
        loss = F.binary_cross_entropy_with_logits(self(ids), topics)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        ids, topics = batch
        logits = self(ids)
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, topics))
        self.f1.update(torch.sigmoid(logits), topics.int())

    def on_validation_epoch_end(self):
        self.log("val_f1", self.f1.compute(), prog_bar=True)
        self.f1.reset()

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=self.lr, total_steps=self.total_steps)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


if __name__ == "__main__":
    pl.seed_everything(1)
    ids, topics = make_documents(640)
    documents = TensorDataset(ids, topics)
    train, valid = random_split(documents, [512, 128], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=64)
    epochs = 3
    module = TopicModel(total_steps=epochs * len(train_loader))
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, num_sanity_val_steps=0)
    trainer.fit(module, train_loader, valid_loader)
    print(trainer.callback_metrics)
