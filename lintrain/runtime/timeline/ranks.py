"""One of the processes of a training on several: what it is given, what it writes, how it waits for the others, what
makes their weights differ on purpose, and what an evaluation gathers from all of them.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import os
import re
import time
import zlib
from collections.abc import Callable
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_called_from, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.label_rows import spread
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, loaded
from lintrain.runtime.child.probe_session import ROOT_PROCESS
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.measure.seen import has_rows, tensors_in
from lintrain.runtime.sandbox.files.calls import Calls
from lintrain.runtime.sandbox.files.keeper import shown
from lintrain.runtime.timeline.facts import TimelineFacts, digest
from lintrain.runtime.timeline.follower import Follower

ROWS = 16
LEAPS = 64
MOST_CONTENTS, CONTENTS_SECONDS = 10_000, 0.5
"""Rows of which each rank sends a digest, to see whether two data sets have rows in common."""
LAUNCHER = "LINTRAIN_PROBE_LAUNCHER"


def is_launcher(request: dict[str, Any] | None) -> bool:
    """Whether this process only starts those that train."""
    return request is not None and request["purpose"] == "ranks" and "TORCHELASTIC_RUN_ID" not in os.environ


def become_root(request: dict[str, Any] | None) -> None:
    """Each process that the launcher starts runs the script itself; what such a process starts does not."""
    if is_launcher(request):
        os.environ[LAUNCHER] = str(os.getpid())
    elif os.environ.pop(LAUNCHER, None) == str(os.getppid()):
        os.environ[ROOT_PROCESS] = str(os.getpid())


def install(follower: Follower, hooks: AfterImport) -> None:
    """See the loaders of this rank, and what the script writes in it."""
    hooks.add("torch.utils.data.dataloader", functools.partial(_hook_loaders, follower))
    follower.session.keeper.watch_writing(functools.partial(_says_written, follower))
    _watch_prints(follower)


def _says_written(follower: Follower, key: str) -> None:
    # Libraries rename a temporary file of their own to a cache: each process puts a whole file there, and no harm is
    # done. A temporary file that several processes share has been reported by its own name.
    if is_called_from(Calls.rename):
        return
    location = frame_location(users_frame())
    follower.session.channel.send("rank-write", rank=follower.rank, path=shown(key), location=location)


NAMES_RANK = re.compile(r"(?i)rank|proc|local|device|world|flush")
MOST_PRINTS = 20


def _watch_prints(follower: Follower) -> None:
    """See what the script prints after its first step, except for what names the process."""
    write, seen = builtins.print, set[Location]()

    @functools.wraps(write)
    def prints(*values: Any, **kwargs: Any) -> None:
        write(*values, **kwargs)
        frame = users_frame() if follower.taken and len(seen) < MOST_PRINTS and not kwargs.get("file") else None
        location = frame_location(frame)
        if frame is None or location is None or location in seen:
            return
        if not NAMES_RANK.search(linecache.getline(frame.f_code.co_filename, location.line)):
            seen.add(location)
            follower.session.channel.send("rank-print", rank=follower.rank, location=location)

    builtins.print = prints


def _hook_loaders(follower: Follower, module: Any) -> None:
    iterate = module.DataLoader.__iter__

    @functools.wraps(iterate)
    def iter_(self: Any) -> Any:
        if not follower.taken:  # the last one before the first step is that of the training
            follower.report(**_facts(self))
        return iterate(self)

    module.DataLoader.__iter__ = iter_


def _facts(loader: Any) -> TimelineFacts:
    with same_random_numbers():
        dataset = attribute(loader, "dataset", None)
        digest_of_some = _digest_of_rows(dataset)
        size = attribute(loader, "batch_size", None) or attribute(
            attribute(loader, "batch_sampler", None), "batch_size", None
        )
        return {
            "batches": _length(loader),
            "batch_size": size if isinstance(size, int) else None,
            "dataset_rows": _length(dataset),
            "dataset": digest_of_some,
            "contents": _contents(dataset) if digest_of_some is not None else [],
        }


def _contents(dataset: Any) -> list[str]:
    """A digest of each of many rows from all over a data set, as far as the time allows."""
    ends, found = time.monotonic() + CONTENTS_SECONDS, list[str]()
    numbers = list(spread(len(dataset), MOST_CONTENTS))
    # In an order from all over the data: where the time ends, what was read is a sample of it, the same on all ranks.
    for row in (numbers[at] for step in range(LEAPS) for at in range(step, len(numbers), LEAPS)):
        if time.monotonic() > ends:
            break
        found.append(f"{zlib.crc32(_text(dataset[row]).encode()):08x}")
    return found


def _length(counted: Any) -> int | None:
    try:
        return len(counted)
    except (TypeError, NotImplementedError):
        return None


def _digest_of_rows(dataset: Any) -> str | None:
    """Of a few rows from all over a data set; None where reading them twice does not give the same."""
    if dataset is None or not has_rows(dataset):
        return None
    try:
        # Twice: rows with random augmentation differ between two reads of one process, and would differ between ranks
        # for that reason.
        read = [" ".join(_text(dataset[row]) for row in spread(len(dataset), ROWS)) for _ in range(2)]
    except Exception:  # noqa: BLE001 - rows that cannot be read here may well be read by the loader
        return None
    return f"{zlib.crc32(read[0].encode()):08x}" if read[0] == read[1] else None


def _text(value: Any) -> str:
    if has(value, "untyped_storage"):
        return digest(value)
    if is_mapping(value):
        return " ".join(f"{name}={_text(part)}" for name, part in value.items())
    if is_row(value):
        return f"[{' '.join(_text(part) for part in value)}]"
    return repr(value.tolist()) if has(value, "tolist") else repr(value)


def allow_unused(hooks: AfterImport) -> None:
    """Let DistributedDataParallel go on where weights get no gradient, as its own option does."""
    hooks.add("torch.nn.parallel.distributed", _find_unused)


def _find_unused(module: Any) -> None:
    build = module.DistributedDataParallel.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **{**kwargs, "find_unused_parameters": True})

    module.DistributedDataParallel.__init__ = init


AVERAGING = {
    "accelerate.local_sgd": "LocalSGD",
    "torch.distributed.algorithms.model_averaging.averagers": "ModelAverager",
}
"""Classes whose objects occasionally average the weights of all processes (accelerate 1.15, torch 2.13)."""

REPLICATED = "DistributedDataParallel"
SHARDED = ("FullyShardedDataParallel", "FSDP", "DeepSpeedEngine", "PipelineStage")


def watch_replicas(follower: Follower, hooks: AfterImport) -> None:
    """Send with each step what is known by then."""
    replicas = Replicas(follower)
    for module, name in AVERAGING.items():
        hooks.add(module, functools.partial(replicas.notice, name))
    follower.more_facts.append(replicas.facts)


class Replicas:
    """What the script uses that keeps the weights of its processes apart."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._averaged_by = ""

    def notice(self, name: str, module: Any) -> None:
        """Remember when an object of a class is made."""
        owner = getattr(module, name)
        build = owner.__init__

        @functools.wraps(build)
        def init(*args: Any, **kwargs: Any) -> None:
            self._averaged_by = name
            build(*args, **kwargs)

        owner.__init__ = init

    def facts(self) -> TimelineFacts:
        """How many processes have joined, and by what their weights may differ."""
        distributed = loaded("torch.distributed")
        is_joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
        size = distributed.get_world_size() if distributed is not None and is_joined else 1
        return {"joined": size, "keeps_apart": self._averaged_by or self._sharded(), "batch_norms": self._batch_norms()}

    def _batch_norms(self) -> int:
        """The layers of replicas that normalize with the rows of their own process."""
        replicas = [root for root in self._follower.roots if type(root).__name__ == REPLICATED and root.training]
        kinds = [{base.__name__ for base in type(part).__mro__} for root in replicas for part in root.modules()]
        return sum("_BatchNorm" in names and "SyncBatchNorm" not in names for names in kinds)

    def _sharded(self) -> str:
        for root in self._follower.roots:
            kinds = {base.__name__ for part in root.modules() for base in type(part).__mro__}
            if found := kinds & {*SHARDED}:
                return min(found)
            if any(has(weight, "placements") for weight in root.parameters()):
                return "DTensor"
        return ""


FUNCTIONS = ("gather", "gather_for_metrics")


def install_gathers(follower: Follower, hooks: AfterImport) -> Gathers:
    """See the gathering functions of accelerate and the rows that loaders fetch."""
    gathers = Gathers(follower)
    hooks.add("accelerate.accelerator", functools.partial(_hook_accelerator, gathers))
    hooks.add("torch.utils.data._utils.fetch", functools.partial(_hook_rows, gathers))
    return gathers


class Gathers:
    """The round over a loader that runs now: its rows by number, and the rows that each place gathered in it."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._depth = 0
        self._round = 0
        self.on_round_start()

    def on_round_start(self) -> None:
        """A loader is iterated again."""
        self._round += 1
        self._ended = False
        self._batches: list[list[int]] = []
        self._gathered: dict[Location, list[int]] = {}

    def on_round_end(self) -> None:
        """The loader of the round has no more rows; its last batch may be to come, for accelerate asks ahead."""
        self._ended = True

    def fetched(self, numbers: Any) -> None:
        """The loader made a batch of the rows with these numbers."""
        self._batches.append([each for each in numbers if isinstance(each, int)] if is_row(numbers) else [])

    def gather(self, function: str, carry_out: Callable[[], Any]) -> Any:
        """Let a function of accelerate gather, and send its result; one that calls another counts once."""
        self._depth += 1
        try:
            found = carry_out()
        finally:
            self._depth -= 1
        # `gather_for_metrics` calls `gather`; and before the first step a script may gather to check its set-up.
        if not self._depth and self._follower.taken:
            self._say(function, found)
        return found

    def _say(self, function: str, found: Any) -> None:
        location = frame_location(users_frame())
        first = next((tensor for tensor in tensors_in(found) if tensor.dim()), None)
        if location is None or first is None:
            return
        calls = self._gathered.setdefault(location, [])
        calls.append(len(first))
        self._follower.session.channel.send(
            "rank-gather",
            rank=self._follower.rank,
            gather={
                "round": self._round,
                "is_whole": self._ended,
                "function": function,
                "location": location,
                "calls": calls,
                "batches": self._batches,
            },
        )


def _hook_accelerator(gathers: Gathers, module: Any) -> None:
    for name in FUNCTIONS:
        setattr(module.Accelerator, name, _watched(gathers, getattr(module.Accelerator, name)))


def _watched(gathers: Gathers, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        return gathers.gather(function.__name__, lambda: function(*args, **kwargs))

    return watched


def _hook_rows(gathers: Gathers, module: Any) -> None:
    fetch = module._MapDatasetFetcher.fetch

    @functools.wraps(fetch)
    def followed(self: Any, possibly_batched_index: Any) -> Any:
        gathers.fetched(possibly_batched_index)
        return fetch(self, possibly_batched_index)

    module._MapDatasetFetcher.fetch = followed
