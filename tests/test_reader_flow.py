"""Which way the reader goes, and what names stand for after it: what mutants of it showed that no other test held."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.interpreter.loops import MOST_ITEMS
from lintrain.pipeline.blocks import given_back, handed_on, spread_names
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.python import Mapping, Sequence
from lintrain.source.source import Source
from tests.support.loops import pipeline_of
from tests.test_reader_language import plain, value_of


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(a):\n    if a:\n        return 1\n    else:\n        return 2\nx = f(y)", {1, 2}),
        ("def f(a):\n    if a:\n        return 1\nx = f(y)", {1, None}),
        ("def f():\n    try:\n        return 3\n    except ValueError:\n        y = 1\n    return 4\nx = f()", {3, 4}),
        ("def f():\n    try:\n        return 3\n    finally:\n        y = 1\n    return 4\nx = f()", 3),
        ("def f():\n    try:\n        y = 1\n    finally:\n        return 3\n    return 4\nx = f()", 3),
        ("x = 1\ndef f():\n    global x\n    x = 3\n    return x\nx = f()", 3),
    ],
)
def test_a_function_gives_what_its_ways_out_give(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("handlers", "expected"),
    [
        ("except ValueError:\n    x = a", {0, 1}),
        ("except ValueError:\n    a = 5\nexcept KeyError:\n    x = a", {0, 1}),
        ("except ValueError:\n    a = 5\n    raise\nx = a", 1),
        ("except ValueError:\n    a = 5\nx = a", {1, 5}),
        ("except ValueError:\n    a = 5\nfinally:\n    a = 7\nx = a", 7),
    ],
)
def test_a_handler_starts_somewhere_in_the_body_and_may_end_the_script(handlers: str, expected: object) -> None:
    assert plain(value_of(f"a = 0\ntry:\n    a = 1\n    run()\n{handlers}")) == expected


@pytest.mark.parametrize(
    ("errors", "is_guarded"),
    [(["ImportError"], True), (["ValueError", "ImportError"], True), (["ValueError"], False), ([], False)],
)
def test_a_name_may_be_missing_where_one_of_the_handlers_expects_it(errors: list[str], is_guarded: bool) -> None:
    handlers = "".join(f"except {error}:\n    AdamW = None\n" for error in errors) or "finally:\n    pass\n"
    names = pipeline_of(f"try:\n    from transformers import AdamW\n{handlers}").names
    assert [(each.name, each.is_guarded) for each in names] == [("AdamW", is_guarded)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = None\nfor row in rows:\n    x = 3", 3),
        ("x = None\nfor row in rows:\n    if row:\n        x = 3\n        break", {3, None}),
        ("x = None\nfor row in rows:\n    y = 3", None),
        ("x = 4\nfor row in rows:\n    y = 3", 4),
        ("x = 4\nfor row in rows:\n    x = 3", "unknown"),
        ("x = []\nwhile True:\n    x.append(3)\n    break", [3]),
        ("x = []\nwhile False:\n    x.append(3)\nelse:\n    x.append(4)", [4]),
        ("x = []\nwhile more():\n    x.append(3)", [3]),
    ],
)
def test_a_loop_that_binds_a_name_over_none_is_taken_to_have_run(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("code", "is_complete"),
    [
        ("[a for a in [1, 3]]", True),
        ("[a for a in [1, 3] if a > 2]", True),
        ("[a for a in [1, 3] if a > 2 or other]", False),
        ("[a for a in other]", False),
        (f"[a for a in range({MOST_ITEMS // 2}) for b in range(4)]", False),
        ("{a: 1 for a in [1, 3]}", True),
        ("{name(a): 1 for a in [1, 3]}", False),
        ("{3: a for a in other}", False),
    ],
)
def test_a_comprehension_is_complete_where_every_pass_is_known(code: str, is_complete: bool) -> None:
    made = value_of(f"x = {code}")
    assert isinstance(made, Sequence | Mapping)
    assert made.is_complete == is_complete


def test_what_is_spread_into_a_function_gets_no_name_of_its_own() -> None:
    made = value_of("def f(**named):\n    return named\nx = f(a=3, **others)")
    assert isinstance(made, Mapping)
    assert (plain(made), made.is_complete) == ({"a": 3}, False)


CALLS = """
def build():
    one, other = make()
    return one, other


def use(first, *, second):
    return first


{calls}
"""


@pytest.mark.parametrize(
    ("calls", "back"),
    [
        ("a, b = build()", {"one": ("a",), "other": ("b",)}),
        ("a, b = build()\nc, d = build()", {"one": ("a", "c"), "other": ("b", "d")}),
        ("a, b = build()\nc, self.d = build()", {"one": ("a", "c")}),
        ("a, b = build()\nc = build()", {}),
        ("a, b = build()\nbuild()", {}),
        ("a, b = c = build()", {}),
        ("a, b = build()\nbuilders = [build]", {}),
    ],
)
def test_what_a_function_returns_gets_the_names_that_every_call_gives_it(
    calls: str, back: dict[str, tuple[str, ...]]
) -> None:
    source = Source("script.py", CALLS.format(calls=calls))
    assert {node.id: names for node, names in given_back(source).items()} == back


def test_a_thing_is_followed_by_its_names_in_functions() -> None:
    source = Source("script.py", CALLS.format(calls="a, b = build()\nkept = use(b, second=a)\nother_use(a)"))
    assert {(node.id, names) for node, names in handed_on(source).items()} >= {("b", ("first",)), ("a", ("second",))}
    names, handed = spread_names(source, {"other"})
    assert names == {"other", "b", "first", "kept"}
    assert sorted(node.id for node in handed) == ["b", "first", "other"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def swap(made):\n    return Other\nclass Other:\n    k = 3\n@swap\nclass A:\n    k = 1\nx = A.k", 3),
        ("@other\nclass A:\n    k = 1\nx = A.k", 1),
        ("x = {1, 3} - {3}", "unknown"),
        ("x = 3 if [1] else 4", 3),
        ("x = 3 if [] else 4", 4),
        ("x = 3 if list(other) else 4", {3, 4}),
        ("def f(): pass\nx = 3 if f else 4", 3),
        ("seen = []\nclass M:\n    def __enter__(self): return 3\n    def __exit__(self, *given):\n"
         "        seen.append(len(given))\nwith M() as m: pass\nx = [m, *seen]", [3, 3]),
    ],
)  # fmt: skip
def test_what_stands_for_itself_or_for_something_else_is_told_apart(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


def test_lists_that_are_not_all_known_make_none_that_is() -> None:
    made = value_of("x = [1] + list(other)")
    assert isinstance(made, Sequence)
    assert not made.is_complete


@pytest.mark.parametrize(
    ("test", "is_certain"), [("1 > 2", True), ("other", False), ("2 > 1 and other", False)], ids=str
)
def test_what_comes_after_a_way_out_is_certain_where_that_is_never_taken(test: str, is_certain: bool) -> None:
    code = f"import torch\ndef main():\n    if {test}:\n        return\n    torch.manual_seed(seed=3)\nmain()"
    assert [call.is_certain for call in pipeline_of(code).calls if call.path == "torch.manual_seed"] == [is_certain]


def test_a_version_that_is_refused_guards_what_follows_in_its_block_alone() -> None:
    code = """
    import transformers
    def check():
        if transformers.__version__ < "4":
            raise RuntimeError("too old")
        from transformers import AdamW
    check()
    from transformers import Trainer
    """
    names = {each.name: each.is_guarded for each in pipeline_of(dedent(code)).names if each.is_import}
    assert names == {"AdamW": True, "Trainer": False}


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("@classmethod\n    def f(cls):\n        torch.manual_seed(seed=cls.k)", 3),
        ("@staticmethod\n    def f(k=4):\n        torch.manual_seed(seed=k)", 4),
        ("def f(self):\n        torch.manual_seed(seed=self.k)", 3),
    ],
)
def test_methods_that_nobody_calls_are_read_with_what_their_class_has(method: str, given: object) -> None:
    calls = pipeline_of(f"import torch\nclass A:\n    k = 3\n    {method}\n").calls
    assert [plain(call.arguments["seed"].value) for call in calls if call.path == "torch.manual_seed"] == [given]


OWN_CONTEXT = """
class Own{bases}:
    def __enter__(self):
        {body}

    def __exit__(self, *given):
        pass
"""


@pytest.mark.parametrize(
    ("manager", "is_off"),
    [
        ("torch.set_grad_enabled(True)", False),
        ("torch.set_grad_enabled(False)", True),
        ("torch.set_grad_enabled(other)", False),
        (OWN_CONTEXT.format(bases="", body="pass"), False),
        (OWN_CONTEXT.format(bases="(Other)", body="pass"), True),
        (OWN_CONTEXT.format(bases="", body="turn_off_grad()"), True),
    ],
)
def test_autograd_is_off_where_a_context_may_turn_it_off(manager: str, is_off: bool) -> None:
    own, called = (manager, "Own()") if "class" in manager else ("", manager)
    code = (
        f"import torch\nfrom elsewhere import Other\nnet = torch.nn.Linear(8, 3)\n{own}\nwith {called}:\n    net(x)\n"
    )
    assert [event.without_grad for event in pipeline_of(code).acts(Act.FORWARD)] == [is_off]
