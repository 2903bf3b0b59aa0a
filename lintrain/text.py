"""Untrusted text made safe for a terminal, a log and an editor: paths, settings, messages, code, names of branches.

A file name may contain any character but a slash. Printed unchanged, an escape sequence in it controls the terminal, a
line break starts a line that a CI runner may execute as a command, and a bidirectional mark reverses the visible text.
`shown` writes such characters as their Python escapes. `for_terminal` is the second line of defence: all text that
lintrain prints passes it, and of the control characters only line breaks, tabs and the styles of `trusted` text remain.

Quantities as people write and read them: `24GiB` as bytes, bytes as `1.5 GiB`, seconds as `12 ms`.

Values for strict JSON.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import cast

from lintrain.startup.lazy_pattern import lazy_pattern

HIDDEN = (
    "\x7f-\x9f"  # DEL and the C1 controls, among them a one-character CSI
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u206f"  # line separators and bidirectional marks
    "\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible characters
    "\ud800-\udfff"  # bytes of a file name that are not UTF-8, and halves of surrogate pairs
)
HIDDEN_PATTERN = lazy_pattern(f"[{HIDDEN}]")
CONTROLS = lazy_pattern(f"[\x00-\x1f{HIDDEN}]")
CONTROLS_BUT_BREAKS = lazy_pattern(f"[\x00-\x08\x0b-\x1f{HIDDEN}]")

STYLE = f"\x1b{os.urandom(8).hex()}"
"""Replaces the escape character in our styles; untrusted text cannot contain it, since it differs in each process."""

COMMAND = lazy_pattern(r"^((?:\x1b[0-9a-f]{16}\[[0-9;]*m|[^\S\n])*):(?=:)|#(?=#(?:vso)?\[)", re.MULTILINE)
"""What a CI runner executes: GitHub's `::` at the start of a line, `##[` and Azure's `##vso[` anywhere."""

UNDECODED = range(0xDC80, 0xDD00)
"""The surrogates for bytes of a file name that are not UTF-8."""


def shown(text: str) -> str:
    """A text on one line, with every control, bidirectional and invisible character as its Python escape."""
    if text.isascii() and text.isprintable():
        return text
    return CONTROLS.sub(_escape, text)


def inert(text: str) -> str:
    """A text of several lines, with every such character but line breaks and tabs as its Python escape."""
    return CONTROLS_BUT_BREAKS.sub(_escape, text)


def trusted(text: str) -> str:
    """A text of ours whose escape sequences `for_terminal` keeps."""
    return text.replace("\x1b", STYLE)


def for_terminal(text: str) -> str:
    """A text that is safe to print: without commands, and without escape sequences except those of `trusted` text."""
    return "\x1b".join(inert(part) for part in without_commands(text).split(STYLE))


def without_commands(text: str) -> str:
    """A text without commands for CI runners."""
    if "::" not in text and "##" not in text:
        return text
    return COMMAND.sub(lambda found: "\\x23" if found[1] is None else f"{found[1]}\\x3a", text)


def escaped_json(text: str) -> str:
    """Equivalent JSON with control characters as JSON escapes."""
    return text if text.isascii() and "\x7f" not in text else HIDDEN_PATTERN.sub(_json_escape, text)


def escaped_xml(text: str) -> str:
    """Equivalent XML with control characters as references, or as U+FFFD if XML does not allow them."""
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


UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
PATTERN = lazy_pattern(r"(\d+(?:\.\d+)?)\s*(?=[KMGTB])([KMGT]?)(i?)(B?)", re.IGNORECASE)


def read_size(text: str) -> int | None:
    """The bytes of a size like `24GiB`, `80GB` or `24G` (powers of 1,024); None for anything else, also for
    a number without a unit."""
    found = PATTERN.fullmatch(text.strip())
    if found is None:
        return None
    number, unit, is_binary, in_bytes = found.groups()
    units = DECIMAL if in_bytes and not is_binary else UNITS
    return int(float(number) * units[unit.upper()]) or None


def show_size(size: float) -> str:
    """Bytes in the largest fitting unit, with three significant digits."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        whole = size / UNITS[unit[0]]
        if whole >= 1:
            return f"{whole:.0f} {unit}" if whole >= 100 else f"{whole:.3g} {unit}"
    return f"{size:.0f} bytes"


def duration(seconds: float) -> str:
    """Seconds with three significant digits, in s or ms."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def times(count: int) -> str:
    """How often: `never`, `once`, `3 times`."""
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def rounded(number: float) -> str:
    """A number with three significant digits, or a whole number from 1,000 on."""
    if number < 1000 or not math.isfinite(number):
        return show_number(number, ".3g")
    return f"{number:,.0f}"


LONGEST_NUMBER = 10_000
"""From here on, digits after the point, and most digits before it, mean nothing to a reader."""


def show_number(number: float, form: str = ".3f") -> str:
    """A measured number in a format such as `.3f`: `NaN` and `infinity` by name, large ones with three digits."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "infinity" if number > 0 else "-infinity"
    return format(number, form if abs(number) < LONGEST_NUMBER else ".3g")


def show_share(share: float) -> str:
    """A share in percent; from ten times the whole on, as a multiple: `12%`, `7e+12 times`."""
    if not math.isfinite(share):
        return show_number(share)
    return f"{share:.0%}" if share < 10 else f"{share:.3g} times"


def plain(value: object) -> object:
    """A value with non-finite numbers as strings, as strict JSON requires."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {str(name): plain(inner) for name, inner in entries.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in cast("list[object]", value)]
    return value
