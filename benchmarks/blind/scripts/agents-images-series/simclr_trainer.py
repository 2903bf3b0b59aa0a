import logging
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms as T

logger = logging.getLogger("simclr")


class TwoViews:
    def __init__(self, transform):
        self.transform = transform

    def __call__(self, img):
        return self.transform(img), self.transform(img)


def build_transforms(size=32):
    color = T.ColorJitter(0.4, 0.4, 0.4, 0.1)
    augment = T.Compose([
        T.RandomResizedCrop(size, scale=(0.2, 1.0)),
        T.RandomHorizontalFlip(),
        T.RandomApply([color], p=0.8),
        T.RandomGrayscale(p=0.2),
        T.ToTensor(),
        T.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    ])
    plain = T.Compose([T.ToTensor(), T.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))])
    return augment, plain


class SimCLR(nn.Module):
    def __init__(self, proj_dim=128):
        super().__init__()
        backbone = torchvision.models.resnet18(weights=None)
        backbone.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        backbone.maxpool = nn.Identity()
        self.feat_dim = backbone.fc.in_features
        backbone.fc = nn.Identity()
        self.encoder = backbone
        self.projector = nn.Sequential(
            nn.Linear(self.feat_dim, self.feat_dim), nn.ReLU(inplace=True), nn.Linear(self.feat_dim, proj_dim)
        )

    def forward(self, x):
        return self.projector(self.encoder(x))


def nt_xent(z1, z2, temperature):
    n = z1.size(0)
    z = F.normalize(torch.cat([z1, z2], dim=0), dim=1)
    sim = z @ z.t() / temperature
    eye = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    sim = sim.masked_fill(eye, float("-inf"))
    targets = torch.cat([torch.arange(n, 2 * n), torch.arange(0, n)]).to(z.device)
    return F.cross_entropy(sim, targets)


class Trainer:
    def __init__(self, root="./data", out="./runs/simclr", epochs=200, batch_size=512, lr=0.5, temperature=0.5, seed=7):
        torch.manual_seed(seed)
        self.device = torch.device("cuda")
        self.out, self.epochs, self.temperature = out, epochs, temperature
        os.makedirs(out, exist_ok=True)
        augment, plain = build_transforms()
        pretrain = torchvision.datasets.CIFAR10(root, train=True, transform=TwoViews(augment), download=True)
        self.loader = DataLoader(
            pretrain, batch_size=batch_size, shuffle=True, num_workers=8, pin_memory=True, drop_last=True
        )
        train_set = torchvision.datasets.CIFAR10(root, train=True, transform=plain)
        test_set = torchvision.datasets.CIFAR10(root, train=False, transform=plain)
        self.probe_train = DataLoader(train_set, batch_size=512, shuffle=True, num_workers=4)
        self.probe_test = DataLoader(test_set, batch_size=512, num_workers=4)

        self.model = SimCLR().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
        total, warmup = epochs * len(self.loader), 10 * len(self.loader)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda step: (step + 1) / warmup
            if step < warmup
            else 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))),
        )

    def train_epoch(self):
        self.model.train()
        total, count = 0.0, 0
        for (x1, x2), _ in self.loader:
            x1 = x1.to(self.device, non_blocking=True)
            x2 = x2.to(self.device, non_blocking=True)
            loss = nt_xent(self.model(x1), self.model(x2), self.temperature)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            total += loss.item() * x1.size(0)
            count += x1.size(0)
        return total / count

    @torch.no_grad()
    def features(self, loader):
        self.model.eval()
        feats, labels = [], []
        for x, y in loader:
            feats.append(self.model.encoder(x.to(self.device)).cpu())
            labels.append(y)
        return torch.cat(feats), torch.cat(labels)

    def linear_probe(self, epochs=50):
        x_train, y_train = self.features(self.probe_train)
        x_test, y_test = self.features(self.probe_test)
        head = nn.Linear(self.model.feat_dim, 10).to(self.device)
        opt = torch.optim.Adam(head.parameters(), lr=1e-3)
        for _ in range(epochs):
            order = torch.randperm(len(x_train))
            for idx in order.split(1024):
                loss = F.cross_entropy(head(x_train[idx].to(self.device)), y_train[idx].to(self.device))
                opt.zero_grad()
                loss.backward()
                opt.step()
        with torch.no_grad():
            pred = head(x_test.to(self.device)).argmax(dim=1).cpu()
        return (pred == y_test).float().mean().item()

    def fit(self):
        for epoch in range(1, self.epochs + 1):
            loss = self.train_epoch()
            logger.info("epoch %d loss %.4f lr %.5f", epoch, loss, self.scheduler.get_last_lr()[0])
            if epoch % 20 == 0:
                logger.info("linear probe accuracy %.4f", self.linear_probe())
                state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": epoch}
                torch.save(state, os.path.join(self.out, f"ckpt_{epoch:04d}.pt"))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    Trainer().fit()
