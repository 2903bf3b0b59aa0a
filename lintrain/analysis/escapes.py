"""The calls of unknown code that get a model, an optimizer or a part of one."""

from __future__ import annotations

from collections.abc import Iterable

from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import shared_parts
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import Unknown, Value


def escapes_of(pipeline: Pipeline, followed: Value) -> list[Event]:
    """The calls of unknown code that get a known model or optimizer, or a part of it."""
    return pipeline.cached(_find_escapes, followed)


def _find_escapes(pipeline: Pipeline, followed: Value) -> list[Event]:
    modules = followed.trains if isinstance(followed, Optimizer) else (followed,)
    by_part = pipeline.cached(_escapes_by_part, None)
    wanted = {id(followed)}.union(*(touched_by(pipeline, each) for each in modules))
    found = {event.order: event for part in wanted for event in by_part.get(part, ())}
    return [found[order] for order in sorted(found)]


def _escapes_by_part(pipeline: Pipeline, _: None) -> dict[int, list[Event]]:
    """The calls of unknown code by the identity of each known value, and each of its parts, that they get."""
    found: dict[int, list[Event]] = {}
    for event in pipeline.acts(Act.ESCAPE):
        for part in touched_by(pipeline, event.subject) if not isinstance(event.subject, Unknown) else ():
            found.setdefault(part, []).append(event)
    return found


def touched_by(pipeline: Pipeline, value: Value) -> frozenset[int]:
    """The identities of a value and its shareable parts: two values touch if they have one in common."""
    return pipeline.cached(_find_touched, value)


def parts_shared(pipeline: Pipeline, values: Iterable[Value]) -> frozenset[int]:
    """The identities of these values and of their parts that other values may share."""
    return frozenset[int]().union(*(pipeline.cached(_find_parts, value) for value in values))


def do_overlap(pipeline: Pipeline, one: Value, other: Value) -> bool:
    """Whether two values share a part: `overlap` for many values, with the parts of each collected once."""
    return not pipeline.cached(_find_parts, one).isdisjoint(pipeline.cached(_find_parts, other))


def _find_parts(_: Pipeline, value: Value) -> frozenset[int]:
    return shared_parts(value)


def _find_touched(_: Pipeline, value: Value) -> frozenset[int]:
    return shared_parts(value) | {id(value)}
