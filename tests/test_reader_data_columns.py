"""What each step of a data set leaves of its columns."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.data import Kind
from tests.support.columns import column, columns, dataset, value_of


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = films", {"text": "text", "stars": "integer", "score": "float"}),
        ("x = Dataset.from_list([{'text': 'a', 'n': 1}])", {"text": "text", "n": "integer"}),
        ("x = Dataset.from_dict({'text': ['a', 'b'] * 8, 'n': [1] * 999})", {"text": "text", "n": "integer"}),
        (
            "x = Dataset.from_dict(tokenizer(texts(), truncation=True))",
            {"input_ids": "token ids", "attention_mask": "mask"},
        ),
        ("x = load_dataset('text', data_files='a.txt', split='train')", {"text": "text"}),
        ("x = load_dataset('csv', data_files='a.csv')['train']", {"...": ""}),
        ("x = films.shuffle(seed=1).select(range(2))", {"text": "text", "stars": "integer", "score": "float"}),
        ("x = films.remove_columns(['score', 'stars'])", {"text": "text"}),
        ("x = films.remove_columns('score')", {"text": "text", "stars": "integer"}),
        ("x = films.remove_columns(names())", {"text": "text", "stars": "integer", "score": "float", "...": ""}),
        ("x = films.rename_column('stars', 'labels')", {"text": "text", "labels": "integer", "score": "float"}),
        ("x = films.rename_columns({'text': 'a', 'stars': 'b'})", {"a": "text", "b": "integer", "score": "float"}),
        ("x = films.select_columns(['text'])", {"text": "text"}),
        ("x = films.select_columns(['text']).add_column('n', [1, 2])", {"text": "text", "n": "integer"}),
        ("x = films.select_columns('stars').cast_column('stars', ClassLabel(names=['a']))", {"stars": "class label"}),
        ("x = films.select_columns('stars').cast(Features({'stars': Value('string')}))", {"stars": "text"}),
        ("x = films.select_columns('text').class_encode_column('text')", {"text": "class label"}),
        ("x = films.train_test_split(0.1)['test'].select_columns('text')", {"text": "text"}),
        ("x = concatenate_datasets([films, films]).remove_columns(['text', 'score'])", {"stars": "integer"}),
        ("x = concatenate_datasets([films, other()])", {"...": ""}),
        (
            "x = concatenate_datasets([films.select_columns('text'), Dataset.from_dict({'text': ['a' + b()]})])",
            {"text": "text"},
        ),
        (
            "x = concatenate_datasets([films.select_columns('text'), films.select_columns('stars')])",
            {"text": "text", "stars": "integer"},
        ),
        ("x = DatasetDict({'train': films}).remove_columns(['text', 'score'])['train']", {"stars": "integer"}),
        ("x = films.with_format('torch', columns=['stars'])", {"stars": "integer"}),
        ("x = films.select_columns('text'); x.set_format('torch')", {"text": "text"}),
        ("x = films.select_columns(['text', 'stars']); x.set_format('torch', ['text'])", {"text": "text"}),
        (
            "x = films.select_columns(['text', 'stars']); x.set_format('torch', ['text']); x.reset_format()",
            {"text": "text", "stars": "integer"},
        ),
    ],
)
def test_each_step_leaves_the_columns_it_should(code: str, expected: dict[str, str]) -> None:
    assert columns(code) == expected


TEXT = "x = films.select_columns(['text', 'stars'])\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = x.map(lambda row: {'n': 1})", {"text": "text", "stars": "integer", "n": "integer"}),
        ("x = x.map(lambda row: {'stars': 0.5})", {"text": "text", "stars": "float"}),
        (
            "x = x.map(lambda rows: {'n': [1, 2]}, batched=True, remove_columns=['text'])",
            {"stars": "integer", "n": "integer"},
        ),
        ("x = x.map(lambda row: {'n': [1, 2]}, remove_columns=x.column_names)", {"n": "list"}),
        ("x = x.map(lambda row: {'text': row['text'].lower()}, remove_columns=x.column_names)", {"text": "text"}),
        (
            "x = x.map(lambda t: {'n': t}, input_columns=['text'], remove_columns=['stars'])",
            {"text": "text", "n": "text"},
        ),
        (
            "x = x.map(lambda row, index: {'n': 1}, with_indices=True)",
            {"text": "text", "stars": "integer", "n": "integer"},
        ),
        (
            "x = x.map(lambda row, key: {key: 1}, fn_kwargs={'key': 'n'})",
            {"text": "text", "stars": "integer", "n": "integer"},
        ),
        (
            "x = x.map(functools.partial(lambda key, row: {key: 1}, 'n'))",
            {"text": "text", "stars": "integer", "n": "integer"},
        ),
        ("x = x.map(unknown)", {"text": "unknown", "stars": "unknown", "...": ""}),
        ("x = x.map(lambda row: {**row, 'n': 1})", {"text": "text", "stars": "integer", "n": "integer"}),
        ("x = x.map(lambda row: dict(row, n=1))", {"text": "text", "stars": "integer", "n": "integer"}),
        ("x = x.map(lambda row: None)", {"text": "text", "stars": "integer"}),
        ("x = x.filter(lambda row: row['stars'] > 1)", {"text": "text", "stars": "integer"}),
    ],
)
def test_a_mapped_function_sets_the_columns_that_it_returns(code: str, expected: dict[str, str]) -> None:
    assert columns(TEXT + code) == expected


def test_a_mapped_function_may_change_the_row_that_it_is_given() -> None:
    code = """
    def change(row):
        row["labels"] = row.pop("stars")
        return row
    x = films.select_columns(["text", "stars"]).map(change)
    """
    assert columns(code) == {"text": "text", "labels": "integer"}


def test_what_only_some_branches_return_is_not_certain() -> None:
    code = """
    def change(row):
        if row["stars"] > 3:
            return {"n": 1}
        return {"m": 1}
    x = films.select_columns(["stars"]).map(change)
    """
    assert columns(code)["..."] == ""


def test_a_column_set_under_a_condition_is_there_with_unknown_content() -> None:
    code = """
    def change(row):
        made = {"n": 1}
        if row["stars"] > 3:
            row["n"] = "many"
        return row
    x = films.select_columns(["stars"]).map(change)
    """
    assert columns(code) == {"stars": "integer", "n": "unknown"}


RAW = 'raw = load_dataset("some/name", split="train")\n'


KEPT = RAW + "made = raw.map(lambda row: {'n': 1})\n"
NOT_KNOWN = {"n": "integer", "...": ""}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # What a loop yields or appends is a row.
        (
            "def rows(path):\n    for line in open(path):\n        yield {'text': line, 'n': 1}\n"
            "x = Dataset.from_generator(rows, gen_kwargs={'path': 'a.txt'})",
            {"text": "text", "n": "integer"},
        ),
        (
            "made = []\nfor line in open('a.txt'):\n    made.append({'text': line, 'n': 1})\n"
            "x = Dataset.from_list(made)",
            {"text": "text", "n": "integer"},
        ),
        ("x = Dataset.from_list([{'n': 1} for line in open('a.txt')])", {"n": "integer"}),
        ("x = Dataset.from_list([made(line) for line in open('a.txt')])", {"...": ""}),
        ("x = Dataset.from_generator(other)", {"...": ""}),
        (
            "parts = []\nfor name in names():\n    parts.append(films.select_columns('text'))\n"
            "x = concatenate_datasets(parts)",
            {"text": "text"},
        ),
        ("x = concatenate_datasets([*parts(), films])", {"...": ""}),
        (
            "from transformers import LineByLineTextDataset\n"
            "x = LineByLineTextDataset(tokenizer=tokenizer, file_path='a.txt', block_size=128)",
            {"input_ids": "token ids"},
        ),
        # What the function reads of every row is there.
        (RAW + "x = raw.map(lambda row: {'n': row['title'].strip()})", {"title": "unknown", "n": "text", "...": ""}),
        (RAW + "x = raw.filter(lambda row: row['title'])", {"title": "unknown", "...": ""}),
        (RAW + "x = raw.map(lambda row: {'n': row.get('title')})", {"n": "unknown", "...": ""}),
        (
            RAW + "x = raw.map(lambda row: {'n': row['a'] if row['b'] else row['c']})",
            {"b": "unknown", "n": "unknown", "...": ""},
        ),
        (
            RAW + "x = raw.map(lambda row: {'n': row['title'].strip()}, remove_columns=['title'])",
            {"n": "text", "...": ""},
        ),
        (
            RAW + "x = raw.map(lambda row: {'n': row['title'].strip()}).remove_columns(raw.column_names)",
            {"n": "text"},
        ),
        (
            RAW
            + "y = raw.map(lambda row: {'n': 1})\n"
            + "x = y.map(lambda row: {'m': row['n']}, remove_columns=raw.column_names)",
            {"n": "integer", "m": "integer"},
        ),
        # Names that code takes out of the list stay, if they are there.
        (KEPT + "x = made.remove_columns([name for name in made.column_names if name != 'n'])", {"n": "integer"}),
        (KEPT + "x = made.remove_columns([name for name in made.features if name not in {'n'}])", {"n": "integer"}),
        (KEPT + "x = made.remove_columns(list(set(made.column_names) - {'n'}))", {"n": "integer"}),
        (KEPT + "names = made.column_names\nnames.remove('n')\nx = made.remove_columns(names)", {"n": "integer"}),
        (
            KEPT + "names = made.column_names\nif 'n' in names:\n    names.remove('n')\nx = made.remove_columns(names)",
            {"n": "integer"},
        ),
        (
            KEPT + "names = made.column_names\nif few:\n    names.remove('n')\nx = made.remove_columns(names)",
            {"n": "integer", "...": ""},
        ),
        (KEPT + "x = made.remove_columns([name for name in made.column_names if few(name)])", NOT_KNOWN),
        (KEPT + "x = made.remove_columns([name.lower() for name in made.column_names if name != 'n'])", NOT_KNOWN),
        (RAW + "x = raw.map(lambda row: {'n': 1}, remove_columns=list(raw.features))", {"n": "integer"}),
        (RAW + "x = raw.map(lambda row: {'n': 1}, remove_columns=raw.features.keys())", {"n": "integer"}),
        (
            RAW + "x = raw.map(lambda row: {'n': 1}, remove_columns=[a for a in raw.column_names if a != 'n'])",
            {"n": "integer"},
        ),
        # An unknown column may have such a name.
        (
            RAW + "x = raw.map(lambda row: {'n': 1}, remove_columns=[a for a in raw.column_names if a != 'label'])",
            {"n": "integer", "...": ""},
        ),
        # A function that may set anything, in between.
        (RAW + "x = raw.map(other).remove_columns(raw.column_names)", {"...": ""}),
        (
            RAW
            + "few = raw.remove_columns(['title'])\nx = raw.map(lambda row: {'n': 1}, remove_columns=few.column_names)",
            {"n": "integer", "...": ""},
        ),
        # The names of the whole or of some rows are the same.
        (
            RAW + "part = raw\nif few:\n    part = raw.select(range(9))\n"
            "x = raw.map(lambda row: {'n': 1}, remove_columns=part.column_names)",
            {"n": "integer"},
        ),
        # Types list all columns.
        (
            RAW + "x = raw.map(other, features=Features({'pixel_values': Value('float32'), 'labels': Value('int64')}))",
            {"pixel_values": "float", "labels": "integer"},
        ),
        (RAW + "x = raw.map(other, features=types())", {"...": ""}),
    ],
)
def test_open_columns_are_known_by_what_code_does_with_them(code: str, expected: dict[str, str]) -> None:
    assert columns(code) == expected


BRANCHES = """
raw = load_dataset("some/name")["train"]
if first:
    made = raw.map(lambda row: {"n": 1, "a": "x"}, remove_columns=raw.column_names)
elif second:
    made = raw.map(lambda row: {"n": 2, "a": 1}, remove_columns=raw.column_names)
elif third:
    made = raw.map(lambda row: {"n": 3, "a": 2}, remove_columns=raw.column_names)
elif fourth:
    made = raw.map(lambda row: {"n": 4, "a": 3}, remove_columns=raw.column_names)
else:
    made = raw.map(lambda row: {"n": 5, "a": 4}, remove_columns=raw.column_names)
"""


def test_many_branches_leave_what_their_data_sets_have_in_common() -> None:
    assert columns(BRANCHES + "x = made.shuffle()") == {"n": "integer", "a": "unknown"}
    assert columns(BRANCHES.replace('"a": 4', '"b": 4') + "x = made.shuffle()") == {"n": "integer", "...": ""}
    assert dataset(BRANCHES + "x = made.shuffle()").may_differ


LANGUAGES = """
from collections import defaultdict
data = defaultdict(DatasetDict)
for language in ["de", "fr"]:
    part = load_dataset(LOADED)
    for split in part:
        data[language][split] = part[split].shuffle(seed=0)
"""


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [("'imdb'", {"text": "text", "label": "class label"}), ("'some/name', language", {"...": ""})],
)
def test_a_default_dictionary_makes_an_entry_for_each_key(loaded: str, expected: dict[str, str]) -> None:
    code = LANGUAGES.replace("LOADED", loaded) + "x = data['de']['train']\ny = data['fr']['train']\n"
    assert columns(code) == expected
    assert columns(code, "y") == expected
    assert value_of(code, "x") is not value_of(code, "y")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("films.save_to_disk('a')\nx = datasets.load_from_disk('a').select_columns('text')", {"text": "text"}),
        (
            "DatasetDict({'train': films}).save_to_disk(folder)\nx = datasets.load_from_disk(folder)['train']",
            {"text": "text", "stars": "integer", "score": "float"},
        ),
        ("films.save_to_disk('a')\nx = datasets.load_from_disk('b')", {"...": ""}),
        ("films.save_to_disk(a())\nx = datasets.load_from_disk(b())", {"...": ""}),
        (
            "films.save_to_disk('a')\nfilms.select_columns('stars').save_to_disk('a')\n"
            "x = datasets.load_from_disk('a')",
            {"stars": "integer"},
        ),
    ],
)
def test_a_folder_holds_what_the_script_saved_in_it(code: str, expected: dict[str, str]) -> None:
    assert columns(code) == expected


MANY_HOT = "lambda row: {'labels': [1.0 if number in row['labels'] else 0.0 for number in range(3)]}"
SETS = "sets = Dataset.from_dict({'labels': [[0, 2], [1]], 'rates': [[0.5], [1.0]], 'n': [1, 2]})\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"x = sets.map({MANY_HOT})", Kind.INTEGER),
        (f"x = sets.map({MANY_HOT}, remove_columns=['labels'])", Kind.INTEGER),
        (f"x = sets.rename_column('labels', 'classes').map({MANY_HOT})", Kind.FLOAT),
        ("x = sets.map(lambda row: {'labels': [0.5, 1.0]})", Kind.FLOAT),
        (
            "x = sets.map(lambda row: {'rates': [0.0, 1.0]}).rename_columns({'labels': 'a', 'rates': 'labels'})",
            Kind.FLOAT,
        ),
        (
            "x = sets.map(lambda row: {'labels': [0.0, 1.0]}, remove_columns=['rates', 'n'], "
            "features=Features({'labels': datasets.Sequence(Value('float32'))}))",
            Kind.FLOAT,
        ),
    ],
)
def test_whole_floats_keep_the_integers_of_an_older_column(code: str, expected: Kind) -> None:
    assert column(SETS + code, "labels").item is expected


def test_a_whole_float_in_place_of_a_class_number_stays_an_integer() -> None:
    assert column(SETS + "x = sets.map(lambda row: {'n': 1.0})", "n").kind is Kind.INTEGER
    assert column(SETS + "x = sets.map(lambda row: {'n': 1.5})", "n").kind is Kind.FLOAT
