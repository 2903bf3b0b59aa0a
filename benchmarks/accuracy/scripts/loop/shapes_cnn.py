"""Drawn shapes: a small convolutional network on a Dataset of its own, as a program."""

import argparse

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, random_split


class Shapes(Dataset):
    """Bright bars on noise; the class is where the bar lies."""

    def __init__(self, count, size=12):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.rand(count, 1, size, size, generator=generator) * 0.2
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        for image, label in zip(self.images, self.labels, strict=True):
            image[0, 3 * label : 3 * label + 2] = 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(16 * 3 * 3, classes)

    def forward(self, images):
        features = F.max_pool2d(F.relu(self.norm(self.first(images))), 2)
        features = F.max_pool2d(F.relu(self.second(features)), 2)
        return self.head(self.dropout(features.flatten(1)))


def train(model, device, loader, optimizer, epoch):
    model.train()
    for number, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if number % 10 == 0:
            print(f"epoch {epoch}, batch {number}: {loss.item():.4f}")


def test(model, device, loader):
    model.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            output = model(images)
            loss += F.cross_entropy(output, labels, reduction="sum").item()
            right += output.argmax(dim=1).eq(labels).sum().item()
    print(f"test: loss {loss / len(loader.dataset):.4f}, {right} of {len(loader.dataset)} right")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", default="shapes.pt")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, test_set = random_split(Shapes(160), [128, 32], generator=torch.Generator().manual_seed(2))
    train_loader = DataLoader(train_set, batch_size=options.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=64)

    model = Net().to(device)
    optimizer = optim.Adam(model.parameters(), lr=options.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, options.epochs + 1):
        train(model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
    torch.save(model.state_dict(), options.save)


if __name__ == "__main__":
    main()
