"""Lines that go on in the next one without a bracket: no comment can end them."""

from __future__ import annotations

import io
import tokenize

STARTS = {getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name)}
ENDS = {getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)}
"""Since Python 3.12, strings with code in them are several tokens."""


def open_lines(text: str) -> frozenset[int]:
    """The lines, from 1, that end inside a string or with a backslash; the text is one that Python can parse."""
    found: set[int] = set()
    begun: list[int] = []
    end = (1, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A backslash at the end of a line is no token: the next one stands on a later line than this ended on.
        found.update(range(end[0], token.start[0]))
        if token.type in STARTS:
            begun.append(token.start[0])
        elif token.type in ENDS:
            found.update(range(begun.pop(), token.end[0]))
        elif token.type == tokenize.STRING:
            found.update(range(token.start[0], token.end[0]))
        ends_line = token.type in (tokenize.NEWLINE, tokenize.NL)
        end = (token.end[0] + 1, 0) if ends_line else token.end
    return frozenset(found)
