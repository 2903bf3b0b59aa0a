# Hourly load forecasting with an LSTM - data is generated, swap read_series() for the real csv
import copy
import random

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from sklearn.metrics import mean_absolute_error
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, Dataset


class CFG:
    seed = 2024
    lookback = 24
    horizon = 6
    hidden = 16
    batch_size = 64
    epochs = 4
    lr = 3e-3
    patience = 3


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def read_series(n=800):
    index = pd.date_range("2023-01-01", periods=n, freq="h")
    hours = np.arange(n)
    load = 50 + 10 * np.sin(2 * np.pi * hours / 24) + 4 * np.sin(2 * np.pi * hours / 168)
    load = load + np.random.normal(0, 1.0, n) + 0.002 * hours
    temp = 10 + 6 * np.sin(2 * np.pi * (hours - 6) / 24) + np.random.normal(0, 1.0, n)
    return pd.DataFrame({"load": load, "temp": temp}, index=index)


class WindowDataset(Dataset):
    """x: `lookback` hours of all columns, y: the `horizon` hours of load that follow."""

    def __init__(self, values, lookback, horizon):
        self.values = torch.tensor(values, dtype=torch.float32)
        self.lookback = lookback
        self.horizon = horizon

    def __len__(self):
        return len(self.values) - self.lookback - self.horizon + 1

    def __getitem__(self, i):
        end = i + self.lookback
        x = self.values[i:end]
        y = self.values[end:end + self.horizon, 0]
        return x, y


class LoadLSTM(nn.Module):
    def __init__(self, n_features, hidden, horizon):
        super().__init__()
        self.lstm = nn.LSTM(n_features, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


def train_one_epoch(model, loader, optimizer, criterion, device):
    model.train()
    losses = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return np.mean(losses)


@torch.no_grad()
def predict(model, loader, device):
    model.eval()
    preds, targets = [], []
    for x, y in loader:
        preds.append(model(x.to(device)).cpu().numpy())
        targets.append(y.numpy())
    return np.concatenate(preds), np.concatenate(targets)


def main():
    seed_everything(CFG.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    df = read_series()

    n = len(df)
    train_df, valid_df, test_df = df[: int(n * 0.7)], df[int(n * 0.7): int(n * 0.85)], df[int(n * 0.85):]
    scaler = StandardScaler()
    train_values = scaler.fit_transform(train_df)
    valid_values = scaler.transform(valid_df)
    test_values = scaler.transform(test_df)

    train_ds = WindowDataset(train_values, CFG.lookback, CFG.horizon)
    valid_ds = WindowDataset(valid_values, CFG.lookback, CFG.horizon)
    test_ds = WindowDataset(test_values, CFG.lookback, CFG.horizon)
    train_loader = DataLoader(train_ds, batch_size=CFG.batch_size, shuffle=True)
    valid_loader = DataLoader(valid_ds, batch_size=CFG.batch_size, shuffle=False)
    test_loader = DataLoader(test_ds, batch_size=CFG.batch_size, shuffle=False)

    model = LoadLSTM(df.shape[1], CFG.hidden, CFG.horizon).to(device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=CFG.lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)

    best_mae, best_state, wait = float("inf"), None, 0
    for epoch in range(CFG.epochs):
        train_loss = train_one_epoch(model, train_loader, optimizer, criterion, device)
        preds, targets = predict(model, valid_loader, device)
        valid_mae = mean_absolute_error(targets, preds)
        scheduler.step(valid_mae)
        print(f"epoch {epoch} train {train_loss:.4f} valid mae {valid_mae:.4f}")
        if valid_mae < best_mae:
            best_mae, wait = valid_mae, 0
            best_state = copy.deepcopy(model.state_dict())
        else:
            wait += 1
            if wait >= CFG.patience:
                break

    model.load_state_dict(best_state)
    preds, targets = predict(model, test_loader, device)
    mean, std = scaler.mean_[0], scaler.scale_[0]
    preds, targets = preds * std + mean, targets * std + mean
    print("test mae in MW:", round(mean_absolute_error(targets, preds), 3))
    torch.save({"model": best_state, "mean": mean, "std": std}, "load_lstm.pt")


if __name__ == "__main__":
    main()
