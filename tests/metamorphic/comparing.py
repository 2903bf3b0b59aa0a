"""What lintrain says of a script before and after it was rewritten, by the lines that the script had before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.checking import ENTRY, findings_of, project_of, request_of, written
from benchmarks.accuracy.code import Code
from lintrain.check.check_run import CheckRun
from lintrain.model.finding import Finding
from lintrain.source.reading import read_bytes
from tests.metamorphic.extracting import extract_function
from tests.metamorphic.inlining import inline_function
from tests.metamorphic.moving import move_definitions
from tests.metamorphic.padding import add_dead_code, cells_of, make_a_notebook
from tests.metamorphic.renaming import rename_variables
from tests.metamorphic.reordering import reorder_statements
from tests.metamorphic.script import Line, Script
from tests.support.notebooks import notebook

Transformation = Callable[[Script, frozenset[int]], Script | None]
"""Gives the rewritten script; the second argument are the lines that findings stand on. None where it does not fit."""

TRANSFORMATIONS: tuple[Transformation, ...] = (
    rename_variables,
    reorder_statements,
    extract_function,
    inline_function,
    move_definitions,
    add_dead_code,
    make_a_notebook,
)
"""What leaves every finding as it is, on its line."""

Place = tuple[str, str, int]
"""A rule, a file and a line of the original; files by name, "" is the script's own."""
Places = tuple[Place, ...]
Said = Counter[Place]
"""How often each rule reported in each file, on each line of the original."""


@dataclass(frozen=True)
class Subject:
    """One script, with its mistake or without, and what lintrain says of it."""

    name: str
    code: Code
    text: str
    said: Said

    @classmethod
    def of(cls, name: str, code: Code, text: str) -> Subject:
        """The subject, checked."""
        own = Path(code.path).name
        said = Counter((*_file(finding, own), finding.location.line) for finding in findings_of(code, text))
        return cls(name, code, text, said)

    @property
    def script(self) -> Script:
        """The lines of it; of a project, only its entry is imported by nothing."""
        path = Path(self.code.path)
        project = project_of(path)
        is_entry = project is None or path.name == ENTRY
        return Script.of(self.text, is_entry, (path.parent / "__init__.py").exists(), project is not None)

    @property
    def focus(self) -> frozenset[int]:
        """The lines of the script itself that findings stand on."""
        return frozenset(line for _, file, line in self.said if not file)


def _file(finding: Finding, own: str) -> tuple[str, str]:
    name = Path(finding.location.path).name
    return finding.rule, "" if name == own else name


def differences(subject: Subject, transformation: Transformation) -> list[str] | None:
    """What lintrain says more or less of the rewritten script; None where the transformation does not fit."""
    script = transformation(subject.script, subject.focus)
    if script is None:
        return None
    said = Counter(next(iter(places)) for places in places_in(subject.code, script))
    lost = [f"lost: {rule} {file}:{line}" for rule, file, line in (subject.said - said).elements()]
    gained = [f"gained: {rule} {file}:{line}" for rule, file, line in (said - subject.said).elements()]
    return [*lost, *gained]


def places_in(code: Code, script: Script) -> list[Places]:
    """For each finding in a rewritten script, the places that it may have in the original, the likeliest first."""
    with written(code, script.text, script.other_texts) as (folder, target):
        if script.has_cells:
            target = _as_notebook(target, script)
        return [_traced(finding, script, target) for finding in _findings(folder)]


def _as_notebook(target: Path, script: Script) -> Path:
    """The script's file as a notebook in its place."""
    cells = ["\n".join(line.text for line in cell) for cell in cells_of(script)]
    target.unlink()
    made = target.with_suffix(".ipynb")
    made.write_text(notebook(*cells))
    return made


def _findings(folder: Path) -> Iterator[Finding]:
    outcome = CheckRun(request_of(folder)).check()
    if outcome.crashes or any(file.is_exhausted for file in outcome.files):
        raise RuntimeError(f"{folder}: {outcome.crashes or 'out of its budget'}")
    yield from (reported.finding for reported in outcome.reported)


def _traced(finding: Finding, script: Script, target: Path) -> Places:
    """The rule of a finding, its file, and the lines that it may have had in the original."""
    path = Path(finding.location.path)
    if path.name in script.beside:
        return _origins(finding, script.beside[path.name], finding.location.line)
    if path.name != target.name:
        return ((finding.rule, path.name, finding.location.line),)
    if not script.has_cells:
        return _origins(finding, script.lines, finding.location.line)
    location = read_bytes(str(target), target.read_bytes()).locate(finding.location)
    assert location.cell, "a finding in a notebook stands in a cell"
    return _origins(finding, cells_of(script)[location.cell - 1], location.line)


def _origins(finding: Finding, lines: tuple[Line, ...], number: int) -> Places:
    return tuple((finding.rule, "", origin) for origin in lines[number - 1].origins)
