"""Exceptions that a statement builds, or a function returns, and that nothing raises: a check that ends no run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Set

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MAY_BUILD = lazy_pattern(r"(?m)^[^\n#=]*\b\w*(?:Error|Exception|Warning)\b")
"""A line that names an exception outside of an assignment or a comment."""

HANDS_OUT = lazy_pattern(r"isinstance\([^\n]*(?:Error|Exception)\b|\b\w*(?:Error|Exception)\b *\||type: ignore\[return")
"""Code that tests what it got for an exception, or says that it may return one."""

ABOUT_ERRORS = lazy_pattern(r"(?i)err|exc|fail|fault|invalid|problem|translate|convert")
"""Names of functions that are there to make exceptions."""

BUILT_IN = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
)


@dataclass(frozen=True, slots=True)
class Unraised:
    """An exception that is not raised: where, its code, the name of its class, and whether a function returns it.

    Of a returned one, `location` is the whole statement.
    """

    location: Location
    code: str
    name: str
    is_returned: bool = False

    @property
    def is_warning(self) -> bool:
        """Whether it is a warning, which is not raised."""
        return self.name.endswith("Warning")


def unraised(source: Source) -> Iterator[Unraised]:
    """The exceptions of a file that are built or named by a statement, or returned in place of a result."""
    if not source.contains(MAY_BUILD):
        return
    known = source.cached(_exceptions)
    # `try: FileNotFoundError` asks whether this Python has the name.
    asked = {id(statement) for node in source.nodes_of(ast.Try) for statement in node.body}
    for statement in source.nodes_of(ast.Expr):
        is_asked = isinstance(statement.value, ast.Name) and id(statement) in asked
        name = "" if is_asked else _name_of(statement.value, known)
        if name:
            location = source.location(statement.value)
            yield Unraised(location, source.code(location), name)
    if not source.contains(HANDS_OUT):
        for function in source.nodes_of(ast.FunctionDef):
            yield from _returned(source, function, known)


def _exceptions(source: Source) -> Set[str]:
    """The exceptions that a file may name: those of Python that it does not define again, and its own."""
    own = set[str]()
    for node in source.nodes_of(ast.ClassDef):
        above = {last_name(base) for base in node.bases}
        if any(name in BUILT_IN or name in own for name in above):
            own.add(node.name)
    defined = {node.name for node in source.nodes_of(ast.FunctionDef, ast.ClassDef)}
    return (BUILT_IN - defined) | own


def _name_of(node: ast.expr | None, known: Set[str]) -> str:
    """The class of an exception that an expression builds or names; empty for anything else."""
    built = node.func if isinstance(node, ast.Call) else node
    return built.id if isinstance(built, ast.Name) and built.id in known else ""


def _returned(source: Source, function: ast.FunctionDef, known: Set[str]) -> Iterator[Unraised]:
    """The exceptions with a text that a function returns where it else returns a result."""
    if ABOUT_ERRORS.search(function.name) or (function.returns is not None and "Err" in unparse(function.returns)):
        return
    returned = [node for node in own_nodes(function) if isinstance(node, ast.Return) and node.value is not None]
    names = [_name_of(node.value, known) for node in returned]
    if all(names):
        return  # a function that returns nothing else makes exceptions for others to raise
    for node, name in zip(returned, names, strict=True):
        if name and isinstance(node.value, ast.Call) and node.value.args and not name.endswith("Warning"):
            yield Unraised(source.location(node), source.code(source.location(node.value)), name, is_returned=True)
