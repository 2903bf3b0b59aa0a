"""Every fix written into training code that nobody here wrote: `python -m benchmarks.fixes CLONES`.

CLONES is a folder that holds clones as `owner/name`. All fixes are written, in memory, also those that ask first. Every
file must parse as before, with nothing changed outside the edits and a notebook's JSON as it was around the cells that
changed; no fix may bring a new finding, and a second run must change nothing. With `--trees`, CLONES is read as one
folder of code, such as the standard library. The exit code is 1 when something breaks.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.real_code import clones_in
from benchmarks.untouched import strays, strays_of_file
from lintrain.check.check_run import CheckRun
from lintrain.check.fixing import FixedFiles, fix_files
from lintrain.check.result import CheckResult, FileOutcome
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.fix import FixError, apply
from lintrain.knowledge.versions import find_versions
from lintrain.rulebook import load_rules
from lintrain.source.discovery import DEFAULT_EXCLUDES, Discovery, Excludes
from lintrain.source.reading import read_bytes
from lintrain.source.writing import editable_text


@dataclass(frozen=True, slots=True)
class Fixed:
    """What came of all fixes in one folder: how many findings each rule's fixes mended, and what broke."""

    name: str
    files: int
    findings: int
    offered: int
    changed: int
    mended: int
    notebooks: int
    seconds: float
    notes: tuple[str, ...]
    troubles: tuple[str, ...]
    rules: Counter[str]


def main() -> int:
    """Print a line on each folder, then what each rule offered and what broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("repositories", nargs="*", help="owner/name; all clones by default")
    parser.add_argument("--trees", action="store_true", help="CLONES is one folder of code")
    parser.add_argument("--select", help="only these rules")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    names = ["."] if given.trees else given.repositories or clones_in(given.clones)
    chosen = given.select.split(",") if given.select else ["ALL"]
    folders: list[Fixed] = []
    print(f"{'folder':46} {'files':>6} {'found':>6} {'fixes':>6} {'mended':>7} {'changed':>8} {'s':>6}")
    with ProcessPoolExecutor(given.jobs) as pool:
        for each in pool.map(partial(fix_folder, given.clones, chosen), names):
            folders.append(each)
            print(
                f"{each.name:46} {each.files:6} {each.findings:6} {each.offered:6} {each.mended:7} {each.changed:8} "
                f"{each.seconds:6.1f}",
                flush=True,
            )
    return _close(folders)


def _close(folders: Sequence[Fixed]) -> int:
    rules = sum((each.rules for each in folders), Counter[str]())
    print(f"\n{'rule':38} {'fixes':>6}")
    for rule, number in sorted(rules.items()):
        print(f"{rule:38} {number:6}")
    for each in folders:
        for note in each.notes:
            print(f"refused: {each.name}/{note}")
        for trouble in each.troubles:
            print(f"broken: {each.name}/{trouble}")
    broken = sum(len(each.troubles) for each in folders)
    totals = {name: sum(getattr(each, name) for each in folders) for name in ("offered", "files", "mended", "changed")}
    notebooks = sum(each.notebooks for each in folders)
    refused = sum(len(each.notes) for each in folders)
    print(f"\n{totals['offered']} fixes in {totals['files']} files, {totals['mended']} findings mended")
    print(f"{totals['changed']} files changed ({notebooks} notebooks), {refused} fixes refused, {broken} broken")
    return 1 if broken else 0


def fix_folder(clones: Path, chosen: Sequence[str], name: str) -> Fixed:
    """Write every fix of one folder, in memory, and look at the outcome."""
    started = time.perf_counter()
    folder = clones / name
    files = Discovery(Excludes(DEFAULT_EXCLUDES, str(folder)), respect_gitignore=False).find([str(folder)])
    rules = load_rules()
    selection = choose(known_names(rules), Choice("benchmark", "/", list(chosen)), Choice("benchmark", "/"))
    request = CheckRequest(files, rules, selection, find_versions)
    found = CheckRun(request).check()
    request = replace(request, files=[file.path for file in found.files if any(one.fix for one in file.reported)])
    outcome = CheckRun(request).check()
    mended = fix_files(request, outcome, unsafe=True)
    troubles = [*_alone(outcome), *_together(request, outcome, mended)]
    offered = Counter(one.finding.rule for one in outcome.reported if one.fix)
    prefix = f"{folder}/"
    return Fixed(
        name,
        len(files),
        len(found.reported),
        offered.total(),
        len(mended.contents),
        mended.fixed.total(),
        sum(path.endswith(".ipynb") for path in mended.contents),
        time.perf_counter() - started,
        tuple(note.removeprefix(prefix) for note in mended.notes),
        tuple(trouble.removeprefix(prefix) for trouble in troubles),
        offered,
    )


def _alone(outcome: CheckResult) -> Iterator[str]:
    """What single fixes change beside their places."""
    for file in outcome.files:
        yield from _alone_in(file)


def _alone_in(file: FileOutcome) -> Iterator[str]:
    for one in file.reported:
        if one.fix is None or file.source is None:
            continue
        try:
            after = apply(editable_text(file.source), [one.fix])
        except FixError:
            continue  # `mend` names it
        for said in strays(file.source, one.fix, after):
            yield f"{one.finding.location}: {one.finding.rule}: {said}"


def _together(request: CheckRequest, before: CheckResult, mended: FixedFiles) -> Iterator[str]:
    """What is wrong with the files when all fixes are written."""
    for path, content in mended.contents.items():
        yield from (f"{path}: {said}" for said in strays_of_file(mended.before[path], content))
        try:
            ast.parse(read_bytes(path, content).text)
            if path.endswith(".ipynb"):
                json.loads(content)
        except (SyntaxError, ValueError) as error:
            yield f"{path}: does not parse: {error}"
    told = _counts(before)
    for claim, number in (_counts(mended.outcome) - told).items():
        if number > 0:
            path, rule = claim
            lines = [
                one.finding for one in mended.outcome.reported if (one.finding.location.path, one.finding.rule) == claim
            ]
            yield f"{path}: {rule} is new: {', '.join(f'{each.location.line}: {each.message}' for each in lines)}"
    again = fix_files(request, mended.outcome, unsafe=True).contents
    yield from (f"{path}: a second run changes more" for path in again)
    yield from (f"{crash.path}: {crash.rule}: {crash.error}" for crash in mended.outcome.crashes)


def _counts(outcome: CheckResult) -> Counter[tuple[str, str]]:
    return Counter((one.finding.location.path, one.finding.rule) for one in outcome.reported)


if __name__ == "__main__":
    sys.exit(main())
