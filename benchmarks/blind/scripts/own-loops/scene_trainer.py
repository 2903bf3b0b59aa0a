"""Trainer of the scene-recognition repo: AMP, EMA weights, TensorBoard, resume."""
import copy
import logging
import random
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from torchmetrics.classification import MulticlassAccuracy
from torchvision import datasets
from torchvision.models import ResNet50_Weights, resnet50
from torchvision.transforms import v2
from tqdm import tqdm

logger = logging.getLogger(__name__)


@dataclass
class TrainConfig:
    data_root: str = "data/scenes"
    run_dir: str = "runs/scene"
    num_classes: int = 67
    epochs: int = 40
    batch_size: int = 64
    lr: float = 3e-4
    weight_decay: float = 0.05
    ema_decay: float = 0.999
    grad_clip: float = 1.0
    num_workers: int = 6
    seed: int = 3407
    resume: str | None = None


class ModelEMA:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for ema_v, v in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ema_v.dtype.is_floating_point:
                ema_v.mul_(self.decay).add_(v, alpha=1.0 - self.decay)
            else:
                ema_v.copy_(v)


class Trainer:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.device = torch.device("cuda")
        self.run_dir = Path(cfg.run_dir)
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.writer = SummaryWriter(self.run_dir)
        self.train_loader, self.val_loader = self.build_loaders()

        weights = ResNet50_Weights.IMAGENET1K_V2
        self.model = resnet50(weights=weights)
        self.model.fc = nn.Linear(self.model.fc.in_features, cfg.num_classes)
        self.model.to(self.device)
        self.ema = ModelEMA(self.model, cfg.ema_decay)

        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        steps = cfg.epochs * len(self.train_loader)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)
        self.scaler = torch.amp.GradScaler("cuda")
        self.val_acc = MulticlassAccuracy(num_classes=cfg.num_classes, average="micro").to(self.device)
        self.start_epoch, self.best_acc, self.global_step = 0, 0.0, 0
        if cfg.resume:
            self.load(cfg.resume)

    def build_loaders(self):
        norm = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])]
        train_tf = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), *norm])
        val_tf = v2.Compose([v2.Resize(256), v2.CenterCrop(224), *norm])
        root = Path(self.cfg.data_root)
        train_set = datasets.ImageFolder(root / "train", transform=train_tf)
        val_set = datasets.ImageFolder(root / "val", transform=val_tf)
        common = dict(batch_size=self.cfg.batch_size, num_workers=self.cfg.num_workers, pin_memory=True)
        return DataLoader(train_set, shuffle=True, drop_last=True, **common), DataLoader(val_set, **common)

    def save(self, name, epoch):
        torch.save({
            "model": self.model.state_dict(),
            "ema": self.ema.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epoch": epoch,
            "step": self.global_step,
            "best_acc": self.best_acc,
            "config": asdict(self.cfg),
        }, self.run_dir / name)

    def load(self, path):
        ckpt = torch.load(path, map_location=self.device)
        self.model.load_state_dict(ckpt["model"])
        self.ema.module.load_state_dict(ckpt["ema"])
        self.optimizer.load_state_dict(ckpt["optimizer"])
        self.scheduler.load_state_dict(ckpt["scheduler"])
        self.scaler.load_state_dict(ckpt["scaler"])
        self.start_epoch = ckpt["epoch"] + 1
        self.global_step = ckpt["step"]
        self.best_acc = ckpt["best_acc"]
        logger.info("resumed from %s at epoch %d", path, self.start_epoch)

    def train_one_epoch(self, epoch):
        self.model.train()
        for images, labels in tqdm(self.train_loader, desc=f"epoch {epoch}"):
            images = images.to(self.device, non_blocking=True)
            labels = labels.to(self.device, non_blocking=True)
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device_type="cuda"):
                loss = self.criterion(self.model(images), labels)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.grad_clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
            self.ema.update(self.model)
            self.global_step += 1
            if self.global_step % 50 == 0:
                self.writer.add_scalar("train/loss", loss.item(), self.global_step)

    @torch.no_grad()
    def validate(self, epoch):
        self.val_acc.reset()
        for images, labels in self.val_loader:
            images, labels = images.to(self.device), labels.to(self.device)
            logits = self.ema.module(images)
            self.val_acc.update(logits, labels)
        acc = self.val_acc.compute().item()
        self.writer.add_scalar("val/acc", acc, epoch)
        return acc

    def fit(self):
        for epoch in range(self.start_epoch, self.cfg.epochs):
            self.train_one_epoch(epoch)
            acc = self.validate(epoch)
            is_best = acc > self.best_acc
            self.best_acc = max(acc, self.best_acc)
            self.save("last.pt", epoch)
            if is_best:
                self.save("best.pt", epoch)
            logger.info("epoch %d acc %.4f best %.4f", epoch, acc, self.best_acc)
        self.writer.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    config = TrainConfig()
    random.seed(config.seed)
    np.random.seed(config.seed)
    torch.manual_seed(config.seed)
    Trainer(config).fit()
