"""Every mutant's fix written: what is mended stays mended, and nothing else is different."""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.accuracy.checking import request_of, written
from benchmarks.accuracy.code import Code
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from benchmarks.untouched import strays, strays_of_file
from lintrain.check.check_run import CheckRun
from lintrain.check.fixing import fix_files
from lintrain.check.result import CheckResult, FileOutcome, Reported
from lintrain.check.selection import CheckRequest
from lintrain.fix import FixError, apply
from lintrain.source.reading import read_bytes
from lintrain.source.writing import editable_text

SAFE, ASKS, NONE, REFUSED = "safe", "asks first", "none", "refused"


@dataclass(frozen=True, slots=True)
class Mending:
    """What became of one mutant's fix: `kind` says how it is offered, `reason` why it was not written."""

    rule: str
    name: str
    kind: str
    reason: str = ""
    troubles: tuple[str, ...] = ()


def fix_all(scripts: Sequence[Path], only: Sequence[str] | None, *, jobs: int) -> bool:
    """Write the fixes of every mutant, print a line on each rule and every trouble; whether there was none."""
    with ProcessPoolExecutor(jobs) as pool:
        mendings = [each for found in pool.map(partial(fix_one, only=only), scripts) for each in found]
    by_rule: dict[str, list[Mending]] = defaultdict(list)
    for mending in mendings:
        by_rule[mending.rule].append(mending)
    print(f"{'rule':34} {'found':>8} {SAFE:>7} {ASKS:>11} {REFUSED:>8} {'no fix':>7}")
    for rule, found in sorted(by_rule.items()):
        print(_row(rule, found))
    print(_row("all", mendings))
    for mending in mendings:
        if mending.kind == REFUSED:
            print(f"refused: {mending.rule}: {mending.name}: {mending.reason}")
    troubled = [(mending, trouble) for mending in mendings for trouble in mending.troubles]
    for mending, trouble in troubled:
        print(f"broken: {mending.rule}: {mending.name}: {trouble}")
    print(
        f"{len(mendings)} mutants, {sum(each.kind in (SAFE, ASKS) for each in mendings)} mended, {len(troubled)} broken"
    )
    return not troubled


def _row(rule: str, mendings: Sequence[Mending]) -> str:
    kinds = Counter(mending.kind for mending in mendings)
    return f"{rule:34} {len(mendings):8} {kinds[SAFE]:7} {kinds[ASKS]:11} {kinds[REFUSED]:8} {kinds[NONE]:7}"


def fix_one(path: Path, only: Sequence[str] | None) -> list[Mending]:
    """What becomes of the fixes of one script's mutants, of those that are found."""
    wanted = tuple(each for each in load_injections() if not only or each.rule in only)
    return [mending for mutant in mutants_of(Code.of(path), wanted) if (mending := _mended(mutant))]


def _mended(mutant: Mutant) -> Mending | None:
    with written(mutant.script, mutant.text) as (folder, _):
        request = request_of(folder, ["ALL"])
        outcome = CheckRun(request).check()
        file, own = own_finding(mutant, outcome)
        rule, name = mutant.injection.rule, f"{mutant.name} (line {mutant.lines[0]})"
        if file is None or own is None:
            return None
        if own.fix is None:
            return Mending(rule, name, NONE)
        try:
            after = apply(editable_text(file.source), [own.fix]) if file.source else ""
        except FixError as error:
            return Mending(rule, name, REFUSED, str(error))
        troubles = [] if file.source is None else list(strays(file.source, own.fix, after))
        for unsafe in (False, True):
            mode = "with --unsafe-fixes" if unsafe else "with --fix"
            troubles += [f"{mode}: {said}" for said in _troubles(request, outcome, own, unsafe=unsafe)]
        return Mending(rule, name, SAFE if own.fix.safe else ASKS, "", tuple(troubles))


def own_finding(mutant: Mutant, outcome: CheckResult) -> tuple[FileOutcome | None, Reported | None]:
    """The finding of a mutant's mistake, on one of its lines."""
    for file in outcome.files:
        for one in file.reported:
            is_named = (
                one.finding.rule == mutant.injection.rule and Path(file.path).name == Path(mutant.script.path).name
            )
            if is_named and one.finding.location.line in mutant.lines:
                return file, one
    return None, None


def _troubles(request: CheckRequest, outcome: CheckResult, own: Reported, *, unsafe: bool) -> Iterator[str]:
    """What is wrong after all fixes are written."""
    mended = fix_files(request, outcome, unsafe=unsafe)
    yield from mended.notes
    for path, content in mended.contents.items():
        yield from strays_of_file(mended.before[path], content)
        try:
            ast.parse(read_bytes(path, content).text)
        except SyntaxError as error:
            yield f"does not parse: {error}"
        if path.endswith(".ipynb"):
            json.loads(content)
    before, after = _claims(outcome), _claims(mended.outcome)
    yield from (f"brings {rule}: {message}" for _, rule, message in _new(before, after))
    if own.fix and (own.fix.safe or unsafe):
        claim = (own.finding.location.path, own.finding.rule, own.finding.message)
        if after[claim] >= before[claim]:
            yield "the finding is still there"
    if fix_files(request, mended.outcome, unsafe=unsafe).contents:
        yield "a second run changes more"


def _new(before: Counter[tuple[str, str, str]], after: Counter[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """The claims of rules that say more of a file than before: a message may only name another line."""
    counts = Counter((path, rule) for path, rule, _ in before.elements())
    for claim in (after - before).elements():
        if sum(1 for path, rule, _ in after.elements() if (path, rule) == claim[:2]) > counts[claim[:2]]:
            yield claim


def _claims(outcome: CheckResult) -> Counter[tuple[str, str, str]]:
    return Counter((one.finding.location.path, one.finding.rule, one.finding.message) for one in outcome.reported)
