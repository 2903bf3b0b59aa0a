"""Which version of Keras comes with a version of TensorFlow: up to 2.15 the same number, from 2.16 on Keras 3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lintrain.knowledge.requirement_lines import TENSORFLOWS, Statement
from lintrain.startup.lazy_pattern import lazy_pattern

_CLAUSE = lazy_pattern(r"\s*(===|==|!=|~=|>=|<=|>|<|\^|~|=)?\s*v?(\d+)(?:\.(\d+))?")
_FIRST_WITH_KERAS_3 = (2, 16)


def with_keras(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The statements, with those about TensorFlow as statements about the Keras that it contains."""
    for statement in statements:
        if statement.package not in TENSORFLOWS:
            yield statement
        elif specifier := ",".join(_clauses(statement.specifier)):
            yield Statement("keras", specifier, statement.source)


def _clauses(specifier: str) -> Iterator[str]:
    for clause in specifier.split(","):
        found = _CLAUSE.match(clause)
        if found is None:
            continue
        version = int(found[2]), int(found[3] or 0)
        is_bound = found[1] in ("<", "<=", "!=")
        if version < _FIRST_WITH_KERAS_3:
            yield clause.strip()
        elif not is_bound:
            yield ">=3.0"
        elif version == _FIRST_WITH_KERAS_3 and found[1] == "<":
            yield "<3.0"
