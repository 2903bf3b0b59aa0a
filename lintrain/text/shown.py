"""Foreign text as a terminal, a log and an editor may show it: paths, settings, messages, code, names of branches.

A file name may hold any character but a slash. Printed as it is, an escape sequence in it steers the terminal, a line
break starts a line that a CI runner may carry out as a command, and a bidirectional mark reverses what the reader sees.
`shown` writes such characters as their Python escapes. `for_terminal` is the wall behind it: all text that lintrain
prints for people passes it, and of the control characters only line breaks, tabs and the styles of `trusted` text come
through.
"""

from __future__ import annotations

import os
import re

from lintrain.startup.lazy_pattern import lazy_pattern

HIDDEN = (
    "\x7f-\x9f"  # DEL and the C1 controls, among them a one-character CSI
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u206f"  # line separators and bidirectional marks
    "\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # characters without a picture
    "\ud800-\udfff"  # bytes of a file name that are no UTF-8, and halves of characters
)
HIDDEN_PATTERN = lazy_pattern(f"[{HIDDEN}]")
CONTROLS = lazy_pattern(f"[\x00-\x1f{HIDDEN}]")
CONTROLS_BUT_BREAKS = lazy_pattern(f"[\x00-\x08\x0b-\x1f{HIDDEN}]")

STYLE = f"\x1b{os.urandom(8).hex()}"
"""Stands for the escape character in styles of ours; foreign text cannot hold it, for it differs in each process."""

COMMAND = lazy_pattern(r"^((?:\x1b[0-9a-f]{16}\[[0-9;]*m|[^\S\n])*):(?=:)|#(?=#(?:vso)?\[)", re.MULTILINE)
"""What a runner takes for a command: GitHub's `::` at the start of a line, `##[` and Azure's `##vso[` anywhere."""

UNDECODED = range(0xDC80, 0xDD00)
"""The surrogates that stand for the bytes of a file name which are no UTF-8."""


def shown(text: str) -> str:
    """A text on one line, with every control, bidirectional and invisible character as its Python escape."""
    if text.isascii() and text.isprintable():
        return text
    return CONTROLS.sub(_escape, text)


def inert(text: str) -> str:
    """A text of several lines, with every such character but line breaks and tabs as its Python escape."""
    return CONTROLS_BUT_BREAKS.sub(_escape, text)


def trusted(text: str) -> str:
    """A text of our own whose escape sequences `for_terminal` lets pass."""
    return text.replace("\x1b", STYLE)


def for_terminal(text: str) -> str:
    """A text as it may be printed: without commands, and without escape sequences but those of `trusted` text."""
    return "\x1b".join(inert(part) for part in without_commands(text).split(STYLE))


def without_commands(text: str) -> str:
    """A text in whose lines no CI runner finds a command."""
    if "::" not in text and "##" not in text:
        return text
    return COMMAND.sub(lambda found: "\\x23" if found[1] is None else f"{found[1]}\\x3a", text)


def escaped_json(text: str) -> str:
    """JSON that says the same, with the characters that a terminal would obey as JSON's own escapes."""
    return text if text.isascii() and "\x7f" not in text else HIDDEN_PATTERN.sub(_json_escape, text)


def escaped_xml(text: str) -> str:
    """XML that says the same, with such characters as references; those that no XML holds as U+FFFD."""
    return text if text.isascii() and "\x7f" not in text else HIDDEN_PATTERN.sub(_xml_reference, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in UNDECODED:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _xml_reference(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\ufffd" if 0xD800 <= code < 0xE000 else f"&#x{code:x};"
