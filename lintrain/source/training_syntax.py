"""The quick pass: whether a syntax tree can contain anything that a rule checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.source.fragments import packages_lacking, packages_meant
from lintrain.source.nodes import statements, walk
from lintrain.source.pasted import is_pasted
from lintrain.source.source import Source, words
from lintrain.startup.lazy_pattern import lazy_pattern

HUB_LIBRARIES = frozenset(
    {"accelerate", "datasets", "evaluate", "peft", "sentence_transformers", "setfit", "transformers", "trl"}
)
"""Their names and arguments are judged in files that train nothing, too."""

LOOP_ACTS = frozenset({"DataLoader", "DistributedDataParallel", "backward", "optim", "zero_grad"})
FIT_ACTS = frozenset({"compile", "fit", "train_on_batch"})
GRAPH_ACTS = frozenset({"minimize", "apply_gradients"})

LIGHTNING_CLASSES = frozenset({"LightningCLI", "LightningDataModule", "LightningModule"})
"""A module of Lightning has its training step, and one of data its loaders, whichever file calls `fit`."""

TRAINING_ACTS = {
    "hydra": frozenset({"instantiate"}),
    "torch": LOOP_ACTS,
    **dict.fromkeys(("lightning", "pytorch_lightning"), LOOP_ACTS | {"fit", *LIGHTNING_CLASSES}),
    **dict.fromkeys(("keras", "tf_keras", "tensorflow"), FIT_ACTS | GRAPH_ACTS),
    **dict.fromkeys(HUB_LIBRARIES, LOOP_ACTS | FIT_ACTS | {"get_peft_model"}),
}
"""Most files that import such a library train nothing: only those do that name one of its acts, or a trainer."""

ANYWHERE = frozenset({"backward"})
"""What trains in a file that imports no library: it may receive the model as an argument."""

TRAINERS = ("Trainer", "TrainingArguments")
TRAINER = lazy_pattern(rf"(?:{'|'.join(TRAINERS)})\Z")

SHOWN_AT_THE_MARGIN = lazy_pattern(
    r"^(?!from |import |class |def )[^\s#@][^\n]*(?:\b(?:nn|F|functional)\.\w*(?:[Ll]oss|cross_entropy)\w*\("
    r"|\.(?:eval|load_state_dict|detach)\(|requires_grad=True|\.weight\.data\b|\.data = )",
    re.MULTILINE,
)
"""What short scripts show that train nothing: a loss, a model that is evaluated, or weights that are set."""

CALL_AT_THE_MARGIN = lazy_pattern(r"\n(?:[^\W\d][\w.]*\(|(?:for|while) )")
"""What a script usually has and a module does not: a call or a loop."""


def runs_itself(source: Source) -> bool:
    """Whether a file does more than define things for others: a notebook, or what has the marks of a script."""
    if source.notebook is not None or "__main__" in source.text:
        return True
    return CALL_AT_THE_MARGIN.search("\n" + source.text) is not None


def may_train(source: Source) -> bool:
    """Whether the file imports a library of training and names what it trains with, or what loads its data.

    A piece of a script that lacks its imports says what trains, or it would not be taken for one.
    """
    if is_pasted(source.text):
        return True
    acts = acts_of(source)
    if acts == ANYWHERE:
        return False
    if "torch" in imported_packages(source) and source.contains(SHOWN_AT_THE_MARGIN):
        return True
    may_name = not acts.isdisjoint(source.cached(words)) or any(word in source.text for word in TRAINERS)
    return may_name and any(is_act(name, acts) for name in _names(source))


def acts_of(source: Source) -> frozenset[str]:
    """The names of what trains, going by the libraries that a file imports."""
    return ANYWHERE.union(*(TRAINING_ACTS.get(package, ()) for package in imported_packages(source)))


def is_act(name: str, acts: frozenset[str]) -> bool:
    """Whether a name in a file is one of its acts of training, or that of a trainer."""
    return name in acts or (acts != ANYWHERE and TRAINER.search(name) is not None)


def imports_hub_library(source: Source) -> bool:
    """Whether the file imports a library whose names and arguments are judged wherever they are used."""
    return not HUB_LIBRARIES.isdisjoint(imported_packages(source))


def imported_packages(source: Source) -> frozenset[str]:
    """The top-level packages that are imported anywhere in the file, not relatively, or used without their import."""
    return source.cached(_packages)


def _packages(source: Source) -> frozenset[str]:
    found = set[str]()
    for node in imports(source):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif not node.level:
            found.add((node.module or "").partition(".")[0])
    if TRAINING_ACTS.keys().isdisjoint(found):
        found |= packages_lacking(source)
    return frozenset(found) | packages_meant(source)


def imports(source: Source) -> list[ast.Import | ast.ImportFrom]:
    """The statements that import something, anywhere in the file."""
    return source.cached(_imports)


def _imports(source: Source) -> list[ast.Import | ast.ImportFrom]:
    outside = [each for each in source.tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    return [*outside, *source.gathered(_imports_below)]


def _imports_below(statement: ast.stmt) -> list[ast.Import | ast.ImportFrom]:
    """The imports below a statement, without it: a tree has no circle."""
    found = (node for node in statements([statement]) if node is not statement)
    return [node for node in found if isinstance(node, ast.Import | ast.ImportFrom)]


def _names(source: Source) -> Iterator[str]:
    """The names in a file, and what it imports of libraries of training."""
    yield from frozenset[str]().union(*(source.once(_names_in, statement) for statement in source.tree.body))
    for node in imports(source):
        if isinstance(node, ast.ImportFrom):
            module = "" if node.level else node.module or ""
            if module.partition(".")[0] in TRAINING_ACTS:
                yield from module.split(".")
                yield from (alias.name for alias in node.names)
        else:
            for alias in node.names:
                if alias.name.partition(".")[0] in TRAINING_ACTS:
                    yield from alias.name.split(".")


def _names_in(statement: ast.stmt) -> frozenset[str]:
    return frozenset(words_in(statement))


def words_in(node: ast.AST) -> set[str]:
    """The names below a node, attributes among them."""
    found = set[str]()
    for each in walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.add(each.attr)
    return found
