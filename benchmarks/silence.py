"""What lintrain says of code that works: `python -m benchmarks.silence [PACKAGE …] [--list FILE]`.

Every Python file of the installed packages is checked with every rule, and the findings are counted: on published,
working library code nearly all of them would be false. The exit code is 1 when a file crashes or takes too long.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from lintrain.check.one_file import check_source
from lintrain.knowledge.versions import TargetVersions, find_versions
from lintrain.rulebook import load_rules
from lintrain.source.reading import UnreadableError, read_bytes

PACKAGES = ("torch", "transformers", "datasets", "accelerate", "peft", "trl", "lightning")
MOST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Found:
    """One finding, with the line of code that it is about."""

    file: str
    line: int
    rule: str
    message: str
    code: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """What one file gave: its findings, its crashes by rule, its seconds, and whether its budget ran out."""

    file: str
    lines: int
    seconds: float
    findings: tuple[Found, ...] = ()
    crashes: tuple[str, ...] = ()
    is_exhausted: bool = False


def python_files(package: str) -> list[Path]:
    """The Python files of an installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"package `{package}` is not installed here")
    return sorted(path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py"))


@cache
def installed_versions() -> TargetVersions:
    """The versions beside this Python: those that the packages were published with."""
    return find_versions(sys.prefix)


def report_on(path: Path) -> FileReport:
    """Check one file with every rule that reads text."""
    started = time.perf_counter()
    try:
        source = read_bytes(str(path), path.read_bytes())
    except UnreadableError as error:
        return FileReport(str(path), 0, time.perf_counter() - started, crashes=(f"unreadable: {error}",))
    rules = [rule for rule in load_rules() if rule.reads_text]
    reading = check_source(source, rules, installed_versions)
    findings = tuple(
        Found(str(path), found.location.line, found.rule, found.message, source.lines[found.location.line - 1].strip())
        for found in (reported.finding for reported in reading.reported)
    )
    crashes = tuple(f"{crash.rule}: {crash.error}" for crash in reading.crashes)
    seconds = time.perf_counter() - started
    return FileReport(str(path), len(source.lines), seconds, findings, crashes, reading.is_exhausted)


def reports_on(packages: list[str], jobs: int) -> Iterator[tuple[str, list[FileReport]]]:
    """The reports on every file of every package."""
    with ProcessPoolExecutor(jobs) as pool:
        for package in packages:
            yield package, list(pool.map(report_on, python_files(package), chunksize=8))


def print_package(package: str, reports: list[FileReport]) -> None:
    """One line on a package, then its worst."""
    findings = sum(len(report.findings) for report in reports)
    crashes = sum(bool(report.crashes) for report in reports)
    exhausted = sum(report.is_exhausted for report in reports)
    slowest = max(reports, key=lambda report: report.seconds)
    print(
        f"{package:13} {len(reports):6} {sum(report.lines for report in reports):9} {crashes:8} {exhausted:10} "
        f"{slowest.seconds:8.2f} {findings:9}   {Path(slowest.file).name}"
    )


def main() -> int:
    """Print the table, and write the findings where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--list", type=Path, help="write the findings there, as JSON")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print("package        files     lines  crashes  exhausted    max s  findings   slowest")
    everything: list[FileReport] = []
    for package, reports in reports_on(list(options.packages), options.jobs):
        print_package(package, reports)
        everything.extend(reports)
    print_findings(everything)
    if options.list:
        findings = [asdict(found) for report in everything for found in report.findings]
        options.list.write_text(json.dumps(findings, indent=1) + "\n")
    crashed = [report for report in everything if report.crashes]
    for report in crashed:
        print(f"crash: {report.file}: {'; '.join(report.crashes)}")
    return 1 if crashed or any(report.seconds > MOST_SECONDS for report in everything) else 0


def print_findings(reports: list[FileReport]) -> None:
    """The findings by rule."""
    counts = Counter(found.rule for report in reports for found in report.findings)
    print(f"\n{sum(counts.values())} findings in {len(reports)} files")
    for rule, count in counts.most_common():
        print(f"{count:6}  {rule}")


if __name__ == "__main__":
    sys.exit(main())
