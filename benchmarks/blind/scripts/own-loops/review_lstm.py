import copy
from collections import Counter

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, UNK = 0, 1
GOOD = "great lovely superb fun charming warm brilliant".split()
BAD = "awful dull boring weak messy cold terrible".split()
FILL = "the movie was a plot actor scene with and story film of".split()


def make_reviews(n, rng):
    texts, labels = [], []
    for _ in range(n):
        label = int(rng.integers(0, 2))
        words = list(rng.choice(FILL, rng.integers(4, 25))) + list(rng.choice(GOOD if label else BAD, 3))
        rng.shuffle(words)
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


class Vocab:
    def __init__(self, texts, min_freq=2):
        counts = Counter(w for t in texts for w in t.split())
        self.itos = ["<pad>", "<unk>"] + [w for w, c in counts.most_common() if c >= min_freq]
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, text):
        return [self.stoi.get(w, UNK) for w in text.split()]


class ReviewDataset(Dataset):
    def __init__(self, texts, labels, vocab):
        self.items = [torch.tensor(vocab.encode(t)) for t in texts]
        self.labels = labels

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i], self.labels[i]


def collate(batch):
    seqs, labels = zip(*batch)
    lengths = torch.tensor([len(s) for s in seqs])
    return pad_sequence(seqs, batch_first=True, padding_value=PAD), lengths, torch.tensor(labels)


class ReviewNet(nn.Module):
    def __init__(self, vocab_size, emb=32, hidden=48, classes=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb, padding_idx=PAD)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(2 * hidden, classes)

    def forward(self, x, lengths):
        emb = self.drop(self.embedding(x))
        packed = pack_padded_sequence(emb, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.fc(self.drop(torch.cat([h[-2], h[-1]], dim=1)))


class SentimentTrainer:
    def __init__(self, model, train_loader, val_loader, lr=2e-3, epochs=5, patience=2):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.train_loader, self.val_loader = train_loader, val_loader
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.loss_fn = nn.CrossEntropyLoss()
        self.epochs, self.patience = epochs, patience

    def train_epoch(self):
        self.model.train()
        running, seen = 0.0, 0
        for x, lengths, y in self.train_loader:
            x, y = x.to(self.device), y.to(self.device)
            loss = self.loss_fn(self.model(x, lengths), y)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            running += loss.item() * len(y)
            seen += len(y)
        return running / seen

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        loss, hits, seen = 0.0, 0, 0
        for x, lengths, y in self.val_loader:
            x, y = x.to(self.device), y.to(self.device)
            logits = self.model(x, lengths)
            loss += self.loss_fn(logits, y).item() * len(y)
            hits += (logits.argmax(dim=1) == y).sum().item()
            seen += len(y)
        return loss / seen, hits / seen

    def fit(self):
        best_loss, waited = float("inf"), 0
        best_state = copy.deepcopy(self.model.state_dict())
        for epoch in range(1, self.epochs + 1):
            train_loss = self.train_epoch()
            val_loss, val_acc = self.evaluate()
            print(f"{epoch:02d} train {train_loss:.4f} val {val_loss:.4f} acc {val_acc:.3f}")
            if val_loss < best_loss:
                best_loss, waited = val_loss, 0
                best_state = copy.deepcopy(self.model.state_dict())
            else:
                waited += 1
                if waited >= self.patience:
                    break
        self.model.load_state_dict(best_state)
        return best_loss


def main():
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    train_texts, train_labels = make_reviews(1200, rng)
    val_texts, val_labels = make_reviews(300, rng)
    vocab = Vocab(train_texts)
    train_set = ReviewDataset(train_texts, train_labels, vocab)
    val_set = ReviewDataset(val_texts, val_labels, vocab)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_set, batch_size=64, collate_fn=collate)
    trainer = SentimentTrainer(ReviewNet(len(vocab)), train_loader, val_loader)
    trainer.fit()
    torch.save({"state": trainer.model.state_dict(), "itos": vocab.itos}, "review_lstm.pt")


if __name__ == "__main__":
    main()
