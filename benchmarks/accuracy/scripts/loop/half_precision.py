"""A regression in float16 with a gradient scaler, which does its work where there is a GPU."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(35)
device = "cuda" if torch.cuda.is_available() else "cpu"
lengths = torch.randn(128, 6)
weights = torch.randn(128)
loader = DataLoader(TensorDataset(lengths, weights), batch_size=16, shuffle=True)

regressor = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(regressor.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda")

for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            predicted = regressor(x.to(device))
        loss = F.mse_loss(predicted.float().squeeze(-1), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch}: {loss.item():.4f}")

torch.save(regressor.state_dict(), "lengths.pt")
