#!/usr/bin/env python3
# multi-label comment tagging, own Trainer with positive weights
from dataclasses import dataclass, field

import numpy as np
import torch
from sklearn.metrics import average_precision_score, f1_score
from torch import nn
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments, set_seed

TAGS = ["insult", "threat", "spam", "offtopic", "praise"]


@dataclass
class RunConfig:
    n_train: int = 480
    n_valid: int = 200
    max_len: int = 24
    vocab_size: int = 200
    lr: float = 3e-3
    epochs: int = 3
    batch_size: int = 32
    threshold: float = 0.5
    seed: int = 99
    rates: list = field(default_factory=lambda: [0.3, 0.1, 0.2, 0.25, 0.4])


class CommentDataset(Dataset):
    def __init__(self, cfg, n, seed):
        rng = np.random.default_rng(seed)
        self.examples = []
        for _ in range(n):
            tags = (rng.random(len(TAGS)) < cfg.rates).astype(np.float32)
            length = int(rng.integers(12, cfg.max_len + 1))
            words = rng.integers(20, cfg.vocab_size, size=length)
            for t in np.flatnonzero(tags):
                words[rng.integers(1, length)] = 2 + 3 * t + rng.integers(3)
            words[0] = 1
            self.examples.append((words.tolist(), tags))

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        words, tags = self.examples[i]
        return {"input_ids": words, "labels": tags}

    def label_matrix(self):
        return np.stack([tags for _, tags in self.examples])


@dataclass
class PadCollator:
    max_len: int
    pad_id: int = 0

    def __call__(self, features):
        n = len(features)
        ids = torch.full((n, self.max_len), self.pad_id, dtype=torch.long)
        mask = torch.zeros((n, self.max_len), dtype=torch.long)
        for row, f in enumerate(features):
            length = len(f["input_ids"])
            ids[row, :length] = torch.tensor(f["input_ids"])
            mask[row, :length] = 1
        labels = torch.from_numpy(np.stack([f["labels"] for f in features]))
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


class WeightedTrainer(Trainer):
    def __init__(self, *args, pos_weight=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.pos_weight = pos_weight

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        criterion = nn.BCEWithLogitsLoss(pos_weight=self.pos_weight.to(outputs.logits.device))
        loss = criterion(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss


def make_compute_metrics(threshold):
    def compute_metrics(p):
        logits = p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions
        probs = 1.0 / (1.0 + np.exp(-logits))
        preds = (probs > threshold).astype(int)
        return {
            "micro_f1": f1_score(p.label_ids, preds, average="micro", zero_division=0),
            "macro_f1": f1_score(p.label_ids, preds, average="macro", zero_division=0),
            "map": average_precision_score(p.label_ids, probs, average="macro"),
        }

    return compute_metrics


def build_model(cfg):
    config = DistilBertConfig(
        vocab_size=cfg.vocab_size,
        max_position_embeddings=cfg.max_len,
        dim=48,
        hidden_dim=96,
        n_layers=2,
        n_heads=4,
        num_labels=len(TAGS),
        problem_type="multi_label_classification",
        pad_token_id=0,
    )
    return DistilBertForSequenceClassification(config)


def main():
    cfg = RunConfig()
    set_seed(cfg.seed)
    train_set = CommentDataset(cfg, cfg.n_train, seed=1)
    valid_set = CommentDataset(cfg, cfg.n_valid, seed=2)
    test_set = CommentDataset(cfg, cfg.n_valid, seed=3)

    positives = train_set.label_matrix().sum(axis=0)
    pos_weight = torch.tensor((len(train_set) - positives) / np.maximum(positives, 1), dtype=torch.float)

    args = TrainingArguments(
        output_dir="tagger_out",
        learning_rate=cfg.lr,
        per_device_train_batch_size=cfg.batch_size,
        per_device_eval_batch_size=64,
        num_train_epochs=cfg.epochs,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="map",
        greater_is_better=True,
        weight_decay=0.01,
        use_cpu=True,
        report_to="none",
        seed=cfg.seed,
    )
    trainer = WeightedTrainer(
        model=build_model(cfg),
        args=args,
        train_dataset=train_set,
        eval_dataset=valid_set,
        data_collator=PadCollator(cfg.max_len),
        compute_metrics=make_compute_metrics(cfg.threshold),
        pos_weight=pos_weight,
    )
    trainer.train()
    print(trainer.evaluate(test_set, metric_key_prefix="test"))


if __name__ == "__main__":
    main()
