"""What a notebook installs for itself: `!pip install transformers==4.56.2` in one of its cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lintrain.knowledge.statements import Statement
from lintrain.knowledge.tables import COVERED_PACKAGES
from lintrain.knowledge.versions import TargetVersions, decided
from lintrain.startup.lazy_pattern import lazy_pattern

_INSTALL = lazy_pattern(r"\s*[!%]?\s*(?:uv\s+)?(?:pip3?|mamba|conda)\s+install\b(?P<rest>.*)")
_NAMES = "|".join(COVERED_PACKAGES)
_PINNED = lazy_pattern(rf"(?<![\w./-])({_NAMES})(?:\[[^\]]*\])?\s*((?:[=<>!~]=?=?\s*[\w.*+!]+,?)+)", re.IGNORECASE)
_FROM_SOURCE = lazy_pattern(rf"git\+\S*/({_NAMES})(?:\.git)?(?=[@#\s\"']|$)", re.IGNORECASE)


def with_installs(targets: TargetVersions, lines: Iterable[str]) -> TargetVersions:
    """The targets of a notebook: its installs override those of the project, and settings override both.

    A package that is installed from its repository is of no published version, and has no target.
    """
    decisions = dict(targets.targets)
    for statement in installs_in(lines):
        known = decisions.get(statement.package)
        if known is not None and known.source.startswith("settings"):
            continue
        target = decided(statement.package, [statement]) if statement.specifier else None
        if target is None:
            decisions.pop(statement.package, None)
        else:
            decisions[statement.package] = target
    return replace(targets, targets=decisions)


def installs_in(lines: Iterable[str]) -> Iterator[Statement]:
    """The versions that lines of a notebook install; an empty specifier for one that comes from a repository."""
    for line in lines:
        if found := _INSTALL.match(line):
            wanted = found["rest"].replace('"', " ").replace("'", " ")
            for pinned in _PINNED.finditer(wanted):
                yield Statement(pinned[1].lower(), pinned[2].strip(","), "an install in this notebook")
            for built in _FROM_SOURCE.finditer(wanted):
                yield Statement(built[1].lower(), "", "an install in this notebook")
