"""The user's files under a probe: guarded in Python and by the kernel, with a summary for the report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.files import guard, natives
from lintrain.runtime.sandbox.files.calls import Calls
from lintrain.runtime.sandbox.files.free import DEVICES, Free
from lintrain.runtime.sandbox.files.kernel import allow_writing_only_in
from lintrain.runtime.sandbox.files.overlay import Overlay
from lintrain.runtime.sandbox.files.programs import Programs
from lintrain.runtime.sandbox.files.refusal import refused_path

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
        guard.install(self._calls)
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
        names = ("CalledProcessError", "FileNotFoundError")
        if self._programs.others and type(error).__name__ in names:
            program = self._programs.others[0]
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
