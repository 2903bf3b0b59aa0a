"""A training call gets an argument of another kind than it takes: a class for an object, or one object for a list.

The optimizer and its schedule are given as a tuple, callbacks as a list, and a collator as an object that is made
already. `Seq2SeqTrainer` and the trainers of TRL read settings that plain `TrainingArguments` do not have, and
Keras looks up the weight of each class in a dictionary. The run ends with a TypeError, an AttributeError or a KeyError
that does not name the argument.

## Bad

    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        data_collator=collator,
        optimizers=optimizer,  # <- wrong-argument-kind
    )
    # raises TypeError: cannot unpack non-iterable AdamW object

A whole data set with all of its splits:

    trainer = Trainer(model, args, train_dataset=tokenized, data_collator=collator)  # <- wrong-argument-kind
    # raises KeyError

The class of a collator:

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        data_collator=DataCollatorWithPadding,  # <- wrong-argument-kind
    )
    # raises TypeError

Weights for Keras that are no dictionary:

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, class_weight=[1.0, 2.0, 2.0], verbose=0)  # <- wrong-argument-kind
    # raises AttributeError

## Good

    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        data_collator=collator,
        optimizers=(optimizer, None),
    )

and

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        data_collator=DataCollatorWithPadding(tokenizer),
    )

and

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, class_weight={0: 1.0, 1: 2.0, 2: 2.0}, verbose=0)

## When it is fine

A function is a collator as it is:

    from transformers import default_data_collator

    rows = raw["train"].map(
        lambda row: tokenizer(row["premise"], row["hypothesis"], padding="max_length", max_length=32, truncation=True)
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=default_data_collator)

Several sets for evaluation may come as a dictionary:

    trainer = Trainer(
        model, args, train_dataset=tokenized["train"], eval_dataset=tokenized, data_collator=collator
    )

## Fix

None: what was meant is a tuple, a list, a call, or another class.

## References

`Trainer.__init__` and `Seq2SeqTrainer.__init__` of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import DatasetDict
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import (
    Class,
    Function,
    Instance,
    Library,
    LibraryObject,
    Mapping,
    Sequence,
    Value,
    is_missing,
    literal,
    text_of,
)
from lintrain.pipeline.values.training import Metric, TrainerRun, TrainingArguments
from lintrain.rule import Finding, Level, Pipeline, Rule

OWN_SETTINGS = {
    "transformers.Seq2SeqTrainer": "Seq2SeqTrainingArguments",
    "trl.GRPOTrainer": "GRPOConfig",
    "trl.KTOTrainer": "KTOConfig",
}
"""Trainers that never worked with plain `TrainingArguments`, and the class that they need."""


class WrongArgumentKind(Rule):
    level = Level.ERROR
    keywords = "Trainer|class_weight|id2label"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            for name, judge in JUDGES.items():
                argument = run.arguments.get(name)
                # An attribute that is set later, or a constructor of the script's own, may change what is given.
                if argument is None or name in run.attributes or argument.value is not run.value(name):
                    continue
                if problem := judge(run, argument.value):
                    yield self._report(run, name, argument, *problem)
        given = [arguments.get("class_weight") for run in pipeline.keras_runs for _, arguments in run.fits]
        for argument in given:
            if argument is not None and (kind := _kind_of_weights(argument.value)):
                yield self.finding(
                    argument.location,
                    f"`class_weight` of `fit` is {kind} and not a dictionary",
                    help="pass a dictionary from class numbers to weights: `dict(enumerate(weights))`",
                    subject="class_weight",
                )

        for model in pipeline.models:
            names, at = model.arguments.get("id2label"), model.argument_locations.get("id2label")
            if at is not None and isinstance(names, Mapping) and _is_turned(names):
                yield self.finding(
                    at,
                    "`id2label` maps names to numbers, and is read the other way round",
                    help="swap the two: `id2label` maps each class number to its name",
                    subject="id2label",
                )

    def _report(self, run: TrainerRun, name: str, argument: Argument, what: str, remedy: str) -> Finding:
        return self.finding(argument.location, f"`{name}` of `{run.name}` {what}", help=remedy, subject=name)


def _is_turned(names: Mapping) -> bool:
    """Whether all keys of a mapping are names of classes, and all of its values numbers."""
    numbers = [literal(value) for value in names.entries.values()]
    keys = [key for key in names.entries if isinstance(key, str) and not key.lstrip("-").isdigit()]
    return bool(keys) and len(keys) == len(numbers) and all(type(number) is int for number in numbers)


Problem = tuple[str, str]
"""What is wrong with an argument, for the message, and what to write instead."""


def _kind_of_weights(value: Value) -> str:
    """What is given to Keras for the weights of the classes, if it has no keys; empty for others."""
    if isinstance(value, LibraryObject) and value.path in COMPUTES_WEIGHTS:
        return "an array"
    if isinstance(value, Sequence) and value.kind in {"list", "tuple"}:
        return f"a {value.kind}"
    return f'the text "{text_of(value)}"' if text_of(value) else ""


COMPUTES_WEIGHTS = frozenset(
    f"sklearn.utils.{module}compute_{of}_weight" for module in ("", "class_weight.") for of in ("class", "sample")
)
"""Functions of scikit-learn that give an array of weights."""


def _settings(run: TrainerRun, value: Value) -> Problem | None:
    needed = OWN_SETTINGS.get(run.path)
    if needed is None or not isinstance(value, TrainingArguments) or value.path != "transformers.TrainingArguments":
        return None
    # A class of the script that derives from it may add what is needed.
    if value.text.partition("(")[0].rpartition(".")[2] != "TrainingArguments":
        return None
    return f"is plain `TrainingArguments`, but it reads `{needed}`", f"make it with `{needed}`"


def _optimizers(_: TrainerRun, value: Value) -> Problem | None:
    if isinstance(value, Optimizer | Scheduler):
        return "is not a tuple of two", "pass `(optimizer, scheduler)`, or `(optimizer, None)`"
    if isinstance(value, Sequence) and value.is_complete and len(value.items) == 1:
        return "is a tuple of one", "pass `(optimizer, None)`"
    return None


def _collator(_: TrainerRun, value: Value) -> Problem | None:
    is_library_class = isinstance(value, Library) and value.name.startswith("DataCollator")
    is_own_class = isinstance(value, Class) and isinstance(_member(value, "__call__"), Function)
    if is_library_class or is_own_class:
        return "is a class and not a collator", "call the class, with the tokenizer that it needs"
    return None


def _member(cls: Class, name: str) -> Value | None:
    found = cls.lookup(name)
    return found[1] if found else None


def _callbacks(_: TrainerRun, value: Value) -> Problem | None:
    is_class = isinstance(value, Library) and value.name.endswith("Callback")
    is_library = isinstance(value, LibraryObject) and value.path.endswith("Callback")
    is_own = isinstance(value, Class | Instance) and _is_callback(value if isinstance(value, Class) else value.cls)
    if is_class or is_library or is_own:
        return "is one callback and not a list", "put it into a list"
    return None


def _is_callback(cls: Class) -> bool:
    return any(base.endswith("Callback") for base in cls.library_bases)


def _rows(run: TrainerRun, value: Value) -> Problem | None:
    if "get_train_dataloader" in run.overrides:
        return None
    if isinstance(value, DatasetDict) and (run.is_plain or run.path.startswith("trl.")):
        return "is a whole data set with its splits", 'pass one of its splits, such as `["train"]`'
    has_collator = run.instance is not None or not is_missing(run.value("data_collator"))
    if not has_collator and _has_tuples(value):
        return "has rows that are tuples", "give rows that are dictionaries, or a collator that makes one"
    return None


def _has_tuples(value: Value) -> bool:
    """Whether the rows are those of a TensorDataset, or a part of them."""
    if not isinstance(value, TorchDataset):
        return False
    if value.name in {"Subset", "random_split"} and value.parts:
        return _has_tuples(value.parts[0])
    return value.name == "TensorDataset"


def _metrics(_: TrainerRun, value: Value) -> Problem | None:
    if isinstance(value, Metric) and value.library == "evaluate":
        return "is a metric and not a function", "pass a function that calls `compute` of the metric"
    if isinstance(value, Mapping):
        return "is a dictionary and not a function", "pass the function itself, without calling it"
    return None


JUDGES: dict[str, Callable[[TrainerRun, Value], Problem | None]] = {
    "args": _settings,
    "optimizers": _optimizers,
    "data_collator": _collator,
    "callbacks": _callbacks,
    "train_dataset": _rows,
    "compute_metrics": _metrics,
}
