"""Train a BiLSTM tagger on generated sentences.

The script builds a toy corpus, pads each batch in a collate function, and
reports token accuracy and macro F1 over the real (unpadded) tokens.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

TAGS = ("O", "B", "I")
PAD, UNK = 0, 1
IGNORE = -100
NOUNS = [f"noun{i}" for i in range(60)]
WORDS = [f"word{i}" for i in range(200)]


def make_sentence(rng: random.Random) -> tuple[list[str], list[int]]:
    """Return one sentence and its tag ids."""
    words: list[str] = []
    tags: list[int] = []
    while len(words) < rng.randint(5, 20):
        if rng.random() < 0.3:
            size = rng.randint(1, 3)
            words += rng.choices(NOUNS, k=size)
            tags += [1] + [2] * (size - 1)
        words.append(rng.choice(WORDS))
        tags.append(0)
    return words, tags


def build_vocab(sentences: list[tuple[list[str], list[int]]], min_count: int = 2) -> dict[str, int]:
    """Number the words that occur at least `min_count` times."""
    counts = Counter(word for words, _ in sentences for word in words)
    kept = sorted(word for word, n in counts.items() if n >= min_count)
    return {word: i for i, word in enumerate(kept, start=2)}


class TagDataset(Dataset):
    """Sentences as pairs of id tensors."""

    def __init__(self, sentences: list[tuple[list[str], list[int]]], vocab: dict[str, int]) -> None:
        self.rows = [
            (torch.tensor([vocab.get(w, UNK) for w in words]), torch.tensor(tags)) for words, tags in sentences
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.rows[index]


def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Pad a batch to its longest sentence."""
    tokens, tags = zip(*rows)
    lengths = torch.tensor([len(t) for t in tokens])
    padded = pad_sequence(tokens, batch_first=True, padding_value=PAD)
    targets = pad_sequence(tags, batch_first=True, padding_value=IGNORE)
    return padded, targets, lengths


class Tagger(L.LightningModule):
    """Embedding, BiLSTM and a linear layer per token."""

    def __init__(self, vocab_size: int, n_tags: int, dim: int = 32, hidden: int = 32, lr: float = 5e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.drop = nn.Dropout(0.2)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, n_tags)
        self.loss = nn.CrossEntropyLoss(ignore_index=IGNORE)
        metrics = MetricCollection(
            {
                "acc": MulticlassAccuracy(n_tags, average="micro", ignore_index=IGNORE),
                "f1": MulticlassF1Score(n_tags, average="macro", ignore_index=IGNORE),
            }
        )
        self.val_metrics = metrics.clone(prefix="val_")
        self.test_metrics = metrics.clone(prefix="test_")

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        embedded = self.drop(self.embed(tokens))
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.drop(states))

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_idx: int) -> Tensor:
        tokens, targets, lengths = batch
        logits = self(tokens, lengths)
        loss = self.loss(logits.flatten(0, 1), targets.flatten())
        self.log("train_loss", loss, batch_size=len(tokens))
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_idx: int) -> None:
        tokens, targets, lengths = batch
        logits = self(tokens, lengths)
        self.val_metrics.update(logits.transpose(1, 2), targets)
        self.log_dict(self.val_metrics, batch_size=len(tokens))

    def test_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_idx: int) -> None:
        tokens, targets, lengths = batch
        logits = self(tokens, lengths)
        self.test_metrics.update(logits.transpose(1, 2), targets)
        self.log_dict(self.test_metrics, batch_size=len(tokens))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val_f1"}}


def main(out_dir: Path = Path("runs/tagger")) -> None:
    """Train, pick the best epoch and report the test scores."""
    L.seed_everything(5, workers=True)
    rng = random.Random(5)
    sentences = [make_sentence(rng) for _ in range(600)]
    train, val, test = sentences[:420], sentences[420:510], sentences[510:]
    vocab = build_vocab(train)

    loader = partial(DataLoader, batch_size=32, collate_fn=collate)
    train_loader = loader(TagDataset(train, vocab), shuffle=True)
    val_loader = loader(TagDataset(val, vocab))
    test_loader = loader(TagDataset(test, vocab))

    model = Tagger(vocab_size=len(vocab) + 2, n_tags=len(TAGS))
    saver = ModelCheckpoint(dirpath=out_dir, monitor="val_f1", mode="max")
    stopper = EarlyStopping(monitor="val_f1", mode="max", patience=3)
    trainer = L.Trainer(
        max_epochs=4,
        callbacks=[saver, stopper],
        gradient_clip_val=1.0,
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, train_dataloaders=train_loader, val_dataloaders=val_loader)
    trainer.test(ckpt_path="best", dataloaders=test_loader)


if __name__ == "__main__":
    main()
