"""Trains what `pairing` describes."""

from pairing import compute_metrics, load_pairs
from pairing.settings import Settings
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)


def build_trainer(settings):
    tokenizer = AutoTokenizer.from_pretrained(settings.checkpoint)
    pairs = load_pairs(settings, tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained(settings.checkpoint, num_labels=settings.classes)
    arguments = TrainingArguments(
        output_dir=settings.output,
        learning_rate=settings.rate,
        num_train_epochs=settings.epochs,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="f1",
    )
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=compute_metrics,
    )


if __name__ == "__main__":
    set_seed(1)
    trainer = build_trainer(Settings())
    trainer.train()
    trainer.save_model()
