"""Mixed precision by hand: autocast around the forward pass, a scaler around the backward pass."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
use_cuda = torch.cuda.is_available()
device = "cuda" if use_cuda else "cpu"
data = TensorDataset(torch.randn(256, 20), torch.randint(0, 5, (256,)))
loader = DataLoader(data, batch_size=32, shuffle=True, pin_memory=use_cuda)

model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 5)).to(device)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler(device)

model.train()
for epoch in range(3):
    running = 0.0
    for features, labels in loader:
        features, labels = features.to(device), labels.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=device, dtype=torch.float16 if use_cuda else torch.bfloat16):
            loss = criterion(model(features), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        running += loss.item() * len(labels)
    print(f"epoch {epoch}: {running / len(data):.4f}")

torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "amp.pt")
