"""Programs that the script starts: Python is under guard too, any other is only kept from writing."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, cast

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.files import real
from lintrain.runtime.sandbox.files.calls import Calls


class Programs:
    """Sees what is started; `others` are the names of programs that no guard reaches."""

    def __init__(self, calls: Calls) -> None:
        self.others: list[str] = []
        self._calls = calls

    def install(self, hooks: AfterImport) -> None:
        """See `subprocess` and `os.system`."""
        hooks.add("subprocess", self._watch)
        system: Any = getattr(os, "system")  # noqa: B009 - deprecated for callers, of whom this is none

        @functools.wraps(system)
        def watched(command: Any) -> Any:
            self._note(command)
            return system(command)

        setattr(os, "system", watched)  # noqa: B010 - as above

    def install_names(self, hooks: AfterImport, file: str) -> None:
        """Write down the names of shared memory, which outlives processes that are killed, and who may make some."""
        _note(file, str(os.getpid()))
        if hasattr(os, "register_at_fork"):
            # A forked worker runs no import hook again, and may be the one that makes the shared memory.
            os.register_at_fork(after_in_child=lambda: _note(file, str(os.getpid())))
        hooks.add("multiprocessing.shared_memory", functools.partial(_name_memory, file))

    def _watch(self, module: Any) -> None:
        build = module.Popen.__init__

        @functools.wraps(build)
        def init(popen: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
            self._note(args)
            if kwargs.get("cwd") is not None:
                kwargs["cwd"] = self._found(kwargs["cwd"])
            build(popen, self._all_found(args), *rest, **kwargs)

        module.Popen.__init__ = init

    def _all_found(self, args: Any) -> Any:
        return [self._found(word) for word in cast("list[Any]", args)] if isinstance(args, list | tuple) else args

    def _note(self, args: Any) -> None:
        try:
            first: Any = cast("list[Any]", args)[0] if isinstance(args, list | tuple) else args
            words = os.fsdecode(first).split()
        except (TypeError, IndexError):
            return  # `subprocess` says what is wrong
        name = os.path.basename(words[0]) if words else ""
        # A Python is found by its environment and installs the guard itself; the kernel's rules hold any other
        # program.
        if not name.startswith("python") and name not in self.others:
            self.others.append(name)

    def _found(self, argument: Any) -> Any:
        """An argument that names a file which the script wrote before names it where it is."""
        overlay = self._calls.overlay
        key = self._calls.key(argument) if overlay.is_used else None
        if key is None or not overlay.exists(key):
            return argument
        found = overlay.seen(key)
        return argument if found == key else found


def _note(file: str, line: str) -> None:
    with contextlib.suppress(OSError), real.open_file(file, "a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")


def _name_memory(file: str, module: Any) -> None:
    system = getattr(module, "_posixshmem", None)
    if system is None:
        return
    opens = system.shm_open

    @functools.wraps(opens)
    def shm_open(path: str, *args: Any, **kwargs: Any) -> int:
        _note(file, f"/{path.lstrip('/')}")
        return int(opens(path, *args, **kwargs))

    system.shm_open = shm_open
