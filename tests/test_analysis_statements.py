"""Statements as rules ask for them: which always run, which are whole, and which keep a value."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.analysis import statements
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from tests.support.loops import pipeline_of


def location_of(pipeline: Pipeline, code: str) -> Location:
    """Where a script has this code for the first time."""
    before, found, _ = pipeline.source.text.partition(code)
    assert found
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    end_column = len(code) - code.rfind("\n") if "\n" in code else column + len(code)
    return Location("train.py", line, column, line + code.count("\n"), end_column)


def test_an_expression_whose_value_is_discarded_is_a_whole_statement() -> None:
    pipeline = pipeline_of("save(net)\nkept = load(net)\n")
    assert statements.is_whole_statement(pipeline, location_of(pipeline, "save(net)"))
    assert not statements.is_whole_statement(pipeline, location_of(pipeline, "load(net)"))
    assert not statements.is_whole_statement(pipeline, location_of(pipeline, "kept = load(net)"))
    assert not statements.is_whole_statement(pipeline, location_of(pipeline, "net"))


@pytest.mark.parametrize(
    ("code", "is_plain"),
    [
        ("from lib import wanted", True),
        ("x = [wanted]", True),
        ("wanted()", True),
        ("if x:\n    wanted()", False),
        ("for x in wanted: pass", False),
        ("def run():\n    wanted()", False),
    ],
)
def test_only_simple_statements_outside_of_blocks_run_every_time(code: str, is_plain: bool) -> None:
    pipeline = pipeline_of(code)
    assert statements.is_plain_at_module_level(pipeline, location_of(pipeline, "wanted")) is is_plain


def test_locations_are_in_one_function_only_if_it_is_the_innermost_of_both() -> None:
    pipeline = pipeline_of("def f():\n    a = 1\n    b = 2\n    def g():\n        c = 3\nd = 4\ne = 5\n")
    a, b, c, d, e = (location_of(pipeline, f"{name} = ") for name in "abcde")
    assert statements.are_in_one_function(pipeline, a, b)
    assert not statements.are_in_one_function(pipeline, a, c)
    assert not statements.are_in_one_function(pipeline, d, e)


def test_a_lambda_is_no_function_that_two_locations_share() -> None:
    pipeline = pipeline_of("f = lambda: (one, two)\n")
    assert not statements.are_in_one_function(pipeline, location_of(pipeline, "one"), location_of(pipeline, "two"))


def test_branches_end_with_their_last_statement() -> None:
    pipeline = pipeline_of("if a:\n    x()\n    exit( 1 )\nelif b:\n    y()\nelse:\n    z()\n")
    assert list(statements.ends_of_branches(pipeline.source)) == [("a", "exit(1)"), ("b", "y()")]


def test_text_is_in_a_loop_in_its_header_or_its_body() -> None:
    source = pipeline_of("for each in names:\n    load(each)\nsave()\n").source
    assert statements.is_written_in_a_loop(source, "load")
    assert statements.is_written_in_a_loop(source, "names")
    assert not statements.is_written_in_a_loop(source, "save")


def repeated(code: str) -> list[str]:
    """The code of what each iteration of the first loop runs."""
    pipeline = pipeline_of(code)
    text = dedent(code)
    loop = location_of(pipeline, text[text.index("for ") :].rstrip())
    return [pipeline.code(each) for each in statements.run_every_iteration(pipeline.source, loop)]


def test_each_iteration_runs_the_statements_of_its_body_and_those_in_a_with() -> None:
    assert repeated("for x in y:\n    one()\n    with z:\n        two()\n    if x:\n        three()\n    four()\n") == [
        "one()",
        "two()",
        "four()",
    ]


@pytest.mark.parametrize("leaves", ["continue", "return"])
def test_nothing_is_certain_after_a_condition_that_may_leave_the_iteration(leaves: str) -> None:
    code = f"def run():\n    for x in y:\n        one()\n        if x:\n            {leaves}\n        two()\n"
    assert repeated(code) == ["one()"]


def test_each_iteration_runs_the_functions_that_it_calls() -> None:
    assert repeated("def f():\n    one()\n    f()\nfor x in y:\n    z = f()\n") == ["one()", "f()"]


@pytest.mark.parametrize(
    "defined", ["def f():\n    one()\ndef f():\n    two()\n", "@jit\ndef f():\n    one()\n", "f = print\n"]
)
def test_functions_with_several_meanings_are_not_followed(defined: str) -> None:
    assert repeated(f"{defined}for x in y:\n    f()\n") == ["f()"]


@pytest.mark.parametrize(
    "statement",
    ["break", "del net", "best = net", "kept.append(net)", "kept.setdefault(x, net)", "net = other", "del other"],
)
def test_a_loop_keeps_a_value_that_it_stores_or_deletes(statement: str) -> None:
    assert keeps(f"for x in y:\n    net = load(x)\n    if x:\n        {statement}\n")


@pytest.mark.parametrize(
    "statement", ["use(net)", "kept.score(net)", "kept.append(net(x))", "best = net(x)", "continue"]
)
def test_a_loop_that_only_uses_a_value_does_not_keep_it(statement: str) -> None:
    assert not keeps(f"for x in y:\n    net = load(x)\n    if x:\n        {statement}\n")


def test_a_loop_that_may_return_keeps_its_value() -> None:
    assert keeps("def f():\n    for x in y:\n        net = load(x)\n        if x:\n            return\n")


def test_statements_outside_of_a_loop_do_not_keep_its_values() -> None:
    before, after = "kept.append(net)\nnet = other\n", "best = net\ndel net\n"
    assert not keeps(f"{before}for x in y:\n    net = load(x)\n{after}", end="load(x)")


def keeps(code: str, end: str = "") -> bool:
    """Whether the first loop keeps what it gives `net` by `load`."""
    pipeline = pipeline_of(code)
    loop = code[code.index("for ") : code.index(end) + len(end) if end else len(code)].rstrip()
    name = location_of(pipeline, "net = load")
    bound = Location(name.path, name.line, name.column, name.line, name.column + len("net"))
    return statements.keeps_value(pipeline, "net", bound, location_of(pipeline, loop))
