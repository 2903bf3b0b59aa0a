"""What the README shows works: its commands, its configuration, its pictures, its exit codes."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import commands_python

pytestmark = pytest.mark.usefixtures("warm_command")

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def lintrain(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "COLUMNS": "200"}
    command = [commands_python(), "-m", "lintrain", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def shown_commands() -> list[str]:
    lines = re.findall(r"^    (lintrain [^#\n]+)|`(lintrain [^`]+)`", README, flags=re.MULTILINE)
    return sorted({(one or other).strip() for one, other in lines})


@pytest.mark.parametrize("command", shown_commands())
def test_a_command_takes_the_options_that_are_shown(command: str) -> None:
    name, *rest = shlex.split(command)[1:]
    text = lintrain(name, "--help").stdout
    options = rest[: rest.index("--")] if "--" in rest else rest
    assert f"lintrain {name}" in text
    assert [word for word in options if word.startswith("--") and word not in text] == []


def test_the_configuration_is_accepted_as_it_stands(tmp_path: Path) -> None:
    parts = re.split(r"^(?! {4}|$)", README, flags=re.MULTILINE)
    (block,) = [part for part in parts if "\n    [tool.lintrain]" in part]
    lines = [line.removeprefix("    ") for line in block.splitlines() if not line or line.startswith("    ")]
    (tmp_path / "pyproject.toml").write_text("\n".join(lines))
    (tmp_path / "train.py").write_text("import torch\n")
    done = lintrain("check", "--show-settings", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "third_party" in done.stdout


def test_the_pictures_show_rules_that_there_are() -> None:
    known = lintrain("rules").stdout
    for name in re.findall(r"\]\((docs/\w+\.svg)\)", README):
        shown = set(re.findall(r"(?:error|warning|note)\[([a-z-]+)\]", (ROOT / name).read_text()))
        assert shown, f"{name} shows no finding; draw it again: python -m tools.draw_picture"
        assert {rule for rule in shown if rule not in known} == set()


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []
