"""Recall, places and false findings on scripts whose mistakes are known: `python -m benchmarks.accuracy`.

Every operator injects its mistake into every script of `scripts/` where it fits. A mutant counts as found where its
rule reports it, and as placed where that is on the line that carries the mistake. The correct scripts must stay silent.
`--execute` also runs every correct script and a tenth of the mutants, to prove that the mistakes are real; `--probe`
has `lintrain probe` judge them, and with `--alone` it judges them by what runs show, without the text.
`--fix` writes the fixes of all mutants instead and looks at the outcome; with `--probe`, those of the sample are probed
when they are mended: they have to run, and no claim may be confirmed again.
The exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.alone import probe_all_alone
from benchmarks.accuracy.checking import findings_of
from benchmarks.accuracy.code import Code
from benchmarks.accuracy.executing import execute
from benchmarks.accuracy.fixing import fix_all
from benchmarks.accuracy.mutants import FOLDER, Mutant, load_injections, load_scripts, mutants_of
from benchmarks.accuracy.probing import probe_all
from benchmarks.accuracy.refuting import refute_all

LEAST_FOUND = 0.95
LEAST_PLACED = 0.95


@dataclass(frozen=True, slots=True)
class Score:
    """What became of one mutant."""

    rule: str
    name: str
    found: bool
    placed: bool
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptReport:
    """What one script gave: its false findings, and the scores of its mutants."""

    path: str
    false: tuple[str, ...]
    scores: tuple[Score, ...]


def report_on(path: Path) -> ScriptReport:
    """Check one script and all its mutants."""
    code = Code.of(path)
    false = tuple(
        f"{finding.location.line}: {finding.rule}: {finding.message}" for finding in findings_of(code, code.text)
    )
    return ScriptReport(str(path), false, tuple(score(mutant) for mutant in mutants_of(code, load_injections())))


def score(mutant: Mutant) -> Score:
    """What lintrain says of one mutant."""
    findings = findings_of(mutant.script, mutant.text)
    rule, name = mutant.injection.rule, Path(mutant.script.path).name
    own = [finding for finding in findings if finding.rule == rule]
    placed = any(finding.location.line in mutant.lines and Path(finding.location.path).name == name for finding in own)
    said = tuple(f"{finding.location.line}: {finding.rule}" for finding in findings)
    return Score(rule, f"{mutant.name} (line {mutant.lines[0]})", bool(own), placed, said)


def main() -> int:
    """Print the table, then what fell short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path, help="only these scripts")
    parser.add_argument("--rule", action="append", help="only mutants of this rule")
    parser.add_argument("--execute", action="store_true", help="run every script, and a tenth of the mutants")
    parser.add_argument("--probe", action="store_true", help="probe every script, and a tenth of the mutants")
    parser.add_argument(
        "--fix", action="store_true", help="write the fixes of every mutant instead, and look at the outcome"
    )
    parser.add_argument("--alone", action="store_true", help="with --probe: judge without what the text shows")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="only every n-th script, beginning with the i-th")
    parser.add_argument("--all", action="store_true", help="with --execute or --probe: run every mutant")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    paths = [path.resolve() for path in options.scripts] or [Path(code.path) for code in load_scripts()]
    number, shards = map(int, options.shard.split("/"))
    paths = paths[number - 1 :: shards]
    if options.alone:
        return 0 if probe_all_alone(paths, options.rule, everything=options.all, jobs=options.jobs) else 1
    if options.fix:
        good = fix_all(paths, options.rule, jobs=options.jobs)
        if options.probe:
            good &= refute_all(paths, options.rule, everything=options.all, jobs=options.jobs)
        return 0 if good else 1
    with ProcessPoolExecutor(options.jobs) as pool:
        reports = list(pool.map(report_on, paths))
    good = print_static(reports, options.rule)
    if options.execute:
        good &= execute(paths, options.rule, everything=options.all, jobs=options.jobs)
    if options.probe:
        good &= probe_all(paths, options.rule, everything=options.all, jobs=options.jobs)
    return 0 if good else 1


def print_static(reports: Sequence[ScriptReport], only: Sequence[str] | None) -> bool:
    """The table of rules and what fell short; whether every bound is held."""
    by_rule: dict[str, list[Score]] = defaultdict(list)
    for one in (score for report in reports for score in report.scores):
        if not only or one.rule in only:
            by_rule[one.rule].append(one)
    print(f"{'rule':34} {'mutants':>8} {'found':>7} {'placed':>7}")
    for rule, scores in sorted(by_rule.items()):
        print(f"{rule:34} {len(scores):8} {share(one.found for one in scores):>7} {share_placed(scores):>7}")
    everything = [one for scores in by_rule.values() for one in scores]
    found = [one for one in everything if one.found]
    print(f"{'all':34} {len(everything):8} {share(one.found for one in everything):>7} {share_placed(everything):>7}\n")
    for one in everything:
        if not one.placed:
            print(f"{'misplaced' if one.found else 'missed'}: {one.rule}: {one.name}; said {list(one.said)}")
    false = [
        f"false finding: {Path(report.path).relative_to(FOLDER)}:{said}" for report in reports for said in report.false
    ]
    print("\n".join(false))
    notebooks = sum(report.path.endswith(".ipynb") for report in reports)
    print(f"{len(reports)} correct scripts, {notebooks} of them notebooks: {len(false)} false findings")
    if not everything:
        return not false
    placed = sum(one.placed for one in found) / max(len(found), 1)
    return not false and len(found) / len(everything) >= LEAST_FOUND and placed >= LEAST_PLACED


def share(claims: Iterable[bool]) -> str:
    """How many of the claims hold, in percent."""
    known = list(claims)
    return f"{sum(known) / len(known):.0%}" if known else "-"


def share_placed(scores: Sequence[Score]) -> str:
    """How many of the mutants that were found were reported on the right line."""
    return share(one.placed for one in scores if one.found)


if __name__ == "__main__":
    sys.exit(main())
