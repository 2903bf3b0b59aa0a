"""No text names a package of ours in a public index: whoever takes the name there runs code on users' machines."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires

import pytest

from lintrain.cli._output import how_to_install
from tests.conftest import ROOT

PROGRAMS = "pip3?|pipx|uv|conda|mamba|micromamba|pixi|poetry|pdm|hatch|rye|npm|pnpm|yarn|brew|apt|apt-get|easy_install"
INSTALLS = re.compile(
    rf"\b(?:{PROGRAMS})(?:[ \t]+(?:-\S+|[a-z]+))*?[ \t]+(?:install|add|run|download|wheel|require)\b([^\n`]*)"
    r"|\b(?:uvx|npx|bunx|pipx[ \t]+run)[ \t]+(\S+)"
    r"|\badditional_dependencies:[ \t]*\[([^\]\n]*)\]"
    r"|\b(?:LINTRAIN_PACKAGE|package|default)[ \t]*[:=][ \t]*(\S+)[ \t]*$",
    re.MULTILINE,
)
"""What is installed: the arguments of a program that installs, and the values of settings for CI that say so."""

OURS = re.compile(r"^lintrain(?:\[[\w,.-]*\])?(?:[=<>!~;@].*)?$")
ARGUMENT = re.compile(r"""[^\s"'`,;()]+""")
EXTRA = re.compile(r"""(?<![\w./-])lintrain\[(?!tool)[a-z][\w,-]*\]""")
HELD_BACK = {"pyproject.toml", "tests/test_names_of_packages.py"}
"""pip takes `lintrain[quick]` in our own extras from the project itself."""


def texts() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    folders = ("lintrain/knowledge/tables/", "fixtures/", "benchmarks/", "tests/")
    wanted = [name for name in listed if name and not name.startswith(folders) and "package-lock" not in name]
    return [name for name in wanted if name not in HELD_BACK and (ROOT / name).suffix not in (".png", ".svg", ".ico")]


def traps(text: str) -> list[str]:
    """The lines of a text that let somebody install a package of our name from an index."""
    installed = (
        argument for groups in INSTALLS.findall(text) for each in groups for argument in ARGUMENT.findall(each)
    )
    return [*EXTRA.findall(text), *(argument for argument in installed if OURS.match(argument))]


@pytest.mark.parametrize(
    "text",
    [
        "pip install lintrain",
        "pip install 'lintrain[watch]'",
        "run `python -m pip install --upgrade lintrain==1.0`",
        "pip install -r requirements.txt lintrain",
        "uv tool install lintrain",
        "uvx lintrain check",
        "pipx run lintrain",
        "npx lintrain",
        "conda install -c conda-forge lintrain",
        "additional_dependencies: [lintrain]",
        'REQUIREMENT = "lintrain[lsp]"',
        "    LINTRAIN_PACKAGE: lintrain",
        "    default: lintrain",
    ],
)
def test_a_trap_is_noticed(text: str) -> None:
    assert traps(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install .",
        "pip install '.[probe]'",
        'pip install "git+https://github.com/OWNER/lintrain@v0.1.0"',
        "pip install lintrain-0.1.0-py3-none-any.whl",
        "pip install watchfiles",
        "pipx inject lintrain pygls",
        "pip uninstall lintrain",
        "add `[tool.lintrain]` to pyproject.toml",
        "`# lintrain: ignore[rule]` suppresses it; pip is not needed",
        "the action installs lintrain into its own environment",
    ],
)
def test_a_text_that_installs_from_elsewhere_is_fine(text: str) -> None:
    assert traps(text) == []


def test_no_text_names_a_package_of_ours_in_an_index() -> None:
    names = texts()
    assert {"README.md", "docs/install.md", "editors/vscode/src/extension.ts", "lintrain/cli/server.py"} <= {*names}
    found = {name: traps((ROOT / name).read_text(encoding="utf-8", errors="replace")) for name in names}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_missing_package_is_named_with_the_python_that_needs_it() -> None:
    asked = {each.partition(";")[0].strip() for each in requires("lintrain") or ()}
    (pygls,) = [each for each in asked if each.startswith("pygls") and "==" not in each]
    assert how_to_install("pygls") == f"`{sys.executable} -m pip install '{pygls}'`"
    assert how_to_install("watchfiles").startswith(f"`{sys.executable} -m pip install 'watchfiles")
    assert how_to_install("nothing_of_ours") == f"`{sys.executable} -m pip install nothing_of_ours`"
