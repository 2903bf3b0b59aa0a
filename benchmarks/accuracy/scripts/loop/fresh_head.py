"""A network that learned ten classes gets a head for three, and is trained on them."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.body(x))


torch.manual_seed(33)
rows = TensorDataset(torch.randn(120, 9), torch.randint(0, 3, (120,)))
loader = DataLoader(rows, batch_size=15, shuffle=True)

model = Classifier(10)
model.head = nn.Linear(24, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()

model.train()
for epoch in range(3):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}")

torch.save(model.state_dict(), "three.pt")
