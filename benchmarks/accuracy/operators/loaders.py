"""Mistakes with loaders."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import names_in
from benchmarks.accuracy.mutants import injects


def shuffled(code: Code) -> Iterator[ast.Call]:
    """The loaders that shuffle."""
    for loader in code.calls("DataLoader"):
        shuffle = code.argument(loader, "shuffle")
        if shuffle and isinstance(shuffle.value, ast.Constant) and shuffle.value.value:
            yield loader


AT_RANDOM = (".shuffle(", "random_split", "permutation", "train_test_split", "torch.rand", ".normal(", "random.")
"""Words of scripts whose rows stand in a random order already, so that an order that is kept does no harm."""


@injects("unshuffled-training-data", shows="inputs")
def forget_to_shuffle(code: Code) -> Iterator[list[Edit]]:
    """A training loader that reads rows in order, epoch after epoch, that nobody drew or put at random."""
    for loader in shuffled(code):
        if not names_in(code, *AT_RANDOM) and not names_in(code, "max_epochs=1"):
            yield [code.here(code.statement(loader)), code.here(loader), code.drop_argument(loader, "shuffle")]


@injects("shuffle-with-sampler", shows="error")
def sample_and_shuffle(code: Code) -> Iterator[list[Edit]]:
    """A sampler beside `shuffle=True`."""
    for loader in shuffled(code):
        rows = code.code(loader.args[0]) if loader.args else ""
        if "import torch\n" in code.text and rows:
            sampler = f"sampler=torch.utils.data.RandomSampler({rows})"
            yield [code.here(code.statement(loader)), code.here(loader), code.add_argument(loader, sampler)]
