"""What the reader makes of Python itself: names, functions, branches, loops, configurations."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import STEP_BUDGET, Frame, Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Constant, Either, Mapping, Sequence, Unknown, Value
from lintrain.read import load, read_pipeline
from lintrain.source.source import Source


def run(code: str) -> tuple[Reader, Scope]:
    source = Source("script.py", dedent(code))
    load()
    reader = Reader(Pipeline(source, TargetVersions()))
    scope = Scope(names={"__name__": Constant("__main__")})
    reader.frames.append(Frame(None, scope))
    dispatch.execute_block(reader, source.tree.body, scope)
    return reader, scope


def value_of(code: str, expression: str = "x") -> Value:
    reader, scope = run(code)
    return dispatch.evaluate(reader, ast.parse(expression, mode="eval").body, scope)


def plain(value: Value) -> object:
    match value:
        case Constant():
            return value.value
        case Sequence(kind="tuple"):
            return tuple(plain(item) for item in value.items)
        case Sequence():
            return [plain(item) for item in value.items]
        case Mapping():
            return {key: plain(item) for key, item in value.entries.items()}
        case Either():
            return {plain(option) for option in value.options}
        case Unknown():
            return "unknown"
        case _:
            return type(value).__name__


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 1 + 2 * 3", 7),
        ("x = 5e-5", 5e-5),
        ("x = -1", -1),
        ("name = 'glue'; x = f'{name}-small'", "glue-small"),
        ("a, b = 1, 2; x = b", 2),
        ("a, *b = [1, 2, 3]; x = b", [2, 3]),
        ("a = b = 4; x = a", 4),
        ("x = {'train': 1, 'test': 2}['test']", 2),
        ("x = [1, 2, 3][-1]", 3),
        ("x = len(['a', 'b', 'c'])", 3),
        ("x = {i: name for i, name in enumerate(['a', 'b'])}", {0: "a", 1: "b"}),
        ("x = {name: i for i, name in {0: 'a', 1: 'b'}.items()}", {"a": 0, "b": 1}),
        ("x = [n * 2 for n in (1, 2)]", [2, 4]),
        ("x = dict(a=1, **{'b': 2})", {"a": 1, "b": 2}),
        ("x = {**{'a': 1}, 'b': 2}", {"a": 1, "b": 2}),
        ("x = 3 if True else 4", 3),
        ("x = None or 'fallback'", "fallback"),
        ("x = 'a' and 'b'", "b"),
        ("x = 1 < 2 < 3", True),
        ("x = 'a' in ['a', 'b']", True),
        ("x = (y := 5)", 5),
        ("x = 10; x += 5", 15),
        ("x = max(1, 2)", 2),
    ],
)
def test_literals_are_computed(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(): return 1\nx = f()", 1),
        ("def f(a, b=2): return a + b\nx = f(1)", 3),
        ("def f(a, b=2): return a + b\nx = f(b=5, a=1)", 6),
        ("def f(*a): return a\nx = f(1, 2)", (1, 2)),
        ("def f(**k): return k\nx = f(a=1)", {"a": 1}),
        ("def outer():\n    y = 3\n    def inner(): return y\n    return inner()\nx = outer()", 3),
        ("y = 1\ndef f():\n    global y\n    y = 2\nf()\nx = y", 2),
        ("def f():\n    n = 1\n    def g():\n        nonlocal n\n        n = 2\n    g()\n    return n\nx = f()", 2),
        ("x = (lambda a: a * 2)(4)", 8),
        ("from functools import partial\ndef f(a, b): return b\nx = partial(f, 1)(2)", 2),
        ("class A:\n    def __init__(self, n): self.n = n\n    def get(self): return self.n\nx = A(7).get()", 7),
        ("class A:\n    n = 1\nclass B(A): pass\nx = B().n", 1),
        ("class A:\n    def f(self): return 1\nclass B(A):\n    def f(self): return super().f() + 1\nx = B().f()", 2),
        ("class A:\n    @property\n    def n(self): return 3\nx = A().n", 3),
        ("class A:\n    @staticmethod\n    def f(a): return a\nx = A.f(4)", 4),
        ("def f(a): return 1 if a else 2\nx = f(0)", 2),
        ("def f(a):\n    if a: return 1\n    return 2\nx = f(True)", 1),
        ("def f():\n    for _ in range(3): pass\nx = f()", None),
    ],
)
def test_the_scripts_own_functions_are_followed(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


def test_a_branch_that_is_not_certain_leaves_either_value() -> None:
    assert plain(value_of("import torch\nif torch.cuda.is_available():\n    x = 1\nelse:\n    x = 2")) == {1, 2}


def test_a_branch_that_is_certain_leaves_one_value() -> None:
    assert plain(value_of("flag = True\nif flag:\n    x = 1\nelse:\n    x = 2")) == 1


def test_the_main_guard_is_taken() -> None:
    assert plain(value_of("x = 1\nif __name__ == '__main__':\n    x = 2")) == 2


def test_a_branch_that_returns_leaves_nothing_behind() -> None:
    code = "def f(a):\n    x = 1\n    if a.b:\n        x = 2\n        return 5\n    return x\nimport os\nx = f(os)"
    assert plain(value_of(code)) == {5, 1}


def test_what_a_loop_changes_is_unknown_inside_it() -> None:
    assert plain(value_of("lr = 1e-5\nfor _ in range(3):\n    lr = lr * 10\nx = lr")) == "unknown"


def test_what_a_loop_over_names_binds_is_either_of_them() -> None:
    assert plain(value_of("for x in ['a', 'b']:\n    pass")) == {"a", "b"}


def test_an_argparse_default_is_known_as_a_default() -> None:
    value = value_of(
        """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--learning-rate", type=float, default="1e-3")
        args = parser.parse_args()
        x = args.learning_rate
        """
    )
    assert isinstance(value, Constant)
    assert value.value == pytest.approx(1e-3)
    assert value.default


def test_an_option_without_a_default_that_is_required_is_unknown() -> None:
    code = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--model", required=True)
        x = parser.parse_args().model
        """
    assert plain(value_of(code)) == "unknown"


def test_a_default_decides_no_branch() -> None:
    code = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--large", action="store_true")
        x = 1
        if parser.parse_args().large:
            x = 2
        """
    assert plain(value_of(code)) == {1, 2}


def test_a_dataclass_gives_its_defaults_and_what_it_was_called_with() -> None:
    code = """
        from dataclasses import dataclass, field
        @dataclass
        class Config:
            lr: float = 2e-5
            names: list = field(default_factory=lambda: ["a", "b"])
            size: int = 3
        config = Config(size=4)
        x = (config.lr, config.names, config.size)
        """
    assert plain(value_of(code)) == (2e-5, ["a", "b"], 4)


def test_a_dataclass_filled_from_the_command_line_gives_defaults_only() -> None:
    code = """
        from dataclasses import dataclass
        from transformers import HfArgumentParser
        @dataclass
        class Config:
            lr: float = 2e-5
        (config,) = HfArgumentParser((Config,)).parse_args_into_dataclasses()
        x = config.lr
        """
    value = value_of(code)
    assert isinstance(value, Constant)
    assert value.default


def test_a_dictionary_changed_under_a_key_that_is_not_known_is_open() -> None:
    value = value_of("import os\nx = {'a': 1}\nx[os.name] = 2")
    assert isinstance(value, Mapping)
    assert not value.is_complete


def test_what_is_not_understood_is_unknown() -> None:
    assert value_of("from somewhere import thing\nx = thing(3).value[2]").__class__ is Unknown


def test_an_unknown_object_gives_the_same_unknown_attribute_each_time() -> None:
    reader, scope = run("def f(config): return config\ny = f(unknown_name)")
    scope.names["config"] = Unknown(name="config")
    node = ast.parse("config.model", mode="eval").body
    assert dispatch.evaluate(reader, node, scope) is dispatch.evaluate(reader, node, scope)


def test_recursion_ends_in_unknown() -> None:
    assert plain(value_of("def f(n): return f(n - 1)\nx = f(3)")) == "unknown"


@pytest.mark.parametrize("code", ["x = 10 ** 10 ** 10", "x = 'a' * 10**9", "x = 2 ** 500", "x = '%1000000000d' % 1"])
def test_no_literal_arithmetic_makes_the_reader_work_long(code: str) -> None:
    assert isinstance(value_of(code), Unknown)


def test_a_file_past_its_budget_is_given_up_on() -> None:
    body = "\n".join(f"    x{n} = [[1, 2, 3] for _ in range(30)]" for n in range(200))
    calls = "\n".join("f()" for _ in range(200))
    source = Source("script.py", f"def f():\n{body}\n{calls}\n")
    record = read_pipeline(source, TargetVersions())
    assert record.is_exhausted
    assert STEP_BUDGET < 1_000_000


def test_every_function_is_read_though_nobody_calls_it() -> None:
    source = Source("script.py", "import torch\ndef step(loss):\n    torch.no_grad()\n")
    record = read_pipeline(source, TargetVersions())
    assert [call.path for call in record.calls] == ["torch.no_grad"]
