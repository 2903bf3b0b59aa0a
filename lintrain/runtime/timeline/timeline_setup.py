"""Set a pass up that follows the first steps: nothing is measured, the libraries run by themselves.

A Trainer of transformers trains a few real steps: it saves after two of them, or resumes from what it saved. Loops of
the script's own are made short: the training loader ends after some steps, those of an evaluation soon.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator
from types import FrameType
from typing import Any

from lintrain.runtime.child.frames import callers_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.loop.batches import is_asked_by_a_loop
from lintrain.runtime.timeline import collectives, ranks, step_hooks
from lintrain.runtime.timeline.follower import Follower
from lintrain.runtime.timeline.ranks import Gathers
from lintrain.runtime.timeline.step_hooks import hook_torch

SAVED_AFTER = 2
"""Steps before a checkpoint; one more follows it."""


def install(session: ProbeSession, hooks: AfterImport, request: dict[str, Any]) -> None:
    """Follow; the interceptors of measurements let everything pass."""
    # Before the interceptors can see a call: `measuring` makes them pass everything through.
    session.measuring = True
    if not session.is_root or ranks.is_launcher(request):
        return
    if request["purpose"] == "try":
        _begin_equally(hooks)
    follower = Follower(session, request["purpose"], request["steps"], request["checkpoint"])
    hook_torch(follower, hooks)
    _follow_trainer(follower, hooks)
    step_hooks.install_in_lightning(follower, hooks)
    session.timeline = follower
    if follower.purpose == "ranks":
        ranks.install(follower, hooks)
        ranks.watch_replicas(follower, hooks)
        collectives.install(follower, hooks)
        if request["allows_unused"]:
            ranks.allow_unused(hooks)
        step_hooks.install(follower, hooks)
        shorten_loops(follower, hooks, steps=follower.wanted, gathers=ranks.install_gathers(follower, hooks))
    if follower.purpose == "save":
        shorten_loops(follower, hooks, steps=SAVED_AFTER)


def _begin_equally(hooks: AfterImport) -> None:
    """Let every trial draw the same numbers, those of a script without seeds too."""
    random.seed(0)
    hooks.add("numpy.random", lambda numpy: numpy.seed(0))
    hooks.add("torch", lambda torch: torch.manual_seed(0))


SAVE_STEPS = 2


def _follow_trainer(follower: Follower, hooks: AfterImport) -> None:
    """Change `train` as soon as the script imports it."""
    hooks.add("transformers.trainer", lambda module: _patch(follower, module.Trainer))


def _patch(follower: Follower, trainer: Any) -> None:
    original = trainer.train

    @functools.wraps(original)
    def train(self: Any, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        follower.is_guided = True
        follower.report(framework="transformers", resume_is_asked=bool(resume_from_checkpoint))
        _without_evaluation(self.args)
        if follower.purpose == "save":
            _save_soon(follower, self.args)
        goes_on_from = follower.checkpoint if follower.purpose == "resume" else None
        return original(self, goes_on_from, *args, **kwargs)

    trainer.train = train


def _without_evaluation(arguments: Any) -> None:
    # Only training steps are compared, and an evaluation takes time.
    arguments.eval_delay = math.inf
    arguments.dataloader_num_workers = 0
    arguments.dataloader_persistent_workers = False
    arguments.dataloader_prefetch_factor = None
    if has(arguments, "eval_on_start"):
        arguments.eval_on_start = False


def _save_soon(follower: Follower, arguments: Any) -> None:
    """Save as the run would, only sooner; a run that never saves has nothing to resume from."""
    asked = attribute(arguments, "lintrain_asked", {}).get("save_strategy")
    if str(attribute(asked, "value", asked)) == "no":
        follower.stop('the run saves no checkpoint: its `save_strategy` is "no"')
    arguments.save_strategy = type(arguments.save_strategy)("steps")
    arguments.save_steps = SAVE_STEPS
    follower.report(checkpoint=f"{arguments.output_dir}/checkpoint-{SAVE_STEPS}")


EVALUATION_BATCHES = 2
MOST_ROUNDS = 3
"""Rounds of one batch that a loop on several processes continues for, to see what is written at its end."""

MOST_BATCHES = 100_000
"""A loader that would give more is not looked through for its last batch."""


def shorten_loops(follower: Follower, hooks: AfterImport, *, steps: int, gathers: Gathers | None = None) -> None:
    """Let the loader that the first steps train on end its first round after so many of them."""
    rounds = Rounds(follower, steps, gathers)
    hooks.add("torch.utils.data.dataloader", functools.partial(_hook_loaders, rounds))


class Rounds:
    """Which loader trains, and when its first round is over."""

    def __init__(self, follower: Follower, steps: int, gathers: Gathers | None) -> None:
        self.follower = follower
        self.steps = steps
        self.gathers = gathers
        self.rounds = 0
        self._training: Any = None
        self._gave: Any = None
        self._batches_per_step = 0

    def on_batch(self, loader: Any) -> None:
        """A loader gave a batch: the last one before the first step is that of the training."""
        if not self.follower.taken:
            self._gave = loader

    def trains(self, loader: Any) -> bool:
        """Whether the steps train on the batches of a loader; where none gave any, the first that is asked later."""
        if self._training is None and self.follower.taken:
            self._training = loader if self._gave is None else self._gave
        return loader is self._training

    def has_enough(self, loader: Any, given: int, *, is_asked_ahead: bool) -> bool:
        """Whether a loader that gave so many batches in this round ends it now."""
        # Until the first step nothing ends: which loader trains is known only then.
        if self.follower.is_guided or not self.follower.taken:
            return False
        if not self.trains(loader):
            return given >= EVALUATION_BATCHES
        if self.follower.purpose == "ranks" and self.rounds:
            return given >= 1
        return not self.rounds and self._has_taken_all_steps(given, is_asked_ahead=is_asked_ahead)

    def _has_taken_all_steps(self, given: int, *, is_asked_ahead: bool) -> bool:
        """Whether the steps are taken; those of a loader that is asked one batch ahead are about to be."""
        if not is_asked_ahead:
            return self.follower.taken >= self.steps
        # accelerate fetches one batch ahead of the loop: the first step was taken on all batches but the last one
        # fetched.
        self._batches_per_step = self._batches_per_step or given - 1
        return given >= self.steps * self._batches_per_step

    def on_round_start(self, loader: Any, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of a round over a loader, made short where it is one of an evaluation on several processes."""
        if self.gathers is not None:
            self.gathers.on_round_start()
        if self.follower.is_guided:
            return batches
        if self.follower.purpose == "ranks" and self.follower.taken and not self.trains(loader):
            return ShortBatches(self, loader, batches, ends_soon=leave_the_middle_out(batches))
        return ShortBatches(self, loader, batches)

    def on_round_end(self, loader: Any) -> None:
        """A loader says that it has no more batches."""
        if loader is self._training:
            self.rounds += 1
            self.follower.report(rounds=self.rounds)
            if self.rounds > MOST_ROUNDS:
                self.follower.finish()

    def on_loader_end(self) -> None:
        """A loader has really no more batches."""
        if self.gathers is not None:
            self.gathers.on_round_end()


def is_accelerate(frame: FrameType | None) -> bool:
    """Whether accelerate asks, which keeps one batch ahead of the loop (accelerate 1.15)."""
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("accelerate.")


def leave_the_middle_out(batches: Any) -> bool:
    """Let an iterator over numbered rows give the first batch and the last, which may be filled up: whether it does."""
    if attribute(batches, "_dataset_kind", None) != 0 or not has(batches, "_sampler_iter"):
        return False
    rest: Iterator[Any] = batches._sampler_iter
    numbers = list(itertools.islice(rest, MOST_BATCHES))
    if len(numbers) == MOST_BATCHES:
        # The numbers that were taken out for a look are put back in front.
        batches._sampler_iter = itertools.chain(numbers, rest)
        return False
    batches._sampler_iter = iter(numbers if len(numbers) <= EVALUATION_BATCHES else [numbers[0], numbers[-1]])
    return True


class ShortBatches:
    """An iterator over a loader's batches that may end before these do."""

    def __init__(self, rounds: Rounds, loader: Any, batches: Iterator[Any], *, ends_soon: bool = False) -> None:
        self._rounds = rounds
        self._ends_soon = ends_soon
        self._loader = loader
        self._batches = batches
        self._given = 0

    def __iter__(self) -> ShortBatches:
        return self

    def __next__(self) -> Any:
        # A script that asks with `next` would get an error that is not its own; only a loop takes an early end.
        is_enough = not self._ends_soon and self._rounds.has_enough(
            self._loader, self._given, is_asked_ahead=is_accelerate(callers_frame(1))
        )
        if is_enough and is_asked_by_a_loop():
            self._rounds.on_round_end(self._loader)
            raise StopIteration
        try:
            batch = next(self._batches)
        except StopIteration:
            self._rounds.on_loader_end()
            self._rounds.on_round_end(self._loader)
            raise
        self._given += 1
        self._rounds.on_batch(self._loader)
        return batch

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def _hook_loaders(rounds: Rounds, module: Any) -> None:
    iterate = module.DataLoader.__iter__

    @functools.wraps(iterate)
    def iter_(self: Any) -> Iterator[Any]:
        return rounds.on_round_start(self, iterate(self))

    module.DataLoader.__iter__ = iter_
