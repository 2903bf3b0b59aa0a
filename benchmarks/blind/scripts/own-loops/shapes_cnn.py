#!/usr/bin/env python
# coding: utf-8

# # Rare shapes with a small CNN

# In[1]:


import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

torch.manual_seed(0)
np.random.seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


# In[2]:


def draw(kind):
    img = np.random.randint(0, 60, (24, 24, 3)).astype(np.uint8)
    r, c = np.random.randint(2, 10, 2)
    color = np.random.randint(150, 255, 3)
    if kind == 0:
        img[r : r + 10, c : c + 10] = color
    elif kind == 1:
        yy, xx = np.mgrid[:24, :24]
        img[(yy - r - 5) ** 2 + (xx - c - 5) ** 2 < 30] = color
    else:
        for k in range(10):
            img[r + k, c : c + k + 1] = color
    return img


kinds = np.random.choice(3, size=900, p=[0.7, 0.2, 0.1])
images = np.stack([draw(k) for k in kinds])
images.shape, np.bincount(kinds)


# In[3]:


class ShapeDataset(Dataset):
    def __init__(self, images, labels, train=False):
        self.images = images
        self.labels = labels
        self.train = train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        x = torch.from_numpy(self.images[idx]).float().div(255).permute(2, 0, 1)
        if self.train and torch.rand(1).item() < 0.5:
            x = torch.flip(x, dims=[2])
        return x, int(self.labels[idx])


idx_train, idx_val = train_test_split(np.arange(len(kinds)), test_size=0.25, stratify=kinds, random_state=0)
train_ds = ShapeDataset(images[idx_train], kinds[idx_train], train=True)
val_ds = ShapeDataset(images[idx_val], kinds[idx_val])


# In[4]:


class_counts = np.bincount(train_ds.labels)
class_weights = 1.0 / class_counts
sample_weights = class_weights[train_ds.labels]
sampler = WeightedRandomSampler(torch.as_tensor(sample_weights), num_samples=len(sample_weights), replacement=True)

train_dl = DataLoader(train_ds, batch_size=32, sampler=sampler)
val_dl = DataLoader(val_ds, batch_size=64)


# In[5]:


class ShapeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 6 * 6, 64)
        self.fc2 = nn.Linear(64, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.dropout(x, p=0.3, training=self.training)
        return self.fc2(x)


net = ShapeNet().to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", factor=0.5, patience=1)
loss_func = nn.CrossEntropyLoss()


# In[6]:


history = []
for epoch in range(5):
    net.train()
    for xb, yb in train_dl:
        xb, yb = xb.to(device), yb.to(device)
        loss = loss_func(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()

    net.eval()
    preds, truth = [], []
    with torch.no_grad():
        for xb, yb in val_dl:
            preds.append(net(xb.to(device)).argmax(1).cpu())
            truth.append(yb)
    preds, truth = torch.cat(preds).numpy(), torch.cat(truth).numpy()
    acc = float((preds == truth).mean())
    sched.step(acc)
    history.append(acc)
    print(epoch, "acc", round(acc, 3), "lr", opt.param_groups[0]["lr"])


# In[7]:


print("macro precision", precision_score(truth, preds, average="macro", zero_division=0))
print("macro recall", recall_score(truth, preds, average="macro", zero_division=0))


# In[8]:


torch.save(net.state_dict(), "shapes_cnn.pth")
history
