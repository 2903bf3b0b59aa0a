"""The quick pass: whether a syntax tree can hold anything that a rule looks at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import cast

from lintrain.source.nodes import walk
from lintrain.source.source import Source

HUB_LIBRARIES = frozenset(
    {"accelerate", "datasets", "evaluate", "peft", "sentence_transformers", "setfit", "transformers", "trl"}
)
"""Importing one of these is enough: their names and arguments are judged wherever they are used."""

TRAINING_ACTS = {
    "torch": frozenset({"backward", "zero_grad", "optim", "DataLoader"}),
    "lightning": frozenset({"backward", "fit", "optim", "DataLoader"}),
    "pytorch_lightning": frozenset({"backward", "fit", "optim", "DataLoader"}),
    "keras": frozenset({"fit", "compile"}),
    "tf_keras": frozenset({"fit", "compile"}),
    "tensorflow": frozenset({"fit", "compile"}),
}
"""These are imported for many things; only with one of these names in the file can it train."""


RUNS = re.compile(r"__main__|^(?:[^\W\d][\w.]*)\(", re.MULTILINE)
"""What a script has and a module mostly has not: the guard around its main part, or a call at the margin."""


def runs_itself(source: Source) -> bool:
    """Whether a file does more than define things for others: a notebook, or what has the marks of a script."""
    return source.notebook is not None or RUNS.search(source.text) is not None


def may_train(tree: ast.Module) -> bool:
    """Whether the file imports a library of the field and, for the general ones, also names an act of training."""
    imported = set(_imported(tree))
    if imported & HUB_LIBRARIES:
        return True
    acts = frozenset[str]().union(*(TRAINING_ACTS.get(library, frozenset()) for library in imported))
    return bool(acts) and any(name in acts for name in _names(tree))


def _imported(tree: ast.Module) -> Iterator[str]:
    """The top-level packages that are imported anywhere in the file, not relatively."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement, however deep; expressions are not gone into."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner: object = getattr(node, block, None)  # a lambda's or conditional expression's body is no list
            if isinstance(inner, list):
                pending.extend(cast("list[ast.AST]", inner))


def _names(tree: ast.Module) -> Iterator[str]:
    for node in walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                yield name
            case ast.alias(name=path):
                yield from path.split(".")
            case ast.ImportFrom(module=str(path)):
                yield from path.split(".")
            case _:
                pass
