"""What a check leaves behind is freed at once, without the collector, which would look through whole trees for it."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from lintrain.check.one_file import Reading, check_source
from lintrain.knowledge.versions import TargetVersions
from lintrain.rulebook import find_rules
from lintrain.server.checking import OutdatedError
from lintrain.source.project import TREES, Project
from lintrain.source.reading import read_file

MODULE = """\
    import torch


    def loss_of(output):
        return output.mean()


    class Net(torch.nn.Module):
        def forward(self, batch):
            return loss_of(batch)
    """

SCRIPT = """\
    import torch

    from net import Net


    class Trainer:
        def __init__(self, model):
            self.model = model

        def fit(self, optimizer, batches):
            def closure():
                return step(self.model)

            for batch in batches:
                self.model(batch).backward()
                optimizer.step(closure)


    def step(model):
        return sorted(model.parameters(), key=lambda each: each.numel())


    model = Net()
    Trainer(model).fit(torch.optim.SGD(model.parameters(), lr=0.1), [])
    """


OWN = "_of_circles"
"""Ends the names of these two files: a thread that another test left may read scripts of its own in this process."""

NAMES = re.compile(r"(?<!\.)\b(loss_of|output|batch|batches|Net|Trainer|optimizer|closure|step|each)\b")


@pytest.fixture
def collector_off() -> Iterator[None]:
    """No collection for the length of a test, and nothing left to collect from before."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def checked(folder: Path, check_cancelled: Callable[[], None] = lambda: None) -> Reading:
    """A script that imports a module of its own, read and forgotten as in a run over many files."""
    for name, text in (("net.py", MODULE), ("train.py", SCRIPT)):
        (folder / name).write_text(NAMES.sub(rf"\1{OWN}", dedent(text)))
    source = read_file(str(folder / "train.py"))
    try:
        return replace(check_source(source, find_rules(), TargetVersions, Project(), check_cancelled), modules={})
    finally:
        source.forget_tree()
        for file, shown in list(TREES.held):
            if file.startswith(str(folder)):
                TREES._drop((file, shown))  # pyright: ignore[reportPrivateUsage] - as when the cache is full


def nodes() -> int:
    """How many parts of the code of these files are in memory: those with a name of theirs."""
    parts = [each for each in gc.get_objects() if isinstance(each, ast.AST)]
    return sum(any(isinstance(value, str) and value.endswith(OWN) for value in vars(each).values()) for each in parts)


@pytest.mark.usefixtures("collector_off")
def test_no_code_waits_for_the_collector(tmp_path: Path) -> None:
    checked(tmp_path)  # loads the rules
    gc.collect()
    assert checked(tmp_path).training
    assert nodes() == 0


@pytest.mark.usefixtures("collector_off")
@pytest.mark.parametrize("asked", [1, 2, 10], ids=["in the reading", "before the first rule", "between two rules"])
def test_nor_does_that_of_a_check_that_is_ended(tmp_path: Path, asked: int) -> None:
    checked(tmp_path)
    gc.collect()
    asks = iter(range(1, asked))
    with pytest.raises(OutdatedError):
        checked(tmp_path, lambda: end_after(asks))
    assert nodes() == 0


def end_after(asks: Iterator[int]) -> None:
    if next(asks, None) is None:
        raise OutdatedError


def test_code_that_is_kept_is_counted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NAMES.sub(rf"\1{OWN}", dedent(SCRIPT)))
    source = read_file(str(tmp_path / "train.py"))
    assert source.tree
    assert nodes() > 10
    source.forget_tree()
    gc.collect()
    assert nodes() == 0
