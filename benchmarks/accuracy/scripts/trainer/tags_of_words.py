"""Names in sentences: a token classifier on rows made here, its labels laid onto the pieces of words."""

import numpy as np
from datasets import Dataset
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SENTENCES = [
    (["ada", "lovelace", "lived", "in", "london"], [1, 2, 0, 0, 3]),
    (["the", "train", "to", "new", "york", "is", "late"], [0, 0, 0, 3, 4, 0, 0]),
    (["alan", "turing", "met", "grace", "hopper"], [1, 2, 0, 1, 2]),
    (["nobody", "was", "there"], [0, 0, 0]),
] * 8

tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")


def encode(rows):
    encoded = tokenizer(rows["words"], is_split_into_words=True, truncation=True)
    encoded["labels"] = []
    for row, tags in enumerate(rows["tags"]):
        previous, labels = None, []
        for word in encoded.word_ids(batch_index=row):
            labels.append(-100 if word is None or word == previous else tags[word])
            previous = word
        encoded["labels"].append(labels)
    return encoded


rows = Dataset.from_dict({"words": [words for words, _ in SENTENCES], "tags": [tags for _, tags in SENTENCES]})
rows = rows.shuffle(seed=5).map(encode, batched=True, remove_columns=rows.column_names)
parts = rows.train_test_split(test_size=0.25, seed=5)

model = AutoModelForTokenClassification.from_pretrained(
    "distilbert-base-uncased",
    id2label=dict(enumerate(TAGS)),
    label2id={tag: number for number, tag in enumerate(TAGS)},
)


def compute_metrics(prediction):
    guessed = np.argmax(prediction.predictions, axis=2)
    scored = prediction.label_ids != -100
    return {"token_accuracy": float((guessed[scored] == prediction.label_ids[scored]).mean())}


trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="tagger", eval_strategy="epoch", num_train_epochs=2, learning_rate=5e-5, save_strategy="epoch"
    ),
    train_dataset=parts["train"],
    eval_dataset=parts["test"],
    data_collator=DataCollatorForTokenClassification(tokenizer),
    compute_metrics=compute_metrics,
)
trainer.train()
trainer.save_model("tagger/final")
