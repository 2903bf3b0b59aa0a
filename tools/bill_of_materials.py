"""The bill of materials: which packages an environment holds, under which licences, as CycloneDX 1.6 in JSON.

Written by cyclonedx-py, so that the same packages give the same bytes, and checked against its schema.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("lsp", "parquet", "watch")
"""What runs in lintrain's own environment; torch and its company are those of the script that is probed."""


def requirements() -> list[str]:
    """What lintrain asks for with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(each for extra in EXTRAS for each in project["optional-dependencies"][extra])]


def write_bill(environment: str, file: Path, writer: str = sys.executable) -> None:
    """Write the bill of an environment, told by its Python, with lintrain at the top; raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="lintrain-bill-") as folder:
        project = Path(folder) / "pyproject.toml"
        project.write_text(_described(), encoding="utf-8")
        how = (
            "--spec-version",
            "1.6",
            "--output-format",
            "JSON",
            "--output-reproducible",
            "--validate",
            "--short-PURLs",
        )
        words = ("environment", *how, "--mc-type", "application", "--pyproject", str(project))
        command = [writer, "-m", "cyclonedx_py", *words, "--output-file", str(file), environment]
        subprocess.run(command, check=True)


def _described() -> str:
    """What `pyproject.toml` says of lintrain, with the version and the dependencies of the extras filled in."""
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "lintrain" / "_version.py").read_text(), re.MULTILINE)
    assert version is not None
    asked = ", ".join(f'"{each}"' for each in requirements())
    return (
        f'[project]\nname = "lintrain"\nversion = "{version[1]}"\nlicense = "Apache-2.0"\n'
        f"description = {_description()!r}\ndependencies = [{asked}]\n"
    )


def _description() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["description"])
