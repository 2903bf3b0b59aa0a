"""The rules of the house, held over every file of the project."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.import_graph import circles, import_graph

ROOT = Path(__file__).parent.parent
LONGEST_FILE = 400
LISTS = {"lintrain/__init__.py"}
"""Files that only list names: nobody reads them from top to bottom."""

LONGEST_FUNCTION = 50
COMMENTED = ("interpreter", "libraries", "runtime")
LEAST_COMMENTS = 4
"""Lines of comments for 100 lines of code: the hard spots of these trees say why they are as they are."""

EMPTY_NAMES = {"utils", "util", "helper", "helpers", "manager", "misc", "common"}


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_file_of_the_engine_is_too_long_to_read_in_one_sitting() -> None:
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in tracked("lintrain/*.py")}
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE and name not in LISTS} == {}


LIKE_USERS = ROOT / "benchmarks" / "blind" / "scripts"
"""Scripts that are written as people write theirs, with long functions."""


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in tracked("lintrain/*.py", "rules/*.py", "tools/*.py", "benchmarks/*.py")
        if not path.is_relative_to(LIKE_USERS)
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno >= LONGEST_FUNCTION
    ]
    assert long == []


def code_and_comments(text: str) -> tuple[int, int]:
    """The lines of code of a file, without docstrings and blank lines, and its lines that are comments."""
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    rest = [line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in documented]
    written = [line for line in rest if line]
    comments = sum(line.startswith("#") for line in written)
    return len(written) - comments, comments


def test_comments_are_counted_without_docstrings() -> None:
    assert code_and_comments('"""A file.\n\n# no comment\n"""\n\n# Why.\nX = 1  # what\n"""Of X."""\n') == (1, 1)


@pytest.mark.parametrize("tree", COMMENTED)
def test_comments_say_why(tree: str) -> None:
    counted = [code_and_comments(path.read_text()) for path in tracked(f"lintrain/{tree}/*.py")]
    code, comments = (sum(each) for each in zip(*counted, strict=True))
    assert code > 1_000
    assert 100 * comments / code >= LEAST_COMMENTS


def searches_of_whole_texts(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls of `search` on the whole text of a file: `Source.contains` gives the same, cheaper and only once."""
    sources = {"source"}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and ".sources" in ast.unparse(node.iter):
            sources |= {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "search":
            owners = [given.value for given in node.args if isinstance(given, ast.Attribute) and given.attr == "text"]
            if any(ast.unparse(owner).rpartition(".")[2] in sources for owner in owners):
                yield node


@pytest.mark.parametrize("tree", ["rules", "lintrain/analysis"])
def test_the_whole_text_of_a_file_is_searched_in_one_way(tree: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in tracked(f"{tree}/*.py")
        for call in searches_of_whole_texts(ast.parse(path.read_text()))
    ]
    assert found == []


def test_searches_of_whole_texts_are_found() -> None:
    code = """
    if re.search("a", source.text) or A.search(pipeline.source.text) or re.search("a", call.text):
        any(A.search(each.text) for each in pipeline.sources.values() if A.search(each.name))
    """
    assert [call.lineno for call in searches_of_whole_texts(ast.parse(dedent(code)))] == [2, 2, 3]


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [path for path in tracked("*.py") if path.stem in EMPTY_NAMES] == []


def test_nothing_is_left_to_be_done_later() -> None:
    mark = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    assert [path for path in tracked("*.py", "*.md", "*.toml") if mark.search(path.read_text())] == []


def test_no_file_speaks_of_the_machine_it_was_written_on() -> None:
    home = re.compile(r"(?<![\w.])/(?:ho" + r"me|ro" + r"ot|wo" + r"rk|opt)/\w")
    texts = {path: path.read_text() for path in tracked("*.py", "*.md", "*.toml", "*.yaml", "*.svg", ".ci/*")}
    assert [path.relative_to(ROOT).as_posix() for path, text in texts.items() if home.search(text)] == []


def test_circles_are_found_over_several_modules() -> None:
    graph = {"one": {"two"}, "two": {"three"}, "three": {"one"}, "four": {"three", "five"}, "five": set[str]()}
    assert circles(graph) == [["one", "three", "two"]]


def test_no_modules_import_each_other_not_even_for_type_checking() -> None:
    assert circles(import_graph()) == []
