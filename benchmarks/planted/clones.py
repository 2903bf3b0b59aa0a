"""The clones on this machine, and the files of them in which mistakes are planted."""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.planted.form import Form
from benchmarks.real_code import commit_of
from benchmarks.sight.clones import half_of
from benchmarks.sight.readings import SKIPPED

MOST_BYTES = 100_000
"""Larger files are generated or data."""

MOST_FILES = 25
"""Files of one repository in which places are searched, sampled by their names: a library has thousands."""

TRAINS = re.compile(rb"\.backward\(|\bModule\)|DataLoader\(|Trainer\(|\.compile\(|\.fit\(|LightningModule")
TESTS = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|[^/]*_test\.py$|conftest\.py$)")


@dataclass(frozen=True)
class Clone:
    """One clone, by `owner/name`."""

    path: Path
    name: str

    @property
    def half(self) -> str:
        """`work` if its misses may be opened while lintrain is changed, `measure` if only its counts may."""
        return half_of(self.name)

    @cached_property
    def commit(self) -> str:
        """The commit that is checked out."""
        return commit_of(self.path)

    @cached_property
    def files(self) -> list[Path]:
        """Its scripts and notebooks, without those of installed packages."""
        found = (path for kind in ("*.py", "*.ipynb") for path in self.path.rglob(kind))
        own = (path for path in found if SKIPPED.isdisjoint(path.relative_to(self.path).parts))
        return sorted(path for path in own if path.is_file() and path.stat().st_size < MOST_BYTES)

    def forms(self) -> Iterator[Form]:
        """The sampled files that define or train networks and parse; unit tests are none of them."""
        own = [path for path in self.files if not TESTS.search(str(path.relative_to(self.path)))]
        training = [path for path in own if TRAINS.search(path.read_bytes())]
        for path in sorted(training, key=self._draw)[:MOST_FILES]:
            if form := self.form(path):
                yield form

    def form(self, path: Path) -> Form | None:
        """The form of one file; None if it does not parse."""
        return _parsed(path, path.read_bytes())

    def _draw(self, path: Path) -> str:
        return hashlib.sha256(f"{self.name}/{path.relative_to(self.path)}".encode()).hexdigest()

    @cached_property
    def _imported(self) -> dict[Path, frozenset[bytes]]:
        """The words of the imports of each script."""
        return {path: _words_of_imports(path.read_bytes()) for path in self.files if path.suffix == ".py"}

    def readers_of(self, file: Path, most: int = 1) -> list[Path]:
        """Scripts that import a file, by the name of its module: those that run something come first."""
        name = (file.parent if file.stem == "__init__" else file).stem.encode()
        found = [path for path, words in self._imported.items() if path != file and name in words]
        return sorted(found, key=lambda path: (b"__main__" not in path.read_bytes(), len(path.parts), path))[:most]


def _words_of_imports(raw: bytes) -> frozenset[bytes]:
    lines = (line for line in raw.split(b"\n") if line.lstrip().startswith((b"from ", b"import ")))
    return frozenset(word for line in lines for word in re.split(rb"[\s.,]+", line))


def _parsed(path: Path, raw: bytes) -> Form | None:
    """The code of a file; None if it does not parse."""
    try:
        form = Form(str(path), raw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(form.text)
    except Exception:  # noqa: BLE001 - a file that cannot be read or parsed has no place for an operator
        return None
    return form


def clones_in(folders: Sequence[Path], half: str = "") -> list[Clone]:
    """The clones that the folders hold as `owner/name` or `owner+name`, each name once."""
    found: dict[str, Clone] = {}
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if "+" in path.name and path.is_dir():
                name = path.name.replace("+", "/", 1)
                found.setdefault(name, Clone(path, name))
            elif path.is_dir():
                for below in sorted(each for each in path.iterdir() if each.is_dir()):
                    name = f"{path.name}/{below.name}"
                    found.setdefault(name, Clone(below, name))
    return [found[name] for name in sorted(found) if half in {"", half_of(name)}]
