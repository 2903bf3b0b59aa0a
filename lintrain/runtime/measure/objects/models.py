"""Models that a script moves to a device: which of them stay there while training goes on, and which are at work."""

from __future__ import annotations

import functools
import gc
import weakref
from collections import Counter
from typing import Any

from lintrain.evidence.run import MovedModel
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.live_bytes import size_of, tensors_in_module
from lintrain.runtime.measure.objects.objects import MOST, Origins
from lintrain.startup.lazy_dataclass import dataclass

MOVES = ("to", "cuda")
VAIN = 2
"""Collections at a line that removed none of its models, after which there are no more."""


@dataclass
class Moved:
    """A module, held by others only, and what was seen of it."""

    module: weakref.ref[Any]
    location: Location
    name: str
    size: int
    beside: int | None
    calls: int = 0
    is_held: bool = False
    trains: bool = False


class Models:
    """The modules that were moved, by their identity, in their order."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._moved: dict[int, Moved] = {}
        self._gone: list[Moved] = []
        self._steps = 0
        self._in_vain = Counter[Location]()

    def moves(self, module: Any) -> None:
        """The script moves a module; one without weights holds nothing, one that was moved before is known."""
        known = self._moved.get(id(module))
        is_known = known is not None and known.module() is module
        if self._session.measuring or is_known or len(self._moved) >= MOST:
            return
        location = frame_location(users_frame()) if any(True for _ in module.parameters()) else None
        if location is None:
            return
        if known is not None:  # another one lay at this address
            self._gone.append(known)
        # A weak reference: the probe must not keep alive what the script lets go.
        self._moved[id(module)] = Moved(weakref.ref(module), location, *self._sizes(module, location))

    def _sizes(self, module: Any, location: Location) -> tuple[str, int, int | None]:
        return type(module).__name__, _size(module), self._beside(module, location)

    def _beside(self, module: Any, location: Location) -> int | None:
        """The bytes of those that came past the same place and are held; None if the watch may hold them."""
        if self._session.has_begun:
            return None
        earlier = [each for each in self._moved.values() if each.location == location and each.module() is not None]
        # PEFT moves each layer of an adapter by one line of the script, and a collection takes up to a second.
        if earlier and self._in_vain[location] < VAIN:
            gc.collect()  # one that only its own circles hold is as good as gone
            self._in_vain[location] += all(each.module() is not None for each in earlier)
        own = {id(part) for part in module.modules()}
        held = [kept for each in earlier if (kept := each.module()) is not None and id(kept) not in own]
        return sum(map(_size, held))

    def on_forward(self, module: Any) -> None:
        """A module is called: counted while a training is followed."""
        found = self._moved.get(id(module)) if self._moved else None
        if found is not None and (self._session.has_begun or self._session.measuring):
            found.calls += 1

    def on_step_end(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has stepped: what is held now is held while training goes on."""
        if not self._moved or not (self._session.has_begun or self._session.measuring):
            return
        if not self._steps:
            gc.collect()  # as above
        self._steps += 1
        trained = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        for moved in self._moved.values():
            module = moved.module()
            moved.is_held = module is not None
            moved.trains |= module is not None and any(id(weight) in trained for weight in module.parameters())

    def forget(self) -> None:
        """The script runs again: a model of its earlier run, which may still be held, is not beside the new one."""
        self._moved.clear()
        self._gone.clear()
        self._steps = 0

    def evidence(self) -> list[MovedModel]:
        """What became of each."""
        moved = [*self._gone, *self._moved.values()]
        return [
            MovedModel(
                each.location, each.name, each.size, each.beside, each.calls, self._steps, each.is_held, each.trains
            )
            for each in moved
        ]


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Watch the moves and the calls of modules."""
    models = Models(session)
    session.objects.add("moved", lambda _: models.evidence(), models.forget)
    hooks.add("torch.nn.modules.module", lambda module: _hook(models, session.origins, module.Module))
    hooks.add("torch.optim.optimizer", lambda module: module.register_optimizer_step_post_hook(models.on_step_end))


def _hook(models: Models, origins: Origins, module: Any) -> None:
    for name in MOVES:
        setattr(module, name, _watched_move(models, getattr(module, name)))
    call = module.__call__

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        models.on_forward(self)
        output = call(self, *args, **kwargs)
        if output is None:
            origins.note_silent(self)
        return output

    module.__call__ = called


def _watched_move(models: Models, move: Any) -> Any:
    @functools.wraps(move)
    def moves(self: Any, *args: Any, **kwargs: Any) -> Any:
        moved = move(self, *args, **kwargs)
        models.moves(self)
        return moved

    return moves


def _size(module: Any) -> int:
    return sum(map(size_of, tensors_in_module(module)))
