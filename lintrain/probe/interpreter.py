"""The Python that runs the user's script: one that has torch and transformers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

NEEDED = ("torch", "transformers")
OLDEST = (3, 10)
QUESTION = (
    f"import sys, importlib.util as u;print(*sys.version_info[:2], *[n for n in {NEEDED!r} if u.find_spec(n) is None])"
)


class NoInterpreterError(Exception):
    """No Python at hand can run the script; the text says what was tried and what to do."""


def choose_interpreter(asked: str | None, script: Path) -> str:
    """The interpreter asked for, else this one, else the project's `.venv`; raises NoInterpreterError."""
    if asked is not None:
        problem = _problem(asked)
        if problem:
            raise NoInterpreterError(f"{asked}: {problem}")
        return asked
    if all(find_spec(name) is not None for name in NEEDED):
        return sys.executable
    for candidate in _project_interpreters(script):
        if _problem(str(candidate)) is None:
            return str(candidate)
    raise NoInterpreterError(
        f"{sys.executable}: {_problem(sys.executable)}; give the project's Python with `--python PATH`, "
        "or install `lintrain[probe]`"
    )


def _project_interpreters(script: Path) -> Iterator[Path]:
    for folder in (Path.cwd(), *script.resolve().parents):
        for name in (".venv", "venv"):
            for inside in ("bin/python", "Scripts/python.exe"):
                if (folder / name / inside).exists():
                    yield folder / name / inside
    if active := os.environ.get("VIRTUAL_ENV"):
        yield Path(active) / "bin/python"


def _problem(python: str) -> str | None:
    """Why an interpreter cannot run the script, or None."""
    try:
        answer = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be started ({error})"
    if answer.returncode != 0:
        return f"cannot be started ({answer.stderr.strip()[-200:]})"
    major, minor, *missing = answer.stdout.split()
    if (int(major), int(minor)) < OLDEST:
        return f"is Python {major}.{minor}, a probe needs {'.'.join(map(str, OLDEST))} or newer"
    return f"has no {' and no '.join(missing)}" if missing else None
