"""The findings that a project has recorded: stored in a file and hidden, so that only new ones are reported.

A finding is identified by its file, its rule and the code of its first line, with how often the three occur. Numbers
of lines and comments are no part of it, so code may move; of two equal lines, one more than before is new.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, cast

from lintrain.builtin import UNCONDITIONAL
from lintrain.check.result import CheckResult, FileOutcome, Reported
from lintrain.settings.settings import UsageError
from lintrain.source.reading import read_plain, read_plain_text
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LARGEST_FILE = 64 * 1024 * 1024
FORMAT = 1
BEGINNING = '{\n  "format": '

COMMENT = lazy_pattern(r"(?<=\s)#.*")
"""If a string looks like a comment, the rest of the line is left out too, which identifies a finding just as well."""

LINE = lazy_pattern(
    r"""\s*(?:[{}\]],?|"format":\ \d+,?|"findings":\ \{(?:\},?)?|"(?:[^"\\]|\\.)*":\ \[|\{"rule":\ ".*\},?)?\s*|"""
    r"""(?:<{7}|={7}|>{7}|\|{7})(?:\ .*)?""",
    re.VERBOSE,
)
"""A line as a baseline has them, or as a merge leaves them between its own."""


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """What identifies a finding: its file (seen from the baseline's folder), its rule, and the code of its line."""

    path: str
    rule: str
    code: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """The recorded findings, with the number of each; `file` is where they are stored."""

    file: Path
    counts: Mapping[Known, int] = field(default_factory=dict[Known, int])

    def hide(self, files: Iterable[FileOutcome]) -> list[FileOutcome]:
        """The files with the known findings set apart from the new ones."""
        left = Counter(self.counts)
        return [self._hide(file, left) for file in files]

    def _hide(self, file: FileOutcome, left: Counter[Known]) -> FileOutcome:
        fresh: list[Reported] = []
        known: list[Reported] = []
        for one in file.reported:
            key = self._key(file, one)
            known_again = one.finding.rule not in UNCONDITIONAL and left[key] > 0
            left[key] -= known_again
            (known if known_again else fresh).append(one)
        return replace(file, reported=tuple(fresh), known=tuple(known)) if known else file

    def of(self, outcome: CheckResult) -> Baseline:
        """The same file with the findings of a run, hidden ones too, and nothing else."""
        found = Counter(
            self._key(file, one)
            for file in outcome.files
            for one in (*file.known, *file.reported)
            if one.finding.rule not in UNCONDITIONAL
        )
        return Baseline(self.file, found)

    def pruned(self, outcome: CheckResult, rules_of: Callable[[str], frozenset[str]]) -> Baseline:
        """What a run of the whole project has found again; `rules_of` returns the rules that ran on a file."""
        found, folder = self.of(outcome).counts, self.file.resolve().parent
        silent = {self._path(file.path) for file in outcome.files if _is_silent(file)}
        enabled = {path: rules_of(str(folder / path)) for path in {key.path for key in self.counts}}
        stored = {
            key: number if key.path in silent or key.rule not in enabled[key.path] else min(number, found.get(key, 0))
            for key, number in self.counts.items()
        }
        return Baseline(self.file, {key: number for key, number in stored.items() if number})

    @property
    def total(self) -> int:
        """How many findings are recorded."""
        return sum(self.counts.values())

    def as_text(self) -> str:
        """The file's content: sorted, and a line for each finding, so that two branches seldom meet in one line."""
        by_path: dict[str, list[str]] = {}
        for key, number in sorted(self.counts.items()):
            entry = {"rule": key.rule, "code": key.code, **({"count": number} if number > 1 else {})}
            by_path.setdefault(key.path, []).append(f"      {json.dumps(entry, ensure_ascii=False)}")
        files = [
            f"    {json.dumps(path, ensure_ascii=False)}: [\n{_lines(entries)}\n    ]"
            for path, entries in by_path.items()
        ]
        findings = f"{{\n{_lines(files)}\n  }}" if files else "{}"
        return f'{BEGINNING}{FORMAT},\n  "findings": {findings}\n}}\n'

    def _key(self, file: FileOutcome, one: Reported) -> Known:
        line = file.source.shown_line(one.finding.location.line) if file.source else ""
        return Known(self._path(file.path), one.finding.rule, " ".join(COMMENT.sub("", line).split()))

    def _path(self, path: str) -> str:
        return os.path.relpath(path, self.file.parent).replace(os.sep, "/")


def _lines(entries: Iterable[str]) -> str:
    return ",\n".join(entries)


def _is_silent(file: FileOutcome) -> bool:
    """Whether some rules could not run on a file: what they did not find may still be there."""
    is_broken = any(one.finding.rule in UNCONDITIONAL for one in file.reported)
    return is_broken or file.is_exhausted or bool(file.crashes or file.unjudged)


def read_baseline(file: Path) -> Baseline:
    """The findings recorded in a file; raises UsageError if it is not a baseline."""
    try:
        stored: Any = json.loads(read_plain(file, LARGEST_FILE))  # Any: whatever JSON holds
    except FileNotFoundError as error:
        raise UsageError(f"{file}: no such baseline; `lintrain baseline` writes it") from error
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    except RecursionError as error:
        raise UsageError(f"{file}: not a baseline: its JSON is nested too deeply") from error
    except ValueError as error:
        raise UsageError(f"{file}: not JSON: {error}; after a merge, `lintrain baseline` writes it again") from error
    if not isinstance(stored, dict) or cast(dict[str, Any], stored).get("format") != FORMAT:
        raise UsageError(f"{file}: not a baseline of this version of lintrain; `lintrain baseline` writes it again")
    try:
        return Baseline(file, Counter(dict(_entries(cast(dict[str, Any], stored)["findings"]))))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file}: an entry is not understood; `lintrain baseline` writes it again") from error


def may_be_written(file: Path) -> bool:
    """Whether nothing but a baseline is lost when one is written there: of any version, cut, or broken by a merge."""
    try:
        text = read_plain_text(file, LARGEST_FILE)
    except FileNotFoundError:
        return True
    except (OSError, UnicodeDecodeError):
        return False
    lines = text.split("\n")
    if all(LINE.fullmatch(line) for line in (lines[:-1] if text.startswith(BEGINNING) else lines)):
        return True
    try:
        stored: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and {"format", "findings"} <= stored.keys()


def _entries(findings: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[tuple[Known, int]]:
    for path, entries in findings.items():
        for entry in entries:
            yield Known(path, str(entry["rule"]), str(entry["code"])), int(entry.get("count", 1))
