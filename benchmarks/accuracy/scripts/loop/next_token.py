"""Songs continued by GPT-2: the loss is the script's own, each position against the token that follows it."""

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

set_seed(36)
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
songs = [f"row your boat number {number} down the stream and sing" for number in range(12)]
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)

model.train()
for epoch in range(2):
    for song in songs:
        ids = tokenizer([song], return_tensors="pt")["input_ids"]
        logits = model(ids).logits
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, model.config.vocab_size), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")

model.save_pretrained("songs")
tokenizer.save_pretrained("songs")
