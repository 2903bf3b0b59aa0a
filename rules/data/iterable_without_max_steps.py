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

None: for how many steps to train, nobody else knows.

## References

Transformers documentation, `TrainingArguments.max_steps`; the error is that of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    Constant,
    Evidence,
    Finding,
    Instance,
    Level,
    Pipeline,
    Reason,
    Rule,
    TrainerRun,
    Value,
    Verdict,
    confirmed,
    expects_error,
    is_missing,
    is_stream,
    options_of,
    refuted,
    unsettled,
)

RAISED = ("max_steps has to be specified", "max_steps must be set to a positive value")


class IterableWithoutMaxSteps(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            dataset = run.value("train_dataset")
            is_endless = is_stream(dataset) and not any(map(_may_have_length, options_of(dataset)))
            if is_endless and _has_no_end(run) and not expects_error(pipeline, run.construction):
                yield self._report(run, dataset)

    def _report(self, run: TrainerRun, dataset: Value) -> Finding:
        made = options_of(dataset)[0].origin
        return self.finding(
            run.construction,
            f"`{run.name}` trains on a stream, and `max_steps` does not say for how long",
            because=[Reason(made, "a stream: its rows cannot be counted", "origin")] if made else [],
            help="set `max_steps` in the training arguments",
            subject="train_dataset",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return confirmed(f"{stage.failure.type} when the trainer is built: 0 steps were planned")
        steps = evidence.arguments.get("max_steps")
        if evidence.passed("construction"):
            return refuted(f"the trainer was built, with `max_steps={steps}`")
        return unsettled(evidence.not_reached("construction"))


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
