"""What the reader makes of tokenizers: token columns, how they are padded and cut, and labels made of them."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.data import Kind, Padding
from lintrain.pipeline.values.python import Constant
from tests.support.columns import column, columns, dataset, read

TEXT = "x = films.select_columns(['text', 'stars'])\n"


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
