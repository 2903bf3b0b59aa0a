"""Python that lintrain writes, in the shape that ruff gives it."""

from __future__ import annotations

import subprocess

from lintrain.check.names.ruff import find_ruff

SORTED = ("check", "--fix-only", "--quiet", "--select", "I,F401,F811")
SHAPED = ("format", "--line-length", "100")


def formatted(text: str) -> str:
    """The text with its imports sorted, the needless ones left out, and formatted; as it is where there is no ruff."""
    program = find_ruff()
    for command in (SORTED, SHAPED) if program else ():
        words = [program or "", *command, "--isolated", "-"]
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        text = done.stdout if done.returncode == 0 and done.stdout else text
    return text
