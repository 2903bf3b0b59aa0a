"""Several topics for one text: labels as rows of zeros and ones."""

import numpy as np
from datasets import Dataset
from sklearn.metrics import f1_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

TOPICS = ["sport", "money", "weather"]
texts = ["the match was rained off", "the bank sold the club", "sun all week", "shares fell in the storm"] * 12
topics = [["sport", "weather"], ["sport", "money"], ["weather"], ["money", "weather"]] * 12

tokenizer = AutoTokenizer.from_pretrained("roberta-base")
model = AutoModelForSequenceClassification.from_pretrained(
    "roberta-base", num_labels=len(TOPICS), problem_type="multi_label_classification"
)


def encode(rows):
    encoded = tokenizer(rows["text"], truncation=True, max_length=128)
    encoded["labels"] = [[float(topic in given) for topic in TOPICS] for given in rows["topics"]]
    return encoded


data = Dataset.from_dict({"text": texts, "topics": topics})
data = data.map(encode, batched=True, remove_columns=["text", "topics"]).train_test_split(test_size=0.25, seed=9)


def score(prediction):
    probabilities = 1 / (1 + np.exp(-prediction.predictions))
    guessed = (probabilities > 0.5).astype(int)
    return {"f1": f1_score(prediction.label_ids.astype(int), guessed, average="micro", zero_division=0)}


trainer = Trainer(
    model=model,
    args=TrainingArguments(
        "topics", learning_rate=2e-5, num_train_epochs=1, eval_strategy="epoch", save_strategy="epoch"
    ),
    train_dataset=data["train"],
    eval_dataset=data["test"],
    processing_class=tokenizer,
    compute_metrics=score,
)
trainer.train()
