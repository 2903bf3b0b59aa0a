"""The two versions of a completed piece of code, written into a folder: with the mistake, and fixed."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.alone.recipes import HERE, Edit, Recipe, Span
from benchmarks.history.trees import write_tree
from benchmarks.pysiassist.workbook import read_cells

ENTRY = "completed.py"
"""The script that is run: the piece itself, or what runs a module of a repository."""

POSTS = Path(__file__).parents[2] / "tests" / "posts" / "mistakes.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WORKBOOK = "Hong-Shuo/PYSIASSIST/dataset/testing_codes_set.xlsx"


class SourceError(Exception):
    """The source that a recipe names is not there."""


@dataclass(frozen=True, slots=True)
class Written:
    """Text whose lines know where they come from: the source's lines, or whether a recipe marks them."""

    lines: tuple[str, ...]
    places: tuple[Span | None, ...]
    marked: frozenset[int]

    @property
    def text(self) -> str:
        """The text itself."""
        return "\n".join(self.lines) + "\n"

    def is_right(self, first: int, last: int, places: Sequence[Span]) -> bool:
        """Whether a finding at these lines is at a place that the recipe names."""
        for line in range(first, min(last, len(self.lines)) + 1):
            span = self.places[line - 1]
            if line in self.marked or (span and any(_meet(span, place) for place in places)):
                return True
        return False


def _meet(one: Span, other: Span) -> bool:
    return one.first <= other.last and other.first <= one.last


def put_together(source: str, edits: Sequence[Edit], start: str = "", end: str = "", indent: str = "") -> Written:
    """The source with its edits, all indented, between two texts of the recipe."""
    lines: list[str] = []
    places: list[Span | None] = []
    marked: set[int] = set()

    def add(text: str, place: Span | None) -> None:
        for line in text.splitlines() or [""]:
            lines.append(HERE.sub("", line))
            places.append(place)
            if HERE.search(line):
                marked.add(len(lines))

    if start:
        add(start, None)
    by_first = {edit.span.first: edit for edit in edits}
    number, originals = 1, source.splitlines()
    while number <= len(originals):
        edit = by_first.get(number)
        span = edit.span if edit else Span(number, number)
        add(textwrap.indent(edit.text if edit else originals[number - 1], indent), span)
        number = span.last + 1
    if end:
        add(end, None)
    return Written(tuple(lines), tuple(places), frozenset(marked))


def write(recipe: Recipe, clones: Path, folder: Path, *, fixed: bool) -> dict[str, Written]:
    """Write one version into an empty folder; its files that the recipe touches, by name."""
    kind = recipe.name.partition("/")[0].partition("-")[0]
    return WRITERS[kind](recipe, clones, folder, fixed)


def _write_piece(recipe: Recipe, source: str, folder: Path, fixed: bool) -> dict[str, Written]:
    replaced = {edit.span.first: edit for edit in recipe.edits}
    if fixed:
        replaced |= {edit.span.first: edit for edit in recipe.fixes}
    written = put_together(source, tuple(replaced.values()), recipe.start, recipe.end, recipe.indent)
    (folder / ENTRY).write_text(written.text, "utf-8")
    return {ENTRY: written}


def _write_pasted(recipe: Recipe, clones: Path, folder: Path, fixed: bool) -> dict[str, Written]:
    cells = _cells(clones / WORKBOOK)
    if recipe.source not in cells:
        raise SourceError(f"{WORKBOOK}: no cell {recipe.source}")
    return _write_piece(recipe, cells[recipe.source], folder, fixed)


def _write_post(recipe: Recipe, _: Path, folder: Path, fixed: bool) -> dict[str, Written]:
    posts = _posts()
    if recipe.source not in posts:
        raise SourceError(f"{POSTS.name}: no post whose SHA-256 begins with {recipe.source}")
    return _write_piece(recipe, posts[recipe.source], folder, fixed)


def _write_commit(recipe: Recipe, clones: Path, folder: Path, fixed: bool) -> dict[str, Written]:
    repository, _, commit = recipe.source.partition("@")
    write_tree(clones / repository, commit if fixed else f"{commit}^", folder)
    edits = recipe.edits_after if fixed else recipe.edits
    files = dict.fromkeys([*(edit.span.file for edit in edits), *(place.file for place in recipe.places if place.file)])
    written = {
        file: put_together(_read(folder / file), [edit for edit in edits if edit.span.file == file]) for file in files
    }
    written[ENTRY] = put_together("", (), recipe.start, recipe.end)
    for file, each in written.items():
        (folder / file).write_text(each.text, "utf-8")
    return written


def _read(path: Path) -> str:
    return path.read_text("utf-8", errors="replace") if path.is_file() else ""


WRITERS: Mapping[str, Callable[[Recipe, Path, Path, bool], dict[str, Written]]] = {
    "pasted": _write_pasted,
    "posts": _write_post,
    "commits": _write_commit,
}


@cache
def _cells(workbook: Path) -> dict[str, str]:
    try:
        cells = read_cells(workbook)
    except OSError as error:
        raise SourceError(str(error)) from error
    return {name.rpartition("!")[2]: text for name, text in cells.items() if name.startswith("Positive")}


@cache
def _posts() -> dict[str, str]:
    blocks = BLOCK.findall(POSTS.read_text("utf-8"))
    return {digest_of(block): block for block in blocks}


def digest_of(post: str) -> str:
    """How a recipe names a post: it may move, but not change."""
    return hashlib.sha256(post.encode()).hexdigest()[:8]
