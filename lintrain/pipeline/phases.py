"""What the rules about loops ask of the events: which loop trains, what happens in it, and what may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lintrain.core.finding import Reason
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.modules import overlap
from lintrain.pipeline.pipeline import Pipeline
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import Constant, Unknown, Value

FRAMEWORKS = frozenset(
    {"lightning", "ignite", "fastai", "deepspeed", "paddle", "mindspore", "oneflow", "jittor", "mxnet"}
)
"""Packages that clear gradients and set modes by themselves, or that have another idea of both."""

MAY_CLEAR = re.compile(r"zero|clear|reset|grad|optim|step|update|backward|train|fit|run", re.IGNORECASE)
"""Names of unknown functions that may well clear gradients, step an optimizer or set a mode."""


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """The innermost loop in which one backward call meets optimizer steps."""

    loop: Loop
    backward: Event
    steps: tuple[Event, ...]
    inside: tuple[Event, ...]
    """All events in the loop, in order."""

    def has(self, act: Act) -> bool:
        """Whether something of this kind happens in the loop."""
        return any(event.act is act for event in self.inside)


def trains_by_hand(pipeline: Pipeline) -> bool:
    """Whether the script uses torch and none of the frameworks that take training loops over."""
    packages = {name.module.partition(".")[0] for name in pipeline.names}
    return "torch" in packages and not packages & FRAMEWORKS


def training_loops(pipeline: Pipeline) -> Iterator[TrainingLoop]:
    """Each backward call that is inside a loop, with the innermost loop around it in which an optimizer steps."""
    for backward in pipeline.acts(Act.BACKWARD):
        for loop in reversed(backward.loops):
            inside = events_in(pipeline, loop)
            steps = tuple(event for event in inside if event.act is Act.STEP)
            if steps:
                yield TrainingLoop(loop, backward, steps, inside)
                break


def events_in(pipeline: Pipeline, loop: Loop) -> tuple[Event, ...]:
    """What happens inside a loop, in order."""
    return tuple(event for event in pipeline.events if event.is_inside(loop))


def is_certain_step(event: Event) -> bool:
    """Whether a step is that of an optimizer of torch or of something that is called one."""
    if isinstance(event.subject, Optimizer):
        return event.subject.path.startswith(("torch.", "transformers."))
    named = event.details.get("named")
    return isinstance(event.subject, Unknown) and isinstance(named, Constant) and named.value is True


def text_of_event(event: Event) -> str:
    """The code of what the event was done to (`optimizer` in `optimizer.step()`), empty where it is not known."""
    text = event.details.get("text")
    return text.value if isinstance(text, Constant) and isinstance(text.value, str) else ""


def may_hide(pipeline: Pipeline, event: Event) -> bool:
    """Whether an event hands a module or an optimizer to unknown code, or calls code whose name speaks of training."""
    if event.act is not Act.ESCAPE:
        return False
    if not isinstance(event.subject, Unknown):
        return True
    callee = pipeline.code(event.place).partition("(")[0]
    return MAY_CLEAR.search(callee) is not None


def touches(event: Event, module: Value) -> bool:
    """Whether an event happens to a module, to a part of it, or to something that it is a part of."""
    return event.subject is module or overlap(event.subject, module)


def made_here(value: Value, note: str) -> list[Reason]:
    """The place where a value was made, where the script shows it."""
    text = value.text if isinstance(value, Optimizer) else ""
    return [Reason(value.origin, note, "origin", text)] if value.origin else []
