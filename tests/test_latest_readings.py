"""What is taken over from the reading before an edit is what a reading of the text alone gives."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.keystroke_project import script_text
from lintrain.interpreter.core import keeper
from lintrain.interpreter.core.latest_readings import KeptReading, LatestReadings
from lintrain.interpreter.core.reader import Reader
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.values.python import Constant
from lintrain.read import read_pipeline
from lintrain.source.latest_tree import LatestTree
from lintrain.source.source import Source
from tests.support.pipeline_graph import graph_of
from tests.support.script_edits import edited

ROOT = Path(__file__).parent.parent

TEXT = """import torch
from math import sqrt

import own

LIMIT = 3
SIZES = [1, 2]


def halve(x):
    return x / 2


def alone(model, loader):
    for batch in loader:
        loss = model(halve(batch)) * LIMIT
        torch.save(loss, "x")


def sized(model):
    return model(SIZES)


def written(model):
    global LIMIT
    LIMIT = 4


def other(model):
    return own.loss(model)


print(sqrt(4))
"""


def read(text: str, check_cancelled: Callable[[], None] = lambda: None) -> list[str]:
    """The graph of what a reading of the text records."""
    pipeline = read_pipeline(Source("train.py", text), TargetVersions(), None, check_cancelled)
    graph = [] if pipeline.is_exhausted else graph_of(pipeline)
    pipeline.circles.end()
    return graph


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions whose readings are taken over."""
    names, take_over = list[str](), keeper.take_over

    def noting(reader: Reader, kept: KeptReading) -> None:
        names.append(kept.function.name)
        take_over(reader, kept)

    monkeypatch.setattr(keeper, "take_over", noting)
    return names


def read_after(text: str, after: str, taken: list[str]) -> list[str]:
    """The functions whose readings an edit leaves; what is recorded with them is that of the text alone."""
    latest = LatestTree()
    with latest.serving("train.py"):
        assert read(text) == read(text)
    taken.clear()
    with latest.serving("train.py"):
        found = read(after)
    names = list(taken)
    assert found == read(after)
    return names


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("print(sqrt(4))", "print(sqrt(4))  # typed", ["alone"]),
        ("print(sqrt(4))", "print(sqrt(5))\nprint(sized, SIZES)", ["alone"]),
        ("print(sqrt(4))", "print(alone)", []),
        ("return model(SIZES)", "return model(SIZES, 1)", ["alone"]),
        ("import own", "import owns", ["alone"]),
        ("SIZES = [1, 2]", "SIZES = [1]", ["alone"]),
        ("from math import sqrt\n", "from math import sqrt, cos\n", ["alone"]),
        ("LIMIT = 3", "LIMIT = 5", []),
        ("SIZES = [1, 2]", "LIMIT = SIZES[0]", []),
        ("print(sqrt(4))", "LIMIT = 3", []),
        ("print(sqrt(4))", "del LIMIT", []),
        ("return x / 2", "return x / 3", []),
        ("def halve(x)", "def halve(x, y=1)", []),
        ("def halve(x)", "@torch.no_grad()\ndef halve(x)", []),
        ("import torch\n", "import torchvision as torch\n", []),
        ("from math import sqrt\n", "from math import *\n", []),
        ("print(sqrt(4))", "def len(x):\n    return x\n\n\nalone(len, [])", []),
        ("print(sqrt(4))", "torch.set_grad_enabled(False)", []),
        ("print(sqrt(4))", "torch.nn.Linear(1, 2)(torch.zeros(1, 1))", []),
        ("import own\n", "", ["alone"]),
        ("import own\n", "import own\n\n", ["alone"]),
        ("def sized(", "SIZE = 5\n\n\ndef sized(", ["alone"]),
    ],
)
def test_an_edit_leaves_the_readings_of_functions_that_it_does_not_concern(
    old: str, new: str, kept: list[str], taken: list[str]
) -> None:
    assert read_after(TEXT, TEXT.replace(old, new, 1), taken) == kept


def test_what_a_function_asks_about_the_whole_file_is_asked_again(taken: list[str]) -> None:
    text = """import torch


def alone(model):
    options = {"rate": 1}
    return torch.optim.SGD(model, **options)


print(1)
"""
    assert read_after(text, text.replace("print(1)", "print(2)"), taken) == ["alone"]
    assert read_after(text, text.replace("print(1)", "print(lambda options: options)"), taken) == []


def test_a_function_that_leaves_another_one_to_be_read_is_read_again(taken: list[str]) -> None:
    text = """import torch


def outer(model):
    def inner(batch):
        return torch.cat(batch)

    return model(INNER)


print(1)
"""
    called, passed = text.replace("INNER", "inner([])"), text.replace("INNER", "1")
    assert read_after(called, called.replace("print(1)", "print(2)"), taken) == ["outer"]
    assert read_after(passed, passed.replace("print(1)", "print(2)"), taken) == []


def test_all_functions_of_a_long_script_that_an_edit_leaves_are_taken_over(taken: list[str]) -> None:
    text = script_text()
    kept = read_after(text, text.replace("    return correct / max(seen, 1)", "    return correct / seen", 1), taken)
    assert len(kept) == 77


def test_a_reading_that_was_ended_leaves_what_is_kept_as_it_is(taken: list[str]) -> None:
    class EndedError(BaseException):
        pass

    def end() -> None:
        raise EndedError

    latest = LatestTree()
    with latest.serving("train.py"):
        read(TEXT)
    with latest.serving("train.py"), pytest.raises(EndedError):
        read(TEXT.replace("SIZES = [1, 2]", "SIZES = [1]"), end)
    for after in (TEXT, TEXT.replace("LIMIT = 3", "LIMIT = 4")):
        with latest.serving("train.py"):
            found = read(after)
        assert found == read(after)
    assert taken == ["alone"]


def test_a_value_is_shared_with_the_reading_before_and_not_within_one() -> None:
    kept = LatestReadings()
    first, second, third = Constant(1), Constant(1), Constant(1)
    assert kept.shared("x", first) is first
    assert kept.shared("x", second) is second
    kept.given.clear()
    assert kept.shared("x", third) is first
    kept.given.clear()
    assert kept.shared("x", Constant(2)) is not first


def test_nothing_is_taken_over_for_another_file(taken: list[str]) -> None:
    latest = LatestTree()
    for path in ("train.py", "other.py", "train.py"):
        with latest.serving(path):
            read(TEXT)
    assert taken == []


@pytest.mark.parametrize("seed", range(6))
def test_random_edits_give_the_record_of_the_text_alone(seed: int) -> None:
    chance = random.Random(seed)
    scripts = sorted(path for folder in ("fixtures", "rules") for path in (ROOT / folder).rglob("*.py"))
    for path in chance.sample(scripts, 3):
        latest, texts = LatestTree(), [path.read_text()]
        for _ in range(12):
            text = edited(texts[-1], chance)
            texts = [text] if chance.random() < 0.7 else texts
            try:
                ast.parse(text)
            except (SyntaxError, ValueError):
                continue
            with latest.serving("train.py"):
                found = read(text)
            assert found == read(text), (path, text)


def test_code_that_reads_a_script_asks_about_its_whole_text_only_where_that_is_noted() -> None:
    """`Source.cached` and `Source.contains` note it; all other questions about a file are asked in one of theirs."""
    direct = re.compile(r"reader\.source\.(text|lines|nodes|nodes_of|named|named_in|gathered|tree|answers)\b")
    for package in ("interpreter", "libraries"):
        for path in (ROOT / "lintrain" / package).rglob("*.py"):
            assert direct.findall(path.read_text()) == [], path
