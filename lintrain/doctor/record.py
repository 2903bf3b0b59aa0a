"""What is known of a run from what it left: its curves over the steps, its plan, and the error that it ended with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from lintrain.startup.lazy_dataclass import dataclass

Argument = str | int | float | bool | None


class Role(StrEnum):
    """What a curve is about, by the words of its name."""

    LOSS = "loss"
    EVAL_LOSS = "evaluation loss"
    SCORE = "score"
    EVAL_SCORE = "evaluation score"
    RATE = "learning rate"
    NORM = "gradient norm"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Point:
    """One value at a step; `epoch` and `time` (seconds since any start) are None where they were not written."""

    step: float
    value: float
    epoch: float | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """The values of one name in the order of their steps."""

    name: str
    points: tuple[Point, ...]

    @property
    def role(self) -> Role:
        """What it is about."""
        return role_of(self.name)

    @property
    def values(self) -> list[float]:
        """Its values alone."""
        return [point.value for point in self.points]

    @property
    def finite(self) -> Curve:
        """The same without NaN and infinities."""
        return Curve(self.name, tuple(point for point in self.points if math.isfinite(point.value)))

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run: where it was read from, its curves, its arguments, and the text of its log.

    `planned_steps` is what it was to make in all; `classes` the classes of the model's head, if it is a classifier;
    `script` the training script, where the run names one that exists.
    """

    path: str
    kind: str
    curves: tuple[Curve, ...] = ()
    planned_steps: int | None = None
    classes: int | None = None
    arguments: Mapping[str, Argument] = field(default_factory=dict[str, Argument])
    log: str = ""
    script: str | None = None
    notes: tuple[str, ...] = ()

    def of(self, role: Role) -> Curve | None:
        """The curve of a role; of several the one with most points."""
        found = [curve for curve in self.curves if curve.role is role and len(curve)]
        return max(found, key=len) if found else None

    def all_of(self, role: Role) -> list[Curve]:
        """Every curve of a role."""
        return [curve for curve in self.curves if curve.role is role and len(curve)]

    @property
    def last_step(self) -> float:
        """The last step of which anything is known."""
        return max((curve.points[-1].step for curve in self.curves if len(curve)), default=0.0)


EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "dev", "test"})
SCORES = frozenset(
    {"acc", "accuracy", "f1", "auc", "auroc", "precision", "recall", "bleu", "rouge", "map", "iou", "dice", "mcc"}
)
NOT_LOSSES = frozenset({"scale", "scaler", "weight", "coef"})


def role_of(name: str) -> Role:
    """The role that the words of a name say: `val_loss`, `eval/loss`, `Loss/test`, `Validation Loss`, `lr-AdamW`."""
    words = re.findall(r"[a-z]+[0-9]*", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    is_evaluation = bool(EVALUATION & set(words))
    if "loss" in words and not NOT_LOSSES & set(words):
        return Role.EVAL_LOSS if is_evaluation else Role.LOSS
    if words[:1] == ["lr"] or "lr" in words or ("learning" in words and "rate" in words):
        return Role.RATE
    if words in (["grad"], ["gnorm"]) or ("norm" in words and ("grad" in words or "gradient" in words)):
        return Role.OTHER if "max" in words else Role.NORM  # `max_grad_norm` is a setting
    if SCORES & set(words):
        return Role.EVAL_SCORE if is_evaluation else Role.SCORE
    return Role.OTHER


def curves_of(rows: Iterable[Mapping[str, float]], axes: Sequence[str]) -> tuple[Curve, ...]:
    """The curves of rows of numbers by name; the first of the axes that a row has is its step, else its position.

    `epoch` and `time` are taken from the row where they are among its names.
    """
    points: dict[str, list[Point]] = {}
    for position, row in enumerate(rows):
        step = next((row[axis] for axis in axes if axis in row), float(position))
        for name, value in row.items():
            if name not in (*axes, "epoch", "time"):
                points.setdefault(name, []).append(Point(step, value, row.get("epoch"), row.get("time")))
    return tuple(Curve(name, _ordered(found)) for name, found in points.items())


def _ordered(points: Sequence[Point]) -> tuple[Point, ...]:
    """By their steps: a run that went on from a checkpoint writes the steps after it again, and the last ones count."""
    by_step: dict[float, Point] = {}
    for point in points:
        by_step[point.step] = point
    return tuple(by_step[step] for step in sorted(by_step))


STEPS = ("step", "global_step", "train/global_step", "trainer/global_step", "_step", "iter", "iteration")
"""What frameworks call the axis of steps."""


def number_of(value: object) -> float | None:
    """A number, or a text of one: transformers writes `nan`, and since version 5 the values of its log, as texts."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def numbers(row: Mapping[str, object]) -> dict[str, float]:
    """The numbers of a row, by name."""
    return {name: number for name, value in row.items() if (number := number_of(value)) is not None}
