"""Teach a small decoder to answer short sums, loss on the answers only."""
from dataclasses import dataclass, field

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Trainer, TrainingArguments, set_seed


@dataclass
class DataArgs:
    n_train: int = 256
    n_valid: int = 64
    max_length: int = 32


@dataclass
class ModelArgs:
    hidden: int = 48
    layers: int = 2
    heads: int = 4


@dataclass
class TrainArgs(TrainingArguments):
    output_dir: str = "instruct-out"
    per_device_train_batch_size: int = 16
    per_device_eval_batch_size: int = 16
    num_train_epochs: float = 2
    learning_rate: float = 2e-3
    warmup_steps: float = 5
    lr_scheduler_type: str = "cosine"
    logging_steps: float = 8
    eval_strategy: str = "epoch"
    save_strategy: str = "no"
    report_to: str = field(default="none")


def build_tokenizer():
    vocab = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}
    for ch in "0123456789+=?QA: whatis":
        vocab.setdefault(ch, len(vocab))
    tok = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def make_rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, 50, (n, 2), generator=g).tolist()
    return Dataset.from_list([{"prompt": f"Q: what is {a}+{b}? A: ", "answer": str(a + b)} for a, b in pairs])


def encode(row, tokenizer, max_length):
    prompt = [tokenizer.bos_token_id] + tokenizer(row["prompt"], add_special_tokens=False)["input_ids"]
    answer = tokenizer(row["answer"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    ids = (prompt + answer)[:max_length]
    labels = ([-100] * len(prompt) + answer)[:max_length]
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}


class PadCollator:
    def __init__(self, pad_id):
        self.pad_id = pad_id

    def __call__(self, rows):
        longest = max(len(r["input_ids"]) for r in rows)

        def pad(name, value):
            return torch.tensor([r[name] + [value] * (longest - len(r[name])) for r in rows])

        return {"input_ids": pad("input_ids", self.pad_id), "attention_mask": pad("attention_mask", 0), "labels": pad("labels", -100)}


def main():
    data, sizes, args = HfArgumentParser((DataArgs, ModelArgs, TrainArgs)).parse_args_into_dataclasses()
    set_seed(args.seed)
    tokenizer = build_tokenizer()
    fn = {"tokenizer": tokenizer, "max_length": data.max_length}
    train = make_rows(data.n_train, 0).map(encode, fn_kwargs=fn, remove_columns=["prompt", "answer"])
    valid = make_rows(data.n_valid, 1).map(encode, fn_kwargs=fn, remove_columns=["prompt", "answer"])
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=sizes.hidden,
        intermediate_size=2 * sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.heads,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = LlamaForCausalLM(config)
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=train,
        eval_dataset=valid,
        data_collator=PadCollator(tokenizer.pad_token_id),
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
