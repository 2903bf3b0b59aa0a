# Customer churn - course project
# binary classification on tabular data with a small MLP
import random

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset

random.seed(42)
np.random.seed(42)
torch.manual_seed(42)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# ---------------------------------------------------------------- data
n = 3000
df = pd.DataFrame(
    {
        "tenure": np.random.randint(1, 72, n),
        "monthly": np.random.uniform(20, 120, n),
        "calls": np.random.poisson(2, n),
        "contract": np.random.choice(["month", "year", "two_year"], n),
    }
)
risk = -0.05 * df["tenure"] + 0.02 * df["monthly"] + 0.4 * df["calls"] + (df["contract"] == "month") * 1.0
df["churn"] = (risk + np.random.randn(n) > 1.8).astype(int)
df = pd.get_dummies(df, columns=["contract"], dtype=float)

print(df["churn"].value_counts())

features = [c for c in df.columns if c != "churn"]

train_df, test_df = train_test_split(df, test_size=0.2, stratify=df["churn"], random_state=42)
train_df, val_df = train_test_split(train_df, test_size=0.2, stratify=train_df["churn"], random_state=42)

scaler = StandardScaler()
X_train = scaler.fit_transform(train_df[features].values)
X_val = scaler.transform(val_df[features].values)
X_test = scaler.transform(test_df[features].values)

y_train = train_df["churn"].values
y_val = val_df["churn"].values
y_test = test_df["churn"].values


def make_loader(X, y, shuffle):
    ds = TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    return DataLoader(ds, batch_size=64, shuffle=shuffle)


train_loader = make_loader(X_train, y_train, shuffle=True)
val_loader = make_loader(X_val, y_val, shuffle=False)
test_loader = make_loader(X_test, y_test, shuffle=False)

# ---------------------------------------------------------------- model
model = nn.Sequential(
    nn.Linear(len(features), 64),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(64, 32),
    nn.ReLU(),
    nn.Linear(32, 1),
).to(device)

n_pos = (y_train == 1).sum()
n_neg = (y_train == 0).sum()
pos_weight = torch.tensor([n_neg / n_pos], dtype=torch.float32, device=device)
criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

# ---------------------------------------------------------------- training
best_auc = 0.0
for epoch in range(10):
    model.train()
    total_loss = 0.0
    for xb, yb in train_loader:
        xb, yb = xb.to(device), yb.to(device)
        optimizer.zero_grad()
        out = model(xb)
        loss = criterion(out, yb.unsqueeze(1))
        loss.backward()
        optimizer.step()
        total_loss += loss.item() * xb.size(0)
    train_loss = total_loss / len(train_loader.dataset)

    model.eval()
    probs = []
    correct = 0
    with torch.no_grad():
        for xb, yb in val_loader:
            xb, yb = xb.to(device), yb.to(device)
            p = torch.sigmoid(model(xb)).squeeze(1)
            correct += ((p > 0.5).float() == yb).sum().item()
            probs.extend(p.cpu().numpy())
    val_acc = correct / len(val_loader.dataset)
    val_auc = roc_auc_score(y_val, probs)
    print(f"epoch {epoch + 1}: loss {train_loss:.4f} acc {val_acc:.3f} auc {val_auc:.3f}")

    if val_auc > best_auc:
        best_auc = val_auc
        torch.save(model.state_dict(), "churn_best.pt")

# ---------------------------------------------------------------- test
model.load_state_dict(torch.load("churn_best.pt", map_location=device))
model.eval()
probs = []
with torch.no_grad():
    for xb, _ in test_loader:
        p = torch.sigmoid(model(xb.to(device))).squeeze(1)
        probs.extend(p.cpu().numpy())
probs = np.array(probs)
print("test auc", roc_auc_score(y_test, probs))
print("test f1", f1_score(y_test, (probs > 0.5).astype(int)))
