"""A Trainer reads a streaming data set without `max_steps`.

Trainer computes the number of steps from the number of rows, which a stream does not have. Without `max_steps` it
cannot create the learning rate schedule, and raises ValueError when it is created.

## Bad

    stream = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "label": [1, 0] * 8}).to_iterable_dataset()
    stream = stream.map(lambda row: tokenizer(row["text"]))
    args = TrainingArguments("out", num_train_epochs=1)
    trainer = Trainer(model, args, train_dataset=stream, processing_class=tokenizer)  # <- iterable-without-max-steps
    # raises ValueError: The train_dataset does not implement __len__

and

    from torch.utils.data import IterableDataset

    class Reviews(IterableDataset):
        def __iter__(self):
            for text, label in [("a good film", 1), ("a bad film", 0)] * 8:
                yield {**tokenizer(text), "labels": label}

    trainer = Trainer(model, args, train_dataset=Reviews(), processing_class=tokenizer)  # <- iterable-without-max-steps
    # raises ValueError: The train_dataset does not implement __len__

## Good

    stream = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "label": [1, 0] * 8}).to_iterable_dataset()
    stream = stream.map(lambda row: tokenizer(row["text"]))
    args = TrainingArguments("out", num_train_epochs=1, max_steps=2)
    trainer = Trainer(model, args, train_dataset=stream, processing_class=tokenizer)

## When it is fine

A stream with a length:

    from torch.utils.data import IterableDataset

    class Reviews(IterableDataset):
        def __len__(self):
            return 16

        def __iter__(self):
            for text, label in [("a good film", 1), ("a bad film", 0)] * 8:
                yield {**tokenizer(text), "labels": label}

    trainer = Trainer(model, args, train_dataset=Reviews(), processing_class=tokenizer)

The number of steps may come from the command line:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=2)
    stream = tokenized["train"].to_iterable_dataset()
    args = TrainingArguments("out", max_steps=parser.parse_args([]).max_steps)
    trainer = Trainer(model, args, train_dataset=stream, processing_class=tokenizer)

## Fix

Asks first: the number of steps is that of the epochs on one device, and several devices need fewer. Offered if the
script shows how many rows the stream has, or defines an unused name for the number of steps.

## References

Transformers documentation, `TrainingArguments.max_steps`; the error is that of transformers 5.23.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from lintrain.analysis import expressions, loaders
from lintrain.pipeline import blocks, dataset_rows
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.python import Constant, Instance, Value, is_missing, number_of, options_of
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

RAISED = ("max_steps has to be specified", "max_steps must be set to a positive value")

NAMED = lazy_pattern(r"(max|total|num|n)_?(train(ing)?_?)?steps", re.IGNORECASE)
"""Variable names for the number of training steps."""

DEFAULTS = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_train_epochs": 3}
"""The arguments that determine the number of steps, with the defaults of transformers 5.23."""


class IterableWithoutMaxSteps(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            dataset = run.value("train_dataset")
            has_no_length = loaders.is_stream(dataset) and not any(map(_may_have_length, options_of(dataset)))
            if has_no_length and _has_no_steps(run) and not loaders.expects_error(pipeline, run.construction):
                yield self._report(pipeline, run, dataset)

    def _report(self, pipeline: Pipeline, run: TrainerRun, dataset: Value) -> Finding:
        made = options_of(dataset)[0].origin
        return self.finding(
            run.construction,
            f"`{run.name}` trains on a stream, but `max_steps` is not set",
            related=[
                *([Related(made, "a stream without a length", "origin")] if made else []),
                *_steps(pipeline, run, dataset),
            ],
            help="set `max_steps` in the training arguments",
            subject="train_dataset",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"creating the trainer raises `{stage.failure.type}`")
        steps = evidence.arguments.get("max_steps")
        if evidence.passed("construction"):
            return Verdict.refuted(f"the trainer was created with `max_steps={steps}`")
        return Verdict.inconclusive(evidence.not_reached("construction"))

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.AddArgument(each.location, "max_steps", each.text) for each in finding.with_role("arguments")]
        return fixes.Fix.of(f"train for `max_steps={edits[0].value}`", *edits, safe=False) if edits else None


def _may_have_length(dataset: Value) -> bool:
    """Whether a stream class of the script defines `__len__`, or may inherit it from an unknown class."""
    if not isinstance(dataset, Instance):
        return False
    return dataset.cls.lookup("__len__") is not None or dataset.cls.has_unknown_base


def _has_no_steps(run: TrainerRun) -> bool:
    """Whether the training arguments certainly set no number of steps."""
    if not is_missing(run.value("args")) and run.settings is None:
        return False
    steps = run.settings.value("max_steps") if run.settings else None
    if steps is None or is_missing(steps):
        return True
    return isinstance(steps, Constant) and isinstance(steps.value, int) and steps.value <= 0 and not steps.may_differ


def _steps(pipeline: Pipeline, run: TrainerRun, dataset: Value) -> list[Related]:
    """The training arguments with the code of the number of steps; empty if the script does not show the number."""
    settings = run.settings
    if settings is None or settings.origin is None or not settings.is_complete or "max_steps" in settings.values:
        return []
    assigned = expressions.assignments_in_file(pipeline.source_of(settings.origin))
    names = {each.targets[0].code for each in assigned if _sets_steps(pipeline, each, settings.origin)}
    count = _counted(settings, dataset) if not names else None
    code = names.pop() if len(names) == 1 else str(count or "")
    return [Related(settings.origin, "`max_steps` is missing here", "arguments", code)] if code else []


def _sets_steps(pipeline: Pipeline, assigned: expressions.Assignment, made: Location) -> bool:
    """Whether an unused variable above the training arguments has the name and value of a number of steps."""
    value, name = assigned.value.value, assigned.targets[0].code
    is_number = isinstance(value, int) and not isinstance(value, bool) and value > 0
    is_named = len(assigned.targets) == 1 and NAMED.fullmatch(name) is not None
    is_above = assigned.location < made and blocks.is_one_scope(pipeline, assigned.location, made)
    return is_number and is_named and is_above and not blocks.uses_of(pipeline, name, made)


def _counted(settings: TrainingArguments, dataset: Value) -> int | None:
    """How many steps the epochs of a stream have on one device; None if its rows are not known."""
    rows = dataset_rows.rows_of(dataset) if isinstance(dataset, Dataset) and not dataset.may_differ else None
    values = {name: settings.value(name) for name in DEFAULTS}
    numbers = [DEFAULTS[name] if is_missing(value) else _certain(value) for name, value in values.items()]
    batch_size, accumulated, epochs = numbers
    if rows is None or not batch_size or not accumulated or not epochs or "dataloader_drop_last" in settings.values:
        return None
    return math.ceil(epochs * max(1, math.ceil(math.ceil(rows / batch_size) / accumulated)))


def _certain(value: Value) -> float | None:
    return number_of(value) if isinstance(value, Constant) and value.default is None else None
