"""Small runs of Trainer, Lightning and Accelerate for the benchmark, each followed by its callback or by `watch`."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from benchmarks.watch.parts import CLASSES, FEATURES, F, classifier, nn, torch
from lintrain.callbacks import LightningWatch, TrainerWatch


class Rows(torch.utils.data.Dataset):  # type: ignore[misc] # a class of torch, read without its types
    """Rows with a label each, for a Trainer; what is made of a row may depend on its number."""

    def __init__(self, rows: int, change: Callable[[int, Any, Any], tuple[Any, Any]] | None = None) -> None:
        truth = torch.randn(FEATURES, CLASSES)
        self.x = torch.randn(rows, FEATURES)
        self.y = (self.x @ truth).argmax(1)
        self.change = change

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> dict[str, Any]:
        x, y = self.x[at], self.y[at]
        x, y = self.change(at, x, y) if self.change else (x, y)
        return {"x": x, "labels": y}


class WithLoss(nn.Module):  # type: ignore[misc] # a class of torch, read without its types
    """A classifier that returns its loss, as models of transformers do."""

    def __init__(self, smoothing: float = 0.0) -> None:
        super().__init__()
        self.layers, self.smoothing = classifier(), smoothing

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        """The loss and the logits."""
        logits = self.layers(x)
        return {"loss": F.cross_entropy(logits, labels, label_smoothing=self.smoothing), "logits": logits}


def run_trainer(model: Any, rows: Any, evaluation: Any = None, **given: Any) -> None:
    """Train with a Trainer that is watched to its end, without a file that remains."""
    transformers = import_module("transformers")
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        if evaluation is not None:
            given |= {"eval_strategy": "steps"}
        given = {"learning_rate": 3e-3, "per_device_train_batch_size": 16, "logging_steps": 20, **given}
        settings = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True, **given}
        transformers.Trainer(
            model,
            transformers.TrainingArguments(folder, **settings),
            train_dataset=rows,
            eval_dataset=evaluation,
            callbacks=[TrainerWatch(on_mistake="warn")],
        ).train()


def run_lightning(module: Any, batches: Iterable[Any], **given: Any) -> None:
    """Train with Lightning, watched to the end."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning = import_module("lightning")
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    given = {"max_epochs": 1, "enable_model_summary": False, **quiet, **given}
    lightning.Trainer(callbacks=[LightningWatch(on_mistake="warn")], **given).fit(module, Loader(batches))


class Loader:
    """Batches that were made before, as a loader."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = list(batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)
