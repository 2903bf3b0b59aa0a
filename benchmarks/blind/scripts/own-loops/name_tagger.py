import argparse
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

TAGS = ["O", "B-PER", "I-PER", "B-LOC"]
PAD_TAG = -100
FIRST = ["anna", "boris", "clara", "david", "elif"]
LAST = ["smith", "kim", "lopez", "novak"]
PLACES = ["paris", "lima", "oslo", "cairo"]
WORDS = ["met", "in", "saw", "near", "with", "yesterday", "and", "the", "old", "friend", "visited"]


def make_sentence():
    words, tags = [], []
    for _ in range(random.randint(3, 9)):
        kind = random.random()
        if kind < 0.2:
            words += [random.choice(FIRST), random.choice(LAST)]
            tags += ["B-PER", "I-PER"]
        elif kind < 0.35:
            words.append(random.choice(PLACES))
            tags.append("B-LOC")
        else:
            words.append(random.choice(WORDS))
            tags.append("O")
    return words, tags


def build_vocab(sentences):
    vocab = {"<pad>": 0, "<unk>": 1}
    for words, _ in sentences:
        for w in words:
            if w not in vocab:
                vocab[w] = len(vocab)
    return vocab


def make_collate(vocab):
    def collate(batch):
        longest = max(len(words) for words, _ in batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        tags = torch.full((len(batch), longest), PAD_TAG, dtype=torch.long)
        for i, (words, labels) in enumerate(batch):
            ids[i, : len(words)] = torch.tensor([vocab.get(w, 1) for w in words])
            tags[i, : len(labels)] = torch.tensor([TAGS.index(t) for t in labels])
        return ids, tags

    return collate


class NameTagger(nn.Module):
    def __init__(self, vocab_size, num_tags, d_model=32, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, d_model, padding_idx=0)
        self.pos = nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead=4, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.out = nn.Linear(d_model, num_tags)

    def forward(self, ids):
        positions = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        x = self.tok(ids) + self.pos(positions)
        x = self.encoder(x, src_key_padding_mask=ids.eq(0))
        return self.out(x)


def train_epoch(model, loader, loss_fn, optimizer, device):
    model.train()
    total = 0.0
    for ids, tags in loader:
        ids, tags = ids.to(device), tags.to(device)
        logits = model(ids)
        loss = loss_fn(logits.transpose(1, 2), tags)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def evaluate(model, loader, loss_fn, device):
    model.eval()
    total, right, count = 0.0, 0, 0
    with torch.no_grad():
        for ids, tags in loader:
            ids, tags = ids.to(device), tags.to(device)
            logits = model(ids)
            total += loss_fn(logits.transpose(1, 2), tags).item()
            mask = tags != PAD_TAG
            right += (logits.argmax(-1)[mask] == tags[mask]).sum().item()
            count += mask.sum().item()
    return total / len(loader), right / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--patience", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="name_tagger.pt")
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    sentences = [make_sentence() for _ in range(800)]
    train_data, val_data = sentences[:640], sentences[640:]
    vocab = build_vocab(train_data)
    collate = make_collate(vocab)
    train_loader = DataLoader(train_data, args.batch_size, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_data, args.batch_size, collate_fn=collate)

    model = NameTagger(len(vocab), len(TAGS)).to(device)
    loss_fn = nn.CrossEntropyLoss(ignore_index=PAD_TAG)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    best, bad_epochs = float("inf"), 0
    for epoch in range(args.epochs):
        train_loss = train_epoch(model, train_loader, loss_fn, optimizer, device)
        val_loss, val_acc = evaluate(model, val_loader, loss_fn, device)
        print(f"[{epoch}] train={train_loss:.4f} val={val_loss:.4f} acc={val_acc:.4f}")
        if val_loss < best:
            best = val_loss
            bad_epochs = 0
            torch.save({"model": model.state_dict(), "vocab": vocab}, args.out)
        else:
            bad_epochs += 1
        if bad_epochs >= args.patience:
            print("early stop")
            break


if __name__ == "__main__":
    main()
