"""Imports: the libraries that the reader knows by name; everything else is Unknown."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from lintrain.pipeline.flow import Flow
from lintrain.pipeline.pipeline import LibraryName
from lintrain.pipeline.values.python import Library, Unknown, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader
    from lintrain.pipeline.scope import Scope

LIBRARIES = frozenset(
    {
        "accelerate",
        "argparse",
        "collections",
        "copy",
        "dataclasses",
        "datasets",
        "enum",
        "evaluate",
        "functools",
        "itertools",
        "json",
        "keras",
        "lightning",
        "lightning_fabric",
        "logging",
        "math",
        "numpy",
        "operator",
        "optuna",
        "os",
        "pandas",
        "pathlib",
        "peft",
        "pickle",
        "pytorch_lightning",
        "random",
        "re",
        "scipy",
        "sentence_transformers",
        "setfit",
        "sklearn",
        "string",
        "sys",
        "tensorflow",
        "tf_keras",
        "time",
        "tokenizers",
        "torch",
        "torchaudio",
        "torchmetrics",
        "torchvision",
        "tqdm",
        "transformers",
        "trl",
        "types",
        "typing",
        "typing_extensions",
        "warnings",
    }
)
"""Top-level packages whose dotted names mean something to the reader."""

ALIASES = {
    "tensorflow.keras": "keras",
    "tensorflow.python.keras": "keras",
    "tf_keras": "keras",
    "pytorch_lightning": "lightning",
    "lightning.pytorch": "lightning",
}
"""Packages that go by several names: rules know the one on the right."""

FLAT = frozenset(
    {
        "accelerate",
        "datasets",
        "evaluate",
        "lightning",
        "peft",
        "setfit",
        "sentence_transformers",
        "transformers",
        "trl",
    }
)
"""Packages whose public names mean the same wherever inside them they were imported from."""


INNER_TORCH = re.compile(
    r"^(torch\.nn(?=\.modules\.)|torch\.optim(?!\.lr_scheduler|\.swa_utils)|torch\.utils\.data)\.[a-z_.]+\.([A-Z]\w*)"
)
"""The modules inside torch that its classes live in, as in `torch.optim.adamw.AdamW`."""


def canonical(path: str) -> str:
    """The one dotted name that the reader knows a library's thing by."""
    for alias, name in ALIASES.items():
        if path == alias or path.startswith(f"{alias}."):
            path = name + path[len(alias) :]
            break
    if path.startswith("torch."):
        return INNER_TORCH.sub(r"\1.\2", path)
    parts = path.split(".")
    if parts[0] in FLAT and len(parts) > 2:
        return _flattened(parts)
    return path


def _flattened(parts: list[str]) -> str:
    """`transformers.trainer.Trainer.train` as `transformers.Trainer.train`: only modules are all lower case."""
    for index, part in enumerate(parts[1:], start=1):
        if not part.islower():
            return ".".join([parts[0], *parts[index:]])
    return ".".join(parts)


def library(path: str) -> Value:
    """The library at a dotted path, or Unknown where it is none that the reader knows."""
    top = path.partition(".")[0]
    return Library(canonical(path)) if top in LIBRARIES else Unknown(name=path)


def execute_import(reader: Reader, node: ast.Import, scope: Scope) -> Flow:
    """`import a.b as c`."""
    for alias in node.names:
        if alias.asname:
            scope.bind(alias.asname, library(alias.name))
        else:
            top = alias.name.partition(".")[0]
            scope.bind(top, library(top))
    return Flow.ON


def execute_import_from(reader: Reader, node: ast.ImportFrom, scope: Scope) -> Flow:
    """`from a import b as c`; a relative import is one of the project's own modules."""
    module = node.module or ""
    for alias in node.names:
        bound = alias.asname or alias.name
        path = f"{module}.{alias.name}"
        scope.bind(bound, Unknown(name=path) if node.level else library(path))
        if not node.level and alias.name != "*":
            place = reader.source.place(alias)
            used = LibraryName(module, alias.name, place, reader.guards > 0, True, bound)
            reader.record.names.append(used)
    return Flow.ON
