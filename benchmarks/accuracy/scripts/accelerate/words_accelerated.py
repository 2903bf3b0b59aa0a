"""Masked words with accelerate, without accumulation, state saved after every epoch."""

import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForMaskedLM, AutoTokenizer, DataCollatorForLanguageModeling, get_scheduler

accelerator = Accelerator()
torch.manual_seed(7)
tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")

text = load_dataset("wikitext", "wikitext-2-raw-v1")
text = text.map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=40, return_special_tokens_mask=True),
    batched=True,
    remove_columns=["text"],
)
collator = DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=True, mlm_probability=0.15)
train_loader = DataLoader(text["train"], shuffle=True, batch_size=8, collate_fn=collator)
eval_loader = DataLoader(text["validation"], batch_size=8, collate_fn=collator)

optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
model, optimizer, train_loader, eval_loader = accelerator.prepare(model, optimizer, train_loader, eval_loader)
epochs = 2
scheduler = get_scheduler(
    "linear", optimizer=optimizer, num_warmup_steps=0, num_training_steps=epochs * len(train_loader)
)

for epoch in range(epochs):
    model.train()
    for batch in train_loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

    model.eval()
    losses = []
    for batch in eval_loader:
        with torch.no_grad():
            loss = model(**batch).loss
        losses.append(accelerator.gather_for_metrics(loss.repeat(len(batch["input_ids"]))))
    accelerator.print(f"epoch {epoch}: {torch.cat(losses).mean().item():.3f}")
    accelerator.save_state(f"words/epoch-{epoch}")
