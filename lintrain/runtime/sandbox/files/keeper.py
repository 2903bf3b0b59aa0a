"""The user's files under a probe: guarded in Python and by the kernel, with a summary for the report.

Errors that the kernel raised for lintrain, not for the user: what the script wrote past the guard.

Have the kernel refuse, to this process and all that it starts, what gets past the guard (Linux's Landlock).

Needs no rights; see `landlock(7)`. Threads that run already are not bound, so this comes before the script.

Put the guard in place of the functions that open, make, rename and remove files.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import functools
import io
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.files import natives, real
from lintrain.runtime.sandbox.files.calls import Calls
from lintrain.runtime.sandbox.files.natives import Programs
from lintrain.runtime.sandbox.files.overlay import Overlay
from lintrain.runtime.sandbox.files.real import DEVICES, Free

NAMED = 3
COUNTED = 1_000


class Keeper:
    """Keeps the script's files apart; `is_held` says whether the kernel refuses what the guard does not see."""

    def __init__(self, temporary: str, downloads: Iterable[str]) -> None:
        self._free = Free(temporary, downloads)
        self._overlay = Overlay(os.path.join(temporary, "layer"), self._free.has)
        self._calls = Calls(self._overlay)
        self._programs = Programs(self._calls)
        self._memory_names = os.path.join(temporary, "shared-memory.txt")
        self.is_held = False

    def install(self, hooks: AfterImport, *, is_root: bool) -> None:
        """Guard this process; the first one also binds itself, and with that all that it starts."""
        # Order: Python's functions first, then what libraries do past them. Landlock comes last: from there on the
        # kernel refuses what the guard did not redirect, the probe's own writing included.
        install(self._calls)
        natives.install(self._calls, hooks)
        self._programs.install(hooks)
        self._programs.install_names(hooks, self._memory_names)
        # Behind Python's finders: these read folders through functions that were bound before the guard, and do not
        # see the layer. Only modules that they do not find are looked up in it.
        sys.meta_path.append(_WrittenModules(self._overlay))
        if is_root:
            self.is_held = allow_writing_only_in((*self._free.folders, *DEVICES))

    def watch_writing(self, listen: Callable[[str], None]) -> None:
        """Report the key of each file that the script is about to write."""
        written = self._overlay.written

        def watched(key: str, *, keeps: bool) -> str:
            listen(key)
            return written(key, keeps=keeps)

        self._overlay.written = watched  # type: ignore[method-assign]

    def refusal(self, error: BaseException) -> str | None:
        """Why an error is of lintrain's making and not the script's; None if it is the script's."""
        if not self.is_held:
            return None
        # Without Landlock nothing is refused, and an error of access is the script's own.
        path = refused_path(error, self._free.has)
        if path is not None:
            return f"the script wrote to {path} past the guard of its files, which is not allowed in a probe"
        # Only what the script's own code has started may lack a file that it expects from it: loggers ask `git` too.
        named = {"CalledProcessError": self._programs.others, "FileNotFoundError": self._programs.own}
        if programs := named.get(type(error).__name__):
            program = programs[0]
            return f"the script started `{program}`, which a probe allows neither to write files nor to send anything"
        return None

    @property
    def others(self) -> Sequence[str]:
        """The names of programs that the script started and that no guard reaches."""
        return self._programs.others

    def summary(self) -> list[str]:
        """What the script wrote, in a line for the report."""
        if not self._overlay.is_used:
            return []
        caches = tuple(folder + os.sep for folder in self._free.folders)
        keys = [shown(key) for key in self._overlay.files(COUNTED) if not key.startswith(caches)]
        if not keys:
            return []
        names = ", ".join(f"`{key}`" for key in keys[:NAMED]) + (", …" if len(keys) > NAMED else "")
        count = "1 file" if len(keys) == 1 else f"{len(keys)} files"
        return [f"{count} written by the script went to a temporary folder: {names}"]


def shown(key: str) -> str:
    """A path as a person in the script's folder would write it."""
    from lintrain.runtime.child import frames

    return frames.shown(key)


class _WrittenModules:
    """Finds modules that the script wrote; Python's own finders look past the guard."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's place in the layer."""
        if not self._overlay.is_used:
            return None
        keys = [self._overlay.key(entry or os.curdir) for entry in (path or sys.path)]
        return PathFinder.find_spec(name, [self._overlay.upper(key) for key in keys if key is not None], target)


REFUSED = (errno.EACCES, errno.EPERM, errno.EXDEV, errno.EROFS)
WORDS = re.compile(
    r"permission denied|os error 13|errno 13|cannot be opened|can't be opened|unable to open|failed to open",
    re.IGNORECASE,
)
NAMELESS = re.compile(r"permission denied|os error 13|errno 13", re.IGNORECASE)
PATH = re.compile(r"""(?:/[^\s'"`:;,()<>]+)+|(?<=['"`])[^'"`\n]+(?=['"`])""")


def refused_path(error: BaseException, is_free: Callable[[str], bool]) -> str | None:
    """What the script wanted to write and the user may write, but a probe may not; None for any other error.

    A library that says "permission denied" and not to what may mean either: that is no error of the script for sure.
    """
    for link in _chain(error):
        text = str(link)
        # Libraries in Rust and C++ wrap the system's error in one of their own, with its text alone: the words are
        # all there is.
        if getattr(link, "errno", None) in REFUSED or WORDS.search(text):
            named = [getattr(link, name, None) for name in ("filename", "filename2")]
            for path in [*named, *PATH.findall(text)]:
                if isinstance(path, str) and _may_be_written(path) and not is_free(os.path.abspath(path)):
                    return f"`{path}`"
            if not isinstance(link, OSError) and NAMELESS.search(text) and not PATH.search(text):
                return "a file that the library does not name"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    # Errors may be chained in a circle when a script raises one again that it caught before.
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _may_be_written(path: str) -> bool:
    """Whether the user has the right to write: if not, the refusal is not the probe's."""
    if real.exists(path):
        return real.access(path, os.W_OK | os.R_OK)
    above = os.path.dirname(os.path.abspath(path))
    return real.is_folder(above) and real.access(above, os.W_OK)


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on every processor that Linux's Python runs on but Alpha."""
VERSION = 1
NO_NEW_PRIVILEGES = 38
LEAST_VERSION = 2
"""The first one forbids every renaming from one folder to another, even where all is allowed."""

WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 14))
"""Writing, removing, making of every kind, and moving between folders."""

SIGNALS = 1 << 1
"""From version 6 on: none to processes that the script did not start."""


class _Rules(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Below(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def allow_writing_only_in(folders: Iterable[str]) -> bool:
    """Whether the kernel holds this process to these folders from now on; those that are not there are left out."""
    if not sys.platform.startswith("linux"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    # Asked without rules the call answers with the version, and with an error on kernels that have no Landlock.
    version = system.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    if version < LEAST_VERSION:
        return False
    changes = CHANGES | (TRUNCATE if version >= 3 else 0)
    # A kernel refuses a structure with fields that it does not know, so an older one gets a shorter one.
    rules, size = (_Rules(changes, 0, SIGNALS), 24) if version >= 6 else (_Rules(changes, 0, 0), 8)
    ruleset = system.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for folder in folders:
            _allow(system, ruleset, folder, changes)
        # Required by the kernel: a program with the set-user-id bit could otherwise be tricked by the restrictions.
        keeps = system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        return bool(keeps and system.syscall(RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(system: ctypes.CDLL, ruleset: int, folder: str, changes: int) -> None:
    try:
        opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        below = _Below(changes, opened)
        system.syscall(ADD_RULE, ruleset, 1, ctypes.byref(below), 0)
    finally:
        os.close(opened)


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
    for name, module in imported_before():
        for owner, attribute, value in early_copies(name, module, guarded):
            # pathlib and glob keep functions of `os` as static methods of their classes.
            is_static = type(value) is staticmethod
            found = guarded[id(value.__func__ if is_static else value)]
            setattr(owner, attribute, staticmethod(found) if is_static else found)
    if (shutil := sys.modules.get("shutil")) is not None:
        shutil._use_fd_functions = False  # type: ignore[attr-defined]  # removes by paths, not by descriptors


def imported_before() -> list[tuple[str, Any]]:
    """The modules that the guard looks through when it is installed."""
    return list(sys.modules.items())


def early_copies(name: str, module: Any, originals: Container[int]) -> Iterator[tuple[Any, str, Any]]:
    """Where a module holds functions with these identities: the owner, the attribute, and its value."""
    # These keep the originals: `os` is patched by name above, `real` is what the guard itself works with, and the
    # import system finds modules of the layer through `_WrittenModules`.
    if name in ("posix", "nt", "os", "_io", real.__name__) or name.startswith("importlib"):
        return
    for owner in filter(None, (module, *(getattr(module, inner, None) for inner in BOUND_EARLY.get(name, ())))):
        for attribute, value in list(getattr(owner, "__dict__", {}).items()):
            if id(value.__func__ if type(value) is staticmethod else value) in originals:
                yield owner, attribute, value


def originals() -> set[int]:
    """The identities of the functions that the guard replaces."""
    return {id(real.open_file), *(id(getattr(os, name)) for name in BY_NAME if hasattr(os, name))}
