# Assignment 3: sentiment of product reviews
import random

import numpy as np
import pandas as pd
import torch
from datasets import Dataset, DatasetDict
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(42)

checkpoint = "distilbert-base-uncased"
max_len = 256

df = pd.read_csv("data/reviews.csv")
df = df.dropna(subset=["text", "stars"])
df = df.drop_duplicates(subset="text").reset_index(drop=True)
df["text"] = df["text"].str.strip()

# 1-2 stars negative, 3 neutral, 4-5 positive
names = ["negative", "neutral", "positive"]


def stars_to_label(stars):
    if stars <= 2:
        return 0
    if stars == 3:
        return 1
    return 2


df["label"] = df["stars"].apply(stars_to_label)
df = df[["text", "label"]]

train_df, rest_df = train_test_split(df, test_size=0.2, random_state=42, stratify=df["label"])
val_df, test_df = train_test_split(rest_df, test_size=0.5, random_state=42, stratify=rest_df["label"])
print(len(train_df), len(val_df), len(test_df))

raw = DatasetDict(
    {
        "train": Dataset.from_pandas(train_df, preserve_index=False),
        "validation": Dataset.from_pandas(val_df, preserve_index=False),
        "test": Dataset.from_pandas(test_df, preserve_index=False),
    }
)

tokenizer = AutoTokenizer.from_pretrained(checkpoint)


def tokenize(batch):
    return tokenizer(batch["text"], truncation=True, max_length=max_len)


tokenized = raw.map(tokenize, batched=True, remove_columns=["text"])

model = AutoModelForSequenceClassification.from_pretrained(
    checkpoint,
    num_labels=len(names),
    id2label=dict(enumerate(names)),
    label2id={n: i for i, n in enumerate(names)},
)


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    preds = np.argmax(logits, axis=-1)
    return {
        "accuracy": accuracy_score(labels, preds),
        "f1": f1_score(labels, preds, average="macro"),
    }


args = TrainingArguments(
    output_dir="out/reviews",
    eval_strategy="epoch",
    save_strategy="epoch",
    learning_rate=2e-5,
    per_device_train_batch_size=16,
    per_device_eval_batch_size=64,
    num_train_epochs=6,
    weight_decay=0.01,
    warmup_steps=200,
    load_best_model_at_end=True,
    metric_for_best_model="f1",
    greater_is_better=True,
    save_total_limit=2,
    logging_steps=50,
    seed=42,
    report_to="none",
)

trainer = Trainer(
    model=model,
    args=args,
    train_dataset=tokenized["train"],
    eval_dataset=tokenized["validation"],
    data_collator=DataCollatorWithPadding(tokenizer),
    processing_class=tokenizer,
    compute_metrics=compute_metrics,
    callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
)

trainer.train()

result = trainer.evaluate(tokenized["test"], metric_key_prefix="test")
print("test accuracy", result["test_accuracy"], "f1", result["test_f1"])

# look at a few reviews by hand
model.eval()
sample = random.sample(list(test_df["text"]), 5)
inputs = tokenizer(sample, truncation=True, max_length=max_len, padding=True, return_tensors="pt").to(model.device)
with torch.no_grad():
    probs = torch.softmax(model(**inputs).logits, dim=-1)
for text, p in zip(sample, probs):
    print(names[int(p.argmax())], round(float(p.max()), 3), text[:80])

trainer.save_model("out/reviews/best")
