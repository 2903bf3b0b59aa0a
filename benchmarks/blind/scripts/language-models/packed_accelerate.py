"""Continue pretraining on packed documents with Accelerate; can be stopped and resumed."""
import argparse
import math
import os
import random
from itertools import chain

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, default_data_collator, get_scheduler

EOS = 0


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", type=str, default="packed_out")
    parser.add_argument("--block_size", type=int, default=32)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--weight_decay", type=float, default=0.1)
    parser.add_argument("--num_warmup_steps", type=int, default=2)
    parser.add_argument("--num_train_epochs", type=int, default=2)
    parser.add_argument("--checkpointing_steps", type=int, default=10)
    parser.add_argument("--resume_from_checkpoint", type=str, default=None)
    parser.add_argument("--mixed_precision", type=str, default="no", choices=["no", "fp16", "bf16"])
    parser.add_argument("--seed", type=int, default=100)
    return parser.parse_args()


def made_documents(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        start = rng.randrange(1, 90)
        yield {"input_ids": [1 + (start + i * i) % 99 for i in range(rng.randint(5, 40))]}


def pack(documents, block_size):
    def group(batch):
        stream = list(chain.from_iterable(ids + [EOS] for ids in batch["input_ids"]))
        usable = (len(stream) // block_size) * block_size
        blocks = [stream[i : i + block_size] for i in range(0, usable, block_size)]
        return {"input_ids": blocks, "labels": [list(b) for b in blocks]}

    return documents.map(group, batched=True, batch_size=1000, remove_columns=documents.column_names)


def decay_groups(model, weight_decay):
    no_decay = ("bias", "ln_1.weight", "ln_2.weight", "ln_f.weight")
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return [
        {"params": [p for n, p in named if not n.endswith(no_decay)], "weight_decay": weight_decay},
        {"params": [p for n, p in named if n.endswith(no_decay)], "weight_decay": 0.0},
    ]


def evaluate(accelerator, model, loader):
    model.eval()
    losses = []
    for batch in loader:
        with torch.no_grad():
            loss = model(**batch).loss
        losses.append(accelerator.gather_for_metrics(loss.repeat(batch["input_ids"].shape[0])))
    model.train()
    mean = torch.cat(losses).mean().item()
    return mean, math.exp(min(mean, 20))


def main():
    args = parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps, mixed_precision=args.mixed_precision)
    set_seed(args.seed)

    with accelerator.main_process_first():
        train = pack(Dataset.from_list(list(made_documents(160, 1))), args.block_size)
        valid = pack(Dataset.from_list(list(made_documents(40, 2))), args.block_size)
    train_loader = DataLoader(train, shuffle=True, batch_size=args.batch_size, collate_fn=default_data_collator)
    valid_loader = DataLoader(valid, batch_size=args.batch_size, collate_fn=default_data_collator)

    model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=args.block_size, n_embd=32, n_layer=2, n_head=2, bos_token_id=EOS, eos_token_id=EOS))
    optimizer = torch.optim.AdamW(decay_groups(model, args.weight_decay), lr=args.learning_rate)
    model, optimizer, train_loader, valid_loader = accelerator.prepare(model, optimizer, train_loader, valid_loader)

    updates_per_epoch = math.ceil(len(train_loader) / args.gradient_accumulation_steps)
    max_steps = args.num_train_epochs * updates_per_epoch
    scheduler = get_scheduler(
        "cosine",
        optimizer=optimizer,
        num_warmup_steps=args.num_warmup_steps * accelerator.num_processes,
        num_training_steps=max_steps * accelerator.num_processes,
    )
    scheduler = accelerator.prepare(scheduler)

    first_epoch, skip, done = 0, 0, 0
    if args.resume_from_checkpoint:
        accelerator.load_state(args.resume_from_checkpoint)
        done = int(os.path.basename(os.path.normpath(args.resume_from_checkpoint)).split("_")[1])
        first_epoch = done // updates_per_epoch
        skip = (done % updates_per_epoch) * args.gradient_accumulation_steps

    for epoch in range(first_epoch, args.num_train_epochs):
        model.train()
        train_loader.set_epoch(epoch)
        active = accelerator.skip_first_batches(train_loader, skip) if epoch == first_epoch and skip else train_loader
        for batch in active:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                done += 1
                if done % args.checkpointing_steps == 0:
                    accelerator.save_state(os.path.join(args.output_dir, f"step_{done}"))
        mean, perplexity = evaluate(accelerator, model, valid_loader)
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f} valid {mean:.3f} perplexity {perplexity:.1f}")

    accelerator.wait_for_everyone()
    unwrapped = accelerator.unwrap_model(model)
    unwrapped.save_pretrained(args.output_dir, is_main_process=accelerator.is_main_process, save_function=accelerator.save)


if __name__ == "__main__":
    main()
