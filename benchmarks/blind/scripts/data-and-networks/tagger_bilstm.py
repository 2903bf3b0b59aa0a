"""Tags names of persons and places in sentences with a BiLSTM."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

PERSONS = ["anna", "omar", "li", "peter", "maria"]
PLACES = ["paris", "lagos", "oslo", "lima"]
OTHERS = ["went", "to", "saw", "in", "the", "a", "house", "with", "yesterday", "met", "and", "from"]
TAGS = ["O", "PER", "LOC"]
IGNORE = -100


@dataclass
class Config:
    emb: int = 32
    hidden: int = 32
    batch_size: int = 16
    epochs: int = 4
    lr: float = 3e-3
    clip: float = 5.0
    seed: int = 11


def make_sentences(n, seed):
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n):
        length = int(torch.randint(4, 14, (1,), generator=g))
        words, tags = [], []
        for _ in range(length):
            kind = float(torch.rand(1, generator=g))
            group = PERSONS if kind < 0.2 else PLACES if kind < 0.4 else OTHERS
            words.append(group[int(torch.randint(len(group), (1,), generator=g))])
            tags.append("PER" if group is PERSONS else "LOC" if group is PLACES else "O")
        out.append((words, tags))
    return out


class Sentences(Dataset):
    def __init__(self, sentences, vocab):
        self.sentences = sentences
        self.vocab = vocab

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, i):
        words, tags = self.sentences[i]
        ids = torch.tensor([self.vocab.get(w, self.vocab["<unk>"]) for w in words])
        labels = torch.tensor([TAGS.index(t) for t in tags])
        return ids, labels


def collate(rows):
    ids = pad_sequence([r[0] for r in rows], batch_first=True, padding_value=0)
    labels = pad_sequence([r[1] for r in rows], batch_first=True, padding_value=IGNORE)
    lengths = torch.tensor([len(r[0]) for r in rows])
    return ids, lengths, labels


class Tagger(nn.Module):
    def __init__(self, vocab_size, cfg):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, cfg.emb, padding_idx=0)
        self.lstm = nn.LSTM(cfg.emb, cfg.hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * cfg.hidden, len(TAGS))

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=ids.size(1))
        return self.out(self.drop(states))


def train_epoch(model, loader, optimizer, loss_fn, cfg):
    model.train()
    total = 0.0
    for ids, lengths, labels in loader:
        optimizer.zero_grad()
        logits = model(ids, lengths)
        loss = loss_fn(logits.transpose(1, 2), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = count = 0
    for ids, lengths, labels in loader:
        predicted = model(ids, lengths).argmax(dim=-1)
        keep = labels != IGNORE
        right += (predicted[keep] == labels[keep]).sum().item()
        count += keep.sum().item()
    return right / count


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    train, valid = make_sentences(400, 1), make_sentences(100, 2)
    words = sorted({w for s, _ in train for w in s})
    vocab = {"<pad>": 0, "<unk>": 1, **{w: i + 2 for i, w in enumerate(words)}}
    train_loader = DataLoader(Sentences(train, vocab), batch_size=cfg.batch_size, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(Sentences(valid, vocab), batch_size=64, collate_fn=collate)
    model = Tagger(len(vocab), cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    loss_fn = nn.CrossEntropyLoss(ignore_index=IGNORE)
    for epoch in range(cfg.epochs):
        loss = train_epoch(model, train_loader, optimizer, loss_fn, cfg)
        print(f"epoch {epoch}: loss {loss:.4f} accuracy {evaluate(model, valid_loader):.3f}")


if __name__ == "__main__":
    main()
