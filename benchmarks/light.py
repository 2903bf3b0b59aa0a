"""An environment that holds what a plain `pip install lintrain` brings, and nothing of torch or transformers."""

from __future__ import annotations

import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def make_light_environment(folder: Path, requirements: list[str]) -> Path:
    """Make it from links into this environment's packages, and give its Python: offline, in a fraction of a second."""
    venv.create(folder, with_pip=False, symlinks=True)
    binaries = folder / Path(sys.executable).parent.name
    packages = next(folder.glob("lib/python*/site-packages"))
    for needed in _closure(requirements):
        for entry in _top_entries(needed):
            link = packages / entry.name
            if not link.exists():
                link.symlink_to(entry)
    ruff = Path(sys.executable).parent / "ruff"
    if ruff.exists():
        (binaries / "ruff").symlink_to(ruff)
    return binaries / "python"


def _closure(requirements: list[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        if requirement.name.lower() in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[requirement.name.lower()] = distribution(requirement.name)
        waiting.extend(Requirement(text) for text in found[requirement.name.lower()].requires or ())
    return list(found.values())


def _top_entries(needed: Distribution) -> list[Path]:
    """The folders and modules of a distribution, as they lie in `site-packages`."""
    names = {file.parts[0] for file in needed.files or () if file.parts[0] != ".."}
    base = Path(str(needed.locate_file("")))
    return [base / name for name in sorted(names) if name != "__pycache__" and (base / name).exists()]
