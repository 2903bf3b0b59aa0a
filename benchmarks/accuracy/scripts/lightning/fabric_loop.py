"""A loop of one's own on Fabric."""

import torch
from lightning.fabric import Fabric, seed_everything
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

seed_everything(13)
fabric = Fabric(accelerator="cpu", devices=1)
features = torch.randn(128, 6)
data = TensorDataset(features, (features[:, 0] > 0).long())

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(DataLoader(data, batch_size=16, shuffle=True))

model.train()
for epoch in range(2):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
    fabric.print(f"epoch {epoch}: {loss.item():.3f}")

fabric.save("fabric.ckpt", {"model": model, "optimizer": optimizer})
