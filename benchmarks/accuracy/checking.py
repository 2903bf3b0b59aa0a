"""What lintrain says of a script of the benchmark, as it is or with a mistake in it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from benchmarks.accuracy.code import Code
from lintrain.builtin import BUILTINS
from lintrain.check.check_run import CheckRun
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.knowledge.versions import TargetVersions, find_versions
from lintrain.model.finding import Finding
from lintrain.rulebook import RuleFile, load_rules

ENTRY = "train.py"


@cache
def rules() -> list[RuleFile]:
    """Every rule that reads text."""
    return [rule for rule in load_rules() if rule.reads_text]


@cache
def installed_versions() -> TargetVersions:
    """The versions beside this Python: those that the scripts are written for and run with."""
    return find_versions(sys.prefix)


def project_of(path: Path) -> Path | None:
    """The folder of a script that is one file of a project (it has a `train.py`), else None."""
    return next((folder for folder in path.parents if (folder / ENTRY).is_file()), None)


@contextmanager
def written(code: Code, text: str, others: Mapping[str, str] | None = None) -> Generator[tuple[Path, Path]]:
    """A folder with the script as it would be with this text, its project around it: the folder, and the file.

    `others` are the texts of further files in the script's folder, by name.
    """
    path = Path(code.path)
    project = project_of(path)
    with tempfile.TemporaryDirectory(prefix="lintrain-accuracy-") as made:
        folder = Path(made)
        if project:
            shutil.copytree(project, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        target = folder / (path.relative_to(project) if project else path.name)
        target.write_bytes(code.written(text))
        for name, other in (others or {}).items():
            (target.parent / name).write_text(other)
        yield folder, target


def findings_of(code: Code, text: str) -> list[Finding]:
    """What every rule says of a script with this text, its project checked with it."""
    with written(code, text) as (folder, _):
        outcome = CheckRun(request_of(folder)).check()
        if outcome.crashes or any(file.is_exhausted for file in outcome.files):
            raise RuntimeError(f"{code.path}: {outcome.crashes or 'out of its budget'}")
        return [
            finding
            for finding in (reported.finding for reported in outcome.reported)
            if finding.rule not in BUILTINS or finding.rule == "syntax-error"
        ]


def request_of(folder: Path, chosen: Sequence[str] | None = None) -> CheckRequest:
    """The check of everything in a folder, by every rule or what is chosen."""
    files = sorted(str(path) for path in folder.rglob("*") if path.suffix in (".py", ".ipynb"))
    names = known_names(rules())
    selection = choose(
        names, Choice("benchmark", "/", chosen or [rule.name for rule in rules()]), Choice("benchmark", "/")
    )
    return CheckRequest(files, rules(), selection, lambda _: installed_versions())
