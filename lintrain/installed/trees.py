"""The modules of one installed package, as trees of astroid: read as text, none of them imported.

astroid would read the modules that a module imports, to find out what `x` in `x.y = …` is and what a star brings in:
sixteen lines that import torch took a minute. Both steps are switched off, and so are its plugins (transforms). It is
never asked to find a module: it would import a compiled one.
"""

from __future__ import annotations

import os
import re
import stat
import tokenize
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from astroid import nodes
from astroid.builder import AstroidBuilder
from astroid.exceptions import AstroidError
from astroid.manager import AstroidManager

MOST_SEARCHED = 64 * 2**20
"""Bytes of a package that are searched for a name that no module was found to define."""

MOST_FILES = 200
"""Modules of a package that are parsed for one script."""

MOST_BYTES = 8 * 2**20
"""Bytes of code of a package that are parsed for one script."""

LARGEST_FILE = 2**20
"""Bytes of one module; a larger one is data or generated."""

NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
COMPILED = (".so", ".pyd", ".pyc")


class PlainBuilder(AstroidBuilder):
    """Builds the tree of one text and looks at nothing else."""

    def __init__(self) -> None:
        super().__init__(AstroidManager(), apply_transforms=False)

    def delayed_assattr(self, node: nodes.AssignAttr) -> None:
        """Not inferred: `x` in `x.y = …` may come from any library."""

    def add_from_names_to_locals(self, node: nodes.ImportFrom, global_name: Collection[str]) -> None:
        """As in astroid, but a star stays a star: what it brings in is another file."""
        if all(name != "*" for name, _ in node.names):
            super().add_from_names_to_locals(node, global_name)


@dataclass(eq=False)
class Package:
    """A package below a folder of installed packages, or below the folder of an editable installation."""

    folder: str
    name: str
    files: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """The files that were read, with their times (nanoseconds) and sizes."""

    _trees: dict[str, nodes.Module | None] = field(default_factory=dict[str, "nodes.Module | None"])
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    _all: dict[str, bytes] | None = None
    _size: int = 0
    _builder: PlainBuilder = field(default_factory=PlainBuilder)

    def owns(self, module: str) -> bool:
        """Whether a module belongs to this package."""
        return module == self.name or module.startswith(f"{self.name}.")

    def tree(self, module: str) -> nodes.Module | None:
        """The tree of a module; None if it is missing, is not Python, or is beyond the limits."""
        if module not in self._trees:
            self._trees[module] = self._parsed(module)
        return self._trees[module]

    def text(self, module: str) -> str:
        """The text of a module that has a tree."""
        return self._texts.get(module, "")

    def holds(self, module: str) -> bool:
        """Whether a module exists, in source code, compiled, or as a folder."""
        inner = os.path.join(self.folder, *module.split("."))
        return self._file(module) is not None or os.path.isdir(inner) or self._is_compiled(inner)

    def mentioning(self, name: str) -> Mapping[str, bytes] | None:
        """The files of the package whose text contains a word; None if not all of them can be searched.

        The files of an installed version do not change; those of an editable installation are not searched.
        """
        if os.path.basename(self.folder) not in ("site-packages", "dist-packages"):
            return None
        if self._all is None:
            self._all = self._read_all() or {}
        word = name.encode()
        return {file: raw for file, raw in self._all.items() if word in raw} if self._all else None

    def _read_all(self) -> dict[str, bytes] | None:
        """The texts of all modules; None if some cannot be searched."""
        left, found = MOST_SEARCHED, dict[str, bytes]()
        for folder, folders, names in os.walk(os.path.join(self.folder, self.name)):
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            if any(name.endswith(COMPILED[:2]) for name in names):
                return None
            for file in (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")):
                try:
                    found[file], _ = self._raw(file, left)
                except OSError:
                    return None
                left -= len(found[file])
        return found

    def defining(self, name: str) -> list[str]:
        """The modules whose text defines a name at its margin, if only one does; found by a search, not parsed."""
        pattern = re.compile(
            rf"^(?:class|def)[ ]+{re.escape(name)}\b|^{re.escape(name)}[ ]*[:=]".encode(), re.MULTILINE
        )
        found = self.mentioning(name) or {}
        files = [file for file, raw in found.items() if pattern.search(raw)]
        return [self._module_of(files[0])] if len(files) == 1 else []

    def _module_of(self, file: str) -> str:
        inner = os.path.relpath(file, self.folder).removesuffix(".py").removesuffix(os.sep + "__init__")
        return inner.replace(os.sep, ".")

    def note_folder(self, module: str) -> None:
        """A result depends on what is in the folder of a module."""
        folder = os.path.dirname(self._file(module) or self.folder)
        self.files[folder] = _stamp(os.stat(folder))

    def _is_compiled(self, inner: str) -> bool:
        around, name = os.path.split(inner)
        try:
            return any(each.startswith(f"{name}.") and each.endswith(COMPILED) for each in os.listdir(around))
        except OSError:
            return False

    def _file(self, module: str) -> str | None:
        inner = os.path.join(self.folder, *module.split("."))
        return next(
            (file for file in (os.path.join(inner, "__init__.py"), f"{inner}.py") if os.path.isfile(file)), None
        )

    def _parsed(self, module: str) -> nodes.Module | None:
        file = self._file(module)
        if file is None or len(self.files) >= MOST_FILES:
            return None
        try:
            text = self._read(file)
            name = f"{module}.__init__" if file.endswith("__init__.py") else module
            tree = self._builder.string_build(text, name, file)
        except (AstroidError, OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        self._texts[module] = text
        return tree

    def _read(self, file: str) -> str:
        """The text of a module; raises OSError, SyntaxError or ValueError."""
        raw, state = self._raw(file, min(LARGEST_FILE, MOST_BYTES - self._size))
        self.files[file] = _stamp(state)
        self._size += len(raw)
        encoding, _ = tokenize.detect_encoding(iter(raw.splitlines(keepends=True)[:2]).__next__)
        return raw.decode(encoding)

    def _raw(self, file: str, most: int) -> tuple[bytes, os.stat_result]:
        """The bytes and the state of a regular file inside the package; raises OSError for any other."""
        if not _is_inside(file, os.path.join(self.folder, self.name)):
            raise OSError("a link that leads out of the package")
        with open(os.open(file, os.O_RDONLY | NO_WAITING), "rb") as opened:
            state = os.fstat(opened.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > most:
                raise OSError("no regular file, or too large")
            return opened.read(most), state


def _stamp(state: os.stat_result) -> tuple[int, int]:
    return state.st_mtime_ns, state.st_size


def _is_inside(file: str, package: str) -> bool:
    """Whether a file is in the package's own folder, wherever links on the way to that lead."""
    real = os.path.realpath(file)
    own = os.path.realpath(package)
    return real == os.path.realpath(f"{package}.py") or real.startswith(own + os.sep)
