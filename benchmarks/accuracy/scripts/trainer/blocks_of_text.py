"""GPT-2 on running text: documents joined and cut into blocks of one length."""

from itertools import chain

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator

BLOCK = 32

text = load_dataset("wikitext", "wikitext-2-raw-v1")
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")


def tokenize(rows):
    return tokenizer([line + tokenizer.eos_token for line in rows["text"]])


def group(rows):
    joined = {name: list(chain.from_iterable(parts)) for name, parts in rows.items()}
    length = len(joined["input_ids"]) // BLOCK * BLOCK
    blocks = {
        name: [tokens[start : start + BLOCK] for start in range(0, length, BLOCK)] for name, tokens in joined.items()
    }
    blocks["labels"] = blocks["input_ids"].copy()
    return blocks


tokenized = text.map(tokenize, batched=True, remove_columns=["text"])
blocks = tokenized.map(group, batched=True)

trainer = Trainer(
    model=model,
    args=TrainingArguments(
        "blocks",
        learning_rate=5e-5,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        num_train_epochs=1,
        warmup_steps=2,
        lr_scheduler_type="cosine",
        eval_strategy="epoch",
        save_strategy="epoch",
    ),
    train_dataset=blocks["train"],
    eval_dataset=blocks["validation"],
    data_collator=default_data_collator,
    processing_class=tokenizer,
)
trainer.train()
