"""Rows of collated batches as a terminal shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.run import (
    BatchRow,
    BatchTable,
    Evidence,
    PredictedClass,
    RowAnswer,
    RowText,
    RowValues,
    Span,
)
from lintrain.report.text.rows import details_of, rows_lines, values_text
from lintrain.report.text.style import Style
from lintrain.runtime.parent.pass_request import NoRowsError, read_rows

NARROW = Style(80)
TEXT = RowText("input_ids", "[CLS] a cat [SEP] it sat [SEP]", 12, 8, "right", types=(Span(0, 0, 3), Span(1, 4, 7)))
ROW = BatchRow(0, 4, texts=(TEXT,), label=RowAnswer("1", "neutral"), prediction=RowAnswer("0", "yes", "", 0.36))
TABLE = BatchTable(
    "train_dataset",
    (ROW,),
    8,
    tokenizer="BertTokenizer",
    used=("input_ids", "labels"),
    renamed=(("label", "labels"),),
    dropped=("idx",),
    classes=(PredictedClass(0, "yes", 6, 3), PredictedClass(1, "", 2, 5)),
)
NOTHING = Evidence("train.py", "torch", "a loop", None, None, "cpu", {})


def shown(*tables: BatchTable, style: Style = NARROW) -> list[str]:
    return list(rows_lines(replace(NOTHING, tables=tables), style))


def test_a_row_has_its_label_its_prediction_its_text_and_its_tokens() -> None:
    assert shown(TABLE) == [
        "    rows    train_dataset, as the model gets them: 1 of 8 in the first batch,",
        "            decoded with BertTokenizer",
        "            columns: input_ids, labels (from label) used; idx dropped",
        "            first batch: predicted 6 yes, 2 of class 1; labels 3 yes, 5 of class",
        "            1",
        "    row 4   label 1 (neutral); predicted 0 (yes), probability 0.36",
        "            [CLS] a cat [SEP] it sat [SEP]",
        "            8 of 12 tokens attended, padding on the right; token types 0 at 0-3,",
        "            1 at 4-7",
    ]


def test_columns_are_shown_again_only_where_they_differ() -> None:
    later = replace(TABLE, argument="eval_dataset", classes=())
    assert sum("columns" in line for line in shown(TABLE, later)) == 1
    assert sum("columns" in line for line in shown(TABLE, replace(later, dropped=()))) == 2


def test_one_row_is_shown_of_data_that_is_not_trained_on_unless_rows_were_asked_for() -> None:
    both = replace(TABLE, argument="eval_dataset", rows=(ROW, replace(ROW, row=5)))
    assert sum(line.startswith("    row ") for line in shown(both)) == 1
    assert sum(line.startswith("    row ") for line in shown(replace(both, is_asked=True))) == 2


def test_a_long_text_loses_its_middle_unless_rows_were_asked_for() -> None:
    words = " ".join(f"word{number}" for number in range(400))
    long = replace(TABLE, rows=(replace(ROW, texts=(RowText("text", words),)),))
    lines = shown(long)
    assert any("characters, `--rows` shows them" in line for line in lines)
    assert "word0 " in "".join(lines)
    assert lines[-1].endswith("word399")
    asked = " ".join(line.strip() for line in shown(replace(long, is_asked=True)))
    assert words in asked


def test_what_the_loss_scores_is_a_share_with_its_positions() -> None:
    scored = replace(ROW, scored=8, scorable=12, scored_at=(Span(1, 4, 11),))
    assert "            67% of 12 tokens scored: 4-11" in shown(replace(TABLE, rows=(scored,)))
    every = replace(ROW, scored=12, scorable=12, scored_at=(Span(1, 0, 11),))
    assert "            100% of 12 tokens scored" in shown(replace(TABLE, rows=(every,)))


@pytest.mark.parametrize(
    ("padding", "shown"),
    [
        ("left", "padding on the left"),
        ("both", "padding on both sides"),
        ("inside", "padding inside"),
        ("everywhere", "padding everywhere"),
    ],
)
def test_the_side_of_the_padding_is_named(padding: str, shown: str) -> None:
    assert details_of(RowText("input_ids", "a", 4, 2, padding)) == f"2 of 4 tokens attended, {shown}"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            RowValues("pixels", "image", (3, 4, 4), "float32", -1.0, 1.0, 0.25),
            "pixels: image float32 [3, 4, 4], from -1 to 1, mean 0.25",
        ),
        (
            RowValues("speech", "audio", (16000,), "float32", -0.5, 0.25, 0.0, seconds=1.0),
            "speech: audio float32 [16000], 1.00 s, peak 0.5, mean 0",
        ),
        (RowValues("x", "numbers", (2,), "float32", 1.0, 2.5, 1.75, values=(1.0, 2.5)), "x: 1, 2.5"),
        (
            RowValues("x", "numbers", (20,), "float32", 0.0, 1.0, 0.5, 3, (0.0,)),
            "x: float32 [20], from 0 to 1, mean 0.5, 3 not finite",
        ),
    ],
)
def test_numbers_are_shown_by_what_they_are(values: RowValues, text: str) -> None:
    assert values_text(values) == text


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), ()),
        (("5",), (("first", 5),)),
        (("longest",), (("longest", 3),)),
        (("5", "longest"), (("longest", 5),)),
        (("5", "longest:1"), (("first", 5), ("longest", 1))),
        (("longest:2", "random"), (("longest", 2), ("random", 3))),
        (("longest, shortest:1",), (("longest", 3), ("shortest", 1))),
    ],
)
def test_rows_are_asked_for_by_number_and_order(words: tuple[str, ...], asked: tuple[tuple[str, int], ...]) -> None:
    assert read_rows(words) == asked


@pytest.mark.parametrize("word", ["tallest", "longest:", "0", "longest:0", "100000", "-1"])
def test_other_rows_are_no_rows(word: str) -> None:
    with pytest.raises(NoRowsError):
        read_rows([word])
