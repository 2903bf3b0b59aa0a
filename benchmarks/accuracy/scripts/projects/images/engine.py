"""One epoch of training, and the evaluation."""

import torch
from torch import nn

criterion = nn.CrossEntropyLoss()


def train_one_epoch(model, loader, optimizer, device):
    model.train()
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = 0
    for images, labels in loader:
        right += (model(images.to(device)).argmax(dim=1).cpu() == labels).sum().item()
    return right / len(loader.dataset)
