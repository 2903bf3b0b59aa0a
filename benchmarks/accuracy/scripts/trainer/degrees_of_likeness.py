"""How alike two sentences are, as a number: a regression head."""

import numpy as np
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

CHECKPOINT = "distilbert-base-uncased"
one = [f"there are {number} birds in the tree" for number in range(60)]
other = [f"the tree has {number // 2} birds" for number in range(60)]
likeness = [float(abs(number % 10)) / 2.0 for number in range(60)]

tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
model = AutoModelForSequenceClassification.from_pretrained(CHECKPOINT, num_labels=1, problem_type="regression")
rows = Dataset.from_dict({"one": one, "other": other, "label": likeness})
rows = rows.map(lambda batch: tokenizer(batch["one"], batch["other"], truncation=True), batched=True)
rows = rows.train_test_split(test_size=0.2, seed=2)


def compute_metrics(prediction):
    predictions, labels = prediction
    errors = predictions.squeeze(-1) - labels
    return {"mse": float(np.mean(errors**2)), "mae": float(np.abs(errors).mean())}


arguments = TrainingArguments(
    output_dir="likeness",
    learning_rate=2e-5,
    num_train_epochs=2,
    eval_strategy="epoch",
    save_strategy="epoch",
    load_best_model_at_end=True,
    metric_for_best_model="mae",
    greater_is_better=False,
)
trainer = Trainer(
    model=model,
    args=arguments,
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    data_collator=DataCollatorWithPadding(tokenizer=tokenizer),
    compute_metrics=compute_metrics,
)
trainer.train()
