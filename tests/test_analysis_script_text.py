"""What `lintrain.analysis.script_text` and `lintrain.pipeline.blocks` answer about imports, names and blocks."""

from __future__ import annotations

import pytest

from lintrain.analysis import script_text
from lintrain.analysis.script_text import Import
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from tests.support.loops import pipeline_of

IMPORTS = """
import numpy as np, torch.nn
from keras import layers as parts
from . import own
def f():
    import keras
"""


def test_imports_are_listed_one_by_one_with_their_aliases() -> None:
    assert script_text.imports_of(pipeline_of(IMPORTS).source) == (
        Import("numpy", None, "np", is_top_level=True),
        Import("torch.nn", None, None, is_top_level=True),
        Import("keras", None, None, is_top_level=False),
        Import("keras", "layers", "parts", is_top_level=True),
        Import("", "own", None, is_top_level=True),
    )


def test_declared_names_are_those_of_functions_classes_parameters_and_imports() -> None:
    source = pipeline_of("import a.b, c as d\nclass E:\n    def f(self, *, g=1): pass\nh = 1\n").source
    assert script_text.declared_names(source) == {"a.b", "d", "E", "f", "self", "g"}


def test_attribute_names_are_those_read_and_set() -> None:
    source = pipeline_of("trainer.evaluate()\nmodel.head.bias = x.data\n").source
    assert script_text.attribute_names(source) == {"evaluate", "head", "bias", "data"}


def test_a_name_is_bound_by_assignments_loops_and_parameters() -> None:
    code = "n = 1\nfor n in rows:\n    print(n)\ndef f(n):\n    return n\n"
    assert sorted(each.line for each in script_text.bindings_of(pipeline_of(code).source, "n")) == [1, 2, 4]


def test_the_uses_of_an_attribute_are_those_of_this_name() -> None:
    source = pipeline_of("loss.item()\nloss.item\nloss.mean()\nother.item()\nself.loss.item()\n").source
    assert sorted(each.line for each in script_text.attribute_uses(source, "loss", "item")) == [1, 2]


BLOCK = """a = f()
b = a + c
if b:
    d = g()
e = g()
"""


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [(1, 2, set[str]()), (1, 3, {"a", "b", "c"}), (5, 1, {"a", "b", "c", "d", "g"}), (1, 1, set[str]())],
)
def test_names_between_statements_are_those_of_the_statements_they_enclose(
    first: int, second: int, names: set[str]
) -> None:
    assert blocks.names_between(pipeline_of(BLOCK), _line(first), _line(second)) == names


def test_statements_of_different_blocks_have_no_names_between_them() -> None:
    assert blocks.names_between(pipeline_of(BLOCK), _line(1), _line(4, 5)) is None


STEPS = """for batch in loader:
    step()
    other()
    if last:
        step()
step()
other()
"""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [((2, 5), (3, 5), True), ((2, 5), (5, 9), False), ((6, 1), (7, 1), False)],
)
def test_statements_share_the_body_of_a_block(
    first: tuple[int, int], second: tuple[int, int], *, expected: bool
) -> None:
    pipeline = pipeline_of(STEPS)
    lines = pipeline.source.lines
    one, other = (Location("train.py", line, at, line, len(lines[line - 1]) + 1) for line, at in (first, second))
    assert blocks.are_in_one_body(pipeline, one, other) is expected


GUARDED = """try:
    one()
except ValueError:
    pass
with pytest.raises(ValueError):
    two()
with open(path):
    three()
"""


def test_an_error_is_expected_in_a_try_and_by_pytest() -> None:
    source = pipeline_of(GUARDED).source
    assert [blocks.expects_error(source, _line(line, 5)) for line in (2, 6, 8)] == [True, True, False]


def _line(line: int, column: int = 1) -> Location:
    return Location("train.py", line, column, line, column + 1)
