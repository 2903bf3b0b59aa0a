import json
import os
from argparse import ArgumentParser

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

INTENTS = ["greet", "order", "cancel", "refund"]
PAD, CLS, SEP = 0, 1, 2
FIRST_WORD = 3
VOCAB = 120


class IntentData(Dataset):
    """Random utterances; the words of each intent come from a range of their own, mixed with common words."""

    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            label = int(torch.randint(len(INTENTS), (1,), generator=gen))
            length = int(torch.randint(6, 15, (1,), generator=gen))
            common = torch.randint(FIRST_WORD, 60, (length,), generator=gen)
            own = torch.randint(60 + 15 * label, 75 + 15 * label, (length,), generator=gen)
            mask = torch.rand(length, generator=gen) < 0.4
            words = torch.where(mask, own, common).tolist()
            self.rows.append(([CLS] + words + [SEP], label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def collate(rows):
    longest = max(len(ids) for ids, _ in rows)
    input_ids = torch.full((len(rows), longest), PAD)
    attention_mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, (ids, _) in enumerate(rows):
        input_ids[i, : len(ids)] = torch.tensor(ids)
        attention_mask[i, : len(ids)] = 1
    labels = torch.tensor([label for _, label in rows])
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def build_model():
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        num_labels=len(INTENTS),
        pad_token_id=PAD,
    )
    return BertForSequenceClassification(config)


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    correct, total = 0, 0
    for batch in loader:
        logits = model(**batch).logits
        preds, labels = accelerator.gather_for_metrics((logits.argmax(dim=-1), batch["labels"]))
        correct += (preds == labels).sum().item()
        total += labels.numel()
    return correct / total


def main(args):
    accelerator = Accelerator(gradient_accumulation_steps=args.accum)
    set_seed(args.seed)

    train_loader = DataLoader(IntentData(600, seed=1), batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(IntentData(150, seed=2), batch_size=64, collate_fn=collate)

    model = build_model()
    no_decay = ("bias", "LayerNorm.weight")
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if not n.endswith(no_decay)],
            "weight_decay": 0.01,
        },
        {
            "params": [p for n, p in model.named_parameters() if n.endswith(no_decay)],
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.lr)

    model, optimizer, train_loader, val_loader = accelerator.prepare(model, optimizer, train_loader, val_loader)

    updates_per_epoch = -(-len(train_loader) // args.accum)
    total_updates = args.epochs * updates_per_epoch
    scheduler = get_linear_schedule_with_warmup(
        optimizer,
        num_warmup_steps=int(0.1 * total_updates) * accelerator.num_processes,
        num_training_steps=total_updates * accelerator.num_processes,
    )
    scheduler = accelerator.prepare(scheduler)

    history = []
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            running += loss.item()
        accuracy = evaluate(accelerator, model, val_loader)
        history.append({"epoch": epoch, "loss": running / len(train_loader), "accuracy": accuracy})
        accelerator.print(history[-1])

    accelerator.wait_for_everyone()
    unwrapped = accelerator.unwrap_model(model)
    unwrapped.save_pretrained(
        args.out,
        is_main_process=accelerator.is_main_process,
        save_function=accelerator.save,
        state_dict=accelerator.get_state_dict(model),
    )
    if accelerator.is_main_process:
        with open(os.path.join(args.out, "history.json"), "w") as f:
            json.dump(history, f, indent=2)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--accum", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--out", default="intent_model")
    main(parser.parse_args())
