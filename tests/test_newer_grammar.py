"""Syntax that is newer than the Python which runs the tests: read as what it means, each name at its location."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from lintrain.source.newer_grammar import NewerGrammarError
from lintrain.source.parsing import parse
from lintrain.verdicts.static_findings import check_script

FORMS = {
    "type Pair = tuple[int, str]": "Pair = tuple[int, str]",
    "type Pair[T: int, *Ts, **P] = list[T]": "Pair = list[T]",
    "if ready: type Pair = int": "if ready:\n    Pair = int",
    "def first[T](rows: T) -> T: ...": "def first(rows: T) -> T:\n    ...",
    "def first[\n    T,\n](rows): ...": "def first(rows):\n    ...",
    "async def first[**P](): ...": "async def first():\n    ...",
    "class Net[T = int](Module): ...": "class Net(Module):\n    ...",
    'x = f"{row["a"]} {", ".join(names)}"': "x = f\"{row['a']} {', '.join(names)}\"",
    'x = f"ä{\n    first # the one\n}ö" + last': "x = f'ä{first}ö' + last",
    'x = f"{f"{f"{1}"}"}"': 'x = f"""{f"{f\'{1}\'}"}"""',
    'x = f"{a:{b:{c}}}"': "x = f'{a:{b:{c}}}'",
    'x = f"{{{row["a"]!r:>{width}}}}\\n"': "x = f\"{{{row['a']!r:>{width}}}}\\n\"",
    'x = ("a\\n" f"{row["k"]}"\n  "b" "c")': "x = f\"a\\n{row['k']}bc\"",
    'x = f"{(a)["k"]}", f"{b["k"]}"': "x = (f\"{a['k']}\", f\"{b['k']}\")",
    "try: ...\nexcept A, B.c: ...": "try:\n    ...\nexcept (A, B.c):\n    ...",
    "try: ...\nexcept* A, B, C: ...": "try:\n    ...\nexcept* (A, B, C):\n    ...",
    "lazy import numpy as np": "import numpy as np",
    "lazy from numpy import array": "from numpy import array",
}


@pytest.mark.parametrize("code", FORMS)
def test_a_newer_form_is_read_as_the_older_one_that_means_the_same(code: str) -> None:
    tree = parse(code)
    if sys.version_info < (3, 12):
        assert ast.unparse(ast.fix_missing_locations(tree)) == FORMS[code]
    lines = [line.encode() for line in code.split("\n")]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assert [lines[one.lineno - 1][one.col_offset : one.end_col_offset].decode() for one in names] == [
        one.id for one in names
    ]


@pytest.mark.parametrize("code", ["[*row for row in rows]", "{*row for row in rows}", "{**row for row in rows}"])
def test_unpacking_in_a_comprehension_is_a_value_that_is_not_known(code: str) -> None:
    comprehension = ast.parse("0").body if sys.version_info >= (3, 15) else parse(code).body
    assert [type(node).__name__ for node in ast.walk(comprehension[0]) if isinstance(node, ast.UnaryOp | ast.Constant)]


def test_a_t_string_is_no_text() -> None:
    (statement,) = parse('x = t"hello {name}"').body
    assert isinstance(statement, ast.Assign)
    assert not isinstance(statement.value, ast.JoinedStr | ast.Constant)


def test_findings_in_newer_syntax_are_at_their_lines_and_can_be_fixed(tmp_path: Path) -> None:
    code = (
        "from transformers import TrainingArguments\n"
        "type Row = dict[str, int]\n"
        'names = {"a": "out"}\n'
        'args = TrainingArguments(f"{names["a"]}", evaluation_strategy="epoch")\n'
    )
    script = tmp_path / "train.py"
    script.write_text(code)
    (found,) = check_script(str(script)).reported
    assert (found.finding.rule, found.finding.location.line, found.finding.location.column) == (
        "removed-argument",
        4,
        43,
    )
    assert found.fix is not None


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python has t-strings itself")
def test_what_cannot_be_read_is_not_judged_and_no_syntax_error(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text('import torch\nx = t"a" t"{b}"\nloss.backward()\n')
    checked = check_script(str(script))
    assert checked.reported == ()
    assert {one.spent.partition(" than ")[0] for one in checked.unjudged} == {"it has grammar that is newer"}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads these f-strings itself")
def test_a_newer_f_string_in_a_text_that_is_too_deep_is_no_syntax_error() -> None:
    # CPython's own `test_fstring.py` is such a text.
    deep = f"y = {'[' * 40}{']' * 40}\n"
    with pytest.raises(NewerGrammarError):
        parse(deep + "x = f'{'\\n'.join(rows)}'\n")
    with pytest.raises(SyntaxError) as caught:
        parse(deep + "x = f'{rows}'\nx = (1\ny = 2\n")
    assert not isinstance(caught.value, NewerGrammarError)


@pytest.mark.parametrize(
    ("code", "line"), [("type Row = int\nx = (1\ny = 2\n", 3), ("def f[T](): ...\nf(a=1, 2)\n", 2), ("x = f'{'\n", 1)]
)
def test_a_mistake_in_newer_syntax_stays_a_syntax_error_at_its_line(code: str, line: int) -> None:
    with pytest.raises(SyntaxError) as caught:
        parse(code)
    assert not isinstance(caught.value, NewerGrammarError)
    assert caught.value.lineno in (line, line - 1)


def test_an_error_of_python_2_is_none_of_python_3_14() -> None:
    if sys.version_info < (3, 14):
        with pytest.raises(SyntaxError):
            parse("try: ...\nexcept ValueError, error: ...\n")


NESTED = {
    "minus": "-" * 20_000 + "1",
    "lambdas": "lambda: " * 20_000 + "1",
    "conditions": "1 if 1 else " * 20_000 + "1",
    "brackets": "[" * 150 + "]" * 150,
    "hidden in an f-string": "f\"it's {" + "(" * 5_000 + "'}\"",
    "after a wrong quote": "x = f\"'''{\"\n" + "[" * 5_000 + "'''",
    "after an f-string that goes on": "x = f\"a \\\n''' {\n" + "[" * 5_000 + "\n'''",
    "after a long text": "x = '''a''' + f'{1}'\ny = " + "-" * 20_000 + "1",
    "branches": "if 1: pass\n" + "elif 1: pass\n" * 20_000,
    "strings": "'a' " * 20_000,
}


@pytest.mark.parametrize("name", NESTED)
def test_code_nested_by_thousands_does_not_end_the_process(name: str) -> None:
    with pytest.raises((SyntaxError, ValueError, RecursionError, MemoryError)):
        parse(f"type Row = int\nx = f'{{'\n{NESTED[name]}\n")
