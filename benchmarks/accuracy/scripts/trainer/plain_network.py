"""A network of the script's own in a Trainer: rows are dictionaries of tensors, evaluated after every epoch."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments, set_seed


class Quadrants(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, points, labels=None):
        logits = self.layers(points)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def compute_metrics(prediction):
    right = prediction.predictions.argmax(axis=-1) == prediction.label_ids
    return {"accuracy": float(right.mean())}


set_seed(22)
points = torch.randn(160, 2)
quadrants = (points[:, 0] > 0).long() * 2 + (points[:, 1] > 0).long()
rows = [{"points": point, "labels": quadrant} for point, quadrant in zip(points, quadrants, strict=True)]
train_rows, held_out = rows[:128], rows[128:]

trainer = Trainer(
    model=Quadrants(),
    args=TrainingArguments(
        "quadrants", num_train_epochs=2, learning_rate=1e-2, eval_strategy="epoch", save_strategy="epoch"
    ),
    train_dataset=train_rows,
    eval_dataset=held_out,
    compute_metrics=compute_metrics,
)
trainer.train()
trainer.save_model("quadrants/final")
