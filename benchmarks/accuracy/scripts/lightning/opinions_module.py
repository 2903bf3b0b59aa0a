"""A pretrained encoder in a LightningModule: train mode is set for the part that comes in eval mode."""

import lightning.pytorch as pl
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_linear_schedule_with_warmup,
)


class Opinions(pl.LightningModule):
    def __init__(self, checkpoint: str, rate: float = 2e-5) -> None:
        super().__init__()
        self.rate = rate
        self.model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
        self.model.train()

    def training_step(self, batch, batch_idx):
        loss = self.model(**batch).loss
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        outputs = self.model(**batch)
        right = (outputs.logits.argmax(dim=-1) == batch["labels"]).float().mean()
        self.log_dict({"val_loss": outputs.loss, "val_accuracy": right})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.rate)
        steps = self.trainer.estimated_stepping_batches
        schedule = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


pl.seed_everything(2, workers=True)
tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
opinions = load_dataset("glue", "sst2")
opinions = opinions.map(lambda rows: tokenizer(rows["sentence"], truncation=True), batched=True)
opinions = opinions.remove_columns(["sentence", "idx"]).rename_column("label", "labels")
collator = DataCollatorWithPadding(tokenizer)
train_loader = DataLoader(opinions["train"], batch_size=8, shuffle=True, collate_fn=collator)
validation_loader = DataLoader(opinions["validation"], batch_size=16, collate_fn=collator)

trainer = pl.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir="opinions"
)
trainer.fit(Opinions("distilbert-base-uncased"), train_loader, validation_loader)
