"""Small batches whose gradients are gathered by hand, with clipping and a cosine schedule."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_cosine_schedule_with_warmup,
)

GATHERED = 4
EPOCHS = 2

torch.manual_seed(12)
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
news = load_dataset("ag_news")
news = news.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=48), batched=True)
news = news.remove_columns(["text"]).rename_column("label", "labels")
loader = DataLoader(news["train"], batch_size=4, shuffle=True, collate_fn=DataCollatorWithPadding(tokenizer))

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
updates = EPOCHS * (len(loader) // GATHERED)
scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=updates // 10, num_training_steps=updates)

model.train()
for _ in range(EPOCHS):
    optimizer.zero_grad()
    for number, batch in enumerate(loader):
        loss = model(**batch).loss / GATHERED
        loss.backward()
        if (number + 1) % GATHERED == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

model.save_pretrained("accumulated")
