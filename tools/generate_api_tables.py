"""Makes the tables of names and signatures in `lintrain/knowledge/tables` from the published packages.

    python -m tools.generate_api_tables [--packages FOLDER] [PACKAGE ...]     fetch with pip, read, write
    python -m tools.generate_api_tables --check [PACKAGE ...]                 compare with what is installed, offline

Packages are read as text and never imported. With `--packages`, fetched files stay in that folder for the next time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.api_tables.choices import choices_of, united
from tools.api_tables.comparison import differences_from_installed
from tools.api_tables.configurations import CONFIGURED, Configured, configured_snapshot
from tools.api_tables.package_tree import PackageTree
from tools.api_tables.packages import COVERED, Covered, snapshot
from tools.api_tables.published import fetch, last_patches
from tools.api_tables.removed_names import REMOVING, Removing, removed_snapshots, texts_of
from tools.api_tables.tables import Snapshot, names_table, signatures_table, written

NEWEST = 12
"""How many versions are read for the values that arguments may have: enumerations only grow."""

SHRINKING = ("trl",)
"""Packages whose releases also remove values: those of all versions are read."""

ALL = (*COVERED, *CONFIGURED, *REMOVING)

TABLES = Path(__file__).parent.parent / "lintrain" / "knowledge" / "tables"


def main() -> int:
    """The exit code: 1 when `--check` finds a difference."""
    parser = argparse.ArgumentParser(description="Makes the tables of names and signatures.")
    parser.add_argument("package", nargs="*", choices=[[], *(each.package for each in ALL)])
    parser.add_argument("--packages", type=Path, help="keep fetched packages in this folder")
    parser.add_argument("--check", action="store_true", help="compare the tables with the installed packages")
    options = parser.parse_args()
    chosen = [each for each in ALL if not options.package or each.package in options.package]
    if options.check:
        libraries = [each for each in chosen if isinstance(each, Covered)]
        differences = [line for covered in libraries for line in differences_from_installed(covered)]
        print("\n".join(differences) or "the tables agree with the installed packages")
        return 1 if differences else 0
    with tempfile.TemporaryDirectory() as passing:
        folder = options.packages or Path(passing)
        folder.mkdir(parents=True, exist_ok=True)
        for covered in chosen:
            versions = last_patches(covered.package, covered.since)
            if isinstance(covered, Removing):
                _write_tables(covered, _removed(covered, versions, folder))
                continue
            _write_tables(covered, [_read(covered, version, folder) for version in versions])
            read = versions if covered.package in SHRINKING else versions[-NEWEST:]
            _write_choices([_tree(covered, version, folder) for version in read])
    return 0


def _removed(removing: Removing, versions: Sequence[str], folder: Path) -> Sequence[Snapshot]:
    package = removing.package
    return removed_snapshots(package, [texts_of(package, each, fetch(package, each, folder)) for each in versions])


def _read(covered: Covered | Configured, version: str, folder: Path) -> Snapshot:
    print(f"reading {covered.package} {version}", file=sys.stderr)
    tree = _tree(covered, version, folder)
    if isinstance(covered, Covered):
        return snapshot(covered, version, tree)
    return configured_snapshot(covered, version, tree)


def _tree(covered: Covered | Configured, version: str, folder: Path) -> PackageTree:
    path = fetch(covered.package, version, folder)
    tree = PackageTree.of_file(covered.package, path)
    beside = covered.beside if isinstance(covered, Configured) else ""
    more = PackageTree.of_file(beside, path).sources if beside else {}
    return replace(tree, sources={**tree.sources, **more})


def _write_choices(trees: Sequence[PackageTree]) -> None:
    """Add the choices of these versions to the table of all."""
    path = TABLES / "choices.json"
    before = json.loads(path.read_text(encoding="utf-8"))["callables"] if path.exists() else {}
    found = united([each for tree in trees for each in choices_of(tree)], before)
    head = {"generated": "by tools/generate_api_tables.py; do not edit"}
    path.write_text(written({**head, "callables": found}), encoding="utf-8")


def _write_tables(covered: Covered | Configured | Removing, snapshots: Sequence[Snapshot]) -> None:
    TABLES.mkdir(exist_ok=True)
    for kind, table in (("names", names_table(snapshots)), ("signatures", signatures_table(snapshots))):
        (TABLES / f"{covered.key}.{kind}.json").write_text(written(table), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
