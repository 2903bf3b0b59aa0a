"""A pretrained classifier trained by several processes; started alone it is one process."""

import os

import torch
import torch.distributed as dist
from datasets import Dataset
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

if "RANK" in os.environ:
    dist.init_process_group("gloo")
else:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(43)

tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
rows = Dataset.from_dict(
    {"text": [f"visitor {number} {'liked' if number % 2 else 'left'} it" for number in range(48)]}
)
rows = rows.map(lambda row, number: {**tokenizer(row["text"], truncation=True), "labels": number % 2}, with_indices=True)
rows = rows.remove_columns("text")
sampler = DistributedSampler(rows)
loader = DataLoader(rows, batch_size=8, sampler=sampler, collate_fn=DataCollatorWithPadding(tokenizer))

model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)

model.train()
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch in loader:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()

if dist.get_rank() == 0:
    model.module.save_pretrained("likes")
dist.destroy_process_group()
