"""Put the guard in place of the functions that open, make, rename and remove files."""

from __future__ import annotations

import builtins
import functools
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from lintrain.runtime.sandbox.files import real
from lintrain.runtime.sandbox.files.calls import Calls

BY_NAME = {
    "open": "os_open",
    "mkdir": "mkdir",
    "remove": "remove",
    "unlink": "remove",
    "rmdir": "rmdir",
    "rename": "rename",
    "replace": "rename",
    "link": "link",
    "symlink": "symlink",
    "listdir": "listdir",
    "scandir": "scandir",
    "getcwd": "getcwd",
    "getcwdb": "getcwdb",
    "lstat": "read_link",
    "readlink": "read_link",
    **dict.fromkeys(("stat", "access", "chdir", "statvfs", "getxattr", "listxattr"), "read"),
    **dict.fromkeys(("truncate", "chmod", "chown", "utime", "setxattr", "removexattr"), "modify"),
    **dict.fromkeys(("mkfifo", "mknod"), "make"),
}
"""Functions of `os`, and the method of `Calls` that stands in for each."""

BOUND_EARLY = {"glob": ("_StringGlobber",), "pathlib": ("_Globber", "Path")}
"""Classes of the standard library that keep functions of `os` as attributes."""


class Guarded:
    """A function in place of a built-in one: like that, it does not become a method in a class."""

    def __init__(self, original: Callable[..., Any], guard: Callable[..., Any], module: str) -> None:
        functools.update_wrapper(self, original)
        self.__module__ = module
        self._original = original
        self._guard = guard

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the guard makes of a call."""
        return self._guard(self._original, *args, **kwargs)

    def __reduce__(self) -> str:
        return str(getattr(self, "__name__", ""))


def install(calls: Calls) -> None:
    """Guard this process and, through the environment, the Python processes that it starts."""
    # By identity: the same function has several names (`remove` and `unlink`, `builtins.open` and `io.open`) and
    # needs one guard for all of them, or comparing them would give another answer than before.
    guarded: dict[int, Guarded] = {}
    opened = Guarded(real.open_file, calls.open, "io")
    guarded[id(real.open_file)] = opened
    builtins.open = io.open = opened
    for name, method in BY_NAME.items():
        original = getattr(os, name, None)
        if original is not None:
            guarded[id(original)] = Guarded(original, getattr(calls, method), "os")
            setattr(os, name, guarded[id(original)])
            _stay_supported(original, guarded[id(original)])
    _replace_early_copies(guarded)


def _stay_supported(original: Any, guarded: Any) -> None:
    """The sets of `os` that say what a function takes; a folder's descriptor is left to those who need one."""
    for supported in (os.supports_follow_symlinks, os.supports_fd, os.supports_effective_ids):
        if original in supported:
            supported.add(guarded)


def _replace_early_copies(guarded: dict[int, Guarded]) -> None:
    """Modules that were imported before may hold the original functions by names of their own."""
    for name, module in list(sys.modules.items()):
        # These keep the originals: `os` is patched by name above, `real` is what the guard itself works with, and the
        # import system finds modules of the layer through `_WrittenModules`.
        if name in ("posix", "nt", "os", "_io", real.__name__) or name.startswith("importlib"):
            continue
        owners = [module, *(getattr(module, inner, None) for inner in BOUND_EARLY.get(name, ()))]
        for owner in filter(None, owners):
            for attribute, value in list(getattr(owner, "__dict__", {}).items()):
                # pathlib and glob keep functions of `os` as static methods of their classes.
                inner = value.__func__ if type(value) is staticmethod else value
                if id(inner) in guarded:
                    found = guarded[id(inner)]
                    setattr(owner, attribute, staticmethod(found) if inner is not value else found)
    if (shutil := sys.modules.get("shutil")) is not None:
        shutil._use_fd_functions = False  # type: ignore[attr-defined]  # removes by paths, not by descriptors
