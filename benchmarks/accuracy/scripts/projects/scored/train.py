"""Scores for opinions, the package beside it in `src`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))

import torch
from scored.loop import Loop
from scored.model import Scorer
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, get_linear_schedule_with_warmup, set_seed

CHECKPOINT = "distilbert-base-uncased"
EPOCHS = 2
TEXTS = [("superb", 5.0), ("rather good", 4.0), ("neither", 3.0), ("weak", 2.0), ("dreadful", 1.0)] * 8


def main() -> None:
    set_seed(14)
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)

    def collate(rows):
        batch = tokenizer([text for text, _ in rows], padding=True, truncation=True, return_tensors="pt")
        return {
            "input_ids": batch["input_ids"],
            "attention_mask": batch["attention_mask"],
            "scores": torch.tensor([score for _, score in rows]),
        }

    loader = DataLoader(TEXTS, batch_size=8, shuffle=True, collate_fn=collate)
    model = Scorer(CHECKPOINT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    steps = EPOCHS * len(loader)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=steps)
    loop = Loop(model, optimizer, scheduler)
    for number in range(EPOCHS):
        print(f"epoch {number}: {loop.epoch(loader):.3f}")
    torch.save(model.state_dict(), "scorer.pt")


if __name__ == "__main__":
    main()
