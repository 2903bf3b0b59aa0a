"""How lintrain, the floor and other linters are called on the same files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import ROOT, Command

FLOOR = ROOT / "benchmarks" / "speed" / "floor.py"
ANY_FINDINGS = tuple(range(32))
"""Exit codes that only say that something was found; pylint adds up what kinds of messages there were."""

SEMGREP_RULE = """\
rules:
  - {id: evaluated, pattern: $MODEL.eval(), message: evaluated, languages: [python], severity: INFO}
"""


def lintrain(name: str, folder: Path, *options: str, cache: Path | None = None, changes: Path | None = None) -> Command:
    """`lintrain check` of a folder; with the results of earlier runs where it is given a cache."""
    arguments = (sys.executable, "-m", "lintrain", "check", "--isolated", "--output-format", "concise", *options)
    kept = ("--no-cache",) if cache is None else ()
    variables = {"PYTHONPATH": str(ROOT), **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
    return Command(name, (*arguments, *kept, "."), folder, variables, (0, 1), changes)


def floor(files: Sequence[Path], work: Path) -> Command:
    """`ast.parse` of the same files."""
    listed = work / f"floor-{len(list(work.iterdir()))}.txt"
    listed.write_text("".join(f"{file.resolve()}\n" for file in files))
    return Command("ast.parse", (sys.executable, str(FLOOR), str(listed)))


def ruff(name: str, folder: Path, *options: str) -> Command:
    """`ruff check` of a folder with one thread, so that CPU seconds are the work and not the waiting."""
    program = Path(sys.executable).parent / "ruff"
    arguments = (str(program), "check", "--isolated", "--quiet", "--no-respect-gitignore", *options, ".")
    return Command(name, arguments, folder, {"RAYON_NUM_THREADS": "1"}, (0, 1))


def others(tools: Path, folder: Path, files: Sequence[Path], work: Path) -> Iterator[Command]:
    """Those of the slower linters that are installed in a folder of programs."""
    rule = work / "rule.yaml"
    rule.write_text(SEMGREP_RULE)
    names = [file.relative_to(folder).as_posix() for file in files]
    known = {
        "TorchFix": ("torchfix", "--select", "ALL", "-j", "1", *names),
        "Fixit": ("fixit", "lint", *names),
        "pylint -E": ("pylint", "-E", "-j", "1", *names),
        "semgrep, one rule": ("semgrep", "scan", "-j", "1", "--config", str(rule), *SEMGREP_OPTIONS, "."),
    }
    variables = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""}
    for name, (program, *arguments) in known.items():
        if (tools / program).is_file():
            yield Command(name, (str(tools / program), *arguments), folder, variables, ANY_FINDINGS)
        else:
            print(f"{name} is not installed in {tools}, so it is left out")


SEMGREP_OPTIONS = ("--metrics", "off", "--disable-version-check", "--no-git-ignore", "--quiet")
