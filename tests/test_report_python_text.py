"""Foreign text in written code stays text."""

from __future__ import annotations

import ast
import random

import pytest

from lintrain.report.markdown import in_docstring, literal

PIECES = [
    '"',
    "'",
    "\\",
    "a",
    "\n",
    "\r",
    "é",
    "\U0001f600",
    "\ud800",
    "{",
    "}",
    "\0",
    "\u2028",
    "\u202e",
    "'''",
    '"""',
]


@pytest.mark.parametrize("seed", range(200))
def test_any_text_stays_what_it_is(seed: int) -> None:
    chance = random.Random(seed)
    text = "".join(chance.choices(PIECES, k=chance.randrange(12)))
    assert ast.literal_eval(literal(text)) == text
    module = ast.parse(f'"""Of {in_docstring(text)} here.\n"""\n')
    assert ast.get_docstring(module) is not None
    assert len(module.body) == 1


def test_a_name_that_is_usual_is_written_as_people_do() -> None:
    assert literal("input_ids") == '"input_ids"'
    assert literal("it's") == '"it\'s"'
    assert in_docstring("train.py") == "train.py"
