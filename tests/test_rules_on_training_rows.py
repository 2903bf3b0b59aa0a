"""Rules about the rows that a Trainer is given: token ids, labels, and what labels hold."""

from __future__ import annotations

import pytest

from lintrain.model.fixes import InsertAfter
from tests.support.loops import codes_of, fixes_of, helps_of, lines_of

FILMS = """
from datasets import Dataset, load_dataset
from transformers import (
    AutoModelForCausalLM, AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer,
    DataCollatorWithPadding, DefaultDataCollator, Trainer, TrainingArguments,
)
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
raw = Dataset.from_dict({"text": ["good", "bad"], "stars": [1, 0], "label": ["pos", "neg"], "id": ["a", "b"]})
rows = raw.map(lambda batch: tokenizer(batch["text"]), batched=True)
"""


def is_found(rule: str, code: str) -> bool:
    return bool(lines_of(rule, FILMS + code + "\n"))


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        ("Trainer(model, train_dataset=rows, processing_class=tokenizer)", True),
        ("Trainer(model, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer))", True),
        ("Trainer(model, train_dataset=rows, data_collator=collate)", False),
        ("Trainer(model, train_dataset=rows, data_collator=lambda items: items)", False),
        # numbers, and words under a name that the model is not given
        ("Trainer(model, train_dataset=rows.class_encode_column('label'), processing_class=tokenizer)", False),
        ("Trainer(model, train_dataset=rows.remove_columns('label'), processing_class=tokenizer)", False),
        ("Trainer(model, train_dataset=rows.rename_column('label', 'word'), processing_class=tokenizer)", False),
        ("Trainer(model, train_dataset=rows if a else rows.class_encode_column('label'))", False),
        # a model that may read words
        ("Trainer(build(), train_dataset=rows, processing_class=tokenizer)", False),
        ("Trainer(AutoModelForQuestionAnswering.from_pretrained('x'), train_dataset=rows)", False),
        # what is not tokenized yet is another mistake
        ("Trainer(model, train_dataset=raw, processing_class=tokenizer)", False),
        ("Trainer(model, train_dataset=rows.map(change), processing_class=tokenizer)", False),
    ],
)
def test_words_as_labels_are_found_where_a_classifier_certainly_gets_them(trainer: str, expected: bool) -> None:
    assert is_found("string-labels", f"trainer = {trainer}") is expected


def test_words_are_told_once_for_training_and_evaluation_rows() -> None:
    code = "trainer = Trainer(model, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer)\n"
    assert len(lines_of("string-labels", FILMS + code)) == 1


@pytest.mark.parametrize(
    ("names", "offered"),
    [
        ("", ['raw = raw.class_encode_column("label")']),
        # which of two names is trained on
        ("same = raw", []),
    ],
)
def test_classes_are_numbered_where_the_rows_have_one_name(names: str, offered: list[str]) -> None:
    code = FILMS + names + "\ntrainer = Trainer(model, train_dataset=rows, processing_class=tokenizer)\n"
    edits = [edit for fix in fixes_of("string-labels", code) for edit in fix.edits]
    assert [edit.statement for edit in edits if isinstance(edit, InsertAfter)] == offered


def test_rows_without_a_name_are_numbered_by_hand() -> None:
    code = FILMS.replace("raw = ", "rows = ").replace("\nrows = raw.map", ".map")
    code += "trainer = Trainer(model, train_dataset=rows, processing_class=tokenizer)\n"
    assert lines_of("string-labels", code)
    assert fixes_of("string-labels", code) == []


UNLABELLED = "rows.remove_columns(['label', 'stars'])"


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        (f"Trainer(model, train_dataset={UNLABELLED}, processing_class=tokenizer)", True),
        (f"Trainer(model, train_dataset={UNLABELLED}, data_collator=DefaultDataCollator())", True),
        (f"Trainer(model, train_dataset={UNLABELLED}, data_collator=collate)", False),
        (f"Trainer(model, train_dataset={UNLABELLED}, data_collator=lambda items: items)", False),
        (f"Trainer(model, TrainingArguments('o', label_smoothing_factor=0.1), train_dataset={UNLABELLED})", False),
        (f"Trainer(model, TrainingArguments('o', label_names=['y']), train_dataset={UNLABELLED})", False),
        (f"Trainer(model, TrainingArguments('o'), train_dataset={UNLABELLED})", True),
        (f"Trainer(AutoModelForQuestionAnswering.from_pretrained('x'), train_dataset={UNLABELLED})", False),
        (f"Trainer(model, train_dataset={UNLABELLED} if a else rows, processing_class=tokenizer)", False),
        ("Trainer(model, train_dataset=raw.remove_columns('label'), processing_class=tokenizer)", False),
        (f"Trainer(model, train_dataset={UNLABELLED}.map(change), processing_class=tokenizer)", False),
    ],
)
def test_rows_without_labels_are_found_where_nothing_else_can_give_them(trainer: str, expected: bool) -> None:
    assert is_found("missing-labels", f"trainer = {trainer}") is expected


@pytest.mark.parametrize(
    ("rows", "offered"),
    [
        ("rows.remove_columns('label')", "stars"),
        # words and fractions are no classes, numbers of rows are none either
        ("rows.remove_columns(['label', 'stars'])", None),
        ("rows.remove_columns('label').rename_column('stars', 'idx')", None),
        # which of two
        ("rows.remove_columns('label').add_column('grade', [1, 2])", None),
    ],
)
def test_the_only_column_that_can_be_labels_is_renamed(rows: str, offered: str | None) -> None:
    code = FILMS + f"trainer = Trainer(model, train_dataset={rows}, processing_class=tokenizer)\n"
    renamed = [f'{rows}.rename_column("{offered}", "labels")'] if offered else []
    assert codes_of("missing-labels", code) == renamed


@pytest.mark.parametrize(
    ("model", "word"),
    [("model", "keep the label column"), ("AutoModelForCausalLM.from_pretrained('gpt2')", "LanguageModeling")],
)
def test_where_labels_come_from_depends_on_the_model(model: str, word: str) -> None:
    code = FILMS + f"trainer = Trainer({model}, train_dataset={UNLABELLED}, processing_class=tokenizer)\n"
    (told,) = helps_of("missing-labels", code)
    assert word in told


COPY = "trainer = Trainer({model}, train_dataset={given}, processing_class=tokenizer)\n"
SHOWN = "mine = load_dataset('json', data_files='a.json', split='train')\n"
READ = SHOWN + "done = mine.map(lambda batch: tokenizer(batch['body']), batched=True)\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (COPY.format(model="model", given="raw"), True),
        (COPY.format(model="model", given="rows"), False),
        # columns that nobody knows are text where a copy of them is tokenized
        (READ + COPY.format(model="model", given="mine"), True),
        (READ + COPY.format(model="build()", given="mine"), True),
        (SHOWN + COPY.format(model="model", given="mine"), False),
        # the script's own model may read anything that is not shown to be text
        (COPY.format(model="build()", given="raw.remove_columns('id')").replace("rows", "raw"), True),
        (COPY.format(model="build()", given="load_dataset('imdb', split='train')"), False),
        (
            "tokenizer(raw[0]['text'])\nraw = load_dataset('imdb', split='train')\ntokenizer(raw['text'])\n"
            + COPY.format(model="build()", given="raw"),
            False,
        ),
        (COPY.format(model="model", given="raw if a else rows"), False),
    ],
)
def test_text_is_found_where_the_model_certainly_needs_tokens(code: str, expected: bool) -> None:
    assert is_found("raw-dataset", code) is expected


@pytest.mark.parametrize(
    ("more", "told", "count"),
    [
        ("", "pass `rows`", 1),
        ("again = raw.map(lambda batch: tokenizer(batch['text']), batched=True)", "tokenize it with `map`", 0),
    ],
)
def test_the_only_tokenized_copy_is_offered(more: str, told: str, count: int) -> None:
    code = FILMS + more + "\n" + COPY.format(model="model", given="raw")
    (advice,) = helps_of("raw-dataset", code)
    assert advice.startswith(told)
    assert len(fixes_of("raw-dataset", code)) == count
