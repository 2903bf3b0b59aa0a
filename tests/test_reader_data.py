"""What the reader makes of data sets: where their rows come from, and what each step leaves of their columns."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.pipeline import Pipeline
from lintrain.pipeline.reader import read_pipeline
from lintrain.pipeline.values.data import Column, Dataset, DatasetDict, Kind, Padding, Rows
from lintrain.pipeline.values.python import Constant, Value
from lintrain.source.source import Source

IMPORTS = """
import datasets, functools
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value, concatenate_datasets, load_dataset
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
films = Dataset.from_dict({"text": ["good", "bad"], "stars": [5, 1], "score": [0.5, 0.1]})
"""


def read(code: str) -> Pipeline:
    return read_pipeline(Source("script.py", IMPORTS + dedent(code)), TargetVersions())


def value_of(code: str, name: str = "x") -> Value:
    bound = [binding.value for binding in read(code).bindings if binding.name == name]
    assert bound, f"nothing is known of {name}"
    return bound[-1]


def dataset(code: str, name: str = "x") -> Dataset:
    value = value_of(code, name)
    assert isinstance(value, Dataset), value
    return value


def columns(code: str, name: str = "x") -> dict[str, str]:
    """The columns by name with what they hold; `...` stands for others that are not known."""
    found = dataset(code, name)
    known = {column.name: column.kind.value for column in (found.columns or {}).values()}
    return known if found.is_complete else {**known, "...": ""}


def column(code: str, of: str, name: str = "x") -> Column:
    return (dataset(code, name).columns or {})[of]


def literal_of(code: str) -> object:
    """The literal that `x` was set to, told from a `Dataset.add_column` that is named after it."""
    found = columns(code + "\ny = films.add_column(str(x), [1])\n", "y")
    return next((name for name in found if name not in {"text", "stars", "score"}), None)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = films", {"text": "text", "stars": "integer", "score": "float"}),
        ("x = Dataset.from_list([{'text': 'a', 'n': 1}])", {"text": "text", "n": "integer"}),
        ("x = Dataset.from_dict({'text': ['a', 'b'] * 8, 'n': [1] * 999})", {"text": "text", "n": "integer"}),
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


TOKENIZED = {"text": "text", "stars": "integer", "input_ids": "token ids", "attention_mask": "mask"}


@pytest.mark.parametrize(
    "function",
    [
        "lambda rows: tokenizer(rows['text'])",
        "lambda rows: {**tokenizer(rows['text'])}",
        "lambda rows: {name: tokenizer(rows['text'])[name] for name in ('input_ids', 'attention_mask')}",
        "lambda rows: tokenizer.batch_encode_plus(rows['text'])",
        "lambda rows: dict(tokenizer(rows['text']))",
        "lambda rows: {name: value for name, value in tokenizer(rows['text']).items()}",
    ],
)
def test_a_tokenizer_adds_token_columns(function: str) -> None:
    assert columns(f"{TEXT}x = x.map({function}, batched=True)") == TOKENIZED


@pytest.mark.parametrize(
    ("arguments", "padding", "truncated"),
    [
        ("", Padding.NONE, False),
        ("truncation=True", Padding.NONE, True),
        ("max_length=9", Padding.NONE, True),
        ("padding=True", Padding.LONGEST, False),
        ("padding='longest', truncation=True", Padding.LONGEST, True),
        ("padding='max_length'", Padding.FIXED, False),
        ("padding='max_length', max_length=9", Padding.FIXED, False),
        ("pad_to_max_length=True", Padding.FIXED, False),
        ("padding=False", Padding.NONE, False),
        ("padding=how()", Padding.UNKNOWN, False),
        ("**how()", Padding.UNKNOWN, None),
        ("truncation=how()", Padding.NONE, None),
    ],
)
def test_a_tokenizer_call_says_how_it_pads_and_cuts(arguments: str, padding: Padding, truncated: bool | None) -> None:
    found = column(f"x = films.map(lambda rows: tokenizer(rows['text'], {arguments}), batched=True)", "input_ids")
    assert (found.padding, found.truncated) == (padding, truncated)


def test_labels_tell_where_they_were_copied_from() -> None:
    code = """
    def tokenize(rows):
        made = tokenizer(rows["text"])
        made["labels"] = made["input_ids"].copy()
        return made
    x = films.map(tokenize, batched=True)
    """
    assert column(code, "labels").copied_from == "input_ids"


def test_labels_of_another_encoding_are_no_copy() -> None:
    code = """
    def tokenize(rows):
        made = tokenizer(rows["text"])
        made["labels"] = tokenizer(text_target=rows["text"])["input_ids"]
        return made
    x = films.map(tokenize, batched=True)
    """
    assert (column(code, "labels").kind, column(code, "labels").copied_from) == (Kind.TOKENS, "")


def test_labels_with_ignored_positions_are_masked() -> None:
    code = """
    def tokenize(rows):
        made = tokenizer(rows["text"])
        made["labels"] = [[t if t != tokenizer.pad_token_id else -100 for t in row] for row in made["input_ids"]]
        return made
    x = films.map(tokenize, batched=True)
    """
    assert column(code, "labels").is_masked


def test_rows_of_tokens_that_are_set_one_by_one_may_be_padded() -> None:
    code = """
    def tokenize(rows):
        made = tokenizer(rows["text"])
        for i in range(len(rows["text"])):
            made["input_ids"][i] = [tokenizer.pad_token_id] * (64 - len(made["input_ids"][i])) + made["input_ids"][i]
        return made
    x = films.map(tokenize, batched=True)
    """
    assert column(code, "input_ids").padding is Padding.UNKNOWN
    assert column(code, "attention_mask").padding is Padding.NONE


def test_tokens_that_are_added_to_each_row_leave_open_how_long_it_is() -> None:
    code = """
    def tokenize(row):
        made = tokenizer(row["text"])
        made["input_ids"].append(tokenizer.eos_token_id)
        return made
    x = films.map(tokenize)
    """
    assert column(code, "input_ids").padding is Padding.UNKNOWN


def test_labels_that_are_masked_in_place_are_no_copy() -> None:
    code = """
    def tokenize(row):
        made = tokenizer(row["text"], return_tensors="pt")
        labels = made["input_ids"].clone()
        labels[labels == tokenizer.pad_token_id] = -100
        made["labels"] = labels
        return made
    x = films.map(tokenize)
    """
    assert (column(code, "labels").is_masked, column(code, "labels").copied_from) == (True, "")
    assert column(code, "input_ids").is_masked is False


def test_a_target_gives_labels_beside_the_inputs() -> None:
    code = "x = films.map(lambda rows: tokenizer(rows['text'], text_target=rows['text']), batched=True)"
    assert column(code, "labels").kind is Kind.TOKENS


def test_a_processor_may_give_other_columns_too() -> None:
    code = """
    from transformers import AutoProcessor
    processor = AutoProcessor.from_pretrained("x")
    x = films.map(lambda rows: processor(text=rows["text"]), batched=True)
    """
    assert "..." in columns(code)


@pytest.mark.parametrize("name", ["AutoImageProcessor", "SegformerFeatureExtractor", "AutoProcessor"])
def test_a_processor_of_images_gives_no_tokens(name: str) -> None:
    code = f"""
    from transformers import {name}
    processor = {name}.from_pretrained("x")
    x = films.map(lambda rows: processor(rows["text"], return_tensors="pt"), batched=True)
    """
    assert "input_ids" not in columns(code)


def test_a_processor_has_a_tokenizer_of_its_own() -> None:
    code = """
    from transformers import AutoProcessor
    processor = AutoProcessor.from_pretrained("x")
    processor.tokenizer.pad_token = processor.tokenizer.eos_token
    x = films.map(lambda row: processor.tokenizer(row["text"], padding=True))
    y = films.map(lambda row: {"ids": processor.encode(row["text"])})
    """
    assert column(code, "input_ids").padding is Padding.LONGEST


def test_a_column_that_is_tokenized_is_known_to_hold_text() -> None:
    code = """
    raw = load_dataset("some/name")
    tokenized = raw.map(lambda rows: tokenizer(rows["review"]), batched=True)
    x = raw["train"]
    """
    assert list(dataset(code).read_as_text) == ["review"]


def test_splits_of_unknown_names_are_the_same_each_time() -> None:
    pipeline = read("raw = load_dataset('some/name'); a = raw['train']; b = raw['train']; c = raw['test']")
    a, b, c = (binding.value for binding in pipeline.bindings if binding.name in "abc")
    assert a is b
    assert a is not c


def test_a_mapped_split_descends_from_the_split() -> None:
    code = """
    raw = load_dataset("some/name")
    tokenized = raw.map(lambda rows: tokenizer(rows["text"]), batched=True)
    x = raw["train"]
    y = tokenized["train"]
    """
    assert dataset(code, "x") is not dataset(code, "y")
    assert [step.operation for step in dataset(code, "y").steps] == ["load_dataset", "map"]
    pipeline = read(code)
    x, y = (binding.value for binding in pipeline.bindings if binding.name in {"x", "y"})
    assert isinstance(y, Dataset)
    assert x in y.lineage


def test_all_columns_of_an_unknown_data_set_can_be_removed() -> None:
    code = """
    raw = load_dataset("some/name")
    x = raw.map(lambda rows: tokenizer(rows["text"]), batched=True, remove_columns=raw["train"].column_names)["train"]
    """
    assert columns(code) == {"input_ids": "token ids", "attention_mask": "mask"}


def test_columns_made_later_survive_the_removal_of_the_first_ones() -> None:
    code = """
    raw = load_dataset("some/name", split="train")
    tokenized = raw.map(lambda rows: tokenizer(rows["text"]), batched=True)
    x = tokenized.remove_columns(raw.column_names)
    """
    assert columns(code) == {"input_ids": "token ids", "attention_mask": "mask", "...": ""}


def test_a_split_can_be_replaced_in_its_dictionary() -> None:
    code = """
    splits = DatasetDict({"train": films})
    splits["train"] = splits["train"].remove_columns(["text", "score"])
    x = splits["train"]
    """
    assert columns(code) == {"stars": "integer"}


def test_a_split_that_may_be_replaced_is_not_known() -> None:
    code = """
    splits = DatasetDict({"train": films})
    if unknown:
        splits["train"] = splits["train"].remove_columns(["text", "score"])
    x = splits["train"]
    y = films
    """
    assert not [binding for binding in read(code).bindings if binding.name == "x"]


def test_every_split_can_be_replaced_in_a_loop() -> None:
    code = """
    splits = DatasetDict({"train": films.take(1), "test": films.skip(1)})
    for name in splits:
        splits[name] = splits[name].remove_columns(["text", "score"])
    x = splits["test"]
    """
    assert columns(code) == {"stars": "integer"}


def test_a_transform_is_noted() -> None:
    assert dataset("x = films.with_transform(lambda rows: rows)").has_transform
    assert dataset("x = films.shuffle(); x.set_transform(lambda rows: rows)").has_transform
    assert not dataset("x = films.with_transform(None)").has_transform


def test_setting_a_format_of_all_splits_changes_them_in_place() -> None:
    code = """
    splits = DatasetDict({"train": films.shuffle()})
    splits.set_format("torch", columns=["stars"])
    x = splits["train"]
    """
    assert columns(code) == {"stars": "integer"}


def test_class_names_are_known_where_the_script_gives_them() -> None:
    code = "x = films.cast_column('stars', ClassLabel(names=['no', 'yes', 'maybe']))"
    assert column(code, "stars").class_names == ("no", "yes", "maybe")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rated.features['stars'].num_classes", "2"),
        ("len(rated.features['stars'].names)", "2"),
        ("rated.features['stars'].names[1]", "yes"),
        ("rated.features['stars'].str2int('yes')", "1"),
        ("rated.features['stars'].int2str(0)", "no"),
        ("len(films)", "2"),
        ("films.num_rows", "2"),
        ("len(films.select(range(1)))", "1"),
        ("films.column_names[0]", "text"),
    ],
)
def test_what_a_data_set_says_of_itself_is_known(expression: str, expected: str) -> None:
    code = f"rated = films.cast_column('stars', ClassLabel(names=['no', 'yes']))\nx = {expression}"
    if expected in {"text"}:
        code += " + '-name'"
        expected += "-name"
    assert literal_of(code) == expected


def test_columns_are_read_by_name() -> None:
    code = "first = films[0]\nx = films.add_column('copy', films['text']).select_columns('copy')"
    assert columns(code) == {"copy": "text"}
    assert isinstance(value_of(code, "first"), Rows)


def test_a_result_that_is_thrown_away_is_noted() -> None:
    pipeline = read("films.map(lambda row: {'n': 1})\nfilms.set_format('torch')\nfilms.features")
    assert [discard.method for discard in pipeline.discards] == ["map"]


def test_a_default_name_gives_a_data_set_that_the_user_may_change() -> None:
    code = """
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="some/name")
    x = load_dataset(parser.parse_args().name, split="train")
    """
    assert dataset(code).is_default


@pytest.mark.parametrize(
    ("split", "name", "rows"), [("train", "train", None), ("train[:50]", "train", 50), ("train[:5%]", "train", None)]
)
def test_a_part_of_a_split_is_told_from_its_name(split: str, name: str, rows: int | None) -> None:
    found = dataset(f"x = load_dataset('some/name', split='{split}')")
    assert (found.split, found.rows) == (name, rows)


def test_several_splits_come_as_a_list() -> None:
    assert dataset("a, x = load_dataset('some/name', split=['train', 'test'])").split == "test"


def test_files_by_split_make_splits() -> None:
    value = value_of("x = load_dataset('json', data_files={'train': 'a.json', 'test': 'b.json'})")
    assert isinstance(value, DatasetDict)
    assert (list(value.splits), value.is_complete) == (["train", "test"], True)


def test_a_tokenizer_keeps_what_is_set_on_it() -> None:
    pipeline = read("tokenizer.pad_token = '[PAD]'\ntokenizer.add_special_tokens({'eos_token': '</s>'})")
    tokenizer = pipeline.tokenizers[0]
    assert {name: isinstance(value, Constant) for name, value in tokenizer.attributes.items()} == {
        "pad_token": True,
        "eos_token": True,
    }
    assert len(tokenizer.additions) == 1


def test_collators_say_what_they_do() -> None:
    code = """
    from transformers import DataCollatorWithPadding, DataCollatorForLanguageModeling, DefaultDataCollator
    a = DataCollatorWithPadding(tokenizer)
    b = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    c = DefaultDataCollator()
    """
    made = [(collator.name, collator.pads, collator.makes_labels) for collator in read(code).collators]
    assert made == [
        ("DataCollatorWithPadding", True, False),
        ("DataCollatorForLanguageModeling", True, True),
        ("DefaultDataCollator", False, False),
    ]
