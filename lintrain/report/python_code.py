"""Python code that lintrain writes: formatted by ruff, with text from the user safely quoted."""

from __future__ import annotations

import subprocess

from lintrain.check.names.ruff import find_ruff
from lintrain.text.shown import shown

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


def literal(text: str) -> str:
    """A string literal of the text, in ASCII and in double quotes."""
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def in_docstring(text: str) -> str:
    """The text as a line of a docstring, which it cannot end."""
    return shown(text).replace("\\", "\\\\").replace('"', '\\"')
