# Tiny T5: learn to reverse a short list of digits. Plain torch loop, checkpoints with resume.
import os
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import T5Config, T5ForConditionalGeneration

PAD, EOS, OFFSET = 0, 1, 2
SRC_LEN, MAX_DIGITS = 6, 5
CKPT = "reverse_t5.pt"
SEED = 5


def make_arrays(n, rng):
    seen, src, tgt = set(), [], []
    while len(src) < n:
        digits = rng.integers(0, 10, size=rng.integers(2, MAX_DIGITS + 1)).tolist()
        if tuple(digits) in seen:
            continue
        seen.add(tuple(digits))
        ids = [d + OFFSET for d in digits]
        gap = SRC_LEN - len(ids) - 1
        src.append(ids + [EOS] + [PAD] * gap)
        tgt.append(ids[::-1] + [EOS] + [PAD] * gap)
    return torch.tensor(src), torch.tensor(tgt)


def make_loaders(batch_size):
    src, tgt = make_arrays(900, np.random.default_rng(SEED))
    train = TensorDataset(src[:700], tgt[:700])
    valid = TensorDataset(src[700:800], tgt[700:800])
    test = TensorDataset(src[800:], tgt[800:])
    gen = torch.Generator().manual_seed(SEED)
    return (
        DataLoader(train, batch_size=batch_size, shuffle=True, generator=gen),
        DataLoader(valid, batch_size=100),
        DataLoader(test, batch_size=100),
    )


def make_model():
    config = T5Config(
        vocab_size=10 + OFFSET,
        d_model=48,
        d_kv=12,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
    )
    return T5ForConditionalGeneration(config)


def forward(model, src, tgt):
    labels = tgt.masked_fill(tgt == PAD, -100)
    return model(input_ids=src, attention_mask=(src != PAD).long(), labels=labels).loss


def train_one_epoch(model, loader, optimizer, device):
    model.train()
    total, count = 0.0, 0
    for src, tgt in loader:
        src, tgt = src.to(device), tgt.to(device)
        loss = forward(model, src, tgt)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * src.size(0)
        count += src.size(0)
    return total / count


def evaluate(model, loader, device):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for src, tgt in loader:
            src, tgt = src.to(device), tgt.to(device)
            total += forward(model, src, tgt).item() * src.size(0)
            count += src.size(0)
    return total / count


def exact_match(model, loader, device):
    model.eval()
    hits, count = 0, 0
    for src, tgt in loader:
        src = src.to(device)
        out = model.generate(input_ids=src, attention_mask=(src != PAD).long(), max_new_tokens=SRC_LEN, do_sample=False)
        out = out[:, 1:].cpu()
        for row, want in zip(out.tolist(), tgt.tolist()):
            row = row[: row.index(EOS)] if EOS in row else row
            want = want[: want.index(EOS)]
            hits += row == want
            count += 1
    return hits / count


def main():
    torch.manual_seed(SEED)
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, valid_loader, test_loader = make_loaders(batch_size=32)
    model = make_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

    start, best = 0, float("inf")
    if os.path.exists(CKPT):
        state = torch.load(CKPT, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start, best = state["epoch"] + 1, state["best"]

    for epoch in range(start, epochs):
        train_loss = train_one_epoch(model, train_loader, optimizer, device)
        valid_loss = evaluate(model, valid_loader, device)
        scheduler.step()
        print("epoch %d train %.4f valid %.4f" % (epoch, train_loss, valid_loss))
        if valid_loss < best:
            best = valid_loss
            model.save_pretrained("reverse_best")
        torch.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "epoch": epoch,
                "best": best,
            },
            CKPT,
        )

    model = T5ForConditionalGeneration.from_pretrained("reverse_best").to(device)
    print("test loss %.4f exact match %.3f" % (evaluate(model, test_loader, device), exact_match(model, test_loader, device)))


if __name__ == "__main__":
    main()
