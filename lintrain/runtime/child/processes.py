"""Scripts that a launcher usually starts on several processes: what it would have set, for the one that is probed."""

from __future__ import annotations

import functools
import os
from typing import Any

from lintrain.runtime.child.frames import callers_frame, is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession

ASKED_FOR = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Answer a script that reads a launcher's variables and has none, and put gloo in place of other backends."""
    if session.is_root:
        _answer_reads(session)
    hooks.add("torch.distributed.distributed_c10d", lambda module: _patch_groups(session, module))


def _answer_reads(session: ProbeSession) -> None:
    """Only `os.environ["RANK"]` in the script itself: code that uses `get` or `in` works without it."""
    environment: Any = type(os.environ)
    read = environment.__getitem__

    @functools.wraps(read)
    def getitem(self: Any, name: Any) -> Any:
        try:
            return read(self, name)
        except KeyError:
            if name not in ASKED_FOR or not _is_asked_by_user():
                raise
        stand_for_a_launcher(session)
        return read(self, name)

    environment.__getitem__ = getitem


def _is_asked_by_user() -> bool:
    caller = callers_frame(above=2)
    return caller is not None and is_users(caller.f_code.co_filename)


def stand_for_a_launcher(session: ProbeSession) -> None:
    """Set what torchrun sets for one process."""
    from lintrain.runtime.parent.launchers import one_process

    for name, value in one_process().items():
        os.environ.setdefault(name, value)
    session.shorten("one process is probed, with the variables that `torchrun` sets for it")


def _patch_groups(session: ProbeSession, module: Any) -> None:
    begin = module.init_process_group

    @functools.wraps(begin)
    def init_process_group(backend: Any = None, init_method: Any = None, *args: Any, **kwargs: Any) -> Any:
        reads_variables = init_method in (None, "env://") and not {"store", "rank", "world_size"} & set(kwargs)
        if session.is_root and reads_variables and not args and "RANK" not in os.environ:
            stand_for_a_launcher(session)
        if session.device == "cpu" and backend is not None and "gloo" not in str(backend):
            session.shorten(f"processes communicate over gloo instead of {backend}: the probe runs on the CPU")
            backend = "gloo"
            kwargs.pop("device_id", None)
        return begin(backend, init_method, *args, **kwargs)

    module.init_process_group = init_process_group
