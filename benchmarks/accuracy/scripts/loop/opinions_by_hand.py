"""Sentiment of film opinions: a DistilBERT fine-tuned by a loop of its own, evaluated after every epoch."""

import torch
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_linear_schedule_with_warmup,
    set_seed,
)

CHECKPOINT = "distilbert-base-uncased"
EPOCHS = 2

set_seed(17)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
opinions = load_dataset("glue", "sst2")


def encode(rows):
    return tokenizer(rows["sentence"], truncation=True, max_length=32)


encoded = opinions.map(encode, batched=True, remove_columns=["sentence", "idx"])
encoded = encoded.rename_column("label", "labels")
collator = DataCollatorWithPadding(tokenizer)
train_loader = DataLoader(encoded["train"], batch_size=8, shuffle=True, collate_fn=collator)
validation_loader = DataLoader(encoded["validation"], batch_size=16, collate_fn=collator)

model = AutoModelForSequenceClassification.from_pretrained(CHECKPOINT, num_labels=2).to(device)
optimizer = AdamW(model.parameters(), lr=3e-5, weight_decay=0.01)
steps = EPOCHS * len(train_loader)
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=steps // 10, num_training_steps=steps)

for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for batch in train_loader:
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        total += loss.item()

    model.eval()
    right = seen = 0
    with torch.no_grad():
        for batch in validation_loader:
            batch = {name: tensor.to(device) for name, tensor in batch.items()}
            predicted = model(**batch).logits.argmax(dim=-1)
            right += (predicted == batch["labels"]).sum().item()
            seen += len(predicted)
    print(f"epoch {epoch}: loss {total / len(train_loader):.3f}, accuracy {right / seen:.3f}")

model.save_pretrained("opinions")
tokenizer.save_pretrained("opinions")
