"""What lintrain stands on and what is published: bounds, licences, the bill of materials, the same bytes twice."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any, cast

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import ExpressionError, get_spdx_licensing  # type: ignore[import-untyped]  # it ships no types
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lintrain
from tools.bill_of_materials import requirements, write_bill
from tools.dev import LOWEST

ROOT = Path(__file__).parent.parent

COMPATIBLE = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PSF-2.0", "Unlicense", "Zlib"),
    "MPL-2.0",  # asks for its own files alone, and none of them is in the wheel
}
"""Licences of packages that a work under Apache-2.0 may be installed with and import."""

CLASSIFIED = {
    "MIT License": "MIT",
    "BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
LICENCES = get_spdx_licensing()
APART = {"astroid": "LGPL-2.1-or-later"}
"""Used as it is published, in a process of its own."""


def brought() -> Mapping[str, Distribution]:
    """The packages that lintrain brings, and that those bring, by name."""
    found: dict[str, Distribution] = {}
    asked = [Requirement(each) for each in requirements()]
    while asked:
        requirement = asked.pop()
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[name] = distribution(name)
            asked += map(Requirement, found[name].requires or ())
    return found


def licence(package: Distribution) -> str:
    """What a package says that it is licensed under: an expression, else its classifiers, else its own words."""
    told = cast(Message, package.metadata)  # which it is; its own type has no `get`
    classified = [
        line.rpartition(" :: ")[2] for line in told.get_all("Classifier") or () if line.startswith("License ::")
    ]
    known = [CLASSIFIED.get(name, name) for name in classified]
    return told.get("License-Expression") or " AND ".join(known) or told.get("License") or "not told"


def is_compatible(expression: str) -> bool:
    """Whether every `AND` of an expression, and of every `OR` one side, is a licence that we may depend on."""
    try:
        parsed: Any = LICENCES.parse(expression, validate=True)  # it has no types
    except ExpressionError:
        return False
    terms = {symbol: LICENCES.TRUE if str(symbol) in COMPATIBLE else LICENCES.FALSE for symbol in parsed.symbols}
    return bool(parsed.subs(terms, simplify=True) == LICENCES.TRUE)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT AND (BSD-3-Clause OR GPL-2.0-only)", True),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("as you like", False),
        ("not told", False),
    ],
)
def test_a_licence_is_judged_by_its_expression(expression: str, expected: bool) -> None:
    assert is_compatible(expression) is expected


@pytest.mark.libraries
def test_every_package_that_lintrain_brings_has_a_compatible_licence() -> None:
    told = {name: licence(package) for name, package in brought().items()}
    assert {"click", "pydantic-core", "attrs", "pyarrow"} <= {*told}
    assert {name: each for name, each in told.items() if not is_compatible(each)} == APART


def test_every_dependency_has_a_tested_lower_bound_and_what_the_page_says() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = {cells[0].strip("` "): cells[1].strip("` ") for cells in _rows(page) if len(cells) > 2}
    asked = {requirement.name: requirement.specifier for requirement in map(Requirement, requirements())}
    assert {name: {*map(str, asked[name])} for name in asked} == {
        name: {*bounds.replace(" ", "").split(",")} for name, bounds in rows.items() if name in asked
    }
    assert [name for name, bounds in asked.items() if not any(each.operator == ">=" for each in bounds)] == []


def _rows(page: str) -> Iterator[list[str]]:
    for line in page.splitlines():
        if line.startswith("| `"):
            yield line.strip("|").split("|")


def environment_of(packages: Iterable[Distribution], folder: Path) -> str:
    """The Python of an environment that knows these packages: of each what it tells of itself, and no code."""
    venv.create(folder, with_pip=False)
    (site,) = folder.rglob("site-packages")
    for package in packages:
        for file in package.files or ():
            if file.parts[0].endswith(".dist-info"):
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), site / file)
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


@pytest.mark.slow
def test_the_bill_of_materials_fits_its_schema_and_is_the_same_twice(tmp_path: Path) -> None:
    environment = environment_of(brought().values(), tmp_path / "environment")
    for name in ("first.json", "second.json"):
        write_bill(environment, tmp_path / name)
    text = (tmp_path / "first.json").read_text()
    assert text == (tmp_path / "second.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    top = bill["metadata"]["component"]
    assert (bill["specVersion"], top["name"], top["version"]) == ("1.6", "lintrain", lintrain.__version__)
    needed = next(each["dependsOn"] for each in bill["dependencies"] if each["ref"] == top["bom-ref"])
    assert {canonicalize_name(ref.partition("==")[0]) for ref in needed} == {
        canonicalize_name(Requirement(each).name) for each in requirements()
    }
    listed = {canonicalize_name(each["name"]): each["version"] for each in bill["components"]}
    assert listed == {name: each.version for name, each in brought().items()}
    assert str(tmp_path) not in text


def build(source: Path, out: Path, kind: str, mask: int, **variables: str) -> Path:
    """A package built from a folder by a process of its own."""
    bare = {"PATH": os.environ["PATH"], "HOME": str(out.parent), **variables}
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(out)]
    subprocess.run(command, cwd=source, env=bare, check=True, capture_output=True, umask=mask)
    (made,) = (path for path in out.iterdir() if path.name.endswith(".whl" if kind == "wheel" else ".tar.gz"))
    return made


def copy_of_project(folder: Path, moment: int, mode: int) -> Path:
    """The files that git knows, as another machine would have them."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if name.startswith(("lintrain/", "rules/", "docs/")) or "/" not in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
            (folder / name).chmod(mode)
            os.utime(folder / name, (moment, moment))
    return folder


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_wheel_and_archive_have_the_same_bytes_wherever_and_whenever_they_are_built(tmp_path: Path) -> None:
    here = copy_of_project(tmp_path / "here", 1_000_000_000, 0o644)
    there = copy_of_project(tmp_path / "a folder" / "elsewhere", 1_700_000_000, 0o664)
    once = {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"}
    again = {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "2"}
    archives = [
        build(here, tmp_path / "s1", "sdist", 0o022, **once),
        build(there, tmp_path / "s2", "sdist", 0o077, **again),
    ]
    wheels = [
        build(here, tmp_path / "w1", "wheel", 0o022, **once),
        build(there, tmp_path / "w2", "wheel", 0o077, **again),
    ]
    with tarfile.open(archives[0]) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wheels.append(build(unpacked, tmp_path / "w3", "wheel", 0o002, **again))
    with zipfile.ZipFile(wheels[0]) as wheel:
        assert len(wheel.namelist()) > 300
    assert len({digest(path) for path in archives}) == 1
    assert len({digest(path) for path in wheels}) == 1


@pytest.mark.libraries
def test_the_wheel_is_built_by_the_version_that_the_tests_use() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = {
        extra: {each for each in extras[extra] if each.startswith(("hatchling", "cyclonedx"))} for extra in extras
    }
    assert "lintrain[quick]" in extras["test"]
    assert pinned["release"] == pinned["quick"]
    assert len(pinned["release"]) == 2


@pytest.mark.parametrize("name", LOWEST)
def test_what_runs_on_the_lowest_versions_is_there(name: str) -> None:
    assert [*(ROOT / "tests").glob(name)]
