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
"""Their names and arguments are judged in files that train nothing, too."""

LOOP_ACTS = frozenset({"DataLoader", "DistributedDataParallel", "backward", "optim", "zero_grad"})
FIT_ACTS = frozenset({"compile", "fit", "train_on_batch"})

TRAINING_ACTS = {
    "torch": LOOP_ACTS,
    "lightning": LOOP_ACTS | {"fit"},
    "pytorch_lightning": LOOP_ACTS | {"fit"},
    **dict.fromkeys(("keras", "tf_keras", "tensorflow"), FIT_ACTS),
    **dict.fromkeys(HUB_LIBRARIES, LOOP_ACTS | FIT_ACTS | {"get_peft_model"}),
}
"""Most files that import a library of the field train nothing: those do that name one of its acts, or a trainer."""

TRAINER = lazy_pattern(r"(?:Trainer|TrainingArguments)\Z")

CALL_AT_THE_MARGIN = lazy_pattern(r"\n[^\W\d][\w.]*\(")
"""What a script has and a module mostly has not."""


def runs_itself(source: Source) -> bool:
    """Whether a file does more than define things for others: a notebook, or what has the marks of a script."""
    if source.notebook is not None or "__main__" in source.text:
        return True
    return CALL_AT_THE_MARGIN.search("\n" + source.text) is not None


def may_train(source: Source) -> bool:
    """Whether the file imports a library of the field and names what it trains with, or what feeds that."""
    packages = imported_packages(source)
    acts = frozenset[str]().union(*(TRAINING_ACTS.get(package, frozenset()) for package in packages))
    if not acts:
        return False
    said = re.search(rf"\b(?:{'|'.join(sorted(acts))})\b|Trainer|TrainingArguments", source.text)
    return said is not None and any(name in acts or TRAINER.search(name) is not None for name in _names(source))


def imports_hub_library(source: Source) -> bool:
    """Whether the file imports a library whose names and arguments are judged wherever they are used."""
    return not HUB_LIBRARIES.isdisjoint(imported_packages(source))


def imported_packages(source: Source) -> frozenset[str]:
    """The top-level packages that are imported anywhere in the file, not relatively."""
    return source.told(_packages)


def _packages(source: Source) -> frozenset[str]:
    found = set[str]()
    for node in imports(source):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif not node.level:
            found.add((node.module or "").partition(".")[0])
    return frozenset(found)


def imports(source: Source) -> list[ast.Import | ast.ImportFrom]:
    """The statements that import something, anywhere in the file."""
    return source.told(_imports)


def _imports(source: Source) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in statements(source.tree.body) if isinstance(node, ast.Import | ast.ImportFrom)]


def _names(source: Source) -> Iterator[str]:
    for imported in source.nodes_of(ast.alias):
        yield from imported.name.split(".")
    for statement in source.nodes_of(ast.ImportFrom):
        yield from (statement.module or "").split(".")
    yield from (node.attr for node in source.nodes_of(ast.Attribute))
    yield from (node.id for node in source.nodes_of(ast.Name))
