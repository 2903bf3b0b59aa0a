# Kaggle: leaf disease, ViT fine-tune, 5 folds -> submission.csv
import gc
import os

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedGroupKFold
from torch.utils.data import Dataset
from torchvision import transforms as T
from transformers import AutoImageProcessor, AutoModelForImageClassification, Trainer, TrainingArguments, set_seed

INPUT = "/kaggle/input/leaf-disease"
CKPT = "google/vit-base-patch16-224-in21k"
SEED = 2023
N_FOLDS = 5
set_seed(SEED)

df = pd.read_csv(f"{INPUT}/train.csv")  # image_id, plant_id, label
sub = pd.read_csv(f"{INPUT}/sample_submission.csv")  # image_id, label
classes = sorted(df["label"].unique())
label2id = {c: i for i, c in enumerate(classes)}
id2label = {i: c for c, i in label2id.items()}
df["target"] = df["label"].map(label2id)

# images of one plant stay in one fold
df["fold"] = -1
splitter = StratifiedGroupKFold(n_splits=N_FOLDS, shuffle=True, random_state=SEED)
for fold, (_, va_idx) in enumerate(splitter.split(df, df["target"], groups=df["plant_id"])):
    df.loc[va_idx, "fold"] = fold

processor = AutoImageProcessor.from_pretrained(CKPT)
size = (processor.size["height"], processor.size["width"])
normalize = T.Normalize(mean=processor.image_mean, std=processor.image_std)

train_tf = T.Compose(
    [
        T.RandomResizedCrop(size, scale=(0.6, 1.0)),
        T.RandomHorizontalFlip(),
        T.RandomVerticalFlip(),
        T.ColorJitter(0.1, 0.1, 0.1),
        T.ToTensor(),
        normalize,
    ]
)
valid_tf = T.Compose([T.Resize(size), T.ToTensor(), normalize])


class LeafDataset(Dataset):
    def __init__(self, frame, folder, tf, has_target=True):
        self.ids = frame["image_id"].tolist()
        self.targets = frame["target"].tolist() if has_target else None
        self.folder = folder
        self.tf = tf

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        img = Image.open(os.path.join(self.folder, self.ids[i] + ".jpg")).convert("RGB")
        item = {"pixel_values": self.tf(img)}
        if self.targets is not None:
            item["labels"] = self.targets[i]
        return item


def collate(items):
    batch = {"pixel_values": torch.stack([x["pixel_values"] for x in items])}
    if "labels" in items[0]:
        batch["labels"] = torch.tensor([x["labels"] for x in items])
    return batch


def compute_metrics(p):
    preds = p.predictions.argmax(-1)
    return {"macro_f1": f1_score(p.label_ids, preds, average="macro"), "acc": (preds == p.label_ids).mean()}


oof = np.zeros((len(df), len(classes)), dtype=np.float32)
test_probs = np.zeros((len(sub), len(classes)), dtype=np.float32)
test_ds = LeafDataset(sub, f"{INPUT}/test_images", valid_tf, has_target=False)

for fold in range(N_FOLDS):
    print("=" * 10, "fold", fold)
    set_seed(SEED + fold)
    tr = df[df["fold"] != fold]
    va = df[df["fold"] == fold]
    train_ds = LeafDataset(tr, f"{INPUT}/train_images", train_tf)
    valid_ds = LeafDataset(va, f"{INPUT}/train_images", valid_tf)

    model = AutoModelForImageClassification.from_pretrained(
        CKPT, num_labels=len(classes), id2label=id2label, label2id=label2id
    )
    args = TrainingArguments(
        output_dir=f"fold{fold}",
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        learning_rate=5e-5,
        warmup_steps=100,
        weight_decay=0.05,
        num_train_epochs=5,
        fp16=True,
        eval_strategy="epoch",
        save_strategy="no",
        dataloader_num_workers=2,
        remove_unused_columns=False,
        report_to="none",
        seed=SEED + fold,
    )
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=collate,
        train_dataset=train_ds,
        eval_dataset=valid_ds,
        compute_metrics=compute_metrics,
    )
    trainer.train()

    logits = trainer.predict(valid_ds).predictions
    oof[va.index] = torch.softmax(torch.from_numpy(logits), dim=-1).numpy()
    logits = trainer.predict(test_ds).predictions
    test_probs += torch.softmax(torch.from_numpy(logits), dim=-1).numpy() / N_FOLDS

    del model, trainer
    gc.collect()
    torch.cuda.empty_cache()

print("OOF macro F1", f1_score(df["target"], oof.argmax(1), average="macro"))
sub["label"] = [id2label[i] for i in test_probs.argmax(1)]
sub.to_csv("submission.csv", index=False)
