"""What `lintrain.analysis.expressions` answers about calls, assignments and other expressions."""

from __future__ import annotations

import pytest

from lintrain.analysis import expressions
from lintrain.analysis.expressions import Assignment, Expression, Kind
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Function
from tests.support.loops import pipeline_of


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("loss", Kind.NAME),
        ("outputs.loss", Kind.ATTRIBUTE),
        ("outputs[0]", Kind.SUBSCRIPT),
        ("model(x)", Kind.CALL),
        ("0.5", Kind.CONSTANT),
        ("a @ b", Kind.OPERATION),
        ("-loss", Kind.NEGATION),
        ("~mask", Kind.OTHER),
        ("a > b", Kind.COMPARISON),
        ("{'a': 1}", Kind.DICTIONARY),
        ("[x for x in rows]", Kind.LIST_COMPREHENSION),
        ("(x for x in rows)", Kind.OTHER),
    ],
)
def test_an_expression_has_a_kind(code: str, kind: Kind) -> None:
    assert expressions.parsed(code).kind is kind


def test_text_that_is_no_expression_raises_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        expressions.parsed("x = 1")


def test_code_is_normalized_and_written_code_is_not() -> None:
    call = expressions.parsed('f( "a",b )')
    assert (call.code, call.written_code) == ("f('a', b)", 'f( "a",b )')


def test_structure_is_the_same_for_code_that_differs_in_layout() -> None:
    texts = ("f(a, b)", "f(a,  b)", "f(b, a)")
    first, second, third = (expressions.parsed(code).structure for code in texts)
    assert first == second != third


def test_a_method_call_names_the_method_and_its_object() -> None:
    call = expressions.parsed("outputs.loss.item()")
    assert (call.called_name, _code(call.callee), _code(call.called_on)) == (
        "item",
        "outputs.loss.item",
        "outputs.loss",
    )


def test_a_function_call_is_made_on_no_object() -> None:
    call = expressions.parsed("float(x)")
    assert (call.called_name, call.called_on) == ("float", None)


def test_a_name_calls_nothing() -> None:
    name = expressions.parsed("float")
    assert (name.name, name.called_name, name.callee, name.arguments, name.keywords) == ("float", "", None, (), {})


def test_the_call_of_a_result_has_no_called_name() -> None:
    assert expressions.parsed("make()(x)").called_name == ""


def test_keywords_are_given_by_name_and_unpacked_ones_without() -> None:
    call = expressions.parsed("f(a, *b, axis=-1, **options)")
    assert [each.code for each in call.arguments] == ["a", "*b"]
    assert {name: each.code for name, each in call.keywords.items()} == {"axis": "-1", None: "options"}


def test_the_first_of_repeated_keywords_counts() -> None:
    assert expressions.parsed("f(a=1, a=2)").keywords["a"].value == 1


def test_only_constants_have_a_value() -> None:
    assert [expressions.parsed(code).value for code in ("'mean'", "3", "mean")] == ["mean", 3, None]


def test_only_attributes_have_an_owner() -> None:
    assert [_code(expressions.parsed(code).owner) for code in ("a.b.c", "a", "a.b()")] == ["a.b", None, None]


def test_a_list_comprehension_has_an_element() -> None:
    texts = ("[row['text'] for row in rows]", "[a, b]")
    assert [_code(expressions.parsed(code).element) for code in texts] == ["row['text']", None]


def test_a_dictionary_has_entries_and_an_unpacked_one_no_key() -> None:
    entries = expressions.parsed("{'a': x, **rest}").entries
    assert [(_code(key), value.code) for key, value in entries] == [("'a'", "x"), (None, "rest")]
    assert expressions.parsed("[x]").entries == ()


@pytest.mark.parametrize(
    ("code", "operator", "operands"),
    [
        ("1 - loss", "-", ["1", "loss"]),
        ("1 / loss", "/", ["1", "loss"]),
        ("a * -b", "*", ["a", "-b"]),
        ("a + b", "", ["a", "b"]),
        ("-loss", "", ["loss"]),
        ("loss", "", []),
    ],
)
def test_an_operation_has_an_operator_and_operands(code: str, operator: str, operands: list[str]) -> None:
    expression = expressions.parsed(code)
    assert (expression.operator, [each.code for each in expression.operands]) == (operator, operands)


def test_negation_and_inversion_are_unary() -> None:
    assert [expressions.parsed(code).is_unary for code in ("-x", "~x", "not x", "x - y")] == [True, True, True, False]


def test_parts_outside_indexes_leave_out_what_selects() -> None:
    parts = [each.code for each in expressions.parsed("f(a[b > 0], c)").parts_outside_indexes()]
    assert parts == ["f(a[b > 0], c)", "f", "a[b > 0]", "c", "a"]


def test_a_call_is_found_at_its_exact_location() -> None:
    pipeline = pipeline_of("x = f(g(1))\n")
    inner, outer = (_line(1, column, 12 - (column == 7)) for column in (7, 5))
    assert _code(expressions.call_at(pipeline, inner)) == "g(1)"
    assert _code(expressions.call_at(pipeline, outer)) == "f(g(1))"
    assert expressions.call_at(pipeline, _line(1, 1, 2)) is None


def test_calls_of_a_method_leave_out_the_function_of_that_name() -> None:
    source = pipeline_of("a.load(1)\nload(2)\nb.c.load(3)\na.save(4)\n").source
    assert [each.code for each in expressions.calls_of_method(source, "load")] == ["a.load(1)", "b.c.load(3)"]
    assert len(list(expressions.calls_in_file(source))) == 4


def test_an_assignment_around_a_location_has_its_target_and_value() -> None:
    assignment = _assignment_at("loss = f(x)\n", 1, 8)
    assert assignment is not None
    assert (assignment.name, assignment.value.code, assignment.code) == ("loss", "f(x)", "loss = f(x)")
    assert assignment.location == _line(1, 1, 12)


@pytest.mark.parametrize("code", ["a, b = f(x)", "a = b = f(x)", "a.b = f(x)", "a[0] = f(x)"])
def test_only_a_single_name_is_the_name_of_an_assignment(code: str) -> None:
    assignment = _assignment_at(f"{code}\n", 1, len(code) - 3)
    assert assignment is not None
    assert (assignment.name, assignment.code.replace("(a, b)", "a, b")) == (None, code)


@pytest.mark.parametrize("code", ["f(x)", "a += f(x)", "a: int = f(x)", "return_(f(x))"])
def test_other_statements_are_no_assignment(code: str) -> None:
    assert _assignment_at(f"{code}\n", 1, len(code) - 1) is None


LOSS = """
def loss(model, batch=given.batch):
    outputs = model(batch)
    if batch:
        return outputs.loss
    def inner():
        found = 3
        return 4
    return inner() * 2
"""


def test_a_function_returns_what_its_own_statements_return() -> None:
    pipeline, loss = _function(LOSS, "loss")
    returned = expressions.returned_by(pipeline, loss)
    assert [each.code for each in returned] == ["inner() * 2", "outputs.loss"]
    assert [each.location.line for each in returned] == [9, 5]


def test_a_lambda_returns_its_body() -> None:
    pipeline, judge = _function("judge = lambda x: x + 1\n", "judge")
    assert [each.code for each in expressions.returned_by(pipeline, judge)] == ["x + 1"]


def test_the_expressions_of_a_function_are_those_of_its_body() -> None:
    pipeline, loss = _function(LOSS, "loss")
    codes = {each.code for each in expressions.expressions_in(pipeline, loss)}
    assert {"model(batch)", "outputs", "outputs.loss", "3"} <= codes
    assert "given.batch" not in codes


def test_the_assignments_of_a_function_include_those_of_inner_functions() -> None:
    pipeline, loss = _function(LOSS, "loss")
    assigned = expressions.assignments_in(pipeline, loss)
    assert [(each.name, each.value.code) for each in assigned] == [("outputs", "model(batch)"), ("found", "3")]


MODEL = """
class Net(keras.Model):
    def train_step(self, data):
        return self(data)

    def call(self, data):
        return dropout(data)
"""


def test_a_class_has_the_code_of_its_bases_and_the_calls_in_it() -> None:
    (found,) = expressions.classes_in_file(pipeline_of(MODEL).source)
    assert found.bases == ("keras.Model",)
    assert {each.code for each in found.calls} == {"self(data)", "dropout(data)"}
    assert [each.code for each in found.calls_by_method["train_step"]] == ["self(data)"]


def test_the_code_of_a_function_includes_its_head() -> None:
    assert expressions.code_of(_function("def f( x ):\n    return x\n", "f")[1]) == "def f(x):\n    return x"


def test_the_code_of_a_class_includes_its_head() -> None:
    (cls,) = [each.value for each in pipeline_of(f"{MODEL}\nkept = Net\n").bindings if isinstance(each.value, Class)]
    assert expressions.code_of(cls).startswith("class Net(keras.Model):")


def _code(expression: Expression | None) -> str | None:
    return expression.code if expression is not None else None


def _line(line: int, column: int, end: int) -> Location:
    return Location("train.py", line, column, line, end)


def _assignment_at(code: str, line: int, column: int) -> Assignment | None:
    return expressions.assignment_at(pipeline_of(code), _line(line, column, column + 1))


def _function(code: str, name: str) -> tuple[Pipeline, Function]:
    pipeline = pipeline_of(f"{code}\nkept = {name}\n")
    (found,) = [each.value for each in pipeline.bindings if each.name == "kept"]
    assert isinstance(found, Function)
    return pipeline, found
