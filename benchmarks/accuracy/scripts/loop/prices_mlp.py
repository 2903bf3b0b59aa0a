"""Prices from a table: scaled by what the training rows say, one number as output."""

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(0)
features = rng.normal(size=(240, 6))
prices = features @ rng.normal(size=6) + 0.1 * rng.normal(size=240)
x_train, x_test, y_train, y_test = train_test_split(features, prices, test_size=0.25, random_state=0)

scaler = StandardScaler()
x_train = scaler.fit_transform(x_train)
x_test = scaler.transform(x_test)


def tensors(x, y):
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))


torch.manual_seed(0)
train_loader = DataLoader(tensors(x_train, y_train), batch_size=20, shuffle=True)
test_loader = DataLoader(tensors(x_test, y_test), batch_size=60)

model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

best = float("inf")
for epoch in range(5):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x).squeeze(-1), y)
        loss.backward()
        optimizer.step()

    model.eval()
    squares, rows = 0.0, 0
    with torch.inference_mode():
        for x, y in test_loader:
            squares += ((model(x).squeeze(-1) - y) ** 2).sum().item()
            rows += len(y)
    print(f"epoch {epoch}: {squares / rows:.4f}")
    if squares / rows < best:
        best = squares / rows
        torch.save(model.state_dict(), "prices.pt")
