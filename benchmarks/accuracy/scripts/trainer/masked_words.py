"""A masked language model on running text."""

from datasets import load_dataset
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)


def main() -> None:
    text = load_dataset("wikitext", "wikitext-2-raw-v1")
    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    model = AutoModelForMaskedLM.from_pretrained("bert-base-uncased")

    filled = text.filter(lambda row: len(row["text"]) > 0)
    tokenized = filled.map(
        lambda rows: tokenizer(rows["text"], truncation=True, max_length=48), batched=True, remove_columns=["text"]
    )
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    arguments = TrainingArguments("masked", num_train_epochs=1, per_device_train_batch_size=16, learning_rate=5e-5)
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=tokenized["train"],
        data_collator=collator,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model("masked/final")


if __name__ == "__main__":
    main()
