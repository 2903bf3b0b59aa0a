"""Names, attributes and keys as rules ask for them: where they are used, and by what."""

from __future__ import annotations

import pytest

from lintrain.analysis import script_text
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Function
from tests.support.loops import pipeline_of

CLASS = """
class Net(Base):
    def __init__(self):
        self.layers = build(self.width)

    def forward(self, x):
        y = self.first(x)
        self.second = y
        return self.first(y)

found = Net
"""


def class_in(pipeline: Pipeline) -> Class:
    """The class that a script gives the name `found`."""
    (found,) = [each.value for each in pipeline.bindings if each.name == "found"]
    assert isinstance(found, Class)
    return found


def test_uses_of_a_name_are_those_in_all_scopes_without_attributes_of_that_name() -> None:
    source = pipeline_of("net = 1\nuse(net)\nother.net\ndef f():\n    del net\n").source
    uses = script_text.uses_of(source, "net")
    assert sorted((use.location.line, use.is_read) for use in uses) == [(1, False), (2, True), (5, False)]


def test_variables_are_names_without_attributes_and_keywords() -> None:
    source = pipeline_of("torch.stack(rows, dim=0)\n").source
    assert script_text.variables(source) == {"torch", "rows"}


@pytest.mark.parametrize(
    ("code", "is_taken"),
    [
        ("seed_rows = 1", True),
        ("my_seed_rows_2 = 1", True),
        ("def f():\n    other.seed_rows", True),
        ("other.seed_rows", False),
        ("# seed_rows", False),
    ],
)
def test_a_name_may_be_taken_by_a_variable_or_in_a_function(code: str, is_taken: bool) -> None:
    assert script_text.may_be_taken(pipeline_of(code).source, "seed_rows") is is_taken


def test_an_attribute_that_only_the_constructor_mentions_is_not_used() -> None:
    cls = class_in(pipeline_of(CLASS))
    assert script_text.is_used_after_init(cls, "first")
    assert not script_text.is_used_after_init(cls, "layers")


def test_a_class_inside_a_function_is_not_at_top_level() -> None:
    outer = pipeline_of("class Net:\n    pass\nfound = Net\n")
    location = script_text.at_top_level(outer.source, class_in(outer))
    assert location is not None
    assert (location.line, location.end_line) == (1, 2)
    inner = pipeline_of("def f():\n    class Net:\n        pass\n    return Net\nfound = f()\n")
    assert script_text.at_top_level(inner.source, class_in(inner)) is None


def test_attributes_of_a_function_are_in_order_with_those_that_it_assigns() -> None:
    method = class_in(pipeline_of(CLASS)).attributes["forward"]
    assert isinstance(method, Function)
    assert script_text.attributes_used(method) == ["first", "second", "first"]
    assert script_text.attributes_assigned(method) == {"second"}


def test_keys_are_read_by_the_assignments_of_a_function() -> None:
    code = """
    class Own:
        def loss(self, inputs):
            a = f(inputs["one"])
            b, c = inputs.pop("two"), other["three"]
            d = inputs.pop("four", None)
            d = inputs.pop("four", default=None)
            inputs["five"] = 1
            if a:
                e = inputs["six"]
            return inputs["seven"]

    found = Own
    """
    pipeline = pipeline_of(code)
    loss = class_in(pipeline).attributes["loss"]
    assert isinstance(loss, Function)
    found = script_text.keys_always_read(pipeline, loss, "inputs")
    assert [(key, pipeline.code(location)) for key, location in found] == [
        ("one", 'inputs["one"]'),
        ("two", 'inputs.pop("two")'),
    ]
