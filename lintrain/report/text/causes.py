"""What is known of the cause of an error, for people: of one that a probe saw, and of one that is given as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lintrain.evidence.stages import Failure
from lintrain.evidence.tracebacks import read_traceback, read_warning
from lintrain.report.text.style import Style, printable, wrap
from lintrain.rulebook import load_rules
from lintrain.verdicts.endings.explaining import explain, kinds, raised_by_script

MOST_CAUSES = 4
FEWEST_WORDS = 6
"""Words of a message that a rule's page has in the same order, for the page to be about it.

Five are too few: "does not match the length of" is in messages and pages about anything.
"""


ASKING = (
    "to ask for help or to report a bug of a library, give the whole message and what "
    "`lintrain probe {script} --export-repro failure` writes: a short script that fails in the same way, its batch and "
    "the versions"
)


class NotExplainedError(Exception):
    """A text that no kind of error and no page is about; the text says what to do."""


def cause_lines(failure: Failure) -> Iterator[tuple[str, str]]:
    """What is known of the cause of an error, as labels and texts: the cause, the values, what to write, a page."""
    found = explain(failure)
    if found.kind:
        yield ("cause" if found.is_certain else "likely"), found.cause
        yield from (("or", cause) for cause in found.causes[1:MOST_CAUSES] if not found.is_certain)
    yield from (("given", fact) for fact in found.facts)
    if failure.worker:
        yield "in", failure.worker
    yield from (("forward", line) for line in failure.forward)
    if found.fix:
        yield "help", found.fix
    if found.page:
        yield "page", f"`lintrain explain {found.page}`"
    if found.bug:
        yield "bug?", f"{found.bug}; a report needs the versions above and what `--export-repro` writes"


def asking_for_help(failure: Failure, script: str) -> str:
    """What a question about an error needs that nothing explains; "" where the script raises it or that was said."""
    found = explain(failure)
    return "" if found.kind or found.bug or raised_by_script(failure) else ASKING.format(script=script)


def likely_cause(text: str) -> str:
    """The likeliest cause of an error that is known as one line only; "" if none is known."""
    failure = read_traceback(text)
    return next(iter(explain(failure).causes), "") if failure else ""


def remark_lines(failure: Failure, style: Style, *, is_brief: bool = False) -> Iterator[str]:
    """The same for a terminal, one remark a line; only the cause in a brief form."""
    for label, text in cause_lines(failure):
        if not is_brief or label in ("cause", "likely"):
            yield from _remark(label, text, style)


def _remark(label: str, text: str, style: Style) -> Iterator[str]:
    first, *rest = wrap(printable(text), len(label) + 6, len(label) + 6, style.width)
    yield f"  {style.paint('=', 'blue', bold=True)} {style.paint(label, bold=True)}: {style.code(first)}"
    for line in rest:
        yield " " * (len(label) + 6) + style.code(line)


def error_document(text: str) -> dict[str, Any]:
    """An error in a text with its likely causes, in order; raises NotExplainedError."""
    named = next((kind for kind in kinds() if kind.name == text), None)
    if named is not None:
        empty = dict.fromkeys(_groups(named.pattern), "…")
        causes = [_cause(named.name, named.cause.format_map(empty), named.fix.format_map(empty), named.page)]
        return {"error": f"{named.types.split()[0]} ({named.library})", "line": None, "causes": causes}
    failure = read_traceback(text) or read_warning(text) or Failure("", text.strip(), None)
    causes = _causes(failure) or [_cause(name, title, "", name) for name, title in _pages_about(failure.message)]
    if not causes:
        raise NotExplainedError("no known error is in this text; `lintrain probe train.py` measures what was given")
    location = failure.location
    line = f"{location.path}:{location.line}: {failure.code}" if location else None
    first = next(iter(failure.message.splitlines()), "")
    return {"error": f"{failure.type}: {first}" if failure.type else first, "line": line, "causes": causes}


def error_lines(document: Mapping[str, Any], style: Style) -> Iterator[str]:
    """Such a document for a terminal."""
    yield style.paint(printable(document["error"]), "red")
    if document["line"]:
        yield f"    {printable(document['line'])}"
    causes = document["causes"]
    for cause in causes:
        if cause["cause"]:
            yield from _remark("cause" if len(causes) == 1 else "likely", cause["cause"], style)
        if cause["fix"]:
            yield from _remark("help", cause["fix"], style)
        if cause["page"]:
            yield from _remark("page", f"`lintrain explain {cause['page']}`", style)


def _causes(failure: Failure) -> list[dict[str, str]]:
    """Every kind that the text allows: which one it is shows only in a run."""
    matched = ((kind, raised) for kind in kinds() if (raised := kind.matches(failure)) is not None)
    found = [
        _cause(kind.name, kind.cause_of(raised), kind.fix_of(raised), kind.page)
        for kind, raised in matched
        if kind.answer(raised) is not False
    ]
    return found[:MOST_CAUSES]


def _cause(name: str, cause: str, fix: str, page: str) -> dict[str, str]:
    return {"name": name, "cause": cause, "fix": fix, "page": page}


def _groups(pattern: str) -> list[str]:
    import re

    return list(re.compile(pattern).groupindex)


def _pages_about(message: str) -> list[tuple[str, str]]:
    """Rules whose page has several words of a message in a row, with what the page says first."""
    words = message.split()
    runs = [" ".join(words[at : at + FEWEST_WORDS]) for at in range(len(words) - FEWEST_WORDS + 1)]
    pages = ((rule, " ".join(str(rule.manual).split())) for rule in load_rules())
    about = [rule for rule, page in pages if any(run in page for run in runs)]
    return [(rule.name, rule.manual.title.removesuffix(".")) for rule in about[:MOST_CAUSES]]
