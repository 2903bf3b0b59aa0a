"""A causal language model trained by hand: the model shifts its labels itself, padding counts for nothing."""

import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

set_seed(5)
tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.add_special_tokens({"pad_token": "[PAD]"})
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.resize_token_embeddings(len(tokenizer))

stories = [f"on day {day} the ship saw {day % 7} birds and no land" for day in range(40)]
rows = Dataset.from_dict({"text": [story + tokenizer.eos_token for story in stories]})


def collate(batch):
    encoded = tokenizer(
        [row["text"] for row in batch], padding=True, truncation=True, max_length=32, return_tensors="pt"
    )
    encoded["labels"] = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, -100)
    return encoded


loader = DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collate)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-5, steps_per_epoch=len(loader), epochs=2)

model.train()
for epoch in range(2):
    for batch in loader:
        outputs = model(**batch)
        optimizer.zero_grad()
        outputs.loss.backward()
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch}: {outputs.loss.item():.3f}")

model.save_pretrained("story")
tokenizer.save_pretrained("story")
