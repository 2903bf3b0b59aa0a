"""Predict which customers leave, from a table of accounts and a table of contracts."""
import random

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 7
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


def make_tables(n=1200):
    rng = np.random.default_rng(SEED)
    accounts = pd.DataFrame({
        "account_id": np.arange(n),
        "tenure": rng.gamma(2.0, 14.0, n).round(1),
        "calls": rng.poisson(3, n).astype(float),
        "income": rng.normal(42_000, 9_000, n).round(0),
        "age": rng.integers(18, 80, n).astype(float),
    })
    accounts.loc[rng.choice(n, 60, replace=False), "income"] = np.nan
    score = 0.5 * accounts["calls"] - 0.06 * accounts["tenure"] + rng.normal(0, 0.7, n)
    contracts = pd.DataFrame({
        "account_id": np.arange(n),
        "monthly": rng.uniform(10, 90, n).round(2),
        "churned": (score > 0.2).astype(int),
    })
    contracts["days_to_close"] = np.where(contracts["churned"] == 1, rng.integers(1, 90, n), 999).astype(float)
    return accounts, contracts.sample(frac=1.0, random_state=SEED)


accounts, contracts = make_tables()
table = accounts.merge(contracts, on="account_id", how="inner")
columns = ["tenure", "calls", "income", "age", "monthly"]

order = np.random.permutation(len(table))
cut = int(0.8 * len(table))
train_rows = table.iloc[order[:cut]].copy()
valid_rows = table.iloc[order[cut:]].copy()

median_income = train_rows["income"].median()
train_rows["income"] = train_rows["income"].fillna(median_income)
valid_rows["income"] = valid_rows["income"].fillna(median_income)

x_train = train_rows[columns].to_numpy(np.float32)
y_train = train_rows["churned"].to_numpy(np.float32)
x_valid = valid_rows[columns].to_numpy(np.float32)
y_valid = valid_rows["churned"].to_numpy(np.float32)

mean = x_train.mean(axis=0)
std = x_train.std(axis=0)
x_train = (x_train - mean) / std
x_valid = (x_valid - mean) / std

train_loader = DataLoader(TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train)), batch_size=32, shuffle=True)
valid_loader = DataLoader(TensorDataset(torch.from_numpy(x_valid), torch.from_numpy(y_valid)), batch_size=128)

model = nn.Sequential(nn.Linear(len(columns), 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)

best = float("inf")
for epoch in range(8):
    model.train()
    total = 0.0
    for xb, yb in train_loader:
        optimizer.zero_grad()
        logits = model(xb).squeeze(1)
        loss = criterion(logits, yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)

    model.eval()
    right, valid_loss = 0, 0.0
    with torch.no_grad():
        for xb, yb in valid_loader:
            logits = model(xb).squeeze(1)
            valid_loss += criterion(logits, yb).item() * len(xb)
            right += ((logits > 0).float() == yb).sum().item()
    valid_loss /= len(y_valid)
    print(f"epoch {epoch} train {total / len(y_train):.4f} valid {valid_loss:.4f} accuracy {right / len(y_valid):.3f}")
    if valid_loss < best:
        best = valid_loss
        torch.save(model.state_dict(), "churn_best.pt")
