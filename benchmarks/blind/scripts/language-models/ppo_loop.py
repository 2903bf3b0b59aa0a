"""Train a small language model with PPO to write even tokens.

The reward counts even tokens; a penalty on the distance to the starting model keeps the text close to it.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GPT2Config, GPT2Model

BOS = 0


class ActorCritic(nn.Module):
    """A decoder with a language model head and a value head."""

    def __init__(self, vocab_size: int, hidden: int):
        super().__init__()
        config = GPT2Config(
            vocab_size=vocab_size, n_positions=64, n_embd=hidden, n_layer=2, n_head=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
        self.backbone = GPT2Model(config)
        self.lm_head = nn.Linear(hidden, vocab_size, bias=False)
        self.value_head = nn.Linear(hidden, 1)

    def forward(self, ids):
        hidden = self.backbone(input_ids=ids).last_hidden_state
        return self.lm_head(hidden), self.value_head(hidden).squeeze(-1)


@torch.no_grad()
def sample(model, prompts, length):
    model.eval()
    ids = prompts
    for _ in range(length):
        logits, _ = model(ids)
        nxt = torch.multinomial(F.softmax(logits[:, -1], dim=-1), 1)
        ids = torch.cat([ids, nxt], dim=1)
    return ids


def token_logps(logits, ids):
    logps = F.log_softmax(logits[:, :-1].float(), dim=-1)
    return logps.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def advantages_and_returns(rewards, values, gamma, lam):
    """Generalised advantage estimates; the episode ends after the last token."""
    steps = rewards.shape[1]
    advantages = torch.zeros_like(rewards)
    last = torch.zeros(rewards.shape[0], device=rewards.device)
    for t in reversed(range(steps)):
        following = values[:, t + 1] if t + 1 < steps else torch.zeros_like(last)
        delta = rewards[:, t] + gamma * following - values[:, t]
        last = delta + gamma * lam * last
        advantages[:, t] = last
    return advantages, advantages + values


@torch.no_grad()
def collect(policy, reference, prompts, args):
    ids = sample(policy, prompts, args.length)
    start = prompts.shape[1] - 1
    logits, values = policy(ids)
    old_logps = token_logps(logits, ids)[:, start:]
    ref_logps = token_logps(reference(ids)[0], ids)[:, start:]
    values = values[:, start:-1]
    score = (ids[:, prompts.shape[1]:] % 2 == 0).float().mean(dim=1)
    rewards = -args.kl * (old_logps - ref_logps)
    rewards[:, -1] += score
    advantages, returns = advantages_and_returns(rewards, values, args.gamma, args.lam)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return {
        "ids": ids, "old_logps": old_logps, "values": values,
        "advantages": advantages, "returns": returns, "score": score.mean().item(),
    }


def ppo_loss(policy, batch, start, args):
    logits, values = policy(batch["ids"])
    logps = token_logps(logits, batch["ids"])[:, start:]
    values = values[:, start:-1]
    ratio = torch.exp(logps - batch["old_logps"])
    unclipped = ratio * batch["advantages"]
    clipped = torch.clamp(ratio, 1 - args.clip, 1 + args.clip) * batch["advantages"]
    policy_loss = -torch.min(unclipped, clipped).mean()
    value_loss = F.mse_loss(values, batch["returns"])
    all_logps = F.log_softmax(logits[:, start:-1], dim=-1)
    entropy = -(all_logps.exp() * all_logps).sum(dim=-1).mean()
    return policy_loss + args.value_coef * value_loss - args.entropy_coef * entropy


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--minibatch", type=int, default=16)
    parser.add_argument("--ppo-epochs", type=int, default=2)
    parser.add_argument("--length", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--lam", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--kl", type=float, default=0.02)
    parser.add_argument("--value-coef", type=float, default=0.5)
    parser.add_argument("--entropy-coef", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=9)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    policy = ActorCritic(args.vocab, hidden=32).to(device)
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr, eps=1e-5)

    for iteration in range(args.iterations):
        first = torch.randint(1, args.vocab, (args.batch_size, 2), device=device)
        prompts = torch.cat([torch.full((args.batch_size, 1), BOS, device=device), first], dim=1)
        rollout = collect(policy, reference, prompts, args)
        policy.train()
        for _ in range(args.ppo_epochs):
            order = torch.randperm(args.batch_size, device=device)
            for index in order.split(args.minibatch):
                batch = {k: v[index] for k, v in rollout.items() if torch.is_tensor(v)}
                loss = ppo_loss(policy, batch, prompts.shape[1] - 1, args)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
                optimizer.step()
        print(f"iteration {iteration}: mean score {rollout['score']:.3f}")
    torch.save(policy.state_dict(), "ppo_policy.pt")


if __name__ == "__main__":
    main()
