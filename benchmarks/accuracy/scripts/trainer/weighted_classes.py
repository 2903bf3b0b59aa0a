"""A Trainer with a loss of its own: rare classes weigh more, and the loss is shared over accumulated batches."""

import torch
from datasets import load_dataset
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments


class WeightedTrainer(Trainer):
    def __init__(self, *args, class_weights, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = class_weights

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        reduction = "sum" if num_items_in_batch is not None else "mean"
        criterion = nn.CrossEntropyLoss(weight=self.class_weights.to(outputs.logits.device), reduction=reduction)
        loss = criterion(outputs.logits, labels)
        if num_items_in_batch is not None:
            loss = loss / num_items_in_batch
        return (loss, outputs) if return_outputs else loss


tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
pairs = load_dataset("glue", "mrpc")
encoded = pairs.map(
    lambda rows: tokenizer(rows["sentence1"], rows["sentence2"], truncation=True, max_length=64), batched=True
)
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)

arguments = TrainingArguments(
    output_dir="weighted",
    learning_rate=2e-5,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,
    num_train_epochs=1,
    eval_strategy="epoch",
    save_strategy="epoch",
)
trainer = WeightedTrainer(
    model=model,
    args=arguments,
    train_dataset=encoded["train"],
    eval_dataset=encoded["validation"],
    processing_class=tokenizer,
    class_weights=torch.tensor([1.5, 0.75]),
)
trainer.train()
