"""Stand-ins for the part of a Trainer that fails, where no fix of the text is known: they let later stages be measured.

Each changes the trainer's objects in this process only, never a file.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

from lintrain.evidence.run import StageName, StageStatus
from lintrain.runtime.child.library import attribute, attributes_to_copy, has, is_mapping, is_row, library
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun

IGNORED = -100
LABELS = ("labels", "label", "label_ids")
LENGTHS = (list, tuple)


def put_stand_in(run: TrainerRun) -> str | None:
    """Put something in place of the part that fails first; what it is, None if nothing fits."""
    failed = (name for name, status in run.statuses.items() if status is StageStatus.FAILED)
    put = STAND_INS.get(next(failed, StageName.SCRIPT))
    return put(run) if put else None


def _pad(run: TrainerRun) -> str | None:
    """Let the collator get rows of equal length."""
    trainer, collate = run.trainer, run.trainer.data_collator
    is_padding = attribute(collate, "lintrain_pads") is not None
    if is_padding or trainer.train_dataset is None or is_mapping(trainer.train_dataset):
        return None
    rows = [trainer.train_dataset[index] for index in range(min(8, len(trainer.train_dataset)))]
    if not any(_is_ragged(rows, name) for name in _names(rows)):
        return None

    @functools.wraps(collate, assigned=attributes_to_copy(collate))
    def padded(features: Sequence[Any]) -> Any:
        return collate(_padded(run, features))

    # The mark keeps a second failing batch from being given the same stand-in again.
    padded.__dict__["lintrain_pads"] = True
    trainer.data_collator = padded
    return "a collator that pads"


def _names(rows: Sequence[Any]) -> list[str]:
    return list(rows[0]) if rows and all(is_mapping(row) for row in rows) else []


def _is_ragged(rows: Sequence[Any], name: str) -> bool:
    values = [row.get(name) for row in rows]
    return all(isinstance(value, LENGTHS) for value in values) and len({len(value) for value in values}) > 1


def _padded(run: TrainerRun, rows: Sequence[Any]) -> list[Any]:
    padded = [dict(row) for row in rows]
    for name in (each for each in _names(rows) if _is_ragged(rows, each)):
        longest = max(len(row[name]) for row in rows)
        for row in padded:
            row[name] = [*row[name], *[_filler(run, name)] * (longest - len(row[name]))]
    return padded


def _filler(run: TrainerRun, name: str) -> int:
    if name in LABELS:
        return IGNORED
    # Masks and token types are filled with 0, whatever the id of padding is: a mask of 0 hides the filled places.
    return int(attribute(run.model.config, "pad_token_id", None) or 0) if name == "input_ids" else 0


def _widen_head(run: TrainerRun) -> str | None:
    """Give the head as many outputs as the first batches have labels."""
    model, outputs = run.model, attribute(attribute(run.model, "config", None), "num_labels", None)
    classes = _classes(run)
    if not isinstance(outputs, int) or classes <= outputs:
        return None
    linear = library("torch.nn").Linear
    heads = [name for name, part in model.named_modules() if isinstance(part, linear) and part.out_features == outputs]
    if not heads:
        return None
    owner, _, name = heads[-1].rpartition(".")
    before = model.get_submodule(heads[-1])
    after = linear(before.in_features, classes, bias=before.bias is not None).to(before.weight.device)
    # In place of the last layer with so many outputs: an inner layer of that width comes before the head.
    setattr(model.get_submodule(owner), name, after)
    # transformers keeps the problem type that it found for the first batch, which was about the old head.
    model.config.num_labels, model.config.problem_type = classes, None
    if has(model, "num_labels"):
        model.num_labels = classes
    return f"a head of {classes} outputs"


def _classes(run: TrainerRun) -> int:
    """One more than the largest label of the first batches."""
    integers = (library("torch").int64, library("torch").int32)
    found: list[Any] = [batch.get("labels") for batch in run.batches if is_mapping(batch)]
    largest = [int(labels.max()) for labels in found if attribute(labels, "dtype", None) in integers and labels.numel()]
    return max(largest, default=-1) + 1


def _choose_classes(run: TrainerRun) -> str | None:
    """Let the metric function get classes instead of one score per class."""
    trainer, compute = run.trainer, run.trainer.compute_metrics
    if compute is None or attribute(compute, "lintrain_chooses") is not None:
        return None

    @functools.wraps(compute, assigned=attributes_to_copy(compute))
    def compute_metrics(prediction: Any, *args: Any, **kwargs: Any) -> Any:
        return compute(_with_classes(prediction), *args, **kwargs)

    compute_metrics.__dict__["lintrain_chooses"] = True
    trainer.compute_metrics = compute_metrics
    return "the class with the highest score for the metric"


def _with_classes(prediction: Any) -> Any:
    scores, labels = prediction.predictions, prediction.label_ids
    # With hidden states the predictions are a tuple, whose first part are the logits.
    scores = scores[0] if is_row(scores) else scores
    if attribute(scores, "ndim", 0) != attribute(labels, "ndim", 0) + 1:
        return prediction
    # The library goes on to use its own object, for counts of samples and for what `predict` returns.
    chosen = copy.copy(prediction)
    chosen.predictions = scores.argmax(axis=-1)
    chosen.elements = (chosen.predictions, *prediction.elements[1:])  # what a metric function unpacks
    return chosen


STAND_INS: dict[StageName, Callable[[TrainerRun], str | None]] = {
    StageName.BATCH: _pad,
    StageName.FORWARD: _widen_head,
    StageName.EVALUATION: _choose_classes,
}
"""By the stage that fails first."""
