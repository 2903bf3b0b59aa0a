"""An encoder and a head, two modules with one optimizer, that answer yes or no."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(34)
questions = torch.randn(144, 7)
answers = torch.randint(0, 2, (144,))
loader = DataLoader(TensorDataset(questions, answers), batch_size=18, shuffle=True)

encoder = nn.Sequential(nn.Linear(7, 20), nn.Tanh())
head = nn.Linear(20, 1)
optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=5e-3)

for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        logits = head(encoder(x)).squeeze(-1)
        loss = F.binary_cross_entropy_with_logits(logits, y.float())
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")

torch.save({"encoder": encoder.state_dict(), "head": head.state_dict()}, "parts.pt")
