"""Compares the tables with the packages installed beside this interpreter, offline."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from lintrain.knowledge import tables
from tools.api_tables.package_tree import PackageTree
from tools.api_tables.packages import Covered, snapshot
from tools.api_tables.tables import Snapshot


def differences_from_installed(covered: Covered) -> Iterator[str]:
    """Where the tables say otherwise than the installed version of a package; nothing where they do not cover it."""
    try:
        distribution = importlib.metadata.distribution(covered.package)
    except importlib.metadata.PackageNotFoundError:
        return
    version = tables.covered_version(covered.key, distribution.version)
    if version is None or not distribution.version.startswith(f"{version[0]}.{version[1]}."):
        return
    folder = Path(str(distribution.locate_file(covered.package)))
    now = snapshot(covered, distribution.version, PackageTree.of_file(covered.package, folder))
    location = tables.covered_versions(covered.key).index(version)
    yield from _other_signatures(covered.key, now, location)
    yield from _other_names(covered.key, now, location)


def _other_signatures(package: str, now: Snapshot, location: int) -> Iterator[str]:
    for name in sorted(tables.callable_names(package) | now.callables.keys()):
        history = tables.history_of(package, name)
        if (history[location] if history else None) != now.callables.get(name):
            yield f"{name}: the table has another signature"


def _other_names(package: str, now: Snapshot, location: int) -> Iterator[str]:
    for module, exported in now.modules.items():
        lives = tables.lives_of(package, module)
        listed = {name for name, spans in lives.items() if tables.holds(spans, location)}
        real = {name for name in exported.own if not name.startswith("_")}
        yield from (f"{module}.{name}: not in the table" for name in sorted(real - listed))
        yield from (f"{module}.{name}: only in the table" for name in sorted(listed - real - exported.foreign))
