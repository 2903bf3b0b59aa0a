"""Train a multi-label tagger on bag-of-words vectors of articles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.metrics import average_precision_score, f1_score
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset, random_split


@dataclass(frozen=True)
class Config:
    n_articles: int = 1200
    vocab: int = 200
    n_tags: int = 8
    hidden: int = 64
    batch_size: int = 32
    accumulate: int = 2
    epochs: int = 4
    lr: float = 3e-3
    warmup_ratio: float = 0.1
    max_norm: float = 1.0
    seed: int = 13
    out: Path = Path("tagger.pt")


class Tagger(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(cfg.vocab, cfg.hidden),
            nn.LayerNorm(cfg.hidden),
            nn.GELU(),
            nn.Dropout(0.1),
        )
        self.head = nn.Linear(cfg.hidden, cfg.n_tags)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def make_articles(cfg: Config) -> TensorDataset:
    gen = torch.Generator().manual_seed(cfg.seed)
    counts = torch.poisson(torch.full((cfg.n_articles, cfg.vocab), 0.3), generator=gen)
    topics = torch.randn(cfg.vocab, cfg.n_tags, generator=gen)
    tags = (counts @ topics > 6.0).float()
    return TensorDataset(torch.log1p(counts), tags)


def build_loaders(cfg: Config) -> tuple[DataLoader, DataLoader]:
    data = make_articles(cfg)
    n_val = len(data) // 5
    split = torch.Generator().manual_seed(cfg.seed)
    train, val = random_split(data, [len(data) - n_val, n_val], generator=split)
    return (
        DataLoader(train, batch_size=cfg.batch_size, shuffle=True, drop_last=True),
        DataLoader(val, batch_size=cfg.batch_size),
    )


def warmup_cosine(step: int, warmup: int, total: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1.0 + math.cos(math.pi * done))


def train_epoch(model, loader, criterion, optimizer, scheduler, cfg: Config, device) -> float:
    model.train()
    total = 0.0
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        logits = model(x.to(device))
        loss = criterion(logits, y.to(device))
        (loss / cfg.accumulate).backward()
        total += loss.item()
        if (i + 1) % cfg.accumulate == 0:
            nn.utils.clip_grad_norm_(model.parameters(), cfg.max_norm)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return total / len(loader)


@torch.inference_mode()
def evaluate(model, loader, device) -> dict[str, float]:
    model.eval()
    scores, truth = [], []
    for x, y in loader:
        scores.append(torch.sigmoid(model(x.to(device))).cpu())
        truth.append(y)
    scores, truth = torch.cat(scores).numpy(), torch.cat(truth).numpy()
    return {
        "map": average_precision_score(truth, scores, average="macro"),
        "micro_f1": f1_score(truth, scores > 0.5, average="micro"),
    }


def main(cfg: Config) -> None:
    torch.manual_seed(cfg.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, val_loader = build_loaders(cfg)
    model = Tagger(cfg).to(device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    total = len(train_loader) // cfg.accumulate * cfg.epochs
    warmup = max(1, int(total * cfg.warmup_ratio))
    scheduler = LambdaLR(optimizer, lambda step: warmup_cosine(step, warmup, total))

    best = -1.0
    for epoch in range(cfg.epochs):
        loss = train_epoch(model, train_loader, criterion, optimizer, scheduler, cfg, device)
        scores = evaluate(model, val_loader, device)
        print(f"epoch {epoch} loss {loss:.4f} map {scores['map']:.4f} f1 {scores['micro_f1']:.4f}")
        if scores["map"] > best:
            best = scores["map"]
            torch.save(model.state_dict(), cfg.out)


if __name__ == "__main__":
    main(Config())
