"""What the reader makes of data sets: their splits, their formats, and what they say of themselves."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.data import Dataset, DatasetDict, Rows
from lintrain.pipeline.values.python import Constant, Either
from tests.support.columns import column, columns, dataset, literal_of, read, value_of


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


def test_get_finds_a_split_of_unknown_data_or_none() -> None:
    pipeline = read("raw = load_dataset('some/name'); x = raw.get('test'); y = raw['train']; z = raw.get('train')")
    x, y, z = (binding.value for binding in pipeline.bindings if binding.name in {"x", "y", "z"})
    assert isinstance(x, Either)
    assert [type(option) for option in x.options] == [Dataset, Constant]
    assert z is y
    known = read("raw = DatasetDict({'train': films}); y = raw.get('train'); x = raw.get('test', y)")
    y, x = (binding.value for binding in known.bindings if binding.name in {"x", "y"})
    assert isinstance(y, Dataset)
    assert x is y


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
    assert columns(code) == {"input_ids": "token ids", "attention_mask": "mask"}


def test_a_split_can_be_replaced_in_its_dictionary() -> None:
    code = """
    splits = DatasetDict({"train": films})
    splits["train"] = splits["train"].remove_columns(["text", "score"])
    x = splits["train"]
    """
    assert columns(code) == {"stars": "integer"}


def test_of_a_split_that_may_be_replaced_the_common_columns_are_known() -> None:
    code = """
    splits = DatasetDict({"train": films})
    if unknown:
        splits["train"] = splits["train"].remove_columns(["text", "score"])
    x = splits["train"]
    """
    assert columns(code) == {"stars": "integer", "...": ""}
    assert dataset(code).may_differ


def test_two_ways_to_load_the_data_give_the_columns_of_the_mapped_function() -> None:
    code = """
    if name is not None:
        data = load_dataset(name, config)
        if "validation" not in data.keys():
            data["validation"] = load_dataset(name, config, split="train[:5%]")
            data["train"] = load_dataset(name, config, split="train[5%:]")
    else:
        data = load_dataset(extension, data_files=files)
    names = data["train"].column_names if training else data["validation"].column_names
    mapped = data.map(lambda rows: {"n": [1]}, batched=True, remove_columns=names)
    x = mapped["train"].map(lambda rows: {"m": [1]}, batched=True)
    """
    value = value_of(code)
    assert isinstance(value, Either)
    made = [option for option in value.options if isinstance(option, Dataset)]
    assert [([*(each.columns or {})], each.is_complete) for each in made] == [(["n", "m"], True)] * 2


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
    assert dataset(code).default


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
