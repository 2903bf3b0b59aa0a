"""The project around a script: which files its imports mean, and their code, each parsed once in a process."""

# ruff: noqa: PTH109, PTH100, PTH111, PTH118, PTH119, PTH120
# Every import asks for several files, and a `Path` costs ten times a string.

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from lintrain.cache.noted import Memory, note, note_asked
from lintrain.source.bounds import PROJECT_MARKS, is_within
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_LEVELS = 8
"""Folders above a script that are searched for the root of its project."""

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of installed libraries: they are not searched for imports of a script."""

LARGEST_FILE = 250_000
"""Bytes of a module; a larger one is data or generated, and is not read."""

MOST_CACHED = 2_000_000
"""Bytes of code whose trees are cached from one script to the next; a tree takes about thirty times its code."""


ADDS_FOLDER = lazy_pattern(
    r"sys\.path\.(?:append|insert)\((?:\d+, *)?(?:os\.path\.abspath\()?\\?[\"']([\w./-]+)\\?[\"']\)"
)
"""A call that adds a folder to `sys.path`, also in the JSON of a notebook."""


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """The target of an import: the file of a module, and for a package the folder of its submodules.

    `file` is None for a folder without `__init__.py`.
    """

    name: str
    file: str | None
    folder: str | None = None


@dataclass(eq=False)
class Project:
    """The files around the scripts of one run.

    `given` are the contents of files that are not read from the disk, and `shown` the paths by which the user knows
    files, both by their absolute paths.
    """

    given: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    shown: Mapping[str, str] = field(default_factory=dict[str, str])
    _folders: dict[str, str] = field(default_factory=dict[str, str])
    _exists: dict[str, bool] = field(default_factory=dict[str, bool])
    _roots: Memory[str, tuple[str, ...]] = field(default_factory=Memory[str, tuple[str, ...]])
    _sources: dict[str, Source | None] = field(default_factory=dict[str, "Source | None"])
    _matches: dict[tuple[str, re.Pattern[bytes]], bool] = field(
        default_factory=dict[tuple[str, "re.Pattern[bytes]"], bool]
    )

    def find(self, script: str, name: str) -> ModuleFile | None:
        """The module that an absolute import in a run of this script means; None if it is not the project's."""
        return self._find_below(self.roots(script), name) or self._find_below(self._added(script), name)

    def _find_below(self, roots: tuple[str, ...], name: str) -> ModuleFile | None:
        top, *below = name.split(".")
        regular = (found for root in roots if (found := self._module(root, top)))
        first = next(regular, None)
        if first is not None:
            return self._below(first, below)
        folders = (ModuleFile(top, None, os.path.join(root, top)) for root in roots)
        spread = (self._below(each, below) for each in folders if each.folder and self._is(os.path.isdir, each.folder))
        return next((found for found in spread if found and found.file), None) if below else None

    def of_that_name(self, script: str, name: str) -> list[ModuleFile]:
        """Every module that an absolute import may mean, wherever the script is started."""
        top, *below = name.split(".")
        roots = dict.fromkeys((*self.roots(script), *self._added(script)))
        first = (self._module(root, top) or ModuleFile(top, None, os.path.join(root, top)) for root in roots)
        found = (self._below(each, below) for each in first)
        return [each for each in found if each is not None and each.file is not None]

    def find_beside(self, script: str, name: str) -> ModuleFile | None:
        """The module in the script's own folder, which Python finds before any installed library."""
        folder = self._folder(script)
        if self._is_file(os.path.join(folder, "__init__.py")):
            return None
        top, *below = name.split(".")
        first = self._module(folder, top)
        return self._below(first, below) if first else None

    def find_relative(self, path: str, level: int, name: str) -> ModuleFile | None:
        """The module that a relative import in a file means."""
        folder = self._folder(path)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return self._below(self._package(folder), name.split(".") if name else [])

    def submodule(self, package: ModuleFile, name: str) -> ModuleFile | None:
        """The module of this name inside a package."""
        if package.folder is None:
            return None
        return self._below(package, [name])

    def package_of(self, path: str) -> str:
        """The name of the outermost package of a file; empty if it is in none."""
        folder, top = os.path.dirname(os.path.abspath(path)), ""
        while self._is_file(os.path.join(folder, "__init__.py")):
            folder, top = os.path.split(folder)
        return top

    def roots(self, script: str) -> tuple[str, ...]:
        """The folders that are searched for absolute imports of a script, in order."""
        folder = self._folder(script)
        return self._roots.get(folder, lambda: self._find_roots(folder))

    def _added(self, script: str) -> tuple[str, ...]:
        """The folders of the project that a script adds to `sys.path`, by their text: `sys.path.append("../shared")`.

        Of a path on another machine, as notebooks have it, the end may name a folder here.
        """
        return self._roots.get(os.path.abspath(script), lambda: tuple(dict.fromkeys(self._find_added(script))))

    def _find_added(self, script: str) -> Iterator[str]:
        raw = self.given.get(script)
        try:
            text = (load_bytes(script) if raw is None else raw).decode(errors="replace")
        except UnreadableError:
            return
        here, roots = self._folder(script), self.roots(script)
        for match in ADDS_FOLDER.finditer(text):
            parts = match[1].strip("/").split("/")
            ends = ["/".join(parts[first:]) for first in range(len(parts) if match[1][0] == "/" else 1)]
            folders = (os.path.normpath(os.path.join(root, end)) for end in ends for root in (here, *roots))
            inside = (each for each in folders if any(is_within(each, root) for root in roots))
            found = next((each for each in inside if each not in roots and self._is(os.path.isdir, each)), None)
            if found is not None:
                yield found

    def _folder(self, path: str) -> str:
        if path not in self._folders:
            self._folders[path] = os.path.dirname(os.path.abspath(path))
        return self._folders[path]

    def _find_roots(self, folder: str) -> tuple[str, ...]:
        above, begins_at = self._way_up(folder)
        package_root = folder
        while self._is_file(os.path.join(package_root, "__init__.py")):
            package_root = os.path.dirname(package_root)
        found = [folder, package_root, *above]
        found += [os.path.join(each, "src") for each in (begins_at, folder) if each]
        kept = (each for each in found if os.path.basename(each) not in INSTALLED)
        return tuple(dict.fromkeys(each for each in kept if self._is(os.path.isdir, each)))

    def _way_up(self, folder: str) -> tuple[list[str], str]:
        """The folders from the script's up to the root of the project; if none is marked, up to the working folder."""
        above: list[str] = []
        current, here = folder, os.getcwd()
        for _ in range(MOST_LEVELS):
            above.append(current)
            if any(self._is(os.path.exists, os.path.join(current, mark)) for mark in PROJECT_MARKS):
                return above, current
            current, inner = os.path.dirname(current), current
            if current == inner or os.path.basename(current) in INSTALLED:
                break
        # A project without `.git`, as an archive has it, is checked from its folder.
        is_home = is_within(os.path.expanduser("~"), here)
        known = above[: above.index(here) + 1] if here in above and not is_home else []
        return known, here if known else ""

    def _module(self, folder: str, name: str, package: str = "") -> ModuleFile | None:
        dotted = f"{package}.{name}" if package else name
        inner = os.path.join(folder, name)
        start = os.path.join(inner, "__init__.py")
        if self._is_file(start):
            return ModuleFile(dotted, start, inner)
        file = f"{inner}.py"
        return ModuleFile(dotted, file) if self._is_file(file) else None

    def _package(self, folder: str) -> ModuleFile:
        start = os.path.join(folder, "__init__.py")
        return ModuleFile(os.path.basename(folder), start if self._is_file(start) else None, folder)

    def _below(self, module: ModuleFile, names: list[str]) -> ModuleFile | None:
        found: ModuleFile | None = module
        for name in names:
            if found is None or found.folder is None:
                return None
            inner = os.path.join(found.folder, name)
            regular = self._module(found.folder, name, found.name)
            is_folder = regular is None and self._is(os.path.isdir, inner)
            found = ModuleFile(f"{found.name}.{name}", None, inner) if is_folder else regular
        return found

    def _is_file(self, path: str) -> bool:
        if path in self.given:
            self._exists[path] = True
        return self._is(os.path.isfile, path)

    def _is(self, question: Callable[[str], bool], path: str) -> bool:
        note_asked(path)
        if path not in self._exists:
            self._exists[path] = question(path)
        return self._exists[path]

    def load(self, file: str) -> Source | None:
        """The code of a module; None if it is too large, cannot be read or does not parse."""
        note(file)
        if file not in self._sources:
            self._sources[file] = self._load(file)
        return self._sources[file]

    def contains(self, file: str, pattern: re.Pattern[bytes]) -> bool:
        """Whether a module's text, which is not parsed for it, has a match for a pattern of its bytes."""
        note(file)
        key = (file, pattern)
        if key not in self._matches:
            self._matches[key] = _matches(self.given.get(file), file, pattern)
        return self._matches[key]

    def forget(self) -> None:
        """Free the memory of modules that are not cached."""
        self._sources.clear()

    def _load(self, file: str) -> Source | None:
        shown = self.shown.get(file) or as_shown(file)
        if file in self.given:
            raw = self.given[file]
            return TREES.get(file, shown, (hash(raw), len(raw)), raw)
        try:
            state = os.stat(file)  # noqa: PTH116 - as above
        except OSError:
            return None
        if state.st_size > LARGEST_FILE:
            return None
        return TREES.get(file, shown, (state.st_mtime_ns, state.st_size))


def as_shown(path: str) -> str:
    """A path as reports show it: relative to the working folder if it is below that."""
    return os.path.normpath(path).removeprefix(os.getcwd() + os.sep)


def _matches(given: bytes | None, file: str, pattern: re.Pattern[bytes]) -> bool:
    try:
        if given is None and os.path.getsize(file) > LARGEST_FILE:  # noqa: PTH202 - as above
            return False
        return pattern.search(load_bytes(file) if given is None else given) is not None
    except (OSError, UnreadableError):
        return False


def _parsed(shown: str, raw: bytes) -> Source | None:
    try:
        source = read_bytes(shown, raw)
        _ = source.tree
    except (UnreadableError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return source


Stamp = tuple[int, int]
"""When a file was changed (nanoseconds), or of a given text its hash; and its size (bytes)."""


@dataclass(eq=False)
class Trees:
    """Modules that were parsed in this process, those used last; a file that has changed is parsed again."""

    held: OrderedDict[tuple[str, str], tuple[Stamp, Source | None]] = field(
        default_factory=OrderedDict[tuple[str, str], "tuple[Stamp, Source | None]"]
    )
    size: int = 0

    def get(self, file: str, shown: str, stamp: Stamp, given: bytes | None = None) -> Source | None:
        """The current code of a file: what was given for it, otherwise the file on the disk."""
        key = (file, shown)
        known = self.held.get(key)
        if known and known[0] == stamp:
            self.held.move_to_end(key)
            return known[1]
        if known:
            self._drop(key)
        try:
            source = _parsed(shown, load_bytes(file) if given is None else given)
        except UnreadableError:
            source = None
        self.held[key] = (stamp, source)
        self.size += stamp[1]
        while self.size > MOST_CACHED and len(self.held) > 1:
            self._drop(next(iter(self.held)))
        return source

    def _drop(self, key: tuple[str, str]) -> None:
        stamp, source = self.held.pop(key)
        self.size -= stamp[1]
        if source is not None:
            source.forget_tree()  # another user may keep its text


TREES = Trees()
