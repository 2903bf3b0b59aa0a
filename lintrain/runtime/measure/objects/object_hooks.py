"""Watch the objects that a script creates besides its training.

Chats that a script encodes with its tokenizer's template: what it is given back.

Calls of a loop that make each step wait: how often they come while training is followed.

Learners of scikit-learn that a script fits, and the splits that it makes: how many rows each was given.

Loaders that a script makes: their rows and batches, and what worker processes would read from their copies.
"""

from __future__ import annotations

import functools
import gc
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import CopiedRows, EncodedChat, LearnedRows, MadeLoader, SplitRows, StepStop
from lintrain.model.location import Location
from lintrain.runtime.child.frames import callers_frame, frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, is_mapping
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure import tokenizer
from lintrain.runtime.measure.objects import models, origins
from lintrain.runtime.measure.objects.copies import generators_of, is_own, may_be_alike, read_copies
from lintrain.runtime.measure.objects.objects import MOST
from lintrain.runtime.measure.seen import number_of_rows


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch the makers of the libraries as they are imported, in the script's own process only."""
    if not session.is_root:
        return
    tokenizer.install(session, hooks)
    origins.install(session, hooks)
    _watch_chats(session, hooks)
    _watch_learners(session, hooks)
    _watch_loaders(session, hooks)
    models.install(session, hooks)
    _watch_stops(session, hooks)


def _watch_chats(session: ProbeSession, hooks: AfterImport) -> None:
    """Look at every call of a tokenizer's method; a data set makes thousands of one kind."""
    found: dict[EncodedChat, None] = {}
    session.objects.add("chats", lambda _: list(found))
    module = "transformers.tokenization_utils_base"
    hooks.add(module, lambda loaded: _watch(found, loaded.PreTrainedTokenizerBase))


def _watch(found: dict[EncodedChat, None], kind: Any) -> None:
    encode = kind.apply_chat_template

    @functools.wraps(encode)
    def apply_chat_template(self: Any, *args: Any, **kwargs: Any) -> Any:
        encoded = encode(self, *args, **kwargs)
        location = frame_location(users_frame())
        if location is not None:
            found[EncodedChat(location, type(encoded).__name__, _columns(encoded))] = None
        return encoded

    kind.apply_chat_template = apply_chat_template


def _columns(encoded: Any) -> tuple[str, ...]:
    is_columns = is_mapping(encoded) or type(encoded).__name__ == "BatchEncoding"
    return tuple(map(str, encoded.keys())) if is_columns else ()


OF_DEVICE = ("empty_cache", "synchronize")


class Stops:
    """Counted by the place of the script that makes them."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._counts: Counter[tuple[Location, str]] = Counter()

    def counted(self, owner: Any, name: str, path: str) -> None:
        """Let a function of a module count its calls."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def counts(*args: Any, **kwargs: Any) -> Any:
            self._count(path)
            return function(*args, **kwargs)

        setattr(owner, name, counts)

    def _count(self, path: str) -> None:
        watch = self._session.watch
        if not self._session.has_begun or watch.run.is_settled or not watch.is_on:
            return
        location = frame_location(users_frame())
        if location is not None:
            self._counts[location, path] += 1

    def evidence(self) -> list[StepStop]:
        """Those that came at all."""
        steps = self._session.watch.effects.counts["steps"] if self._session.has_begun else 0
        return [StepStop(location, path, times, steps) for (location, path), times in self._counts.items()]


def _watch_stops(session: ProbeSession, hooks: AfterImport) -> None:
    """Count the clearing of caches and of garbage."""
    stops = Stops(session)
    session.objects.add("stops", lambda _: stops.evidence())
    stops.counted(gc, "collect", "gc.collect")
    hooks.add("torch.cuda", lambda module: _count_all(stops, module))


def _count_all(stops: Stops, module: Any) -> None:
    for name in OF_DEVICE:
        stops.counted(module, name, f"torch.cuda.{name}")


class Learners:
    """What was fitted and split, in its order."""

    def __init__(self) -> None:
        self.learned: list[LearnedRows] = []
        self.splits: list[SplitRows] = []

    @property
    def moment(self) -> int:
        """How many of both there are."""
        return len(self.learned) + len(self.splits)

    def learns(self, learner: Any, rows: Any) -> None:
        """A learner is fitted by code of the script, or by a library that the script calls."""
        location, number = frame_location(users_frame()), _rows(rows)
        if location is not None and number is not None:
            self.learned.append(LearnedRows(location, type(learner).__name__, number, self.moment))

    def divides(self, rows: Any, kept: Any) -> None:
        """Rows were split in two."""
        location, number, rest = frame_location(users_frame()), _rows(rows), _rows(kept)
        if location is not None and number is not None and rest is not None:
            self.splits.append(SplitRows(location, number, rest, self.moment))


def _watch_learners(session: ProbeSession, hooks: AfterImport) -> None:
    """Fits and splits are numbered together, in their order."""
    learners = Learners()
    session.objects.add("learned", lambda _: learners.learned)
    session.objects.add("splits", lambda _: learners.splits)
    hooks.add("sklearn.base", functools.partial(_watch_fits, learners))
    hooks.add("sklearn.model_selection._split", functools.partial(_watch_splits, learners))


def _watch_fits(learners: Learners, module: Any) -> None:
    """What decorates every `fit` (scikit-learn 1.3 and later) checks the parameters first, in the frame of its call."""
    check = module.BaseEstimator._validate_params

    @functools.wraps(check)
    def validate_params(self: Any) -> Any:
        frame = callers_frame(above=1)
        given: dict[str, Any] = frame.f_locals if frame is not None else {}
        named: dict[str, Any] = given.get("kwargs") or {}
        rows = next(iter(given.get("args") or ()), named.get("X", named.get("raw_documents")))
        if rows is not None:
            learners.learns(self, rows)
        return check(self)

    module.BaseEstimator._validate_params = validate_params
    fit = module.TransformerMixin.fit_transform

    @functools.wraps(fit)
    def fit_transform(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803 - the library's own name
        known = len(learners.learned)
        result = fit(self, X, *args, **kwargs)
        # Of one that is fitted already, some classes do not check their parameters.
        if len(learners.learned) == known:
            learners.learns(self, X)
        return result

    module.TransformerMixin.fit_transform = fit_transform


def _watch_splits(learners: Learners, module: Any) -> None:
    split = module.train_test_split

    @functools.wraps(split)
    def train_test_split(*arrays: Any, **kwargs: Any) -> Any:
        parts = split(*arrays, **kwargs)
        learners.divides(arrays[0], parts[0])
        return parts

    module.train_test_split = train_test_split


def _rows(value: Any) -> int | None:
    shape = attribute(value, "shape", None)
    return int(shape[0]) if shape else number_of_rows(value)


MOST_READ = 2
"""Loaders whose workers are tried."""


class Loaders:
    """The loaders of the script, each with the place that made it; those that workers should fill are kept."""

    def __init__(self) -> None:
        self._made: list[tuple[MadeLoader, Any]] = []

    def makes(self, loader: Any, workers: int) -> None:
        """A loader is there, which asked for so many workers."""
        location = frame_location(users_frame())
        if location is not None and len(self._made) < MOST:
            kept = loader if workers >= 2 and is_own(loader.dataset) else None
            self._made.append((_described(loader, location, workers), kept))

    def evidence(self, *, is_measured: bool) -> list[MadeLoader]:
        """All of them; workers read only where a training went through, for the data may not be complete before."""
        read, found = 0, list[MadeLoader]()
        for made, loader in self._made:
            is_read = is_measured and loader is not None and read < MOST_READ and may_be_alike(loader.dataset)
            read += is_read
            found.append(_with_copies(made, loader) if is_read else made)
        return found


def _watch_loaders(session: ProbeSession, hooks: AfterImport) -> None:
    """Watch the construction of loaders."""
    loaders = Loaders()
    session.objects.add("loaders", lambda is_measured: loaders.evidence(is_measured=is_measured))
    hooks.add("torch.utils.data.dataloader", lambda module: _hook(session, loaders, module.DataLoader))


def _hook(session: ProbeSession, loaders: Loaders, loader: Any) -> None:
    build = loader.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        if session.is_root and not session.measuring:
            loaders.makes(self, self.num_workers)

    loader.__init__ = init


def _described(loader: Any, location: Location, workers: int) -> MadeLoader:
    return MadeLoader(
        location=location,
        rows=_length(loader.dataset),
        batches=_length(loader),
        batch_size=loader.batch_size,
        drops_last=bool(loader.drop_last),
        sampler=type(loader.sampler).__name__,
        workers=workers,
        generators=len(generators_of(loader.dataset)) if is_own(loader.dataset) else None,
    )


def _length(value: Any) -> int | None:
    try:
        return number_of_rows(value)
    except Exception:  # noqa: BLE001 - a length of the script's own; it is not known then
        return None


def _with_copies(made: MadeLoader, loader: Any) -> MadeLoader:
    started = time.perf_counter()
    read = read_copies(loader)
    if isinstance(read, CopiedRows):
        return replace(made, copies=read)
    return replace(made, reason=f"{read}, in {time.perf_counter() - started:.1f} s")
