"""What the reader makes of code that wraps other code: decorators, generators, `with`, `match`, comprehensions."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from lintrain.pipeline.values.python import options_of
from tests.support.loops import pipeline_of
from tests.test_reader_language import plain, value_of

WRAPS = """
import functools

def deco(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)
    return wrapper
"""

CONTEXT = "from contextlib import contextmanager\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"{WRAPS}@deco\ndef f(a): return a\nx = f(3)", 3),
        (f"{WRAPS}@deco\ndef f(a): return g(a)\n@deco\ndef g(a): return a\nx = f(3)", 3),
        (f"{WRAPS}@deco\n@deco\ndef f(a): return a\nx = f(3)", 3),
        ("def deco(f):\n    return lambda: 4\n@deco\ndef f(): return 3\nx = f()", 4),
        ("R = {}\ndef to(n):\n    def put(f):\n        R[n] = f\n        return f\n    return put\n"
         "@to('a')\ndef f(): return 3\nx = R['a']()", 3),
        ("class R:\n    def __call__(self, f): return f\nput = R()\n@put\ndef f(): return 3\nx = f()", 3),
        ("import foo\n@foo.bar\ndef f(): return 3\nx = f()", "unknown"),
        ("def deco(f): return other(f)\n@deco\ndef f(): return 3\nx = f()", "unknown"),
        ("from functools import lru_cache\n@lru_cache(maxsize=None)\ndef f(): return 3\nx = f()", 3),
        ("import torch\n@torch.no_grad()\ndef f(): return 3\nx = f()", 3),
        ("class A:\n    k = 3\n    @classmethod\n    def f(cls): return cls.k\nx = A().f()", 3),
        ("class A:\n    @property\n    def a(self): return self.b\n    @a.setter\n    def a(self, v): self.b = v\n"
         "c = A()\nc.a = 3\nx = c.a", 3),
        ("R = []\ndef put(c):\n    R.append(c)\n    return c\n@put\nclass A:\n    k = 3\nx = R[0].k", 3),
    ],
)  # fmt: skip
def test_a_decorator_of_the_script_is_called_and_any_other_hides_the_result(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def g():\n    yield 1\n    yield 3\nx = list(g())", [1, 3]),
        ("def g(n):\n    for i in n:\n        yield 3\nfor x in g(y): pass", 3),
        ("def g():\n    yield from [1, 3]\nx = [i for i in g()]", [1, 3]),
        ("def g():\n    if y:\n        yield 1\n    yield 3\nx = list(g())", [{1, 3}]),
        ("def g():\n    yield 3\nx = next(g())", 3),
        ("async def g():\n    yield 3\nx = g()", "unknown"),
    ],
)
def test_a_generator_gives_what_it_yields(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"{CONTEXT}@contextmanager\ndef c(a):\n    yield a\nwith c(3) as x: pass", 3),
        (f"{CONTEXT}@contextmanager\ndef c():\n    try: yield 3\n    finally: y = 1\nwith c() as x: pass", 3),
        (f"{CONTEXT}@contextmanager\ndef c(a):\n    yield a\nwith c(1), c(3) as x: pass", 3),
        (f"{CONTEXT}@contextmanager\ndef c():\n    yield\ndef f():\n    with c():\n        return 3\nx = f()", 3),
        (f"{CONTEXT}class A:\n    @contextmanager\n    def c(self):\n        yield 3\nwith A().c() as x: pass", 3),
        ("class C:\n    def __enter__(self): return 3\n    def __exit__(self, *a): pass\nwith C() as x: pass", 3),
        ("class C:\n    def __enter__(self):\n        self.a = 3\n        return self\nwith C() as c: x = c.a", 3),
        ("import contextlib\nwith contextlib.nullcontext(3) as x: pass", 3),
        ("with foo() as x: pass", "unknown"),
    ],
)  # fmt: skip
def test_with_binds_what_its_manager_gives(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


MODEL = """
import torch
from contextlib import contextmanager
model = torch.nn.Linear(2, 2)
"""

MANAGER = """
@contextmanager
def evaluating(model):
    model.eval()
    with torch.no_grad():
        yield
    model.train()
"""

MANAGER_CLASS = """
class Evaluating:
    def __init__(self, model): self.model = model
    def __enter__(self): self.model.eval()
    def __exit__(self, *args): self.model.train()
"""


def acts(code: str) -> list[tuple[Act, bool]]:
    kinds = (Act.FORWARD, Act.TRAIN_MODE, Act.EVAL_MODE)
    return [(event.act, event.without_grad) for event in pipeline_of(MODEL + code).acts(*kinds)]


def test_what_a_context_manager_does_happens_around_the_body() -> None:
    around = [(Act.EVAL_MODE, False), (Act.FORWARD, True), (Act.TRAIN_MODE, False)]
    assert acts(MANAGER + "with evaluating(model):\n    model(x)") == around
    assert [act for act, _ in acts(MANAGER_CLASS + "with Evaluating(model):\n    model(x)")] == [
        act for act, _ in around
    ]


def test_the_body_of_a_with_belongs_to_the_function_that_it_stands_in() -> None:
    code = MODEL + MANAGER + "def check(model):\n    with evaluating(model):\n        model(x)\ncheck(model)"
    (forward,) = pipeline_of(code).acts(Act.FORWARD)
    assert forward.function == "check"


def test_a_class_that_speaks_of_gradients_may_turn_them_off() -> None:
    code = MANAGER_CLASS + "    def off(self): torch.set_grad_enabled(False)\nwith Evaluating(model):\n    model(x)"
    assert (Act.FORWARD, True) in acts(code)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("match 'b':\n    case 'a': x = 1\n    case 'b': x = 3\n    case _: x = 5", 3),
        ("match 'b':\n    case 'a' | 'b': x = 3\n    case _: x = 5", 3),
        ("match 3:\n    case 1: x = 1\n    case y: x = y", 3),
        ("match (1, 3):\n    case [a]: x = a\n    case [a, b]: x = b", 3),
        ("match 3:\n    case a if a > 5: x = 1\n    case a if a > 2: x = a", 3),
        ("match None:\n    case None: x = 3\n    case _: x = 1", 3),
        ("match foo:\n    case 1: x = 1\n    case _: x = 3", {1, 3}),
        ("match 1:\n    case 2: x = 1\n    case foo.A: x = 2\n    case _: x = 3", {2, 3}),
    ],
)
def test_match_takes_the_case_that_fits_for_certain(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = [a for b in [[1], [3]] for a in b]", [1, 3]),
        ("x = [a for a in [1, 3] if a > 2]", [3]),
        ("x = {a: b for a, b in [('a', 1), ('b', 3)] if b > 2}", {"b": 3}),
        ("x = list(map(lambda a: a + 1, [0, 2]))", [1, 3]),
        ("x = list(filter(lambda a: a > 2, [1, 3]))", [3]),
        ("from itertools import chain\nx = list(chain([1], [3]))", [1, 3]),
        ("from itertools import islice\nfor x in islice([3, 3], 1): pass", 3),
    ],
)
def test_items_are_gone_through_one_by_one(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize("code", ["x = [a for a in [1, 3] if y]", "x = [a for b in y for a in [1, 3]]"])
def test_a_comprehension_that_may_leave_items_out_is_not_complete(code: str) -> None:
    value = value_of(code)
    assert getattr(value, "is_complete", None) is False


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = ({'a': 1} | {'b': 3})['b']", 3),
        ("c = {'a': 1}\nc |= {'b': 3}\nx = c['b']", 3),
        ("c = {}\nc.setdefault('a', 3)\nx = c['a']", 3),
        ("c = {'a': 1, 'b': 3}\ndel c['a']\nx = c", {"b": 3}),
        ("c = {'a': 1}\nif y:\n    c.pop('a')\nx = 'a' in c", "unknown"),
        ("c = {'a': 1, 'b': 2}\nfor k in c:\n    c[k] = 3\nx = c", {"a": 3, "b": 3}),
        ("c = {'a': 1, 'b': 2}\nfor k in c:\n    if y: c[k] = 3\nx = c['a']", {1, 3}),
        ("c = {'a': 1}\nc[y] = 3\nx = c['a']", {1, 3}),
        ("a = [1, 2, 3]\nx = a[1:]", [2, 3]),
        ("a = [1, 2, 3]\nx = a[:y]", [{1, 2, 3}]),
        ("import copy\na = {'b': [1]}\nc = copy.deepcopy(a)\na['b'].append(2)\nx = c['b']", [1]),
        ("import copy\na = {'b': 1}\nc = copy.copy(a)\na['b'] = 2\nx = c['b']", 1),
        ("from collections import OrderedDict\nx = OrderedDict(a=3)['a']", 3),
        ("from types import SimpleNamespace\nx = SimpleNamespace(a=3).a", 3),
        ("from enum import Enum\nclass E(Enum):\n    A = 3\nx = E.A.value", 3),
        ("x = any([False, True])", True),
        ("x = all([True, y])", "unknown"),
        ("x = 'org/name'.split('/')[-1]", "name"),
        ("import os\nx = os.path.join('out', 'run')", "out/run"),
    ],
)
def test_containers_hold_what_was_put_into_them(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


FIELDS = "from dataclasses import asdict, dataclass, replace\n@dataclass\nclass C:\n    a: int = 3\n    b: int = 1\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"{FIELDS}x = asdict(C())['a']", 3),
        (f"{FIELDS}x = vars(C())['a']", 3),
        (f"{FIELDS}x = C().__dict__['a']", 3),
        (f"{FIELDS}x = replace(C(), b=2).a", 3),
        (f"{FIELDS}x = getattr(C(), 'other', 3)", 3),
        (f"{FIELDS}x = isinstance(C(), C)", True),
        ("x = isinstance('a', (int, str))", True),
        (f"{FIELDS}from torch.nn import Linear\nx = isinstance(Linear(2, 3), C)", False),
        (f"{FIELDS}from torch.nn import Linear\nx = isinstance(foo(Linear), C)", "unknown"),
        ("class C(foo.B): pass\nfrom torch.nn import Linear\nx = isinstance(Linear(2, 3), C)", "unknown"),
        ("class A:\n    def __getitem__(self, i): return 3\nx = A()[0]", 3),
        ("class A:\n    def __len__(self): return 3\nx = len(A())", 3),
        ("class A:\n    def __iter__(self):\n        yield 3\nfor x in A(): pass", 3),
        ("class A:\n    def __iter__(self): return self\n    def __next__(self): return 3\nfor x in A(): pass", 3),
        ("class A: pass\nA.k = 3\nx = A.k", 3),
        ("class A:\n    k = 3\n    @classmethod\n    def make(cls): return cls()\nx = A.make().k", 3),
        ("class A(foo.B): pass\nx = getattr(A(), 'other', 3)", "unknown"),
    ],
)
def test_objects_of_the_script_do_what_their_classes_say(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("isinstance(y, A)", ["3", "5"]),
        ("not isinstance(y, A)", ["4", "5"]),
        ("isinstance(y, (A, B))", ["3", "4", "5"]),
        ("isinstance(y, A) and foo()", ["3", "4", "5"]),
        ("y is foo()", ["3", "4", "5"]),
    ],
)
def test_a_branch_knows_what_its_test_leaves_of_a_value(test: str, expected: object) -> None:
    kinds = "class A:\n    k = 3\nclass B:\n    k = 4\n"
    value = value_of(f"{kinds}y = A()\nif foo():\n    y = B()\nx = 5\nif {test}:\n    x = y.k")
    assert sorted(map(str, map(plain, options_of(value)))) == expected


def test_after_a_branch_a_value_is_what_it_was_before() -> None:
    kinds = "class A:\n    k = 3\nclass B:\n    k = 4\n"
    value = value_of(f"{kinds}y = A()\nif foo():\n    y = B()\nif isinstance(y, A):\n    pass\nx = y.k")
    assert sorted(map(str, map(plain, options_of(value)))) == ["3", "4"]


def test_a_branch_that_leaves_takes_its_value_along() -> None:
    kinds = "class A:\n    k = 3\nclass B:\n    k = 4\n"
    code = f"{kinds}y = A()\nif foo():\n    y = B()\nif isinstance(y, A):\n    raise ValueError\nx = y.k"
    assert plain(value_of(code)) == 4


def test_what_two_methods_that_nobody_calls_store_is_one_of_both() -> None:
    code = """
        from transformers import TrainingArguments

        class Experiment:
            def small(self):
                self.rate = 1

            def large(self):
                self.rate = 2

            def train(self):
                return TrainingArguments("out", learning_rate=self.rate)
    """
    (arguments,) = pipeline_of(code).arguments
    assert plain(arguments.value("learning_rate")) == {1, 2}


EXPERIMENT = """
    import torch

    class Experiment:
        def evaluate(self, batches):
            for batch in batches:
                self.model(batch)

        def train(self, batches):
            for epoch in range(3):
                self.model.train()
                for batch in batches:
                    self.model(batch).sum().backward()
                self.evaluate(batches)

        def setup(self):
            self.model = torch.nn.Linear(2, 2)
"""


def test_a_class_that_nobody_makes_is_read_from_what_nobody_calls() -> None:
    pipeline = pipeline_of(EXPERIMENT)
    done = pipeline.acts(Act.TRAIN_MODE, Act.FORWARD, Act.BACKWARD)
    assert [(event.act, len(event.loops)) for event in done] == [
        (Act.TRAIN_MODE, 1),
        (Act.FORWARD, 2),
        (Act.BACKWARD, 2),
        (Act.FORWARD, 2),
    ]
    assert len({event.subject for event in done if event.act is not Act.BACKWARD}) == 1


def test_a_constructor_is_read_once_where_nobody_calls_it() -> None:
    code = """
        from transformers import TrainingArguments

        class Run:
            def __init__(self, folder):
                self.args = TrainingArguments(folder)
    """
    assert len(pipeline_of(code).arguments) == 1
