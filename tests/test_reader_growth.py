"""Values that a script doubles line by line: the reader gives them up before they fill the memory."""

from __future__ import annotations

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.arithmetic import LONGEST
from lintrain.pipeline.pipeline import Pipeline
from lintrain.pipeline.reader import read_pipeline
from lintrain.pipeline.values.files import FilePath
from lintrain.pipeline.values.python import Constant
from lintrain.source.source import Source

HEAD = "import os\nimport torch\nfrom pathlib import Path\nfrom transformers import TrainingArguments\n"
DOUBLINGS = 24
"""Of two items: what is not stopped still fits into the memory."""


def read(start: str, line: str) -> Pipeline:
    code = f"{HEAD}x = {start}\n" + f"{line}\n" * DOUBLINGS + "args = TrainingArguments(run_name=x)\n"
    return read_pipeline(Source("t.py", code), TargetVersions())


@pytest.mark.parametrize("start", ["[1, 2]", "(1, 2)"])
@pytest.mark.parametrize("line", ["x = x + x", "x += x", "x = [*x, *x]", "x = (*x, *x)", "x = (x or x) + x"])
def test_a_list_that_is_doubled_spends_the_budget(start: str, line: str) -> None:
    assert read(start, line).is_exhausted


@pytest.mark.parametrize(
    "line", ["x = x + x", "x = f'{x}{x}'", "x = os.path.join(x, x)", "x = x * 2", "x = x.replace('', 'aaaaaaaa')"]
)
def test_a_text_that_is_doubled_is_not_known(line: str) -> None:
    pipeline = read("'ab'", line)
    assert not pipeline.is_exhausted
    assert not isinstance(pipeline.arguments[0].value("run_name"), Constant)


@pytest.mark.parametrize("line", ["x = x / x", "x = x.joinpath(x)", "x = Path(x, x)"])
def test_a_path_that_is_doubled_is_not_known(line: str) -> None:
    pipeline = read("Path('ab')", line)
    assert not pipeline.is_exhausted
    assert not isinstance(pipeline.arguments[0].value("run_name"), FilePath)


@pytest.mark.parametrize("line", ["y = x * 2", "y = x.copy()", "y = copy.copy(x)", "y = x + []", "y = x * torch.a"])
def test_a_large_list_is_not_copied_a_thousand_times(line: str) -> None:
    code = f"import copy\nimport torch\nx = [{'1, ' * 30_000}]\n" + f"{line}\n" * 200
    assert read_pipeline(Source("t.py", code), TargetVersions()).is_exhausted


def test_what_is_put_together_within_bounds_is_known() -> None:
    code = f"{HEAD}x = 'a' * 90\nx = f'{{x}}{{x}}'\nargs = TrainingArguments(run_name=os.path.join(x, x))\n"
    value = read_pipeline(Source("t.py", code), TargetVersions()).arguments[0].value("run_name")
    assert isinstance(value, Constant)
    assert value.value == f"{'a' * 180}/{'a' * 180}"
    assert len(str(value.value)) < LONGEST
