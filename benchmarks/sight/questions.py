"""What rules ask for, and how much of it a reading knows at each location."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset, Encoding
from lintrain.pipeline.values.model import Model, ModelOutput, Tensor
from lintrain.pipeline.values.python import (
    Absent,
    Bound,
    Constant,
    Either,
    Instance,
    LibraryObject,
    OneOf,
    Sequence,
    Unknown,
    Value,
    options_of,
)
from lintrain.pipeline.values.python import Mapping as MappingValue
from lintrain.pipeline.values.tensors import Real, SpecialToken, Templated, Text, Whole

Items = Mapping[ast.ClassDef, Value]
"""What `__getitem__` of the script's own classes returns."""

OF_A_KIND = Whole | Real | Text | Templated | OneOf | SpecialToken
"""What no rule needs to know more of: a number or a text, whichever it is."""

KNOWN_BY_CHOICE = frozenset({"default", "not given"})
"""Levels short of the best at which nothing is unknown."""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing that rules ask for, and the levels of what is known of it, from all to nothing."""

    name: str
    levels: tuple[str, ...]

    def is_open(self, level: str) -> bool:
        """Whether something is unknown at this level."""
        return level != self.levels[0] and level not in KNOWN_BY_CHOICE

    def worst(self, value: Value, level_of: Callable[[Value], str]) -> str:
        """The level of a value: that of its worst option, None left out."""
        levels = (level_of(option) for option in options_of(value) if not _is_none(option))
        return max(levels, key=self.levels.index, default=self.levels[-1])


COLUMNS = Question("training data of Trainer runs", ("all columns", "some columns", "data set only", "unknown"))
ROWS = Question("rows of own Dataset classes", ("all parts", "structure only", "unknown"))
BATCH_SIZE = Question("batch size of loaders", ("literal", "default", "not given", "unknown"))
CHECKPOINT = Question("checkpoint of models", ("literal", "default", "not given", "unknown"))
TARGET = Question("target of a loss in a loop", ("with its rank", "followed", "unknown"))
OTHER_TARGET = Question("target of a loss elsewhere", ("with its rank", "followed", "unknown"))
LOSS = Question("loss at backward", ("known", "unknown"))

QUESTIONS = (COLUMNS, ROWS, BATCH_SIZE, CHECKPOINT, TARGET, OTHER_TARGET, LOSS)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question at one location of a reading: its level, and the value that it is about."""

    question: Question
    location: Location
    level: str
    value: Value

    @property
    def rank(self) -> int:
        """0 for the best level."""
        return self.question.levels.index(self.level)


def asked_in(pipeline: Pipeline, items: Items) -> Iterator[Asked]:
    """Every question at every location of a reading."""
    for ask in (_training_data, _batch_sizes, _checkpoints, _targets, _losses):
        yield from ask(pipeline)
    yield from _rows(pipeline, items)


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


def _is_vague(value: Value) -> bool:
    return isinstance(value, Unknown | LibraryObject | Bound) and not isinstance(value, OF_A_KIND)


def _training_data(pipeline: Pipeline) -> Iterator[Asked]:
    for run in pipeline.runs:
        data = run.value("train_dataset")
        if not isinstance(data, Absent) and not _is_none(data):
            level = COLUMNS.worst(data, lambda option: _level_of_data(pipeline, option))
            yield Asked(COLUMNS, run.construction, level, data)


def _level_of_data(pipeline: Pipeline, data: Value) -> str:
    match data:
        case Dataset():
            return _level_of_columns(bool(data.columns), data.is_complete)
        case Instance():
            own = pipeline.rows_of(data)
            return _level_of_columns(bool(own and own.columns), bool(own and own.is_complete))
        case _:
            return "unknown" if _is_vague(data) else "data set only"


def _level_of_columns(has_any: bool, is_complete: bool) -> str:
    if not has_any:
        return "data set only"
    return "all columns" if is_complete else "some columns"


def _rows(pipeline: Pipeline, items: Items) -> Iterator[Asked]:
    """Own classes with such a base, also those that the script only defines."""
    for node, item in items.items():
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        holders = (source for source in pipeline.sources.values() if node in source.nodes_of(ast.ClassDef))
        source = next(holders, None)
        if source is not None and any(base.endswith("Dataset") for base in bases):
            yield Asked(ROWS, source.location(node), ROWS.worst(item, _level_of_row), item)


def _level_of_row(item: Value) -> str:
    match item:
        case Tensor() | Encoding():
            return "all parts"
        case MappingValue(entries=entries, is_complete=True):
            parts = list(entries.values())
        case MappingValue(entries=entries, others=Tensor() | Encoding() | Either() as other):
            # `{name: part.squeeze() for name, part in encoding.items()}`: as much as the encoding itself.
            parts = [*entries.values(), other]
        case Sequence(items=parts, is_complete=True):
            pass
        case Instance(attributes=attributes):
            parts = list(attributes.values())
        case _:
            return "unknown"
    is_known = not any(_is_vague(option) for part in parts for option in options_of(part))
    return "all parts" if is_known else "structure only"


def _batch_sizes(pipeline: Pipeline) -> Iterator[Asked]:
    for loader in pipeline.loaders:
        if loader.origin is not None:
            size = loader.value("batch_size")
            yield Asked(BATCH_SIZE, loader.origin, _level_of_setting(BATCH_SIZE, size), size)


def _checkpoints(pipeline: Pipeline) -> Iterator[Asked]:
    for model in pipeline.models:
        if model.origin is not None and model.is_pretrained:
            # `AutoModelForCausalLMWithValueHead.from_pretrained(model)` wraps a model that has a checkpoint.
            inner = model.checkpoint
            checkpoint = inner.checkpoint if isinstance(inner, Model) else inner
            yield Asked(CHECKPOINT, model.origin, _level_of_setting(CHECKPOINT, checkpoint), checkpoint)


def _level_of_setting(question: Question, value: Value) -> str:
    return "not given" if _is_none(value) else question.worst(value, _level_of_option)


def _level_of_option(value: Value) -> str:
    match value:
        case Constant(default=default):
            return "default" if default else "literal"
        case Absent():
            return "not given"
        case _:
            return "unknown"


def _targets(pipeline: Pipeline) -> Iterator[Asked]:
    for loss in pipeline.losses:
        if loss.target is not None:
            is_in_loop = any(loop.location.holds(loss.location) for loop in pipeline.loops)
            question, target = TARGET if is_in_loop else OTHER_TARGET, loss.target.value
            yield Asked(question, loss.location, question.worst(target, _level_of_target), target)


def _level_of_target(value: Value) -> str:
    if not isinstance(value, Tensor):
        return "unknown"
    return "followed" if value.shape.rank is None else "with its rank"


def _losses(pipeline: Pipeline) -> Iterator[Asked]:
    for event in pipeline.acts(Act.BACKWARD):
        loss = event.details["loss"]
        yield Asked(LOSS, event.location, LOSS.worst(loss, _level_of_loss), loss)


def _level_of_loss(value: Value) -> str:
    return "known" if isinstance(value, Tensor | ModelOutput) else "unknown"
