import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
test = datasets.CIFAR10("data", train=False, transform=transforms.ToTensor())
train_loader = DataLoader(train, batch_size=64)
test_loader = DataLoader(test, batch_size=64)

model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(3 * 32 * 32, 256),
    nn.ReLU(),
    nn.Dropout(0.5),
    nn.Linear(256, 10),
    nn.Softmax(dim=1),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

for epoch in range(10):
    total = 0
    for images, labels in train_loader:
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss
    correct = 0
    for images, labels in test_loader:
        correct += (model(images).argmax(1) == labels).sum()
    print(epoch, total / len(train_loader), correct / len(test_loader))
