"""Pretrain a GPT on tokenized shards. Launch with: torchrun --nproc_per_node=8 pretrain.py --data data/openwebtext"""
import argparse
import math
import os
import time
from contextlib import nullcontext

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import GPT2Config, GPT2LMHeadModel


class ShardReader:
    """Random windows of a memory mapped file of uint16 token ids."""

    def __init__(self, path, block_size, batch_size, seed):
        self.path = path
        self.block_size = block_size
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)

    def next(self, device):
        tokens = np.memmap(self.path, dtype=np.uint16, mode="r")
        starts = self.rng.integers(0, len(tokens) - self.block_size, size=self.batch_size)
        x = np.stack([tokens[s : s + self.block_size].astype(np.int64) for s in starts])
        return torch.from_numpy(x).to(device, non_blocking=True)


class Pretrainer:
    def __init__(self, args):
        self.args = args
        dist.init_process_group("nccl")
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.local_rank)
        self.device = torch.device("cuda", self.local_rank)
        self.is_main = self.rank == 0
        torch.manual_seed(args.seed + self.rank)

        self.train_data = ShardReader(os.path.join(args.data, "train.bin"), args.block_size, args.batch_size, seed=args.seed + self.rank)
        self.val_path = os.path.join(args.data, "val.bin")
        config = GPT2Config(vocab_size=50304, n_positions=args.block_size, n_layer=12, n_head=12, n_embd=768)
        self.raw_model = GPT2LMHeadModel(config).to(self.device)
        self.optimizer = self.make_optimizer()
        self.scaler = torch.amp.GradScaler("cuda", enabled=args.dtype == "float16")
        self.autocast_dtype = torch.float16 if args.dtype == "float16" else torch.bfloat16
        self.step = 0
        self.best_val = float("inf")
        if args.resume:
            self.load(args.resume)
        self.model = DDP(self.raw_model, device_ids=[self.local_rank])

    def make_optimizer(self):
        decay = [p for p in self.raw_model.parameters() if p.requires_grad and p.dim() >= 2]
        no_decay = [p for p in self.raw_model.parameters() if p.requires_grad and p.dim() < 2]
        groups = [{"params": decay, "weight_decay": self.args.weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.args.lr, betas=(0.9, 0.95), fused=True)

    def lr_at(self, step):
        if step < self.args.warmup:
            return self.args.lr * (step + 1) / self.args.warmup
        progress = min(1.0, (step - self.args.warmup) / (self.args.max_steps - self.args.warmup))
        return self.args.min_lr + 0.5 * (self.args.lr - self.args.min_lr) * (1 + math.cos(math.pi * progress))

    def save(self, name):
        state = {
            "model": self.raw_model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "step": self.step,
            "best_val": self.best_val,
        }
        path = os.path.join(self.args.out, name)
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)

    def load(self, path):
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.raw_model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = state["step"]
        self.best_val = state["best_val"]
        self.train_data.rng = np.random.default_rng([self.args.seed, self.rank, self.step])

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        reader = ShardReader(self.val_path, self.args.block_size, self.args.batch_size, seed=self.rank)
        total = torch.zeros((), device=self.device)
        for _ in range(self.args.eval_batches):
            x = reader.next(self.device)
            with torch.autocast("cuda", dtype=self.autocast_dtype):
                total += self.model(input_ids=x, labels=x).loss
        mean = total / self.args.eval_batches
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        self.model.train()
        return (mean / self.world).item()

    def train_step(self):
        accum = self.args.grad_accum
        running = torch.zeros((), device=self.device)
        for micro in range(accum):
            x = self.train_data.next(self.device)
            last = micro == accum - 1
            with nullcontext() if last else self.model.no_sync():
                with torch.autocast("cuda", dtype=self.autocast_dtype):
                    loss = self.model(input_ids=x, labels=x).loss / accum
                self.scaler.scale(loss).backward()
            running += loss.detach()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return running

    def fit(self):
        self.model.train()
        tick = time.time()
        while self.step < self.args.max_steps:
            for group in self.optimizer.param_groups:
                group["lr"] = self.lr_at(self.step)
            loss = self.train_step()
            self.step += 1
            if self.step % 50 == 0 and self.is_main:
                print(f"step {self.step} loss {loss.item():.4f} {time.time() - tick:.1f}s")
                tick = time.time()
            if self.step % self.args.eval_every == 0:
                val = self.evaluate()
                if self.is_main:
                    print(f"step {self.step} val {val:.4f}")
                    if val < self.best_val:
                        self.best_val = val
                        self.save("best.pt")
                    self.save("last.pt")
                dist.barrier()
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="out")
    parser.add_argument("--resume", default=None)
    parser.add_argument("--dtype", choices=["float16", "bfloat16"], default="bfloat16")
    parser.add_argument("--block-size", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--grad-accum", type=int, default=5)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--min-lr", type=float, default=6e-5)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--warmup", type=int, default=2000)
    parser.add_argument("--max-steps", type=int, default=100_000)
    parser.add_argument("--eval-every", type=int, default=1000)
    parser.add_argument("--eval-batches", type=int, default=100)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    Pretrainer(args).fit()


if __name__ == "__main__":
    main()
