"""A pretrained encoder that is frozen, and a head of one's own that learns."""

import torch
from datasets import load_dataset
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModel, AutoTokenizer


class Classifier(nn.Module):
    def __init__(self, checkpoint, classes):
        super().__init__()
        self.backbone = AutoModel.from_pretrained(checkpoint)
        for parameter in self.backbone.parameters():
            parameter.requires_grad = False
        self.head = nn.Sequential(
            nn.Linear(self.backbone.config.hidden_size, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, classes)
        )

    def forward(self, input_ids, attention_mask):
        hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(hidden[:, 0])


torch.manual_seed(8)
tokenizer = AutoTokenizer.from_pretrained("roberta-base")
opinions = load_dataset("glue", "sst2", split="train").shuffle(seed=8)


def collate(rows):
    encoded = tokenizer([row["sentence"] for row in rows], padding=True, truncation=True, return_tensors="pt")
    return encoded["input_ids"], encoded["attention_mask"], torch.tensor([row["label"] for row in rows])


loader = DataLoader(opinions, batch_size=8, shuffle=True, collate_fn=collate)
model = Classifier("roberta-base", 2)
optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()

model.train()
for input_ids, attention_mask, labels in loader:
    loss = criterion(model(input_ids, attention_mask), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

torch.save(model.head.state_dict(), "head.pt")
