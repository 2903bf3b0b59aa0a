"""Streams of a GPU that is not here: on the CPU, work is done when a call returns, and nothing waits for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.hooks import AfterImport

STREAM = 0


def install(hooks: AfterImport) -> None:
    """Replace streams, and the questions which one is current."""
    hooks.add("torch", replace_streams)


class Stream:
    """A stream that does nothing; one class stands for `torch.cuda.Stream` and its relatives."""

    cuda_stream = STREAM

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self) -> bool:
        """Whether all work is done, which on the CPU it is."""
        return True

    def record_event(self, event: Any = None) -> Any:
        """The event that was given, which needs no mark."""
        return event

    def synchronize(self, *_: Any) -> None:
        """Nothing to wait for."""

    wait_stream = wait_event = synchronize


def replace_streams(torch: Any) -> None:
    """Take everything that names a stream to one that does nothing."""
    cuda = torch.cuda
    cuda.Stream = cuda.ExternalStream = Stream
    # Libraries ask as well (pinned loaders, prefetchers), and without a GPU each of these raises an error.
    cuda.current_stream = cuda.default_stream = _any_stream
    cuda.stream = cuda.StreamContext = _within
    cuda.set_stream = _any_stream
    record: Callable[..., Any] = torch.Tensor.record_stream

    def record_stream(self: Any, stream: Any) -> Any:
        # Of a tensor on the CPU, torch raises an error.
        return record(self, stream) if self.is_cuda else None

    torch.Tensor.record_stream = record_stream


def _any_stream(*_: Any, **__: Any) -> Stream:
    return Stream()


def _within(*_: Any, **__: Any) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()
