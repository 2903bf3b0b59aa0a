import gc
import os
import random

import albumentations as A
import cv2
import numpy as np
import pandas as pd
import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from albumentations.pytorch import ToTensorV2
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold
from torch.utils.data import DataLoader, Dataset
from tqdm.auto import tqdm


class CFG:
    root = "/kaggle/input/leaf-lesions"
    model_name = "tf_efficientnet_b3.ns_jft_in1k"
    size = 384
    folds = 5
    epochs = 8
    bs = 24
    lr = 4e-4
    mix_alpha = 0.4
    seed = 777
    workers = 2


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
train_aug = A.Compose([
    A.Resize(CFG.size, CFG.size),
    A.HorizontalFlip(p=0.5),
    A.VerticalFlip(p=0.5),
    A.RandomBrightnessContrast(p=0.3),
    A.Normalize(mean=MEAN, std=STD),
    ToTensorV2(),
])
valid_aug = A.Compose([
    A.Resize(CFG.size, CFG.size),
    A.Normalize(mean=MEAN, std=STD),
    ToTensorV2(),
])


class LeafDataset(Dataset):
    def __init__(self, df, folder, aug, test=False):
        self.df = df.reset_index(drop=True)
        self.folder = folder
        self.aug = aug
        self.test = test

    def __len__(self):
        return len(self.df)

    def __getitem__(self, i):
        path = os.path.join(CFG.root, self.folder, self.df.loc[i, "image_id"] + ".jpg")
        img = cv2.imread(path)
        img = cv2.cvtColor(img, cv2.COLOR_BGR2RGB)
        img = self.aug(image=img)["image"]
        if self.test:
            return img
        return img, torch.tensor(self.df.loc[i, "target"], dtype=torch.float32)


def mixup(x, y, alpha):
    lam = np.random.beta(alpha, alpha)
    perm = torch.randperm(x.size(0), device=x.device)
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


def train_fn(model, loader, optimizer, scheduler, scaler, device):
    model.train()
    total, n = 0.0, 0
    for x, y in tqdm(loader):
        x, y = x.to(device), y.to(device)
        x, ya, yb, lam = mixup(x, y, CFG.mix_alpha)
        with torch.autocast("cuda"):
            logits = model(x).squeeze(1)
            loss = lam * F.binary_cross_entropy_with_logits(logits, ya)
            loss = loss + (1 - lam) * F.binary_cross_entropy_with_logits(logits, yb)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        total += loss.item() * x.size(0)
        n += x.size(0)
    return total / n


def predict_fn(model, loader, device):
    model.eval()
    preds = []
    with torch.no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            with torch.autocast("cuda"):
                logits = model(x.to(device)).squeeze(1)
            preds.append(logits.float().sigmoid().cpu().numpy())
    return np.concatenate(preds)


def run():
    set_seed(CFG.seed)
    device = torch.device("cuda")
    df = pd.read_csv(os.path.join(CFG.root, "train.csv"))
    sub = pd.read_csv(os.path.join(CFG.root, "sample_submission.csv"))
    test_loader = DataLoader(LeafDataset(sub, "test", valid_aug, test=True), batch_size=CFG.bs * 2,
                             shuffle=False, num_workers=CFG.workers)
    oof = np.zeros(len(df))
    test_preds = np.zeros(len(sub))

    # one plant was photographed several times
    cv = StratifiedGroupKFold(n_splits=CFG.folds, shuffle=True, random_state=CFG.seed)
    for fold, (trn, val) in enumerate(cv.split(df, df["target"], groups=df["plant_id"])):
        trn_loader = DataLoader(LeafDataset(df.iloc[trn], "train", train_aug), batch_size=CFG.bs, shuffle=True,
                                drop_last=True, num_workers=CFG.workers, pin_memory=True)
        val_loader = DataLoader(LeafDataset(df.iloc[val], "train", valid_aug), batch_size=CFG.bs * 2,
                                shuffle=False, num_workers=CFG.workers)
        model = timm.create_model(CFG.model_name, pretrained=True, num_classes=1).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr, weight_decay=1e-2)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=CFG.lr,
                                                        total_steps=CFG.epochs * len(trn_loader))
        scaler = torch.amp.GradScaler("cuda")
        best_auc, ckpt = 0.0, f"fold{fold}.pth"
        for epoch in range(CFG.epochs):
            loss = train_fn(model, trn_loader, optimizer, scheduler, scaler, device)
            auc = roc_auc_score(df["target"].values[val], predict_fn(model, val_loader, device))
            print(f"fold {fold} epoch {epoch} loss {loss:.4f} auc {auc:.4f}")
            if auc > best_auc:
                best_auc = auc
                torch.save(model.state_dict(), ckpt)

        model.load_state_dict(torch.load(ckpt, map_location=device))
        oof[val] = predict_fn(model, val_loader, device)
        test_preds += predict_fn(model, test_loader, device) / CFG.folds
        del model, optimizer
        gc.collect()
        torch.cuda.empty_cache()

    print("oof auc", roc_auc_score(df["target"], oof))
    sub["target"] = test_preds
    sub.to_csv("submission.csv", index=False)


if __name__ == "__main__":
    run()
