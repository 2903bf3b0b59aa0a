"""Foreign text in Python code that lintrain writes: a name of a file or of a tensor stays text there."""

from __future__ import annotations

from lintrain.text.shown import shown


def literal(text: str) -> str:
    """A string literal of the text, in ASCII and in double quotes."""
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def in_docstring(text: str) -> str:
    """The text as a line of a docstring, which it cannot end."""
    return shown(text).replace("\\", "\\\\").replace('"', '\\"')
