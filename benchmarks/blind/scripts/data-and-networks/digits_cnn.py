import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, Dataset


class DigitImages(Dataset):
    def __init__(self, images, labels, augment=False):
        self.images = images
        self.labels = labels
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index]).float() / 16.0
        image = (image - 0.3) / 0.38
        if self.augment:
            dx, dy = torch.randint(-1, 2, (2,)).tolist()
            image = torch.roll(image, shifts=(dx, dy), dims=(0, 1))
        return image.unsqueeze(0), int(self.labels[index])


class Net(nn.Module):
    def __init__(self, n_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, n_classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.flatten(1)
        x = self.drop(F.relu(self.fc1(x)))
        return self.fc2(x)


class Experiment:
    def __init__(self, epochs=3, batch_size=64, lr=0.01, warmup=10):
        torch.manual_seed(0)
        np.random.seed(0)
        digits = load_digits()
        x_train, x_rest, y_train, y_rest = train_test_split(
            digits.images, digits.target, test_size=0.3, random_state=0, stratify=digits.target
        )
        x_val, x_test, y_val, y_test = train_test_split(x_rest, y_rest, test_size=0.5, random_state=0, stratify=y_rest)
        self.train_loader = DataLoader(DigitImages(x_train, y_train, augment=True), batch_size=batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(DigitImages(x_val, y_val), batch_size=256)
        self.test_loader = DataLoader(DigitImages(x_test, y_test), batch_size=256)
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
        total = epochs * len(self.train_loader)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / warmup) * (1 - step / total)
        )
        self.epochs = epochs

    def fit(self):
        for epoch in range(self.epochs):
            self.net.train()
            for images, labels in self.train_loader:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.net(images), labels)
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
            print("epoch", epoch, "validation accuracy", self.accuracy(self.val_loader))
        print("test accuracy", self.accuracy(self.test_loader))

    @torch.no_grad()
    def accuracy(self, loader):
        self.net.eval()
        right = total = 0
        for images, labels in loader:
            predicted = self.net(images).argmax(dim=1)
            right += (predicted == labels).sum().item()
            total += labels.size(0)
        return right / total


if __name__ == "__main__":
    Experiment().fit()
