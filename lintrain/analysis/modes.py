"""Train mode and eval mode over time: which calls decide the mode that a forward pass runs in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Unknown, Value, literal
from lintrain.startup.lazy_pattern import lazy_pattern

ABOUT_GRADIENTS = lazy_pattern(r"zero|clear|grad|optim|backward", re.IGNORECASE)
ABOUT_MODE = lazy_pattern(r"train|eval|valid|test|mode|fit|run|epoch|step", re.IGNORECASE)
"""Names of unknown functions that clear gradients or run an optimizer, and of those that may set a mode."""

SETS_MODE = frozenset({Act.TRAIN_MODE, Act.EVAL_MODE, Act.RESTORE_MODE})


def deciding(pipeline: Pipeline, at: Event, *acts: Act) -> Iterator[Event]:
    """The events of these kinds before an event, latest first, without those whose effect on its model is undone.

    `model.train(was_training)` undoes what happened since the script asked for the mode.
    """
    wanted = frozenset(acts)
    order = at.order
    while order > 0:
        order -= 1
        event = pipeline.events[order]
        if event.act is Act.RESTORE_MODE and training_loops.covers(event, at.subject):
            order = min(_since(event), order)
        elif event.act in wanted or (event.act is Act.RESTORE_MODE and Act.ESCAPE in wanted):
            yield event


def mode_before(pipeline: Pipeline, at: Event) -> Event | None:
    """The last call that sets the mode of the whole model of a forward pass; None if there is none."""
    switches = deciding(pipeline, at, Act.TRAIN_MODE, Act.EVAL_MODE)
    return next((event for event in switches if training_loops.covers(event, at.subject)), None)


def is_undone(switch: Event, inside: Sequence[Event]) -> bool:
    """Whether one of these events always gives the model back the mode that it had before a switch."""
    return any(
        event.act is Act.RESTORE_MODE
        and _since(event) <= switch.order < event.order
        and training_loops.covers(event, switch.subject)
        and training_loops.always_with(event, switch)
        for event in inside
    )


def may_change_mode(pipeline: Pipeline, event: Event, model: Value) -> bool:
    """Whether an event may set the mode of a model, in part or through unknown code."""
    if event.act in SETS_MODE:
        return isinstance(event.subject, Unknown) or training_loops.touches(event, model)
    if event.act is not Act.ESCAPE:
        return False
    # Code that gets only a part of the model cannot set the mode of the whole.
    if training_loops.touches(event, model):
        return training_loops.covers(event, model)
    callee = pipeline.code(event.location).partition("(")[0]
    is_about_gradients = ABOUT_GRADIENTS.search(callee) is not None and not ABOUT_MODE.search(callee)
    return not is_about_gradients and training_loops.may_hide(pipeline, event, model)


def _since(event: Event) -> int:
    since = literal(event.details["since"])
    return since if isinstance(since, int) else event.order
