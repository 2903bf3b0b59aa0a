"""A curve fitted with LBFGS, which asks for the loss through a closure."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-3, 3, 120).unsqueeze(1)
y = torch.sin(x)
model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=10)

for step in range(8):

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(f"step {step}: {loss.item():.5f}")

torch.save(model.state_dict(), "curve.pt")
