"""A trainer reads a stream and is not told when to stop.

Trainer counts its steps from the number of rows, and a stream has none. Without `max_steps` it cannot plan the schedule
of the learning rate, and refuses to be built.

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

A stream that knows its length:

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

Asks first: the steps are those of as many epochs on one device, and several need fewer. Offered where the script
says how many rows the stream has, or has a name for the number of steps that nothing uses yet.

## References

Transformers documentation, `TrainingArguments.max_steps`; the error is that of transformers 5.23.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from lintrain.analysis import loaders
from lintrain.pipeline import blocks, dataset_rows
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.python import Constant, Instance, Value, is_missing, number_of, options_of
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

RAISED = ("max_steps has to be specified", "max_steps must be set to a positive value")

NAMED = lazy_pattern(r"(max|total|num|n)_?(train(ing)?_?)?steps", re.IGNORECASE)
"""Names for the number of steps of a training."""

DEFAULTS = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_train_epochs": 3}
"""What counts the steps, with the defaults of transformers 5.23."""


class IterableWithoutMaxSteps(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            dataset = run.value("train_dataset")
            is_endless = loaders.is_stream(dataset) and not any(map(_may_have_length, options_of(dataset)))
            if is_endless and _has_no_end(run) and not loaders.expects_error(pipeline, run.construction):
                yield self._report(pipeline, run, dataset)

    def _report(self, pipeline: Pipeline, run: TrainerRun, dataset: Value) -> Finding:
        made = options_of(dataset)[0].origin
        return self.finding(
            run.construction,
            f"`{run.name}` trains on a stream, and `max_steps` does not say for how long",
            related=[
                *([Related(made, "a stream: its rows cannot be counted", "origin")] if made else []),
                *_steps(pipeline, run, dataset),
            ],
            help="set `max_steps` in the training arguments",
            subject="train_dataset",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"{stage.failure.type} when the trainer is built: 0 steps were planned")
        steps = evidence.arguments.get("max_steps")
        if evidence.passed("construction"):
            return Verdict.refuted(f"the trainer was built, with `max_steps={steps}`")
        return Verdict.inconclusive(evidence.not_reached("construction"))

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.AddArgument(each.location, "max_steps", each.text) for each in finding.with_role("arguments")]
        return fixes.Fix.of(f"train for `max_steps={edits[0].value}`", *edits, safe=False) if edits else None


def _may_have_length(dataset: Value) -> bool:
    """A stream of the script's own class may count its rows, or get that from a class that is not known."""
    if not isinstance(dataset, Instance):
        return False
    return dataset.cls.lookup("__len__") is not None or dataset.cls.has_unknown_base


def _has_no_end(run: TrainerRun) -> bool:
    """Whether nothing sets a number of steps."""
    if not is_missing(run.value("args")) and run.settings is None:
        return False
    steps = run.settings.value("max_steps") if run.settings else None
    if steps is None or is_missing(steps):
        return True
    return isinstance(steps, Constant) and isinstance(steps.value, int) and steps.value <= 0 and not steps.is_default


def _steps(pipeline: Pipeline, run: TrainerRun, dataset: Value) -> list[Related]:
    """The arguments that are to say when to stop, with the code of the number; none where the script gives no such."""
    settings = run.settings
    if settings is None or settings.origin is None or not settings.is_complete or "max_steps" in settings.values:
        return []
    assigned = pipeline.source_of(settings.origin).nodes_of(ast.Assign)
    names = {ast.unparse(each.targets[0]) for each in assigned if _sets_steps(pipeline, each, settings.origin)}
    count = _counted(settings, dataset) if not names else None
    code = names.pop() if len(names) == 1 else str(count or "")
    return [Related(settings.origin, "nothing here says when to stop", "arguments", code)] if code else []


def _sets_steps(pipeline: Pipeline, assigned: ast.Assign, made: Location) -> bool:
    """Whether a name is given a number of steps above the arguments, and nothing uses it."""
    location, value = pipeline.source_of(made).location(assigned), assigned.value
    name = ast.unparse(assigned.targets[0])
    is_number = isinstance(value, ast.Constant) and type(value.value) is int and value.value > 0
    is_named = len(assigned.targets) == 1 and NAMED.fullmatch(name) is not None
    is_above = location < made and blocks.is_one_scope(pipeline, location, made)
    return is_number and is_named and is_above and not blocks.uses_of(pipeline, name, made)


def _counted(settings: TrainingArguments, dataset: Value) -> int | None:
    """How many steps the epochs of a stream have whose rows are known, on one device."""
    rows = dataset_rows.rows_of(dataset) if isinstance(dataset, Dataset) and not dataset.is_default else None
    given = {name: settings.value(name) for name in DEFAULTS}
    numbers = [DEFAULTS[name] if is_missing(value) else _certain(value) for name, value in given.items()]
    size, together, epochs = numbers
    if rows is None or not size or not together or not epochs or "dataloader_drop_last" in settings.values:
        return None
    return math.ceil(epochs * max(1, math.ceil(math.ceil(rows / size) / together)))


def _certain(value: Value) -> float | None:
    return number_of(value) if isinstance(value, Constant) and not value.is_default else None
