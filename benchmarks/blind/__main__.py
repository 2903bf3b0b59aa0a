"""Known mistakes in sound scripts, both written before lintrain ran on any: how many are reported.

    python -m benchmarks.blind [FIELD…] [--half work|measure] [--missed]

Each folder of `scripts/` is a field: sound training scripts in different hands, and for each five mistakes that are
edits of it, written by people who opened no rule for it. A mistake counts as reported if its variant has a new finding
of a rule that names it; `edits.toml` holds these rules. The digest of a script's name put it into one of two halves:
misses of `work` were opened while lintrain was changed, those of `measure` after they had been counted. `--missed`
lists the misses. The exit code is 1 if a sound script has a finding.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.checking import findings_of
from benchmarks.accuracy.code import Code
from benchmarks.blind.mistakes import Field, Mistake, load_fields
from benchmarks.sight.clones import MEASURE, WORK
from lintrain.model.finding import Finding

Key = tuple[str, str]
"""A finding: rule and message."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What lintrain says of one field in one half: all mistakes, those it misses, and what it says of sound scripts."""

    field: Field
    half: str
    mistakes: tuple[Mistake, ...]
    missed: tuple[Mistake, ...]
    false: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 2 if there is no such field."""
    options = _parser().parse_args(arguments)
    fields = [field for field in load_fields() if not options.fields or field.name in options.fields]
    if not fields:
        print("no field of this name", file=sys.stderr)
        return 2
    counted = [count(field, half) for half in (WORK, MEASURE) if options.half in ("", half) for field in fields]
    print(_table(counted))
    if options.missed:
        for each in counted:
            for mistake in each.missed:
                print(f"{each.field.name}/{mistake.script.name}:{mistake.line}: {mistake.name}: {mistake.why}")
    false = [line for each in counted for line in each.false]
    if false:
        print(*false, sep="\n")
    return 1 if false else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blind", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("fields", nargs="*")
    parser.add_argument("--half", choices=(WORK, MEASURE), default="")
    parser.add_argument("--missed", action="store_true")
    return parser


def count(field: Field, half: str) -> Counted:
    """Check the scripts of a field in one half, as they are and with each mistake."""
    scripts = [script for script in field.scripts if field.half_of(script) == half]
    before = {script: findings(script, script.read_text(encoding="utf-8")) for script in scripts}
    mistakes = tuple(mistake for mistake in field.mistakes if mistake.script in before)
    missed = tuple(mistake for mistake in mistakes if not mistake.rules & _new_rules(before[mistake.script], mistake))
    false = tuple(
        f"{field.name}/{script.name}:{finding.location.line}: {finding.rule}: {finding.message}"
        for script in scripts
        for finding in before[script]
    )
    return Counted(field, half, mistakes, missed, false)


def _new_rules(before: Sequence[Finding], mistake: Mistake) -> set[str]:
    """The rules whose findings the mistake adds."""
    known = Counter(map(_key, before))
    after = Counter(map(_key, findings(mistake.script, mistake.text)))
    return {rule for rule, _ in after - known}


def _key(finding: Finding) -> Key:
    return finding.rule, finding.message


def findings(script: Path, text: str) -> list[Finding]:
    """What a check of this text in the place of a script reports."""
    return findings_of(Code.of(script), text)


def _table(counted: Sequence[Counted]) -> str:
    lines = ["| field | half | mistakes | reported | findings in sound scripts |", "|---|---|---|---|---|"]
    lines += [_row(each.field.name, each.half, [each]) for each in counted]
    for half in (WORK, MEASURE):
        of_half = [each for each in counted if each.half == half]
        if len(of_half) > 1:
            lines.append(_row("all", half, of_half))
    return "\n".join(lines)


def _row(name: str, half: str, counted: Sequence[Counted]) -> str:
    mistakes = sum(len(each.mistakes) for each in counted)
    reported = mistakes - sum(len(each.missed) for each in counted)
    share = f" ({reported / mistakes:.0%})" if mistakes else ""
    return f"| {name} | {half} | {mistakes} | {reported}{share} | {sum(len(each.false) for each in counted)} |"


if __name__ == "__main__":
    sys.exit(main())
