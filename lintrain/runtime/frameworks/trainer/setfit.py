"""SetFit: its trainer trains the body in a Trainer of its own, then fits a head on what the body makes of the texts."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import Any

from lintrain.evidence.run import EvaluationEvidence
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import attribute, is_mapping
from lintrain.runtime.frameworks.trainer.later_calls import calls_later
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.seen import subset

ROWS = 32


def follow(module: Any) -> None:
    """Let the trainer of the body know the one that the script made."""
    build = module.Trainer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        self.st_trainer.__dict__["lintrain_outer"] = self

    module.Trainer.__init__ = init


def outer_trainer(trainer: Any) -> Any | None:
    """The trainer of SetFit that runs this one, or None for any other."""
    return attribute(trainer, "lintrain_outer", None)


def fit_and_evaluate(run: TrainerRun, outer: Any) -> None:
    """Fit the head on a few rows of every label; evaluate it where the script will, on as few."""
    body = {name: value.clone() for name, value in outer.model.model_body.state_dict().items()}
    trains = {name: weight.requires_grad for name, weight in outer.model.model_body.named_parameters()}
    head = copy.deepcopy(outer.model.model_head)
    location = calls_later(outer, "evaluate")
    try:
        run.about = "fitting the head"
        _fit(run, outer)
        if outer.eval_dataset is not None and location is not None:
            run.about, run.fallback = "", location
            _evaluate(run, outer)
    finally:
        outer.model.model_head = head
        outer.model.model_body.load_state_dict(body)
        for name, weight in outer.model.model_body.named_parameters():
            weight.requires_grad_(trains[name])


def _fit(run: TrainerRun, outer: Any) -> None:
    rows = subset(outer.train_dataset, ROWS)
    texts = outer.dataset_to_parameters(rows)
    arguments = copy.copy(outer.args)
    arguments.num_epochs = (arguments.embedding_num_epochs, 1)
    outer.train_classifier(*texts, args=arguments)
    run.session.shorten(f"the head was fitted on {len(rows)} of {len(outer.train_dataset)} rows")


def _evaluate(run: TrainerRun, outer: Any) -> None:
    rows = subset(outer.eval_dataset, ROWS)
    with replaced(outer, eval_dataset=rows):
        metrics = outer.evaluate()
    numbers: Mapping[str, Any] = metrics if is_mapping(metrics) else {}
    run.measured(
        evaluation=EvaluationEvidence(
            wanted=True,
            has_metric_function=True,
            metric_function_called=True,
            rows=len(rows),
            number_of_rows=len(outer.eval_dataset),
            returned=type(metrics).__name__,
            metrics={str(name): float(value) for name, value in numbers.items() if isinstance(value, int | float)},
        )
    )
