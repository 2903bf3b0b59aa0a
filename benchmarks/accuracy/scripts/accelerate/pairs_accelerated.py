"""Paraphrases with accelerate: accumulation in its context, evaluation over all processes."""

import evaluate
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_linear_schedule_with_warmup,
)

CHECKPOINT = "bert-base-uncased"


def loaders(accelerator, tokenizer):
    pairs = load_dataset("glue", "mrpc")
    with accelerator.main_process_first():
        pairs = pairs.map(
            lambda rows: tokenizer(rows["sentence1"], rows["sentence2"], truncation=True),
            batched=True,
            remove_columns=["idx", "sentence1", "sentence2"],
        )
    pairs = pairs.rename_column("label", "labels")
    collator = DataCollatorWithPadding(tokenizer)
    return (
        DataLoader(pairs["train"], shuffle=True, batch_size=4, collate_fn=collator),
        DataLoader(pairs["validation"], batch_size=8, collate_fn=collator),
    )


def main(epochs=2):
    set_seed(42)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    model = AutoModelForSequenceClassification.from_pretrained(CHECKPOINT, num_labels=2)
    optimizer = AdamW(model.parameters(), lr=2e-5)
    train_loader, eval_loader = loaders(accelerator, tokenizer)
    updates = epochs * len(train_loader) // 2
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=1, num_training_steps=updates)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler
    )
    metric = evaluate.load("accuracy")

    for epoch in range(epochs):
        model.train()
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()

        model.eval()
        for batch in eval_loader:
            with torch.no_grad():
                predicted = model(**batch).logits.argmax(dim=-1)
            predicted, labels = accelerator.gather_for_metrics((predicted, batch["labels"]))
            metric.add_batch(predictions=predicted, references=labels)
        accelerator.print(f"epoch {epoch}:", metric.compute())

    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained(
        "pairs", is_main_process=accelerator.is_main_process, save_function=accelerator.save
    )


if __name__ == "__main__":
    main()
