"""One check of all samples, each as a file of its own, exactly as it is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.pysiassist.samples import Sample
from benchmarks.pysiassist.workbook import read_cells

OPTIONS = ("--isolated", "--no-respect-gitignore", "--exit-zero", "--no-cache", "--output-format", "json")


@dataclass(frozen=True, slots=True)
class Reported:
    """One finding in a sample."""

    rule: str
    line: int
    message: str


def read_codes(clone: Path, samples: Iterable[Sample]) -> dict[str, str]:
    """The code of each sample by its path; one whose cell is empty has none."""
    workbooks: dict[str, dict[str, str]] = {}
    codes: dict[str, str] = {}
    for sample in samples:
        workbook, _, cell = sample.path.partition("#")
        if workbook not in workbooks:
            workbooks[workbook] = read_cells(clone / workbook)
        if cell in workbooks[workbook]:
            codes[sample.path] = workbooks[workbook][cell]
    return codes


def check_codes(codes: Mapping[str, str]) -> dict[str, list[Reported]]:
    """What lintrain reports for each sample; raises RuntimeError if a sample makes it crash."""
    paths = {f"sample_{number:03}.py": path for number, path in enumerate(codes)}
    with TemporaryDirectory() as folder:
        for name, path in paths.items():
            Path(folder, name).write_text(codes[path], encoding="utf-8")
        report = _check(folder)
    if report.get("crashes"):
        raise RuntimeError(f"lintrain crashed: {report['crashes']}")
    found: dict[str, list[Reported]] = {path: [] for path in codes}
    for entry in report["findings"]:
        location = entry["location"]
        found[paths[location["path"]]].append(Reported(entry["rule"], location["line"], entry["message"]))
    return found


def _check(folder: str) -> dict[str, Any]:  # Any: what JSON holds
    command = [sys.executable, "-m", "lintrain", "check", *OPTIONS, "."]
    checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not checked.stdout:
        raise RuntimeError(checked.stderr.strip())
    report: dict[str, Any] = json.loads(checked.stdout)
    return report
