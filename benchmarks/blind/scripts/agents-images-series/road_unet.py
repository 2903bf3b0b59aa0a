"""Train a U-Net for road scene segmentation from a folder of images and label masks.

Usage:
    python road_unet.py --data /data/roads --epochs 60
"""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.transforms.functional as TF
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import InterpolationMode

IGNORE_INDEX = 255
NUM_CLASSES = 12
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class RoadDataset(Dataset):
    """Pairs of `images/NAME.jpg` and `masks/NAME.png` (one class id per pixel)."""

    def __init__(self, root: Path, split: str, size: tuple[int, int], augment: bool) -> None:
        self.images = sorted((root / split / "images").glob("*.jpg"))
        self.mask_dir = root / split / "masks"
        self.size = size
        self.augment = augment

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        path = self.images[index]
        image = Image.open(path).convert("RGB")
        mask = Image.open(self.mask_dir / f"{path.stem}.png")
        image = TF.resize(image, self.size, interpolation=InterpolationMode.BILINEAR)
        mask = TF.resize(mask, self.size, interpolation=InterpolationMode.NEAREST)
        if self.augment and random.random() < 0.5:
            image = TF.hflip(image)
            mask = TF.hflip(mask)
        image = TF.normalize(TF.to_tensor(image), MEAN, STD)
        target = torch.from_numpy(np.array(mask)).long()
        return image, target


class DoubleConv(nn.Module):
    def __init__(self, in_ch: int, out_ch: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(in_ch, out_ch, 3, padding=1, bias=False), nn.BatchNorm2d(out_ch), nn.ReLU(inplace=True),
            nn.Conv2d(out_ch, out_ch, 3, padding=1, bias=False), nn.BatchNorm2d(out_ch), nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x)


class UNet(nn.Module):
    def __init__(self, num_classes: int, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList()
        in_ch = 3
        for width in widths:
            self.down.append(DoubleConv(in_ch, width))
            in_ch = width
        self.up = nn.ModuleList()
        self.merge = nn.ModuleList()
        for width in reversed(widths[:-1]):
            self.up.append(nn.ConvTranspose2d(in_ch, width, 2, stride=2))
            self.merge.append(DoubleConv(width * 2, width))
            in_ch = width
        self.head = nn.Conv2d(in_ch, num_classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i < len(self.down) - 1:
                skips.append(x)
                x = self.pool(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips)):
            x = merge(torch.cat([skip, up(x)], dim=1))
        return self.head(x)


def dice_loss(logits: torch.Tensor, target: torch.Tensor, eps: float = 1.0) -> torch.Tensor:
    valid = (target != IGNORE_INDEX).unsqueeze(1)
    probs = logits.softmax(dim=1) * valid
    one_hot = F.one_hot(target.clamp(max=NUM_CLASSES - 1), NUM_CLASSES).permute(0, 3, 1, 2).float() * valid
    inter = (probs * one_hot).sum(dim=(0, 2, 3))
    total = probs.sum(dim=(0, 2, 3)) + one_hot.sum(dim=(0, 2, 3))
    return 1.0 - ((2.0 * inter + eps) / (total + eps)).mean()


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    confusion = torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=torch.long, device=device)
    for image, target in loader:
        image, target = image.to(device), target.to(device)
        pred = model(image).argmax(dim=1)
        keep = target != IGNORE_INDEX
        index = target[keep] * NUM_CLASSES + pred[keep]
        confusion += torch.bincount(index, minlength=NUM_CLASSES**2).view(NUM_CLASSES, NUM_CLASSES)
    inter = confusion.diag().float()
    union = confusion.sum(0) + confusion.sum(1) - confusion.diag()
    present = union > 0
    return (inter[present] / union[present]).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda")

    train_set = RoadDataset(args.data, "train", (384, 768), augment=True)
    val_set = RoadDataset(args.data, "val", (384, 768), augment=False)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=4, pin_memory=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size, num_workers=4, pin_memory=True)

    model = UNet(NUM_CLASSES).to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORE_INDEX)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(train_loader)
    )
    scaler = torch.amp.GradScaler("cuda")

    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for image, target in train_loader:
            image = image.to(device, non_blocking=True)
            target = target.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                logits = model(image)
            loss = criterion(logits.float(), target) + dice_loss(logits.float(), target)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            running += loss.item()

        miou = evaluate(model, val_loader, device)
        print(f"epoch {epoch:03d} loss {running / len(train_loader):.4f} val mIoU {miou:.4f}")
        if miou > best:
            best = miou
            torch.save({"model": model.state_dict(), "miou": miou, "epoch": epoch}, "road_unet_best.pt")


if __name__ == "__main__":
    main()
