"""Mistakes with loaders."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.mutants import injects


def shuffled(code: Code) -> Iterator[ast.Call]:
    """The loaders that shuffle."""
    for loader in code.calls("DataLoader"):
        shuffle = code.argument(loader, "shuffle")
        if shuffle and isinstance(shuffle.value, ast.Constant) and shuffle.value.value:
            yield loader


@injects("unshuffled-training-data", shows="inputs")
def forget_to_shuffle(code: Code) -> Iterator[list[Edit]]:
    """A training loader that reads the rows in order."""
    for loader in shuffled(code):
        if not any(word in code.text for word in (".shuffle(", "random_split", "permutation", "train_test_split")):
            yield [code.here(code.statement(loader)), code.here(loader), code.drop_argument(loader, "shuffle")]


@injects("shuffle-with-sampler", shows="error")
def sample_and_shuffle(code: Code) -> Iterator[list[Edit]]:
    """A sampler beside `shuffle=True`."""
    for loader in shuffled(code):
        rows = code.code(loader.args[0]) if loader.args else ""
        if "import torch\n" in code.text and rows:
            sampler = f"sampler=torch.utils.data.RandomSampler({rows})"
            yield [code.here(code.statement(loader)), code.here(loader), code.add_argument(loader, sampler)]
