"""A session without a process of its own: events stay in memory, and the end of a run is not that of the process.

Hooks in torch while a run is measured in this process, and torch as it was afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from lintrain.runtime.child.channel import MemoryChannel
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has, library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.loop.torch_hooks import LOSSES, hook_torch
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.measure.seen import split_arguments

LATER = "comes later and was not measured"
"""The end of the notes on calls that a process of its own would not come to."""


class RunEnded(BaseException):
    """The run is measured; passes every `except Exception` on its way."""


class InProcessSession(ProbeSession):
    """The options of a probe in this process; `events` is what it would have sent to a parent."""

    def __init__(
        self,
        temporary: str,
        script: str,
        *,
        overfit: int = 0,
        also: tuple[str, ...] = (),
        rows: tuple[tuple[str, int], ...] = (),
    ) -> None:
        channel = MemoryChannel()
        super().__init__(
            {
                "temporary": temporary,
                "exchange": temporary,
                "device": "cpu",
                "overfit": overfit,
                "also": also,
                "rows": rows,
                "sample_rows": 0,
                "batches": 4,
                "script": script,
                "shortcuts": (),
            },
            channel,
        )
        self.events: list[dict[str, Any]] = channel.events
        # What happened before the call was not seen, and the lines of the user's process belong to its debugger.
        self.knows_origins = self.may_trace = False

    def note(self, text: str) -> None:
        """Calls further below in the script are not what was asked about here."""
        if not text.endswith(LATER):
            super().note(text)

    def _find_root(self) -> str:
        """No mark in the environment: the process is not ours."""
        return str(os.getpid())

    @staticmethod
    def _exit() -> NoReturn:
        raise RunEnded


FUNCTIONS = "torch.nn.functional"
ELSEWHERE = ("torch.nn.utils",)
"""Modules with names of other modules, which the hooks of these change here too."""

STEP_HOOKS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")


@contextmanager
def hooked(watch: Watch, but: tuple[str, ...] = ()) -> Generator[None]:
    """Let a watch see what passes through torch in between, the classes in `but` left as they are."""
    actions = AfterImport(lambda module, error: watch.session.note(f"`{module}` was not watched: {error}"))
    hook_torch(watch, actions)
    # Copies of the namespaces, taken before any hook: what is new afterwards is deleted, what differs is set back.
    before: list[tuple[Any, dict[str, Any]]] = [(owner, {**vars(owner)}) for owner in _owners(actions)]
    optimizers = library("torch.optim.optimizer")
    hooks = {name: dict(getattr(optimizers, name)) for name in STEP_HOOKS}
    try:
        actions.act_on_loaded()
        for owner, names in before:
            # Patching functions by name misses those that the caller has already imported: `watched_losses` sees them
            # all, and twice is once too often.
            if attribute(owner, "__name__", "") in (*but, FUNCTIONS):
                _give_back(owner, names)
        with watched_losses(watch):
            yield
    finally:
        for owner, names in before:
            _give_back(owner, names)
        for name, held in hooks.items():
            # The same dictionaries, refilled: the handles that remove hooks of the user refer to these objects.
            getattr(optimizers, name).clear()
            getattr(optimizers, name).update(held)


def _owners(actions: AfterImport) -> Iterator[Any]:
    """All that hooks may change: the modules that they act on, with the classes of the same package in them."""
    for module in (*actions.loaded(), *map(library, ELSEWHERE)):
        yield module
        for held in list(vars(module).values()):
            if isinstance(held, type) and held.__module__.partition(".")[0] == module.__name__.partition(".")[0]:
                yield held


def _give_back(owner: Any, before: dict[str, Any]) -> None:
    now: dict[str, Any] = {**vars(owner)}
    for name, value in now.items():
        if name not in before:
            delattr(owner, name)
        elif value is not before[name]:
            setattr(owner, name, before[name])


def watched_losses(watch: Watch) -> AbstractContextManager[Any]:
    """A mode of torch that reports every call of a loss function to the watch, and changes none."""
    functional = library("torch.nn.functional")
    names = {getattr(functional, name): name for name in LOSSES}
    mode: Any = library("torch.overrides").TorchFunctionMode

    class Losses(mode):  # type: ignore[misc] # the library is read without its types
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, named = names.get(function), dict(kwargs or {})
            if name is None or not watch.is_on:
                return function(*args, **named)
            given, target, rest, options = split_arguments(name, args, named)
            if not has(given, "shape") or not has(target, "shape"):
                return function(*args, **named)
            call = watch.on_loss(name, given, target, rest, options)
            call.result = function(*args, **named)
            return call.result

    return Losses()
