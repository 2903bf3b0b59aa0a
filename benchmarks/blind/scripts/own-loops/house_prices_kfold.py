# House prices - 5 fold MLP ensemble (log target)
import random

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, Dataset

SEED = 2024
N_FOLDS = 5
EPOCHS = 6
BS = 64
LR = 3e-3
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def load_frames():
    rng = np.random.default_rng(SEED)

    def frame(n):
        return pd.DataFrame(
            {
                "Id": np.arange(n),
                "area": rng.uniform(40, 300, n),
                "rooms": rng.integers(1, 8, n),
                "age": rng.integers(0, 100, n),
                "quality": rng.integers(1, 10, n),
            }
        )

    train, test = frame(1500), frame(400)
    train["SalePrice"] = 800 * train.area + 12000 * train.quality - 300 * train.age + rng.normal(0, 9000, 1500) + 60000
    return train, test


class HouseDataset(Dataset):
    def __init__(self, X, y=None):
        self.X = torch.tensor(X, dtype=torch.float32)
        self.y = None if y is None else torch.tensor(y, dtype=torch.float32)

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        if self.y is None:
            return self.X[i]
        return self.X[i], self.y[i]


class MLP(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.bn = nn.BatchNorm1d(n_in)
        self.fc1 = nn.Linear(n_in, 128)
        self.fc2 = nn.Linear(128, 64)
        self.out = nn.Linear(64, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = F.relu(self.fc1(self.bn(x)))
        x = self.drop(F.relu(self.fc2(x)))
        return self.out(x).squeeze(-1)


def train_one_epoch(model, loader, optimizer, scheduler):
    model.train()
    losses = []
    for x, y in loader:
        x, y = x.to(DEVICE), y.to(DEVICE)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return float(np.mean(losses))


@torch.no_grad()
def predict(model, loader):
    model.eval()
    out = []
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        out.append(model(x.to(DEVICE)).cpu().numpy())
    return np.concatenate(out)


seed_everything(SEED)
train, test = load_frames()
cols = ["area", "rooms", "age", "quality"]
y = np.log1p(train["SalePrice"].values)
y_mean = 12.0
oof = np.zeros(len(train))
test_pred = np.zeros(len(test))

kf = KFold(n_splits=N_FOLDS, shuffle=True, random_state=SEED)
for fold, (tr_idx, va_idx) in enumerate(kf.split(train)):
    scaler = StandardScaler().fit(train.loc[tr_idx, cols])
    X_tr, X_va = scaler.transform(train.loc[tr_idx, cols]), scaler.transform(train.loc[va_idx, cols])
    X_te = scaler.transform(test[cols])

    tr_loader = DataLoader(HouseDataset(X_tr, y[tr_idx] - y_mean), batch_size=BS, shuffle=True, drop_last=True)
    va_loader = DataLoader(HouseDataset(X_va, y[va_idx] - y_mean), batch_size=BS * 2, shuffle=False)
    te_loader = DataLoader(HouseDataset(X_te), batch_size=BS * 2, shuffle=False)

    model = MLP(len(cols)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=LR, epochs=EPOCHS, steps_per_epoch=len(tr_loader)
    )

    for epoch in range(EPOCHS):
        loss = train_one_epoch(model, tr_loader, optimizer, scheduler)
    oof[va_idx] = predict(model, va_loader) + y_mean
    test_pred += (predict(model, te_loader) + y_mean) / N_FOLDS
    rmse = np.sqrt(np.mean((oof[va_idx] - y[va_idx]) ** 2))
    print(f"fold {fold} loss {loss:.4f} rmsle {rmse:.4f}")

print("cv rmsle", np.sqrt(np.mean((oof - y) ** 2)))
sub = pd.DataFrame({"Id": test["Id"], "SalePrice": np.expm1(test_pred)})
sub.to_csv("house_submission.csv", index=False)
