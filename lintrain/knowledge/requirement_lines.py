"""Lines that require or install packages, in files, in code and in comments.

`pip install "transformers[torch]>=4.40,<5"` and `git+https://...`; `!pip install transformers==4.56.2` in a cell, also
on continued lines, behind variables or through another installer; `get_ipython().system("pip install ...")` and
`subprocess` calls; `# transformers==4.56.2` in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from lintrain.knowledge.tables import COVERED_PACKAGES
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.source.source import Source


PUBLISHED_AS = {"pytorch-lightning": "lightning", "pytorch_lightning": "lightning", "pytorch": "torch"}
"""Other names under which packages are published; `pytorch` is conda's."""

TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow_cpu", "tensorflow_gpu")
"""The packages whose version decides about `tf.keras`."""

_NAMES = "|".join(sorted((*COVERED_PACKAGES, *PUBLISHED_AS, *TENSORFLOWS), key=len, reverse=True))
_CLAUSE = r"(?:===?|[~!<>]=|[<>=])\s*v?\d[\w.*+!]*"
_PINNED = lazy_pattern(
    rf"(?<![\w./-])(?P<name>{_NAMES})(?:\[[^\]]*\])?\s*(?P<specifier>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)", re.IGNORECASE
)
_FROM_SOURCE = lazy_pattern(
    rf"git\+\S*/(?P<name>{_NAMES})(?:\.git)?(?:@(?P<tag>[\w.-]+))?(?=[@#\s\"',)]|$)", re.IGNORECASE
)
_FROM_WHEEL = lazy_pattern(rf"/(?P<name>{_NAMES})-(?P<version>\d+(?:\.\d+)+)[^/\s]*\.whl", re.IGNORECASE)
_NAMED = lazy_pattern(rf"(?<![\w./-])(?P<name>{_NAMES})(?=\s|$)", re.IGNORECASE)
_TAG = lazy_pattern(r"v?(\d+(?:\.\d+)+)$")


class Statement(NamedTuple):
    """The requirement of one source for a package: `specifier` as written there (`==4.46.3`, `>=4.40,<5`)."""

    package: str
    specifier: str
    source: str


def requirements_in(line: str, source: str) -> Iterator[Statement]:
    """The requirements in a line of a shell or of prose; an empty specifier for an install without a known version."""
    plain = line.replace('"', " ").replace("'", " ")
    for pinned in _PINNED.finditer(plain):
        yield Statement(package_named(pinned["name"]), pinned["specifier"].replace(" ", ""), source)
    for named in _NAMED.finditer(plain) if "--no-index" in line else ():
        yield Statement(package_named(named["name"]), "", source)  # from a folder of wheels, in any version
    yield from installs_by_address(plain, source)


def installs_by_address(line: str, source: str) -> Iterator[Statement]:
    """The packages that a line takes from a repository or a wheel; a tag or the wheel's name is their version."""
    for wheel in _FROM_WHEEL.finditer(line):
        yield Statement(package_named(wheel["name"]), f"=={wheel['version']}", source)
    for built in _FROM_SOURCE.finditer(line):
        tag = _TAG.match(built["tag"] or "")
        yield Statement(package_named(built["name"]), f"=={tag[1]}" if tag else "", source)


def package_named(name: str) -> str:
    """The package that is published under a name."""
    return PUBLISHED_AS.get(name.lower(), name.lower())


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
