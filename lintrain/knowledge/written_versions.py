"""Versions that the text of a script or notebook names: what it installs, and what its comments require.

`!pip install transformers==4.56.2` in a cell, also on continued lines, behind variables or through another installer;
`get_ipython().system("pip install ...")` and `subprocess` calls; `# transformers==4.56.2` in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lintrain.knowledge.requirement_lines import Statement, requirements_in
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.source.source import Source

INSTALL = "an install in this file"
COMMENT = "a comment in this file"

_HINT = lazy_pattern(r"[=~<>]=\s*v?\d|[=<>]\d|git\+|\.whl|--no-index")
"""What every line that names a version holds."""

_LONGEST_LINE = 4000
_SHOWN = lazy_pattern(r"\s*!\s*echo\b[^>]*$")
"""A line of a shell that only shows what it says."""

_EXACT = lazy_pattern(r"(?:===?|~=)\s*v?\d+\.\d")
_REQUIRES = lazy_pattern(r"\b(?:install|pip|conda|requires?|requirements?|dependenc(?:y|ies))\b", re.IGNORECASE)
_DOUBTS = lazy_pattern(
    r"\b(?:uninstall|bugs?|issues?|br[eo]a?ke?n?s?|fail\w*|errors?|not|since|before|prior|until|after|deprecated|removed)"
    r"\b|n't\b",
    re.IGNORECASE,
)
"""Words with which a comment speaks about a version that the script is not written for."""

_LIST_ITEM = lazy_pattern(r"\s*#?\s*(?:-\s+)?[\"']?[\w.\[\]-]+\s*[=~<>!\d.*,\s]+[\"']?,?\s*$")


def statements_in(source: Source) -> tuple[Statement, ...]:
    """The last version that a script or notebook names for each package; installs come before comments."""
    found: dict[str, Statement] = {}
    for statement in source.cached(_named):
        known = found.get(statement.package)
        if known is None or statement.source == INSTALL or known.source == COMMENT:
            found[statement.package] = statement
    return tuple(found.values())


def _named(source: Source) -> tuple[Statement, ...]:
    shell = source.notebook.masked.values() if source.notebook is not None else ()
    texts = (*((text, True) for text in _joined(shell)), *((text, False) for text in _hints(source.text)))
    return tuple(statement for text, is_shell in texts for statement in _in_line(text, is_shell=is_shell))


def _hints(text: str) -> Iterator[str]:
    """The lines of a text that may name a version, each once."""
    end = -1
    for found in _HINT.finditer(text):
        if found.start() > end:
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", start)
            end = end if end >= 0 else len(text)
            yield text[start:end]


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a shell, each with those that a backslash joins to it."""
    whole = ""
    for line in lines:
        whole += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield whole
            whole = ""
    if whole:
        yield whole


def _in_line(line: str, *, is_shell: bool) -> Iterator[Statement]:
    if len(line) > _LONGEST_LINE or not _HINT.search(line) or "uninstall" in line or _SHOWN.match(line):
        return
    is_comment = line.lstrip().startswith("#") or not (is_shell or _REQUIRES.search(line))
    if is_comment and _DOUBTS.search(line):
        return
    is_requirement = is_shell or _REQUIRES.search(line) or ("#" in line and _LIST_ITEM.match(line))
    for statement in requirements_in(line, COMMENT if is_comment else INSTALL):
        if is_requirement or _EXACT.match(statement.specifier):
            yield statement
