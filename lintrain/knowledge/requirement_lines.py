"""A line that requires or installs packages: `pip install "transformers[torch]>=4.40,<5"`, `git+https://...`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lintrain.knowledge.tables import COVERED_PACKAGES
from lintrain.startup.lazy_pattern import lazy_pattern

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
