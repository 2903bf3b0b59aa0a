#!/usr/bin/env python
# torchrun --standalone --nproc_per_node=4 reward_fsdp.py
import functools
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from datasets import load_dataset
from torch.distributed.fsdp import FullStateDictConfig, MixedPrecision, ShardingStrategy, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_cosine_schedule_with_warmup
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

MODEL = "Qwen/Qwen2.5-3B"
OUT = "reward_model"
MAX_LEN = 1024
EPOCHS = 1
BATCH = 4
ACCUM = 4
LR = 5e-6
SEED = 1234


def setup():
    dist.init_process_group(backend="nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.manual_seed(SEED)
    return local_rank


def log(*a):
    if dist.get_rank() == 0:
        print(*a)
        sys.stdout.flush()


class PairCollator:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, rows):
        texts = [r["prompt"] + r["chosen"] for r in rows] + [r["prompt"] + r["rejected"] for r in rows]
        return self.tokenizer(texts, padding=True, truncation=True, max_length=MAX_LEN, return_tensors="pt")


def build_loader(rows, collator, train):
    sampler = DistributedSampler(rows, shuffle=train, seed=SEED, drop_last=train)
    loader = DataLoader(rows, batch_size=BATCH, sampler=sampler, collate_fn=collator, num_workers=2, pin_memory=True)
    return loader, sampler


def build_model(tokenizer, local_rank):
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=1, dtype=torch.float32)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    wrap = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Qwen2DecoderLayer})
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
    return FSDP(
        model,
        auto_wrap_policy=wrap,
        mixed_precision=precision,
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        device_id=local_rank,
    )


def pair_scores(model, batch):
    scores = model(**batch).logits.float().squeeze(-1)
    chosen, rejected = scores.chunk(2, dim=0)
    return chosen, rejected


def evaluate(model, loader, local_rank):
    model.eval()
    counts = torch.zeros(2, device=local_rank)
    with torch.no_grad():
        for batch in loader:
            batch = batch.to(local_rank)
            chosen, rejected = pair_scores(model, batch)
            counts[0] += (chosen > rejected).sum()
            counts[1] += chosen.numel()
    dist.all_reduce(counts, op=dist.ReduceOp.SUM)
    model.train()
    return (counts[0] / counts[1]).item()


def save(model, tokenizer):
    policy = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, policy):
        weights = model.state_dict()
    if dist.get_rank() == 0:
        model.module.save_pretrained(OUT, state_dict=weights)
        tokenizer.save_pretrained(OUT)
    dist.barrier()


def main():
    local_rank = setup()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    tokenizer.truncation_side = "left"
    rows = load_dataset("json", data_files={"train": "pairs_train.jsonl", "test": "pairs_test.jsonl"})
    collator = PairCollator(tokenizer)
    train_loader, train_sampler = build_loader(rows["train"], collator, True)
    test_loader, _ = build_loader(rows["test"], collator, False)

    model = build_model(tokenizer, local_rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
    updates = EPOCHS * (len(train_loader) // ACCUM)
    scheduler = get_cosine_schedule_with_warmup(optimizer, int(0.03 * updates), updates)

    model.train()
    for epoch in range(EPOCHS):
        train_sampler.set_epoch(epoch)
        for step, batch in enumerate(train_loader):
            batch = batch.to(local_rank)
            chosen, rejected = pair_scores(model, batch)
            loss = -F.logsigmoid(chosen - rejected).mean()
            (loss / ACCUM).backward()
            if (step + 1) % ACCUM == 0:
                model.clip_grad_norm_(1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if step % 100 == 0:
                log("epoch", epoch, "step", step, "loss", round(loss.item(), 4))
        accuracy = evaluate(model, test_loader, local_rank)
        log("epoch", epoch, "pair accuracy", round(accuracy, 4))
    save(model, tokenizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
