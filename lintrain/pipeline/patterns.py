"""The patterns of `match`: what they bind, and whether they take everything."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from lintrain.pipeline.values.python import UNKNOWN, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader
    from lintrain.pipeline.scope import Scope


def bind(reader: Reader, pattern: ast.pattern, subject: Value, scope: Scope) -> None:
    """Bind the names of a pattern: the whole subject where the pattern is a bare name, else Unknown."""
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name:
        scope.bind(pattern.name, subject)
        return
    for node in ast.walk(pattern):
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            scope.bind(node.name, UNKNOWN)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            scope.bind(node.rest, UNKNOWN)


def takes_all(case: ast.match_case) -> bool:
    """Whether a case matches whatever is left."""
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
