"""Direct preference optimisation written by hand, on a toy preference set."""

import copy
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

PAD, BOS, EOS = 0, 1, 2


@dataclass
class Config:
    vocab_size: int = 64
    pairs: int = 160
    batch_size: int = 8
    accumulation: int = 2
    epochs: int = 2
    lr: float = 5e-4
    beta: float = 0.1
    warmup: int = 2
    seed: int = 3


class PreferencePairs(Dataset):
    def __init__(self, size, vocab_size, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(size):
            prompt = [BOS] + [rng.randrange(3, vocab_size) for _ in range(rng.randint(3, 6))]
            good = sorted(rng.randrange(3, vocab_size) for _ in range(rng.randint(3, 8))) + [EOS]
            bad = [rng.randrange(3, vocab_size) for _ in range(rng.randint(3, 8))] + [EOS]
            self.rows.append((prompt, good, bad))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def pad_rows(rows):
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((len(rows), width), PAD)
    attention = torch.zeros((len(rows), width), dtype=torch.long)
    labels = torch.full((len(rows), width), -100)
    for i, (prompt, answer) in enumerate(rows):
        length = len(prompt) + len(answer)
        ids[i, :length] = torch.tensor(prompt + answer)
        attention[i, :length] = 1
        labels[i, len(prompt) : length] = torch.tensor(answer)
    return {"input_ids": ids, "attention_mask": attention, "labels": labels}


def collate(batch):
    chosen = pad_rows([(prompt, good) for prompt, good, _ in batch])
    rejected = pad_rows([(prompt, bad) for prompt, _, bad in batch])
    return chosen, rejected


def sequence_logps(model, batch):
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    logits = logits[:, :-1, :]
    labels = batch["labels"][:, 1:]
    mask = labels != -100
    safe = labels.masked_fill(~mask, 0)
    logps = torch.gather(F.log_softmax(logits.float(), dim=-1), 2, safe.unsqueeze(-1)).squeeze(-1)
    return (logps * mask).sum(dim=-1)


def dpo_loss(policy, reference, chosen, rejected, beta):
    policy_chosen = sequence_logps(policy, chosen)
    policy_rejected = sequence_logps(policy, rejected)
    with torch.no_grad():
        reference_chosen = sequence_logps(reference, chosen)
        reference_rejected = sequence_logps(reference, rejected)
    chosen_reward = beta * (policy_chosen - reference_chosen)
    rejected_reward = beta * (policy_rejected - reference_rejected)
    loss = -F.logsigmoid(chosen_reward - rejected_reward).mean()
    accuracy = (chosen_reward > rejected_reward).float().mean()
    return loss, accuracy.detach()


def to_device(batch, device):
    return {key: value.to(device) for key, value in batch.items()}


@torch.no_grad()
def evaluate(policy, reference, loader, beta, device):
    policy.eval()
    hits, count = 0.0, 0
    for chosen, rejected in loader:
        chosen, rejected = to_device(chosen, device), to_device(rejected, device)
        _, accuracy = dpo_loss(policy, reference, chosen, rejected, beta)
        hits += accuracy.item() * len(chosen["input_ids"])
        count += len(chosen["input_ids"])
    return hits / count


def main():
    config = Config()
    random.seed(config.seed)
    torch.manual_seed(config.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set = PreferencePairs(config.pairs, config.vocab_size, seed=config.seed)
    test_set = PreferencePairs(40, config.vocab_size, seed=config.seed + 1)
    train_loader = DataLoader(train_set, batch_size=config.batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    test_loader = DataLoader(test_set, batch_size=config.batch_size, collate_fn=collate)

    model_config = GPT2Config(
        vocab_size=config.vocab_size, n_positions=32, n_embd=32, n_layer=2, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD,
    )
    policy = GPT2LMHeadModel(model_config).to(device)
    reference = copy.deepcopy(policy)
    reference.eval()
    reference.requires_grad_(False)

    optimizer = torch.optim.AdamW(policy.parameters(), lr=config.lr, weight_decay=0.0)
    updates = config.epochs * (len(train_loader) // config.accumulation)
    scheduler = get_linear_schedule_with_warmup(optimizer, config.warmup, updates)

    for epoch in range(config.epochs):
        policy.train()
        for step, (chosen, rejected) in enumerate(train_loader):
            chosen, rejected = to_device(chosen, device), to_device(rejected, device)
            loss, accuracy = dpo_loss(policy, reference, chosen, rejected, config.beta)
            (loss / config.accumulation).backward()
            if (step + 1) % config.accumulation == 0:
                torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item():.4f} test accuracy {evaluate(policy, reference, test_loader, config.beta, device):.3f}")
    policy.save_pretrained("dpo-policy")


if __name__ == "__main__":
    main()
