"""A class for every step of a series: a recurrent network that wants the steps first, and gives the classes last."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(37)
signals = torch.randn(96, 12)
states = torch.randint(0, 4, (96, 12))
loader = DataLoader(TensorDataset(signals, states), batch_size=16, shuffle=True)

recurrent = nn.GRU(1, 10)
output = nn.Linear(10, 4)
optimizer = torch.optim.Adam([*recurrent.parameters(), *output.parameters()], lr=3e-3)

for epoch in range(2):
    for series, classes in loader:
        optimizer.zero_grad()
        rows, steps = series.shape
        hidden, _ = recurrent(series.transpose(0, 1).unsqueeze(-1))
        logits = output(hidden.transpose(0, 1))
        loss = F.cross_entropy(logits.transpose(1, 2), classes)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")

torch.save({"recurrent": recurrent.state_dict(), "output": output.state_dict()}, "tagged.pt")
