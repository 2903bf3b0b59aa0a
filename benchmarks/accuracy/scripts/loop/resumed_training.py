"""A run that goes on where the last one stopped: model, optimizer, schedule and epoch come back."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINT = "last.pt"
EPOCHS = 4

torch.manual_seed(30)
features = torch.randn(200, 8)
targets = (features.sum(dim=1) > 0).long()
loader = DataLoader(TensorDataset(features, targets), batch_size=25, shuffle=True)

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
first = 0
if os.path.exists(CHECKPOINT):
    state = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    first = state["epoch"] + 1

criterion = nn.CrossEntropyLoss()
for epoch in range(first, EPOCHS):
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "epoch": epoch,
        },
        CHECKPOINT,
    )
