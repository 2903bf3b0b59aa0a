"""Topics of news, as a program with options."""

import argparse

import numpy as np
from datasets import load_dataset
from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="bert-base-uncased")
    parser.add_argument("--output", default="topics")
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=3)
    return parser.parse_args()


def load_topics(tokenizer):
    news = load_dataset("ag_news")
    return news.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=64), batched=True)


def score(prediction):
    guessed = np.argmax(prediction.predictions, axis=1)
    precision, recall, f1, _ = precision_recall_fscore_support(
        prediction.label_ids, guessed, average="macro", zero_division=0
    )
    return {
        "accuracy": accuracy_score(prediction.label_ids, guessed),
        "precision": precision,
        "recall": recall,
        "f1": f1,
    }


def main():
    options = parse_arguments()
    set_seed(options.seed)
    tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
    topics = load_topics(tokenizer)
    names = topics["train"].features["label"].names
    model = AutoModelForSequenceClassification.from_pretrained(
        options.checkpoint,
        num_labels=len(names),
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )
    arguments = TrainingArguments(
        output_dir=options.output,
        learning_rate=options.rate,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=16,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="steps",
        save_steps=4,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        greater_is_better=True,
        seed=options.seed,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=topics["train"],
        eval_dataset=topics["test"],
        processing_class=tokenizer,
        compute_metrics=score,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model(options.output)


if __name__ == "__main__":
    main()
