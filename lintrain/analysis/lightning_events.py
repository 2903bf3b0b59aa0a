"""What a module of Lightning does in one call of its training step, which Lightning calls for each batch."""

from __future__ import annotations

from collections.abc import Sequence

from lintrain.analysis import lightning_modules
from lintrain.pipeline.events import Event
from lintrain.pipeline.record import Pipeline


def in_step(pipeline: Pipeline, event: Event) -> Sequence[Event]:
    """The events of the training step that an event is in, those of what it calls too; empty if it is in none."""
    for returned in pipeline.returned:
        method = returned.method
        if method.name != "training_step" or not lightning_modules.is_lightning_module(returned.cls):
            continue
        source = pipeline.source_of(method.origin) if method.origin else pipeline.source
        whole = source.location(method.node)
        if whole.holds(event.location):
            own = [
                each.order for each in pipeline.events if each.reading == event.reading and whole.holds(each.location)
            ]
            return [each for each in pipeline.events if min(own) <= each.order <= max(own)]
    return ()
