import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torchvision.models as models
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms

parser = argparse.ArgumentParser(description="ImageNet training, launched with torchrun")
parser.add_argument("data", metavar="DIR")
parser.add_argument("--arch", default="resnet50")
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("--batch-size", default=64, type=int, help="per process")
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("--weight-decay", default=1e-4, type=float)
parser.add_argument("--clip", default=5.0, type=float)
parser.add_argument("--workers", default=8, type=int)
parser.add_argument("--resume", default="", type=str)
parser.add_argument("--seed", default=0, type=int)
parser.add_argument("--output", default="runs/imagenet")


def get_datasets(root):
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    train_tf = transforms.Compose(
        [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normalize]
    )
    val_tf = transforms.Compose(
        [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), normalize]
    )
    train_set = datasets.ImageFolder(os.path.join(root, "train"), train_tf)
    val_set = datasets.ImageFolder(os.path.join(root, "val"), val_tf)
    return train_set, val_set


def train(loader, model, criterion, optimizer, scaler, epoch, device, args):
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(images)
            loss = criterion(output, target)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        if i % 100 == 0 and dist.get_rank() == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.4f} time {time.time() - end:.1f}s")
            end = time.time()


@torch.no_grad()
def validate(loader, model, device):
    model.eval()
    counts = torch.zeros(2, device=device)
    for images, target in loader:
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(images)
        counts[0] += (output.argmax(dim=1) == target).sum()
        counts[1] += target.size(0)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item() * 100


def main():
    args = parser.parse_args()
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    torch.manual_seed(args.seed + dist.get_rank())
    os.makedirs(args.output, exist_ok=True)

    train_set, val_set = get_datasets(args.data)
    train_sampler = DistributedSampler(train_set, shuffle=True, seed=args.seed)
    val_sampler = DistributedSampler(val_set, shuffle=False)
    train_loader = DataLoader(
        train_set, args.batch_size, sampler=train_sampler, num_workers=args.workers, pin_memory=True, drop_last=True
    )
    val_loader = DataLoader(val_set, args.batch_size, sampler=val_sampler, num_workers=args.workers, pin_memory=True)

    model = models.__dict__[args.arch](weights=None)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(device)
    model = DDP(model, device_ids=[local_rank])

    criterion = nn.CrossEntropyLoss(label_smoothing=0.1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    scaler = torch.amp.GradScaler("cuda")

    start_epoch, best_acc = 0, 0.0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location=device)
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        scaler.load_state_dict(checkpoint["scaler"])
        start_epoch = checkpoint["epoch"] + 1
        best_acc = checkpoint["best_acc"]

    for epoch in range(start_epoch, args.epochs):
        train_sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, scaler, epoch, device, args)
        acc = validate(val_loader, model, device)
        scheduler.step()

        is_best = acc > best_acc
        best_acc = max(acc, best_acc)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} acc@1 {acc:.2f} best {best_acc:.2f}")
            state = {
                "epoch": epoch,
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "scaler": scaler.state_dict(),
                "best_acc": best_acc,
            }
            torch.save(state, os.path.join(args.output, "last.pth"))
            if is_best:
                torch.save(state, os.path.join(args.output, "best.pth"))

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
