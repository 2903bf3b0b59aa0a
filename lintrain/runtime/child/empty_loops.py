"""A name without a value, because the loop that gives it one had nothing to iterate over."""

from __future__ import annotations

import ast
import re
from types import FrameType

from lintrain.runtime.child.given import parsed

UNBOUND = re.compile(r"'(\w+)'")
"""The name in Python's message; `UnboundLocalError.name` is None in Python 3.11."""


def is_of_empty_loop(error: BaseException, frame: FrameType | None, line: int) -> bool:
    """Whether an error at a line is about a name that a `for` above binds, itself or in its body."""
    named = UNBOUND.search(str(error)) if isinstance(error, NameError) else None
    tree = parsed(frame.f_code.co_filename) if named is not None and frame is not None else None
    if named is None or frame is None or tree is None:
        return False
    first = frame.f_code.co_firstlineno
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For) and first <= node.lineno < line]
    uses = [part for loop in loops for part in ast.walk(loop) if isinstance(part, ast.Name) and part.id == named[1]]
    # A name that a loop deletes is gone after each round of it.
    is_deleted = any(isinstance(part.ctx, ast.Del) for part in uses)
    return not is_deleted and any(isinstance(part.ctx, ast.Store) for part in uses)
