"""The process that reads installed packages: one request a line on standard input, one answer a line on the output.

A request is a folder, the name of a package in it, and dotted names; the answer has what is known about each name, and
the files that were read. It imports nothing of the package, and its memory and its time are limited.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from typing import Any

from astroid import nodes

from lintrain.installed.classes import Classes
from lintrain.installed.definitions import MISSING, Definitions, Foreign, Found
from lintrain.installed.facts import Facts
from lintrain.installed.signatures import is_harmless, parameters_of
from lintrain.installed.trees import Package

MOST_MEMORY = 2**30
"""Bytes of address space; the trees of the limits of `trees.py` take about 300 MB."""

MOST_SECONDS = 30
"""CPU time of the process, for all requests together."""

DEEPEST = 3_000
"""Levels of recursion: trees are as deep as the code is nested."""


def answer(folder: str, name: str, paths: Sequence[str]) -> dict[str, Any]:
    """What is known about some names of a package."""
    package = Package(folder, name)
    definitions = Definitions(package)
    classes = Classes(definitions)
    facts = {path: _facts(definitions, classes, path).as_plain() for path in paths}
    return {"facts": facts, "files": [[file, *stamp] for file, stamp in package.files.items()]}


def _facts(definitions: Definitions, classes: Classes, path: str) -> Facts:
    try:
        found = definitions.at(path)
        match found:
            case Found(node=nodes.ClassDef() as node):
                return classes.facts(found, node)
            case Found(node=nodes.FunctionDef() as node, module=module):
                items = parameters_of(node).items if is_harmless(node) else None
                return Facts("function", f"{module}.{node.name}", items)
            case Foreign(path=elsewhere):
                return Facts("other", elsewhere)
            case _:
                return Facts("missing" if found is MISSING else "unknown")
    except Exception:  # noqa: BLE001 - of code that astroid fails on nothing is known
        return Facts("unknown")


def limit_itself() -> None:
    """Set the limits of this process, where the system has them."""
    sys.setrecursionlimit(DEEPEST)
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main() -> None:
    """Answer until the input ends."""
    limit_itself()
    gc.disable()  # trees are large, refer to their parents, and end with the process
    for line in sys.stdin.buffer:
        folder, name, paths = json.loads(line)
        print(json.dumps(answer(folder, name, paths)), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
