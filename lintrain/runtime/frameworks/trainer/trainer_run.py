"""A run of transformers' Trainer: what the experiments ask of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lintrain.evidence.run import LossEvidence, LossTerm
from lintrain.model.location import Location
from lintrain.runtime.child.library import attribute, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.probe_session import ProbeSession


class TrainerRun(MeasuredRun):
    """The trainer and what one stage leaves for the next.

    `entry` names the call that was reached (`train`, `evaluate`, `predict`); `wrapped` is the model as the trainer
    wraps it; `waiting` holds the first batch's loss until its backward pass, `terms` what it adds up,
    `loss_calls` the calls in it that the script makes; `peaks` and
    `first_learning_rates` are those of the optimizer's groups, `workers` the processes that the script asked for to
    load its rows.
    """

    def __init__(self, session: ProbeSession, trainer: Any, entry: str, call: Location | None) -> None:
        super().__init__(session, call)
        self.trainer = trainer
        self.entry = entry
        self.workers = int(trainer.args.dataloader_num_workers)
        self.wrapped: Any = trainer.model
        self.waiting: list[tuple[Any, dict[str, Any]]] = []
        self.terms: tuple[LossTerm, ...] = ()
        self.random_head: str | None = None
        self.loss_calls: tuple[LossEvidence, ...] = ()
        self.peaks: list[float] = []
        self.first_learning_rates: list[float] = []

    @property
    def model(self) -> Any:
        """The trainer's model."""
        return self.trainer.model

    @property
    def collator(self) -> Any:
        """The trainer's collator."""
        return self.trainer.data_collator

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """The optimizer under accelerate's wrapper."""
        optimizer = self.trainer.optimizer
        return () if optimizer is None else (attribute(optimizer, "optimizer", optimizer),)

    @property
    def label_inputs(self) -> tuple[str, ...]:
        """What the trainer takes for labels."""
        return tuple(self.trainer.label_names or ())

    @property
    def clipped_at(self) -> float | None:
        """The trainer's `max_grad_norm`."""
        limit = self.trainer.args.max_grad_norm
        return float(limit) if limit else None

    @property
    def passes_all(self) -> bool:
        """Whether the loss is that of transformers, which calls the model with the batch."""
        compute = attribute(self.trainer.__class__, "compute_loss", None)
        return compute is library("transformers.trainer").Trainer.compute_loss

    def tokenizer_holders(self) -> Iterable[tuple[Any, str]]:
        """The trainer before its collator."""
        return ((self.trainer, "processing_class"), (self.trainer, "tokenizer"), *super().tokenizer_holders())
