"""Attacks by the names of files."""

from __future__ import annotations

import os
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import lintrain


@attack("output-is-inert", cases={"workflow-command": b"a\n::add-mask::x\nb.py", "title": b"\x1b]0;owned\x07.py"})
def file_named(folder: Path, name: bytes) -> None:
    """A file name that a terminal or GitHub's runner would carry out."""
    Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text("import torch\nprint(nowhere)\n")
    for form in ("full", "github"):
        ended = lintrain(folder, "check", "--output-format", form)
        assert ended.code == 1, ended.text
        assert b"\x1b]0" not in ended.out + ended.errors
        assert b"\n::add-mask" not in ended.out + ended.errors
