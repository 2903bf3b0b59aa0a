import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS, N_ITEMS, DIM, LAYERS = 120, 300, 32, 2


def make_interactions(rng):
    """Users of one taste group prefer the items of that group. Returns unique (user, item) pairs."""
    pairs = set()
    for user in range(N_USERS):
        group = user % 5
        liked = np.arange(N_ITEMS)[np.arange(N_ITEMS) % 5 == group]
        for item in rng.choice(liked, size=14, replace=False):
            pairs.add((user, int(item)))
        for item in rng.choice(N_ITEMS, size=2, replace=False):
            pairs.add((user, int(item)))
    return np.array(sorted(pairs))


def split_per_user(pairs, rng, n_test=3):
    train, test = [], []
    for user in range(N_USERS):
        rows = pairs[pairs[:, 0] == user]
        rows = rows[rng.permutation(len(rows))]
        test.append(rows[:n_test])
        train.append(rows[n_test:])
    return np.concatenate(train), np.concatenate(test)


def normalized_adjacency(pairs):
    users = torch.from_numpy(pairs[:, 0])
    items = torch.from_numpy(pairs[:, 1]) + N_USERS
    n = N_USERS + N_ITEMS
    row = torch.cat([users, items])
    col = torch.cat([items, users])
    degree = torch.bincount(row, minlength=n).float().clamp(min=1)
    values = degree[row].pow(-0.5) * degree[col].pow(-0.5)
    return torch.sparse_coo_tensor(torch.stack([row, col]), values, (n, n)).coalesce()


class LightGCN(nn.Module):
    def __init__(self, adjacency):
        super().__init__()
        self.register_buffer("adjacency", adjacency, persistent=False)
        self.user_emb = nn.Embedding(N_USERS, DIM)
        self.item_emb = nn.Embedding(N_ITEMS, DIM)
        nn.init.normal_(self.user_emb.weight, std=0.1)
        nn.init.normal_(self.item_emb.weight, std=0.1)

    def forward(self):
        x = torch.cat([self.user_emb.weight, self.item_emb.weight])
        out = [x]
        for _ in range(LAYERS):
            x = torch.sparse.mm(self.adjacency, x)
            out.append(x)
        x = torch.stack(out).mean(dim=0)
        return x[:N_USERS], x[N_USERS:]


def sample_batch(train, seen, batch_size, rng):
    rows = train[rng.integers(0, len(train), size=batch_size)]
    users, pos = rows[:, 0], rows[:, 1]
    neg = rng.integers(0, N_ITEMS, size=batch_size)
    for k in range(batch_size):
        while neg[k] in seen[users[k]]:
            neg[k] = rng.integers(0, N_ITEMS)
    return torch.from_numpy(users), torch.from_numpy(pos), torch.from_numpy(neg)


def bpr_loss(user, pos, neg):
    pos_score = (user * pos).sum(dim=1)
    neg_score = (user * neg).sum(dim=1)
    return -F.logsigmoid(pos_score - neg_score).mean()


@torch.no_grad()
def recall_at_k(model, train, test, k=20):
    model.eval()
    users, items = model()
    scores = users @ items.t()
    scores[train[:, 0], train[:, 1]] = float("-inf")
    top = scores.topk(k, dim=1).indices
    hits = 0
    for user, item in test:
        hits += int((top[user] == int(item)).any())
    return hits / len(test)


def train_model(epochs=6, batch_size=256, reg=1e-4):
    random.seed(3)
    torch.manual_seed(3)
    rng = np.random.default_rng(3)

    pairs = make_interactions(rng)
    train, test = split_per_user(pairs, rng)
    seen = {user: set(train[train[:, 0] == user, 1].tolist()) for user in range(N_USERS)}
    model = LightGCN(normalized_adjacency(train))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    for epoch in range(epochs):
        model.train()
        total = 0.0
        steps = len(train) // batch_size
        for _ in range(steps):
            u, i, j = sample_batch(train, seen, batch_size, rng)
            users, items = model()
            loss = bpr_loss(users[u], items[i], items[j])
            ego = model.user_emb(u).pow(2).sum() + model.item_emb(i).pow(2).sum() + model.item_emb(j).pow(2).sum()
            loss = loss + reg * ego / batch_size
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / steps:.4f} recall@20 {recall_at_k(model, train, test):.4f}")
    return model


if __name__ == "__main__":
    train_model()
