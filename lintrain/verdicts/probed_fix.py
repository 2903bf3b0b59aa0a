"""The fix of a finding that only a run shows: the run gives the location, and the text the code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lintrain.source.calls import callee_in
from lintrain.source.writing import editable_text

if TYPE_CHECKING:
    from lintrain.model.finding import Finding
    from lintrain.model.fixes import Fix
    from lintrain.rule import Rule
    from lintrain.source.source import Source


def probed_fix(rule: Rule, finding: Finding, source: Source | None) -> Fix | None:
    """The fix of such a finding, if it is at a call and the edit can be written; it is never applied without asking.

    The run took one path through the script, and other paths to the same location may be correct.
    """
    if source is None or finding.location.end_line > len(source.lines):
        return None
    at_call = replace(rule.restored(finding), code=source.code(finding.location))
    if callee_in(at_call) is None:
        return None
    fix = rule.fix(at_call)
    return replace(fix, safe=False) if fix and _can_be_written(fix, source) else None


def _can_be_written(fix: Fix, source: Source) -> bool:
    from lintrain.fix import FixError, apply

    try:
        return apply(editable_text(source), [fix]) != editable_text(source)
    except FixError:
        return False
