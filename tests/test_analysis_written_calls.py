"""Calls as rules ask for them: by the code of what is called, by method, and in a text."""

from __future__ import annotations

import pytest

from lintrain.analysis import expressions, script_text
from lintrain.pipeline.values.python import Class
from tests.support.loops import pipeline_of


def test_calls_are_found_by_the_code_of_what_is_called() -> None:
    source = pipeline_of("a.prepare(b, *c)\nd.prepare( e ).f(g=1)\nprepare(h)\n").source
    found = script_text.calls_of(source, r"\.prepare\Z")
    assert [(call.location.line, call.code) for call in found] == [(1, "a.prepare(b, *c)"), (2, "d.prepare(e)")]


def test_called_names_are_the_last_parts_of_callees() -> None:
    source = pipeline_of("torch.save(net)\nrun()\nrows[0](x)\nnot_called.name\n").source
    assert script_text.called_names(source) == {"save", "run"}


def test_methods_called_as_statements_have_no_use_of_their_result() -> None:
    source = pipeline_of("raw.map(f)\nkept = raw.filter(g)\nsort(raw)\nraw.select(x).shuffle()\n").source
    assert script_text.methods_called_as_statements(source) == {"map", "shuffle"}


def test_calls_in_a_method_are_those_without_a_condition_around_them() -> None:
    pipeline = pipeline_of("""
    class Rows:
        def other(self):
            zero()
        def __getitem__(self, index):
            one(two())
            if index:
                three()
            try:
                four()
            finally:
                five()
            return six()

    found = Rows
    """)
    (rows,) = [each.value for each in pipeline.bindings if each.name == "found"]
    assert isinstance(rows, Class)
    found = script_text.calls_in_method(pipeline, rows, "__getitem__")
    assert [call.called_name for call in found] == ["one", "two", "six"]


@pytest.mark.parametrize(
    ("code", "argument"),
    [
        ("Net(Config( a, b=1 ))", "Config( a, b=1 )"),
        ("Net(config=made)", "made"),
        ("Net(other=made)", None),
        ("Net(made, config=made)", None),
        ("Net()", None),
        ("net", None),
    ],
)
def test_the_only_argument_of_a_call_has_no_name_or_this_one(code: str, argument: str | None) -> None:
    assert expressions.only_argument_in(code, "config") == argument


def test_keywords_are_those_of_all_calls_of_a_text() -> None:
    assert expressions.keywords_in("rows.map(f, a=1)\n.filter(g(b=2), **c)") == {"a", "b"}
