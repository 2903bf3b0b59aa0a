"""The quick pass: whether a syntax tree can hold anything that a rule looks at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.core.lazy_pattern import lazy_pattern
from lintrain.source.nodes import statements
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


CALL_AT_THE_MARGIN = lazy_pattern(r"\n[^\W\d][\w.]*\(")
"""What a script has and a module mostly has not."""


def runs_itself(source: Source) -> bool:
    """Whether a file does more than define things for others: a notebook, or what has the marks of a script."""
    if source.notebook is not None or "__main__" in source.text:
        return True
    return CALL_AT_THE_MARGIN.search("\n" + source.text) is not None


def may_train(source: Source) -> bool:
    """Whether the file imports a library of the field and, for the general ones, also names an act of training."""
    imported = set(_imported(source.tree))
    if imported & HUB_LIBRARIES:
        return True
    acts = frozenset[str]().union(*(TRAINING_ACTS.get(library, frozenset()) for library in imported))
    is_said = acts and re.search(rf"\b(?:{'|'.join(sorted(acts))})\b", source.text)
    return bool(is_said) and any(name in acts for name in _names(source))


def _imported(tree: ast.Module) -> Iterator[str]:
    """The top-level packages that are imported anywhere in the file, not relatively."""
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def _names(source: Source) -> Iterator[str]:
    for imported in source.nodes_of(ast.alias):
        yield from imported.name.split(".")
    for statement in source.nodes_of(ast.ImportFrom):
        yield from (statement.module or "").split(".")
    yield from (node.attr for node in source.nodes_of(ast.Attribute))
    yield from (node.id for node in source.nodes_of(ast.Name))
