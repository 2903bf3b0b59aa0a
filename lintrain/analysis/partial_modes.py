"""Evaluations that put one of the networks of an object into eval mode, and leave out another one that is trained."""

from __future__ import annotations

from lintrain.analysis import training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

SETS_EVAL_MODE = lazy_pattern(r"\.eval\(|\.train\((?:mode=)?(?!True|\))|set_mode")
OF_OBJECT = lazy_pattern(r"(?<![\w.])(self\.[\w.]+)$")
ABOUT_MODES = lazy_pattern(r"(?i)eval|mode|freeze")
"""Words of methods that may put all networks of their object into eval mode."""


def left_out(pipeline: Pipeline, forward: Event) -> Event | None:
    """Where a method puts another network of its object into eval mode, and not this one, which is trained as well."""
    name = training_loops.callee_text(pipeline, forward) or ""
    if not forward.is_off or not name.startswith("self."):
        return None
    own = [event for event in pipeline.acts(Act.EVAL_MODE, Act.ESCAPE) if _is_before(event, forward)]
    others = [each for each in own if each.act is Act.EVAL_MODE and pipeline.code(each.location).startswith("self.")]
    if not others or any(each.act is Act.ESCAPE and ABOUT_MODES.search(pipeline.code(each.location)) for each in own):
        return None
    if any(event.function == forward.function for event in pipeline.acts(Act.BACKWARD, Act.STEP)):
        return None
    is_kept = not any(may_set_eval_mode(source, name) for source in pipeline.sources.values())
    return others[0] if is_kept and _is_trained_elsewhere(pipeline, forward, name) else None


def may_set_eval_mode(source: Source, name: str) -> bool:
    """Whether code may put the network of a name into eval mode; another attribute of the object is another network."""
    if not source.contains(SETS_EVAL_MODE) or not name.startswith("self."):
        return source.contains(SETS_EVAL_MODE)
    calls = (line[: match.start()] for line in source.lines for match in SETS_EVAL_MODE.finditer(line))
    receivers = (OF_OBJECT.search(before) for before in calls)
    return any(found is None or _overlap(found[1], name) for found in receivers)


def _overlap(name: str, other: str) -> bool:
    """Whether one of two dotted names is a part of the other: `self.model`, `self.model.head`."""
    first, second = f"{name}.", f"{other}."
    return first.startswith(second) or second.startswith(first)


def _is_trained_elsewhere(pipeline: Pipeline, forward: Event, name: str) -> bool:
    passes = (
        event
        for event in pipeline.acts(Act.FORWARD)
        if not event.without_grad
        and event.function != forward.function
        and training_loops.callee_text(pipeline, event) == name
    )
    return any(_is_before(event, backward) for event in passes for backward in pipeline.acts(Act.BACKWARD))


def _is_before(event: Event, later: Event) -> bool:
    """Whether an event comes earlier in the same run of a function."""
    return (event.reading, event.function) == (later.reading, later.function) and event.order < later.order
