"""Which minor versions a version specifier allows: `>=4.40,<5`, `~=4.46.1`, `==4.*`, and poetry's `^4.40` and `~4.40`.

Written here rather than taken from `packaging`: a minor version is allowed as soon as one of its patches is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lintrain.knowledge.target import Version
from lintrain.startup.lazy_pattern import lazy_pattern

_CLAUSE = lazy_pattern(r"(===|==|!=|~=|>=|<=|>|<|\^|~|=)?\s*v?(\d+(?:\.\d+)*)(\.\*)?")


def allowed_versions(specifier: str, versions: Iterable[Version]) -> tuple[Version, ...]:
    """Those of the versions that every clause of the specifier allows; all of them where it has no clause."""
    clauses = [found for part in specifier.split(",") if (found := _CLAUSE.match(part.strip())) is not None]
    return tuple(version for version in versions if all(_allows(clause, version) for clause in clauses))


def lowest_version(specifier: str) -> str | None:
    """The version that a specifier starts from or pins; None where it only has an upper bound."""
    found = (_CLAUSE.match(part.strip()) for part in specifier.split(","))
    return next((each[2] for each in found if each is not None and each[1] not in ("<", "<=", "!=")), None)


def _allows(clause: re.Match[str], version: Version) -> bool:
    release = tuple(map(int, clause[2].split(".")))
    start = (release[0], release[1] if len(release) > 1 else 0)
    match clause[1] or "==":
        case ">=" | ">":
            return version >= start
        case "<":
            return version < start or (version == start and any(release[2:]))
        case "<=":
            return version <= start
        case "!=":
            return not (clause[3] and version[: len(release)] == release[:2])
        case "~=":
            return version == start if len(release) > 2 else version >= start and version[0] == start[0]
        case "^":
            return version >= start and (version[0] == start[0] if start[0] else version == start)
        case "~":
            return version == start if len(release) > 1 else version[0] == start[0]
        case _:
            return version[0] == start[0] if clause[3] and len(release) == 1 else version == start
