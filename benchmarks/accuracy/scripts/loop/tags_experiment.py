"""Several tags for each row, in a class that keeps everything an experiment needs."""

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.features = torch.randn(count, 10, generator=generator)
        self.tags = (self.features[:, :3] > 0).float()

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int):
        return {"features": self.features[index], "tags": self.tags[index]}


class Tagger(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(10, width), nn.Linear(width, width)])
        self.dropout = nn.Dropout(p=0.1)
        self.output = nn.Linear(width, 3)

    def forward(self, features):
        for layer in self.layers:
            features = self.dropout(torch.relu(layer(features)))
        return self.output(features)


class Experiment:
    def __init__(self, folder: str, rate: float = 1e-3, epochs: int = 3) -> None:
        self.folder = Path(folder)
        self.epochs = epochs
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Tagger().to(self.device)
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=epochs)
        self.loaders = {
            "train": DataLoader(Rows(128, seed=1), batch_size=16, shuffle=True),
            "validation": DataLoader(Rows(64, seed=2), batch_size=32),
        }

    def run(self) -> None:
        best = float("inf")
        for epoch in range(self.epochs):
            self.train_epoch()
            loss = self.validate()
            self.scheduler.step()
            print(f"epoch {epoch}: {loss:.4f}")
            if loss < best:
                best = loss
                self.save(epoch)

    def train_epoch(self) -> None:
        self.model.train()
        for batch in self.loaders["train"]:
            self.optimizer.zero_grad()
            loss = self.loss_of(batch)
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        losses = [self.loss_of(batch).item() for batch in self.loaders["validation"]]
        return sum(losses) / len(losses)

    def loss_of(self, batch):
        logits = self.model(batch["features"].to(self.device))
        return self.criterion(logits, batch["tags"].to(self.device))

    def save(self, epoch: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": epoch}
        torch.save(state, self.folder / "best.pt")


if __name__ == "__main__":
    torch.manual_seed(21)
    Experiment("tags").run()
