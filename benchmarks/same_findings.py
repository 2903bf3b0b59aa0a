"""The findings of two commits compared, wording apart: `python -m benchmarks.same_findings COMMIT PATH…`.

Both check the same files from a folder of their own: this checkout, and a work tree of COMMIT. A finding is its rule,
level, file, location, subject, related locations and the edits of its fix; messages may differ. `--probe SCRIPT…` also
compares the outcomes of the verdicts that `lintrain probe` gives. The exit code is 1 when a finding is gone or new.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from lintrain.report.machine.compact import expanded_finding
from tools.build_fixtures import offline_environment

Json = Any
Key = tuple[object, ...]
AT = ("path", "cell", "line", "column", "end_line", "end_column")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is gone and what is new, and how much is the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("paths", nargs="*", type=Path, help="scripts, notebooks and folders to check")
    parser.add_argument("--probe", nargs="*", type=Path, default=[], help="scripts to probe")
    options = parser.parse_args(arguments)
    differs = False
    with work_tree(options.commit) as before:
        if options.paths:
            differs |= _compare(
                "findings", *(findings(root, [*map(Path.absolute, options.paths)]) for root in (before, ROOT))
            )
        for script in options.probe:
            differs |= _compare(str(script), *(verdicts(root, script.absolute()) for root in (before, ROOT)))
    return int(differs)


@contextmanager
def work_tree(commit: str) -> Iterator[Path]:
    """The files of a commit in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="lintrain-before-") as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
        yield Path(folder)


def findings(root: Path, paths: Sequence[Path]) -> Counter[Key]:
    """What the lintrain below `root` finds in these paths."""
    options = ["check", "--no-cache", "--isolated", "--preview", "--output-format", "json"]
    return Counter(key for each in _report(root, [*options, *map(str, paths)])["findings"] for key in [_key(each)])


def verdicts(root: Path, script: Path) -> Counter[Key]:
    """The outcome of every finding of a probe, by rule and line."""
    report = _report(root, ["probe", "--isolated", "--output-format", "json", str(script)])
    return Counter(
        (each["rule"], *_location(each)[2:4], _renamed((each["verdict"] or {}).get("outcome", "")))
        for each in map(_as_format_2, report["findings"])
    )


def _report(root: Path, arguments: Sequence[str]) -> Json:
    """The JSON report of a command, carried out by the code below `root` in a folder outside of both."""
    environment = {**os.environ, **offline_environment(), "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "lintrain", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"{' '.join(arguments[:3])} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return json.loads(done.stdout)


def _key(finding: Json) -> Key:
    each = _as_format_2(finding)
    edits = [tuple(sorted(edit.items())) for edit in (each["fix"] or {}).get("edits", ())]
    return (
        each["rule"],
        each["level"],
        _location(each),
        each["subject"],
        tuple((_location(one), one["role"]) for one in each["related"]),
        (each["fix"] or {}).get("safe"),
        tuple(edits),
    )


def _as_format_2(entry: Json) -> Json:
    """A finding of a report with the key names of format 2, whichever format it has."""
    if isinstance(entry, dict) and "rule" in entry and not {"position", "related", "because"} & entry.keys():
        entry = expanded_finding(entry, {})
    names = {"position": "location", "because": "related", "ruling": "outcome"}
    if isinstance(entry, dict):
        return {names.get(name, name): _as_format_2(value) for name, value in entry.items()}
    return [_as_format_2(each) for each in entry] if isinstance(entry, list) else entry


def _location(entry: Json) -> Key:
    return tuple(entry["location"][name] for name in AT)


def _renamed(outcome: str) -> str:
    return "inconclusive" if outcome == "unsettled" else outcome


def _compare(what: str, before: Counter[Key], after: Counter[Key]) -> bool:
    gone, new = before - after, after - before
    print(f"{what}: {(before & after).total()} the same, {gone.total()} gone, {new.total()} new")
    for sign, keys in (("-", gone), ("+", new)):
        for key in sorted(keys.elements(), key=str):
            print(f"  {sign} {key}")
    return bool(gone or new)


if __name__ == "__main__":
    sys.exit(main())
