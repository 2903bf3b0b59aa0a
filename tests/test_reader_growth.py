"""Values that a script doubles line by line, or copies and looks through again and again: the reader counts that."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import pytest

from lintrain.analysis.token_feeds import parts_of
from lintrain.interpreter.core import dispatch, operations, registry, storing
from lintrain.interpreter.core.arithmetic import LONGEST
from lintrain.interpreter.core.reader import DEEPEST, ITEMS_A_STEP, Frame, Reader, weighed
from lintrain.interpreter.core.scope import MOST_STARS, Scope
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.loading import FilePath
from lintrain.pipeline.values.python import Constant, Library, Literal, Mapping, Sequence, Slice, Unknown, Value, join
from lintrain.pipeline.values.tensors import MOST_PARTS
from lintrain.read import load, read_pipeline
from lintrain.source.source import Source

load()

HEAD = "import os\nimport torch\nfrom pathlib import Path\nfrom transformers import TrainingArguments\n"
DOUBLINGS = 24
"""Of two items: what is not stopped still fits into the memory."""


def read(start: str, line: str) -> Pipeline:
    code = f"{HEAD}x = {start}\n" + f"{line}\n" * DOUBLINGS + "args = TrainingArguments(run_name=x)\n"
    return read_pipeline(Source("t.py", code), TargetVersions())


@pytest.mark.parametrize("start", ["[1, 2]", "(1, 2)"])
@pytest.mark.parametrize("line", ["x = x + x", "x = [*x, *x]", "x = (*x, *x)", "x = (x or x) + x"])
def test_a_list_that_is_doubled_spends_the_budget(start: str, line: str) -> None:
    assert read(start, line).is_exhausted


@pytest.mark.parametrize("line", ["x += x", "x.extend(x)"])
def test_a_list_that_grows_by_itself_is_known_up_to_a_length(line: str) -> None:
    pipeline = read("[1, 2]", line)
    grown = pipeline.arguments[0].value("run_name")
    assert not pipeline.is_exhausted
    assert isinstance(grown, Sequence)
    assert (len(grown.items) < 10 * DOUBLINGS, grown.is_complete) == (True, False)


@pytest.mark.parametrize(
    "line", ["x = x + x", "x = f'{x}{x}'", "x = os.path.join(x, x)", "x = x * 2", "x = x.replace('', 'aaaaaaaa')"]
)
def test_a_text_that_is_doubled_is_not_known(line: str) -> None:
    pipeline = read("'ab'", line)
    assert not pipeline.is_exhausted
    assert not isinstance(pipeline.arguments[0].value("run_name"), Constant)


@pytest.mark.parametrize("line", ["x = x / x", "x = x.joinpath(x)", "x = Path(x, x)"])
def test_a_path_that_is_doubled_is_not_known(line: str) -> None:
    pipeline = read("Path('ab')", line)
    assert not pipeline.is_exhausted
    assert not isinstance(pipeline.arguments[0].value("run_name"), FilePath)


SIZE = 800
PLAIN = Source("t.py", "x = 1\n")
LOCATION = PLAIN.location(PLAIN.tree.body[0])


def counted(act: Callable[[Reader], object]) -> int:
    """The steps that something takes."""
    reader = Reader(Pipeline(PLAIN, TargetVersions()))
    reader.frames.append(Frame(None, Scope()))
    act(reader)
    return reader.steps


def large_list() -> Sequence:
    return Sequence([Constant(number) for number in range(SIZE)])


def large_dictionary() -> Mapping:
    return Mapping({f"k{number}": Constant(number) for number in range(SIZE)})


def wrapped() -> Mapping:
    return Mapping({"a": Sequence([large_list()])})


@pytest.mark.parametrize("given", [large_list, large_dictionary, wrapped])
def test_what_a_function_of_a_library_is_given_is_counted(given: Callable[[], Value]) -> None:
    def is_free(path: str, by_name: bool) -> bool:
        positional, named = ([], {"x": given()}) if by_name else ([given()], {})
        steps = counted(lambda reader: dispatch.call(reader, Library(path), positional, named, location=LOCATION))
        return steps < SIZE // ITEMS_A_STEP

    assert not [(path, by_name) for path in registry.FUNCTIONS for by_name in (False, True) if is_free(path, by_name)]


@pytest.mark.parametrize("name", ["copy", "keys", "values", "items"])
def test_a_method_that_copies_a_dictionary_is_counted(name: str) -> None:
    method = dispatch.attribute(Reader(Pipeline(PLAIN, TargetVersions())), large_dictionary(), name, LOCATION)
    assert counted(lambda reader: dispatch.call(reader, method, [], location=LOCATION)) >= SIZE // ITEMS_A_STEP


ACTS: list[tuple[Callable[[], Value], Callable[[Reader, Value], object]]] = [
    (large_list, lambda reader, value: dispatch.element(reader, value)),
    (large_list, lambda reader, value: operations.binary(reader, value, "Add", value, LOCATION)),
    (large_list, lambda reader, value: operations.compare(reader, Constant("no"), "In", value, LOCATION)),
    (large_list, lambda reader, value: operations.unpack(reader, value, 2, 1)),
    (large_list, lambda reader, value: dispatch.subscript(reader, value, Slice(), LOCATION)),
    (large_dictionary, lambda reader, value: dispatch.element(reader, value)),
    (large_dictionary, lambda reader, value: operations.binary(reader, value, "BitOr", value, LOCATION)),
    (large_dictionary, lambda reader, value: operations.compare(reader, Constant("no"), "In", value, LOCATION)),
    (large_dictionary, lambda reader, value: operations.update(reader, {}, value)),
    (large_dictionary, lambda reader, value: dispatch.subscript(reader, value, Unknown(), LOCATION)),
    (large_dictionary, lambda reader, value: storing.store_item(reader, value, Unknown(), Constant(1), LOCATION)),
]


@pytest.mark.parametrize(("made", "act"), ACTS)
def test_what_copies_or_looks_through_is_counted(
    made: Callable[[], Value], act: Callable[[Reader, Value], object]
) -> None:
    value = made()
    assert counted(lambda reader: act(reader, value)) >= SIZE // ITEMS_A_STEP


LINES = ["y = [*x]", "y = f(*x)", "y = x * torch.a", "y = copy.copy(x)", "y = functools.partial(f, *x)()"]
ENTRY_LINES = [
    "y = dict(x)",
    "y = {**x}",
    "y = f(**x)",
    "y = copy.copy(x)",
    "y = pd.DataFrame(x)",
    "y = Dataset.from_dict(x)",
]
IMPORTS = """import copy, functools, torch
import pandas as pd
from datasets import Dataset
def f(*items, **named): return items
"""


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("line", LINES)
def test_a_large_list_is_not_copied_a_thousand_times(line: str) -> None:
    items = ", ".join(map(str, range(30_000)))
    assert read_pipeline(Source("t.py", f"{IMPORTS}x = [{items}]\n" + f"{line}\n" * 800), TargetVersions()).is_exhausted


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("line", ENTRY_LINES)
def test_a_large_dictionary_is_not_copied_a_thousand_times(line: str) -> None:
    entries = ", ".join(f"'k{number}': 1" for number in range(30_000))
    assert read_pipeline(
        Source("t.py", f"{IMPORTS}x = {{{entries}}}\n" + f"{line}\n" * 800), TargetVersions()
    ).is_exhausted


@pytest.mark.parametrize("line", ["if q: pass", "try: pass\nexcept OSError: pass", "for x in q: pass", "while q: pass"])
def test_thousands_of_names_are_not_copied_for_thousands_of_branches(line: str) -> None:
    code = "".join(f"a{number} = 0\n" for number in range(30_000)) + f"{line}\n" * 600
    assert not read_pipeline(Source("t.py", code), TargetVersions()).is_exhausted


def test_ways_out_of_a_loop_do_not_keep_thousands_of_names_each() -> None:
    names = "".join(f"    a{number} = 0\n" for number in range(30_000))
    code = "while q:\n" + names + "    if q: break\n" * 60
    assert read_pipeline(Source("t.py", code), TargetVersions()).is_exhausted


def nested(levels: int) -> Value:
    made: Value = Constant(1)
    for _ in range(levels):
        made = Sequence([made, made])
    return made


def test_lists_that_lie_in_each_other_too_deep_are_not_handed_to_libraries() -> None:
    reader = Reader(Pipeline(PLAIN, TargetVersions()))
    reader.frames.append(Frame(None, Scope()))
    for levels in (1, DEEPEST):
        given = nested(levels)
        assert weighed(reader, given) is given
    assert isinstance(weighed(reader, nested(DEEPEST + 1)), Unknown)


@pytest.mark.parametrize(
    ("start", "line", "use"),
    [
        ("[q, q]", "x = [x, x]", "torch.optim.AdamW(x)"),
        ("[q, q]", "x = [x, x]", "tok(x)"),
        ("[q, q]", "x = [x, x]", "Dataset.from_dict({'a': x})"),
        ("q", "x = torch.some(x, x)", "torch.optim.AdamW(x)"),
        ("tok.eos_token", "x = f'{x}{x}'", "tok(x)"),
        ("tok.eos_token", "x = x + x", "tok(x)"),
        ("torch.nn.Linear(1, 1)", "x = torch.nn.Sequential(x, x)", "x(torch.ones(1))"),
    ],
)
def test_what_holds_the_same_thing_twice_again_and_again_ends(start: str, line: str, use: str) -> None:
    head = f"{HEAD}from transformers import AutoTokenizer\nfrom datasets import Dataset\n"
    code = (
        f"{head}tok = AutoTokenizer.from_pretrained('gpt2')\nx = {start}\n" + f"{line}\n" * DOUBLINGS + f"y = {use}\n"
    )
    before = time.process_time()
    pipeline = read_pipeline(Source("t.py", code), TargetVersions())
    assert not [text for text in pipeline.texts if len(list(islice(parts_of(text), MOST_PARTS + 1))) > MOST_PARTS]
    assert time.process_time() - before < 4


def test_a_small_list_costs_nothing_more() -> None:
    items = Sequence([Constant(number) for number in range(ITEMS_A_STEP - 1)])
    assert counted(lambda reader: dispatch.call(reader, Library("builtins.len"), [items], location=LOCATION)) == 0


def test_a_join_of_many_things_ends_with_the_first_few() -> None:
    def numbers() -> Iterator[Value]:
        for number in range(SIZE):
            taken.append(number)
            yield Constant(number)

    taken: list[int] = []
    assert isinstance(join(numbers()), Unknown)
    assert len(taken) < 10


def _note(asked: list[Literal], number: int, name: str) -> None:
    asked.append(number)


def test_only_the_latest_imports_with_a_star_are_looked_through() -> None:
    asked: list[Literal] = []
    scope = Scope()
    for number in range(MOST_STARS * 2):
        scope.add_star(partial(_note, asked, number))
    assert scope.lookup("nothing") is None
    assert asked == [*range(MOST_STARS * 2 - 1, MOST_STARS - 1, -1)]


def test_what_is_put_together_within_bounds_is_known() -> None:
    code = f"{HEAD}x = 'a' * 90\nx = f'{{x}}{{x}}'\nargs = TrainingArguments(run_name=os.path.join(x, x))\n"
    value = read_pipeline(Source("t.py", code), TargetVersions()).arguments[0].value("run_name")
    assert isinstance(value, Constant)
    assert value.value == f"{'a' * 180}/{'a' * 180}"
    assert len(str(value.value)) < LONGEST


def test_a_record_that_was_asked_about_itself_is_freed_without_the_collector() -> None:
    pipeline = read("[1, 2]", "x = x")
    references = sys.getrefcount(pipeline)
    assert pipeline.cached(lambda record, _: len(record.arguments), pipeline) == 1
    assert sys.getrefcount(pipeline) == references
