"""Points on a circle from noise: a generator and a discriminator, each with its optimizer."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
angles = torch.rand(256) * 2 * math.pi
points = torch.stack([angles.cos(), angles.sin()], dim=1)
loader = DataLoader(TensorDataset(points), batch_size=32, shuffle=True, drop_last=True)

generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
criterion = nn.BCEWithLogitsLoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))

for epoch in range(3):
    for (real,) in loader:
        noise = torch.randn(len(real), 4)
        made = generator(noise)

        optimizer_d.zero_grad()
        loss_real = criterion(discriminator(real), torch.ones(len(real), 1))
        loss_made = criterion(discriminator(made.detach()), torch.zeros(len(real), 1))
        loss_d = (loss_real + loss_made) / 2
        loss_d.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(made), torch.ones(len(real), 1))
        loss_g.backward()
        optimizer_g.step()
    print(f"epoch {epoch}: generator {loss_g.item():.3f}, discriminator {loss_d.item():.3f}")

torch.save({"generator": generator.state_dict(), "discriminator": discriminator.state_dict()}, "circles.pt")
