"""Headlines from texts: T5 with Seq2SeqTrainer, scored on what it generates."""

import numpy as np
from datasets import Dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

CHECKPOINT = "t5-small"
PREFIX = "summarize: "

texts = [f"the council met on day {day} and spoke of the bridge and the road" for day in range(48)]
headlines = [f"day {day}{' of the council' * (day % 2)}" for day in range(48)]
rows = Dataset.from_dict({"text": texts, "headline": headlines}).train_test_split(test_size=0.2, seed=1)

tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
model = AutoModelForSeq2SeqLM.from_pretrained(CHECKPOINT)


def preprocess(batch):
    inputs = tokenizer([PREFIX + text for text in batch["text"]], max_length=48, truncation=True)
    targets = tokenizer(text_target=batch["headline"], max_length=12, truncation=True)
    inputs["labels"] = targets["input_ids"]
    return inputs


tokenized = rows.map(preprocess, batched=True, remove_columns=["text", "headline"])


def exact_match(evaluation):
    predictions, labels = evaluation
    predictions = np.where(predictions != -100, predictions, tokenizer.pad_token_id)
    labels = np.where(labels != -100, labels, tokenizer.pad_token_id)
    guessed = tokenizer.batch_decode(predictions, skip_special_tokens=True)
    wanted = tokenizer.batch_decode(labels, skip_special_tokens=True)
    same = [one.strip() == other.strip() for one, other in zip(guessed, wanted, strict=True)]
    return {"exact_match": float(np.mean(same))}


arguments = Seq2SeqTrainingArguments(
    output_dir="headlines",
    eval_strategy="epoch",
    save_strategy="epoch",
    learning_rate=3e-4,
    per_device_train_batch_size=8,
    num_train_epochs=1,
    predict_with_generate=True,
    generation_max_length=12,
)
trainer = Seq2SeqTrainer(
    model=model,
    args=arguments,
    train_dataset=tokenized["train"],
    eval_dataset=tokenized["test"],
    processing_class=tokenizer,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    compute_metrics=exact_match,
)
trainer.train()
