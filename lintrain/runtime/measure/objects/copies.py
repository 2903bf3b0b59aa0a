"""Rows that two worker processes read from their copies of a data set: forked and seeded as a loader does it."""

from __future__ import annotations

import json
import os
import pickle
import random
import select
import signal
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NoReturn

from lintrain.evidence.run import CopiedRows
from lintrain.runtime.child.ending import END
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.label_rows import spread
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.measure.seen import has_rows

ROWS = 64
"""Of a stream, that each process reads."""
READS = 16
"""Rows from all over a data set, after each of which its generators are looked at."""
SECONDS = 3.0
GENERATORS = (
    ("numpy.random", "Generator"),
    ("numpy.random", "RandomState"),
    ("random", "Random"),
    ("torch", "Generator"),
)


def is_own(dataset: Any) -> bool:
    """Whether a data set is of a class of the script's own, so that it is not known how workers share its rows."""
    module = sys.modules.get(type(dataset).__module__)
    path = attribute(module, "__file__", None)
    return isinstance(path, str) and is_users(path)


def generators_of(dataset: Any) -> list[Any]:
    """The attributes of a data set that draw random numbers from a state of their own."""
    kinds = tuple(getattr(module, name) for path, name in GENERATORS if (module := loaded(path)) is not None)
    return [value for value in attribute(dataset, "__dict__", {}).values() if isinstance(value, kinds)]


def _state(generator: Any) -> str:
    """All that decides which numbers a generator draws next."""
    if has(generator, "bit_generator"):
        return str(generator.bit_generator.state)
    return str(generator.getstate()) if has(generator, "getstate") else _listed(generator.get_state())


def _listed(state: Any) -> str:
    parts: Any = state if is_row(state) else (state,)
    return str([part.tolist() if has(part, "tolist") else part for part in parts])


def may_be_alike(dataset: Any) -> bool:
    """Whether workers may read the same: of a stream, or of rows that draw from a generator that is kept."""
    return not has_rows(dataset) or bool(generators_of(dataset))


def read_copies(loader: Any) -> CopiedRows | str:
    """What workers read, or why that is not known."""
    if not has(os, "fork"):
        return "this system cannot fork a process"
    is_stream = not has_rows(loader.dataset)
    # Two workers as in the run, and of a stream one alone, twice: only a stream that repeats itself can show that
    # workers read the same.
    chosen = [(0, 2), (1, 2), (0, 1), (0, 1)] if is_stream else [(0, 2), (1, 2)]
    found = _read_at_once(loader, chosen)
    lists = [each for each in found if isinstance(each, list)]
    if len(lists) < len(found):
        return next(f"a worker ended with {each}" for each in found if isinstance(each, str))
    return _compared(lists, is_stream=is_stream)


def _compared(lists: Sequence[list[str]], *, is_stream: bool) -> CopiedRows | str:
    read = min(map(len, lists))
    if read < 2:
        return f"a worker read {read} rows" if read != 1 else "a worker read 1 row"
    first, second = lists[0][:read], lists[1][:read]
    alone, repeated = (lists[2][:read], lists[3][:read]) if is_stream else (first, first)
    return CopiedRows(
        is_stream=is_stream,
        read=read,
        different=len(set(first)),
        alike=sum(one == other for one, other in zip(first, second, strict=True)),
        shared=len([row for row in second if row in set(first)]),
        alone=sum(one == other for one, other in zip(first, alone, strict=True)) if is_stream else 0,
        is_steady=alone == repeated,
    )


def _read_at_once(loader: Any, chosen: Sequence[tuple[int, int]]) -> list[list[str] | str]:
    """One process for each worker; what it read until the time was up, or its error."""
    seeds = [worker if of > 1 else 2 + position for position, (worker, of) in enumerate(chosen)]
    started = [_start(loader, worker, of, seed) for (worker, of), seed in zip(chosen, seeds, strict=True)]
    ends = time.monotonic() + SECONDS + 1.0
    return [_collect(process, pipe, ends) for process, pipe in started]


def _start(loader: Any, worker: int, of: int, seed: int) -> tuple[int, int]:
    """A process of its own, and the pipe that it writes to."""
    reading, writing = os.pipe()
    # Forked, as a loader's workers are on Linux: the copy of the data set has the state that the workers' copies
    # would have.
    process = os.fork()
    if not process:
        _answer(writing, loader, worker, of, seed)
    os.close(writing)
    return process, reading


def _answer(pipe: int, loader: Any, worker: int, of: int, seed: int) -> NoReturn:
    """The worker's whole life."""
    try:
        answer = json.dumps(_work(loader, worker, of, seed))
    except BaseException as error:  # noqa: BLE001 - whatever ends a worker is its answer
        answer = json.dumps(f"{type(error).__name__}: {error}"[:200])
    os.write(pipe, answer.encode())
    END(0)


def _work(loader: Any, worker: int, of: int, seed: int) -> list[str]:
    """What `torch.utils.data._utils.worker._worker_loop` does before and while it reads (torch 2.13)."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    # The copy has the script's output: what its data set prints would appear twice.
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    torch, workers = library("torch"), library("torch.utils.data._utils.worker")
    torch.set_num_threads(1)
    random.seed(seed)
    torch.manual_seed(seed)
    if loaded("numpy") is not None:
        library("numpy").random.seed(seed)
    dataset = loader.dataset
    workers._worker_info = workers.WorkerInfo(id=worker, num_workers=of, seed=seed, dataset=dataset)
    if loader.worker_init_fn is not None:
        loader.worker_init_fn(worker)
    ends, digests = time.monotonic() + SECONDS, list[str]()
    for row in _seen(dataset):
        digests.append(f"{zlib.crc32(_bytes(row)):08x}")
        # A stream may wait for data forever; what was read until then is compared.
        if time.monotonic() > ends:
            break
    return digests


def _seen(dataset: Any) -> Iterator[Any]:
    """The rows of a stream, or the states of the generators in a data set after each row."""
    if not has_rows(dataset):
        yield from islice(iter(dataset), ROWS)
        return
    for row in spread(len(dataset), READS):
        dataset[row]
        yield [_state(generator) for generator in generators_of(dataset)]


def _bytes(value: Any) -> bytes:
    """What a row holds: equal for rows of equal numbers and texts."""
    if has(value, "detach"):
        value = value.detach().cpu().numpy()
    if has(value, "tobytes"):
        return f"{attribute(value, 'shape', '')} {attribute(value, 'dtype', '')} ".encode() + bytes(value.tobytes())
    if is_mapping(value):
        return b"{" + b",".join(str(name).encode() + b":" + _bytes(part) for name, part in value.items()) + b"}"
    if is_row(value):
        return b"[" + b",".join(_bytes(part) for part in value) + b"]"
    return repr(value).encode() if isinstance(value, str | int | float | bool | None) else pickle.dumps(value)


def _collect(process: int, pipe: int, ends: float) -> list[str] | str:
    """What a process wrote; it is ended when its time is up."""
    answer = bytearray()
    while select.select([pipe], [], [], max(0.0, ends - time.monotonic()))[0]:
        part = os.read(pipe, 65_536)
        if not part:
            break
        answer += part
    os.close(pipe)
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return json.loads(answer) if answer else f"no result after {SECONDS:g} s"
