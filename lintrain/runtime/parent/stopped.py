"""What a probe did not send, as lines of its report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lintrain.runtime.sandbox.network.gate import FILE
from lintrain.source.plain_files import read_start

NAMED = 12
LARGEST_FILE = 2**20
LONGEST = 160


def notes_of_stopped(temporary: Path, refused: Iterable[str]) -> tuple[str, ...]:
    """One line for each request, with its number; `refused` is what the kernel stopped."""
    counts = Counter([*_written(temporary / FILE), *refused])
    lines = [
        f"not sent: {what if '`' in what else f'`{what}`'}{f', {count} times' if count > 1 else ''}"
        for what, count in counts.most_common(NAMED)
    ]
    return (*lines, f"not sent: {len(counts) - NAMED} other requests") if len(counts) > NAMED else tuple(lines)


def _written(file: Path) -> list[str]:
    """What the script's processes recorded; anything else in the file is ignored."""
    try:
        lines = read_start(file, LARGEST_FILE).splitlines()
    except OSError:
        return []
    found = list[str]()
    for line in lines:
        with suppress(ValueError, RecursionError):
            what = json.loads(line)
            if isinstance(what, str):
                found.append("".join(one if one.isprintable() else "?" for one in what[:LONGEST]))
    return found
