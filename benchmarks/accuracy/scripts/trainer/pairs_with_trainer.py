"""Which of two sentences follows from the other: MNLI on a DistilBERT, the shortest way with Trainer."""

import evaluate
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

checkpoint = "distilbert-base-uncased"
raw_datasets = load_dataset("glue", "mnli")
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3)


def tokenize_pairs(rows):
    return tokenizer(rows["premise"], rows["hypothesis"], truncation=True)


tokenized_datasets = raw_datasets.map(tokenize_pairs, batched=True)
accuracy = evaluate.load("accuracy")


def compute_metrics(predicted):
    logits, labels = predicted
    return accuracy.compute(predictions=np.argmax(logits, axis=-1), references=labels)


arguments = TrainingArguments(
    "pairs",
    learning_rate=2e-5,
    per_device_train_batch_size=8,
    per_device_eval_batch_size=16,
    num_train_epochs=1,
    weight_decay=0.01,
    eval_strategy="epoch",
    save_strategy="epoch",
    load_best_model_at_end=True,
    metric_for_best_model="accuracy",
)
trainer = Trainer(
    model=model,
    args=arguments,
    train_dataset=tokenized_datasets["train"],
    eval_dataset=tokenized_datasets["validation_matched"],
    data_collator=DataCollatorWithPadding(tokenizer),
    processing_class=tokenizer,
    compute_metrics=compute_metrics,
)
trainer.train()
