"""The program of a script with another value in its text: Python starts this file, and it runs as `__main__`."""

from __future__ import annotations

import json
import linecache
import os
import sys
from typing import Any

from lintrain.runtime.child.going_on import Repaired, run_from_the_top


def run(document: dict[str, Any]) -> None:
    """Run the text as Python would start the script's file; raises whatever the script raises."""
    path, text = document["path"], document["text"]
    sys.path[0] = os.path.dirname(path)
    # without a time, `linecache` never asks the disk, where the text has the other value
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    lines = tuple(range(1, len(text.splitlines()) + 2))
    run_from_the_top(Repaired(path, text, lines, tuple(document["argv"]), os.getcwd()))


if __name__ == "__main__":
    PROGRAM = sys.modules["__main__"]  # kept alive: the names of this file go with its module
    with open(sys.argv[1], encoding="utf-8") as opened:
        DOCUMENT: dict[str, Any] = json.load(opened)
    run(DOCUMENT)
