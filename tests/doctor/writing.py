"""What a training leaves, in the form in which each framework leaves it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from tests.doctor.trainings import Row

START = datetime(2026, 3, 1, 9, 0, 0)


def transformers(folder: Path, rows: Sequence[Row]) -> Path:
    """A checkpoint of transformers' Trainer: its state, and the configuration of a model of two classes."""
    checkpoint = folder / f"checkpoint-{len(rows)}"
    checkpoint.mkdir(parents=True)
    history: list[Row] = []
    for row in rows:
        history.append({name: value for name, value in row.items() if name not in ("time",) and "eval" not in name})
        if "eval_loss" in row:
            history.append({name: value for name, value in row.items() if "eval" in name or name in ("step", "epoch")})
    state = {"global_step": len(rows), "max_steps": len(rows), "log_history": history, "lr_scheduler_type": "linear"}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    model = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "no", "1": "yes"}}
    (checkpoint / "config.json").write_text(json.dumps(model))
    return folder


def lightning(folder: Path, rows: Sequence[Row]) -> Path:
    """The table of Lightning's CSVLogger: evaluation has rows of its own, and cells may be empty."""
    names = {"loss": "train_loss", "eval_loss": "val_loss", "eval_accuracy": "val_acc", "learning_rate": "lr-SGD"}
    parts: list[dict[str, float]] = []
    for row in rows:
        shown = {names.get(name, name): value for name, value in row.items() if name != "time"}
        parts.append({name: value for name, value in shown.items() if not name.startswith("val")})
        if "val_loss" in shown:
            parts.append({name: shown[name] for name in ("epoch", "step", "val_loss", "val_acc")})
    (folder / "version_0").mkdir(parents=True)
    with (folder / "version_0" / "metrics.csv").open("w", newline="") as opened:
        writer = csv.DictWriter(opened, sorted({name for part in parts for name in part}))
        writer.writeheader()
        writer.writerows(parts)
    return folder


def tensorboard(folder: Path, rows: Sequence[Row]) -> Path:
    """Event files, as `torch.utils.tensorboard` writes them."""
    from torch.utils.tensorboard import SummaryWriter

    names = {"loss": "Loss/train", "eval_loss": "Loss/val", "eval_accuracy": "Accuracy/val"}
    with SummaryWriter(str(folder)) as writer:
        for row in rows:
            for name, value in row.items():
                if name not in ("step", "epoch", "time"):
                    tag = names.get(name, f"train/{name}")
                    writer.add_scalar(tag, value, int(row["step"]), START.timestamp() + row["time"])
    return folder


def log(folder: Path, rows: Sequence[Row]) -> Path:
    """What a loop prints, with the time of the clock."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = list[str]()
    for row in rows:
        clock = (START + timedelta(seconds=row["time"])).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        shown = f"loss: {row['loss']:.6f} | grad_norm: {row['grad_norm']:.4g} | lr: {row['learning_rate']:.3e}"
        lines.append(f"{clock} INFO epoch {row['epoch']:.3f} step {row['step']:.0f} | {shown}")
        if "eval_loss" in row:
            lines.append(
                f"{clock} INFO epoch {row['epoch']:.3f} step {row['step']:.0f} | "
                f"val_loss={row['eval_loss']:.6f} val_acc={row['eval_accuracy']:.4f}"
            )
    (folder / "train.log").write_text("Loading the data\n" + "\n".join(lines) + "\n")
    return folder / "train.log"


def notebook(folder: Path, rows: Sequence[Row]) -> Path:
    """A notebook in which the loop has printed the same."""
    folder.mkdir(parents=True, exist_ok=True)
    text = log(folder / "log", rows).read_text()
    output = {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    cell = {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "train()", "outputs": [output]}
    document = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "train.ipynb").write_text(json.dumps(document))
    return folder / "train.ipynb"


FORMS: dict[str, Callable[[Path, Sequence[Row]], Path]] = {
    "transformers": transformers,
    "lightning": lightning,
    "tensorboard": tensorboard,
    "log": log,
    "notebook": notebook,
}
HAVE_NO_CLOCK = ("transformers", "lightning")
"""What these leave has no times."""
