"""The files that speed is measured on: public code, or the installed libraries; samples and larger trees of them."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lintrain.check.tiers import names_library
from lintrain.source.discovery import Discovery, Excludes

PACKAGES = ("accelerate", "datasets", "lightning", "peft", "transformers", "trl")
"""What is read where no folder is named: it lies on every machine that has the tests' environment."""

SEED = 0

IMPORTED = re.compile(rb"^from [\w.]*?(\w+) import ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The scripts and notebooks of a tree, in order."""

    folder: Path
    scripts: tuple[Path, ...]
    notebooks: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.scripts, *self.notebooks)

    @property
    def lines(self) -> int:
        """The lines of the scripts."""
        return sum(map(lines_of, self.scripts))


def read_corpus(folder: Path) -> Corpus:
    """What `lintrain check FOLDER` reads."""
    found = [Path(path) for path in Discovery(Excludes()).find([str(folder)])]
    return Corpus(
        folder,
        tuple(path for path in found if path.suffix == ".py"),
        tuple(path for path in found if path.suffix == ".ipynb"),
    )


def installed_code(folder: Path) -> Path:
    """A copy of the installed libraries' scripts: where they lie, every linter leaves them out."""
    for name in PACKAGES:
        spec = find_spec(name)
        for location in spec.submodule_search_locations or () if spec else ():
            copied(Path(location).rglob("*.py"), Path(location).parent, folder)
    return folder


def copied(files: Iterator[Path] | Sequence[Path], base: Path, folder: Path) -> Path:
    """The folder with copies of files, at the same places below it as below their base."""
    for file in files:
        location = folder / file.relative_to(base)
        location.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, location)
    return folder


def most_imported(corpus: Corpus) -> Path:
    """The script whose name most scripts import something from: `from .modeling_utils import …`."""
    names = Counter(name for path in corpus.scripts for name in set(IMPORTED.findall(path.read_bytes())))
    return max(corpus.scripts, key=lambda path: (names[path.stem.encode()], path))


def lines_of(file: Path) -> int:
    """How many lines a file has."""
    return file.read_bytes().count(b"\n")


def sample_of(corpus: Corpus, lines: int) -> list[Path]:
    """Scripts that name a library of training, drawn at random (always the same) until they have so many lines."""
    scripts = [path for path in corpus.scripts if names_library(path.read_bytes())]
    random.Random(SEED).shuffle(scripts)
    drawn: list[Path] = []
    held = 0
    for script in scripts:
        if held >= lines:
            break
        if (size := lines_of(script)) <= lines / 10:
            drawn.append(script)
            held += size
    return drawn


def tree_of(corpus: Corpus, lines: int, folder: Path) -> Corpus:
    """A tree of about so many lines, made of the corpus' scripts; they come again where it has too few."""
    scripts = list(corpus.scripts)
    random.Random(SEED).shuffle(scripts)
    held = 0
    for turn in range(1 + lines // max(1, corpus.lines)):
        for script in scripts:
            if held >= lines:
                return read_corpus(folder)
            if (size := lines_of(script)) <= lines / 10:
                copied([script], corpus.folder, folder / f"copy{turn}")
                held += size
    return read_corpus(folder)
