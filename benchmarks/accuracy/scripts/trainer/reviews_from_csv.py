"""Reviews from a CSV file whose labels are words."""

from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

reviews = load_dataset("csv", data_files="reviews.csv", split="train")
reviews = reviews.class_encode_column("label").train_test_split(test_size=0.25, seed=8, stratify_by_column="label")
classes = reviews["train"].features["label"]

tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
reviews = reviews.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)

model = AutoModelForSequenceClassification.from_pretrained(
    "distilbert-base-uncased", num_labels=classes.num_classes, id2label=dict(enumerate(classes.names))
)
trainer = Trainer(
    model=model,
    args=TrainingArguments("reviews", eval_strategy="epoch", save_strategy="epoch", num_train_epochs=1),
    train_dataset=reviews["train"],
    eval_dataset=reviews["test"],
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model()
