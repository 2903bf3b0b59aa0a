"""Distil a larger decoder into a smaller one with softened logits and the usual next token loss."""
from __future__ import annotations

import random

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, random_split
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB = 80
PAD_ID = 0
TEMPERATURE = 2.0
ALPHA = 0.7


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def build_decoder(hidden: int, layers: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        pad_token_id=PAD_ID,
    )
    return LlamaForCausalLM(config)


class CountingSequences(Dataset):
    """Sequences that count up by a fixed stride, of different lengths."""

    def __init__(self, size: int):
        rng = random.Random(0)
        self.items = []
        for _ in range(size):
            start, stride, length = rng.randrange(1, VOCAB), rng.randint(1, 4), rng.randint(8, 20)
            self.items.append([1 + (start + stride * i) % (VOCAB - 1) for i in range(length)])

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.items[index])


def collate(items: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    ids = nn.utils.rnn.pad_sequence(items, batch_first=True, padding_value=PAD_ID)
    attention = (ids != PAD_ID).long()
    labels = ids.masked_fill(attention == 0, -100)
    return {"input_ids": ids, "attention_mask": attention, "labels": labels}


class Distiller:
    def __init__(self, teacher: nn.Module, student: nn.Module, lr: float, total_steps: int):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.teacher = teacher.to(self.device).eval()
        self.student = student.to(self.device)
        for parameter in self.teacher.parameters():
            parameter.requires_grad = False
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=lr, total_steps=total_steps)

    def soft_loss(self, student_logits, teacher_logits, labels):
        student_logp = F.log_softmax(student_logits[:, :-1] / TEMPERATURE, dim=-1)
        teacher_p = F.softmax(teacher_logits[:, :-1] / TEMPERATURE, dim=-1)
        per_token = F.kl_div(student_logp, teacher_p, reduction="none").sum(dim=-1)
        mask = (labels[:, 1:] != -100).float()
        return (per_token * mask).sum() / mask.sum() * TEMPERATURE**2

    def losses(self, batch):
        with torch.no_grad():
            teacher_logits = self.teacher(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        output = self.student(**batch)
        soft = self.soft_loss(output.logits, teacher_logits, batch["labels"])
        return ALPHA * soft + (1 - ALPHA) * output.loss, output.loss

    def train_epoch(self, loader) -> float:
        self.student.train()
        total = 0.0
        for batch in loader:
            batch = {k: v.to(self.device) for k, v in batch.items()}
            loss, _ = self.losses(batch)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def evaluate(self, loader) -> float:
        self.student.eval()
        nll, tokens = 0.0, 0
        for batch in loader:
            batch = {k: v.to(self.device) for k, v in batch.items()}
            count = (batch["labels"][:, 1:] != -100).sum().item()
            nll += self.student(**batch).loss.item() * count
            tokens += count
        return nll / tokens


def pretrain_teacher(teacher: nn.Module, loader: DataLoader, epochs: int) -> None:
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=3e-3)
    teacher.train()
    for _ in range(epochs):
        for batch in loader:
            loss = teacher(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    seed_everything(5)
    data = CountingSequences(160)
    train_set, valid_set = random_split(data, [128, 32], generator=torch.Generator().manual_seed(5))
    train_loader = DataLoader(train_set, batch_size=16, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid_set, batch_size=32, shuffle=False, collate_fn=collate)

    teacher = build_decoder(hidden=64, layers=3)
    pretrain_teacher(teacher, train_loader, epochs=2)
    student = build_decoder(hidden=32, layers=1)
    epochs = 2
    distiller = Distiller(teacher, student, lr=3e-3, total_steps=epochs * len(train_loader))
    best = float("inf")
    for epoch in range(epochs):
        train_loss = distiller.train_epoch(train_loader)
        valid_loss = distiller.evaluate(valid_loader)
        print(f"epoch {epoch + 1}: train {train_loss:.3f} valid nll {valid_loss:.3f}")
        if valid_loss < best:
            best = valid_loss
            torch.save(distiller.student.state_dict(), "student.pt")


if __name__ == "__main__":
    main()
