"""The Python that runs the user's script: one that has the libraries which the script imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from lintrain.source.plain_files import read_plain
from lintrain.source.source import LARGEST_CODE
from lintrain.startup.lazy_dataclass import dataclass

LIBRARIES = ("torch", "transformers", "lightning", "pytorch_lightning", "tensorflow", "tf_keras", "keras")
"""A script that imports one of these cannot train without it; Python itself reports any other missing module."""

FRAMEWORKS = ("torch", "tensorflow")
"""A probe can follow training only with one of these."""

OLDEST = (3, 10)
QUESTION = (
    "import sys, importlib.util as u;"
    f"print(*sys.version_info[:2], *[n for n in {LIBRARIES!r} if u.find_spec(n) is not None])"
)


class NoInterpreterError(Exception):
    """No Python at hand can run the script; the text says what was tried and what to do."""


def choose_interpreter(asked: str | None, script: Path) -> str:
    """The interpreter asked for, else this one, else the project's `.venv`; raises NoInterpreterError."""
    needed = needed_libraries(script)
    if asked is not None:
        problem = _problem(asked, needed)
        if problem:
            raise NoInterpreterError(f"{asked}: {problem}")
        return asked
    if not _missing({name for name in LIBRARIES if find_spec(name) is not None}, needed):
        return sys.executable
    for candidate in _project_interpreters(script):
        if _problem(str(candidate), needed) is None:
            return str(candidate)
    raise NoInterpreterError(
        f"{sys.executable}: {_problem(sys.executable, needed)}; give the project's Python with `--python PATH`, "
        "or install `lintrain[probe]`"
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """The interpreter that a probe would try first, and whether it is the project's own."""

    python: str
    is_of_project: bool


def planned_interpreter(script: Path, folder: Path) -> Plan:
    """What `choose_interpreter` would try first in this folder, without starting any."""
    needed = needed_libraries(script)
    if not _missing({name for name in LIBRARIES if find_spec(name) is not None}, needed):
        return Plan(sys.executable, is_of_project=False)
    found = next(_project_interpreters(script, folder), None)
    return Plan(str(found), is_of_project=True) if found else Plan(sys.executable, is_of_project=False)


def needed_libraries(script: Path) -> tuple[str, ...]:
    """Those of the libraries that a script imports in any case; none for a file that is not Python."""
    try:
        tree = ast.parse(read_plain(script, LARGEST_CODE))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    imported = {name.partition(".")[0] for node in tree.body for name in _imported(node)}
    return tuple(name for name in LIBRARIES if name in imported)


def _imported(node: ast.stmt) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case _:
            return []


def _missing(found: set[str], needed: tuple[str, ...]) -> list[str]:
    """What an interpreter with such libraries lacks."""
    lacking = [name for name in needed if name not in found]
    if not found.intersection(FRAMEWORKS) and not set(lacking).intersection(FRAMEWORKS):
        lacking.append(FRAMEWORKS[0])
    return lacking


def _project_interpreters(script: Path, here: Path | None = None) -> Iterator[Path]:
    for folder in (here or Path.cwd(), *script.resolve().parents):
        for name in (".venv", "venv"):
            for inside in ("bin/python", "Scripts/python.exe"):
                if (folder / name / inside).exists():
                    yield folder / name / inside
    if active := os.environ.get("VIRTUAL_ENV"):
        yield Path(active) / "bin/python"


def _problem(python: str, needed: tuple[str, ...]) -> str | None:
    """Why an interpreter cannot run the script, or None."""
    try:
        answer = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be started ({error})"
    if answer.returncode != 0:
        return f"cannot be started ({answer.stderr.strip()[-200:]})"
    major, minor, *found = answer.stdout.split()
    if (int(major), int(minor)) < OLDEST:
        return f"is Python {major}.{minor}, a probe needs {'.'.join(map(str, OLDEST))} or newer"
    missing = _missing(set(found), needed)
    return f"has no {' and no '.join(missing)}" if missing else None
