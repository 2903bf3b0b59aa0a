"""The pairs, tokenized."""

from datasets import load_dataset

from .settings import Settings


def load_pairs(settings: Settings, tokenizer):
    pairs = load_dataset("glue", settings.task)

    def encode(rows):
        return tokenizer(rows["premise"], rows["hypothesis"], truncation=True, max_length=settings.max_length)

    return pairs.map(encode, batched=True, remove_columns=["premise", "hypothesis", "idx"])
