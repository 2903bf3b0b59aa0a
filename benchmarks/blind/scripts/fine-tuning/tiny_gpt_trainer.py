"""Train a very small GPT-2 on arithmetic sentences, then sample from it."""

import math
import random
from itertools import chain, product

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

BLOCK_SIZE = 32
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def make_sentences(rng: random.Random) -> list[str]:
    """Return every sum of four digits that stays below ten, each once, in random order."""
    sentences = []
    for digits in product(range(10), repeat=4):
        if sum(digits) < 10:
            left = " plus ".join(WORDS[d] for d in digits)
            sentences.append(f"{left} is {WORDS[sum(digits)]} .")
    rng.shuffle(sentences)
    return sentences


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer over the closed vocabulary."""
    vocab = {w: i for i, w in enumerate(["<pad>", "<unk>", "<eos>", "plus", "is", ".", *WORDS])}
    core = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<eos>",
        padding_side="left",
    )


def group_texts(examples: dict) -> dict:
    """Join all sentences and cut them into blocks of equal length."""
    joined = {k: list(chain.from_iterable(examples[k])) for k in examples}
    total = (len(joined["input_ids"]) // BLOCK_SIZE) * BLOCK_SIZE
    return {k: [t[i : i + BLOCK_SIZE] for i in range(0, total, BLOCK_SIZE)] for k, t in joined.items()}


def main() -> None:
    set_seed(7)
    rng = random.Random(7)
    tokenizer = build_tokenizer()

    raw = Dataset.from_dict({"text": make_sentences(rng)})
    split = raw.train_test_split(test_size=0.1, seed=7)

    def tokenize(batch: dict) -> dict:
        texts = [t + " " + tokenizer.eos_token for t in batch["text"]]
        return tokenizer(texts, return_token_type_ids=False)

    tokenized = split.map(tokenize, batched=True, remove_columns=["text"])
    blocks = tokenized.map(group_texts, batched=True)

    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=BLOCK_SIZE,
        n_embd=48,
        n_layer=2,
        n_head=4,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = GPT2LMHeadModel(config)

    args = TrainingArguments(
        output_dir="tiny_gpt_out",
        num_train_epochs=2,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=16,
        learning_rate=3e-3,
        warmup_steps=10,
        lr_scheduler_type="cosine",
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=20,
        report_to="none",
        use_cpu=True,
        seed=7,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=blocks["train"],
        eval_dataset=blocks["test"],
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        processing_class=tokenizer,
    )
    trainer.train()

    metrics = trainer.evaluate()
    print("perplexity", math.exp(metrics["eval_loss"]))

    model.eval()
    prompts = ["two plus three plus one plus one is", "six plus one plus zero plus"]
    inputs = tokenizer(prompts, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=3, do_sample=False)
    new_tokens = out[:, inputs["input_ids"].shape[1] :]
    for prompt, answer in zip(prompts, tokenizer.batch_decode(new_tokens, skip_special_tokens=True)):
        print(prompt, "->", answer)


if __name__ == "__main__":
    main()
