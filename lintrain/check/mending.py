"""Fixes written into files, round after round until there is nothing left to write."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lintrain.check.check_request import CheckRequest
from lintrain.check.check_run import CheckRun
from lintrain.check.one_file import SECONDS
from lintrain.check.result import CheckResult, FileOutcome, Reported
from lintrain.model.fixes import Fix
from lintrain.source.reading import load_bytes
from lintrain.source.source import Source
from lintrain.source.writing import CellsBrokenError, editable_text, file_bytes
from lintrain.startup.lazy_dataclass import dataclass

MOST_ROUNDS = 10
"""A fix may cause another finding; more rounds than this mean that two fixes undo each other."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What is left after all fixes, the new contents of the changed files, and how many findings are fixed.

    `fixed` counts them by file and rule. `notes` name the fixes that could not be written.
    """

    outcome: CheckResult
    before: Mapping[str, Source]
    contents: Mapping[str, bytes]
    fixed: Counter[tuple[str, str]]
    notes: tuple[str, ...]


def mend(request: CheckRequest, outcome: CheckResult, *, unsafe: bool) -> Mended:
    """Write the fixes of a run, in memory; unsafe ones only on request."""
    contents: dict[str, bytes] = {}
    notes: dict[str, None] = {}
    latest = outcome
    began = time.monotonic()
    for _ in range(MOST_ROUNDS):
        changed = _one_round(latest, {**request.given, **contents}, unsafe, notes)
        if not changed:
            break
        if time.monotonic() - began > SECONDS * len(changed):
            notes[f"further fixes were left out: the {SECONDS:g} seconds of each file were over"] = None
            break
        contents.update(changed)
        latest = CheckRun(replace(request, given={**request.given, **contents})).check()
    gone = _claims(outcome.reported) - _claims(latest.reported)
    return Mended(latest, outcome.sources, contents, gone, tuple(notes))


def _one_round(
    outcome: CheckResult, given: Mapping[str, bytes], unsafe: bool, notes: dict[str, None]
) -> dict[str, bytes]:
    """The new contents of every file that a fix changes; a file that was not judged whole keeps its text."""
    changed: dict[str, bytes] = {}
    for file in outcome.files:
        fixes = [(one, one.fix) for one in file.reported if one.fix and (one.fix.safe or unsafe)]
        if file.source is None or not fixes:
            continue
        if file.unjudged:
            notes[f"{file.path}: no fix was written, because not all rules have judged it"] = None
            continue
        original = given[file.path] if file.path in given else load_bytes(file.path)
        mended = _mended(file, file.source, fixes, original, notes)
        if mended != original:
            changed[file.path] = mended
    return changed


def _mended(
    file: FileOutcome, source: Source, fixes: Sequence[tuple[Reported, Fix]], original: bytes, notes: dict[str, None]
) -> bytes:
    """The file with its fixes; where they cannot be written together, with those that can be written alone."""
    text = editable_text(source)
    try:
        return _written(source, text, [fix for _, fix in fixes], original)
    except UnwritableError as error:
        if len(fixes) == 1:
            notes[f"{fixes[0][0].finding.location}: a fix could not be written ({fixes[0][1].title}): {error}"] = None
            return original
    alone = [(one, fix) for one, fix in fixes if _mended(file, source, [(one, fix)], original, notes) != original]
    try:
        return _written(source, text, [fix for _, fix in alone], original)
    except UnwritableError:
        return _mended(file, source, alone[:1], original, notes) if alone else original


class UnwritableError(Exception):
    """Fixes that do not fit the text, or would break it."""


def _written(source: Source, text: str, fixes: Sequence[Fix], original: bytes) -> bytes:
    from lintrain.fix import FixError, apply

    try:
        return file_bytes(source, apply(text, fixes), original)
    except (FixError, CellsBrokenError) as error:
        raise UnwritableError(str(error)) from error


def _claims(reported: Iterable[Reported]) -> Counter[tuple[str, str]]:
    return Counter((one.finding.location.path, one.finding.rule) for one in reported)
