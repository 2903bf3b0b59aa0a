"""What the text of a script and of its modules says anywhere, where a rule asks for less than the reader knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.pipeline.pipeline import Pipeline

LAUNCHERS = frozenset({"accelerate.Accelerator", "lightning.Fabric", "lightning_fabric.Fabric"})


def mentions(pipeline: Pipeline, pattern: str) -> bool:
    """Whether the script, or a module that was read for it, has text that a regular expression finds."""
    return any(re.search(pattern, source.text) for source in pipeline.sources.values())


def every_node(pipeline: Pipeline) -> Iterator[ast.AST]:
    """All nodes of the script and of the modules that were read for it."""
    for source in pipeline.sources.values():
        yield from ast.walk(source.tree)


def runs_by_launcher(pipeline: Pipeline) -> bool:
    """Whether Accelerate or Fabric prepares the script's objects."""
    return any(call.path in LAUNCHERS or call.path.endswith(".Fabric") for call in pipeline.calls)
