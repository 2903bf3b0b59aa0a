"""Rows of a batch in words: texts, pictures, labels and predictions of every form."""

from __future__ import annotations

import base64
import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lintrain.evidence.run import PredictedClass, RowAnswer, Span
from lintrain.runtime.measure.batch_entries import Batch, named
from lintrain.runtime.measure.row_answers import (
    Asked,
    Names,
    form_of,
    label_of,
    outputs_in,
    predicted_classes,
    prediction_of,
)
from lintrain.runtime.measure.row_entries import (
    Decoder,
    plain,
    spans_of,
    token_text,
    values_of,
    vocabulary_decoder,
)
from lintrain.runtime.measure.tables import Table

WORDS = ["[PAD]", "[CLS]", "[SEP]", "a", "cat", "sat"]
DECODER = Decoder("Words", lambda ids: " ".join(WORDS[one] for one in ids), 0, ("[PAD]", "[CLS]", "[SEP]"))
NAMES = Names(("yes", "no"), {0: "yes", 1: "NO"})


def array(*rows: Any) -> Any:
    return np.asarray(rows)


def test_padding_is_left_out_by_the_mask() -> None:
    text = token_text("input_ids", [0, 0, 1, 3, 4, 2], [0, 0, 1, 1, 1, 1], None, DECODER)
    assert (text.text, text.tokens, text.attended, text.padding) == ("[CLS] a cat [SEP]", 6, 4, "left")
    assert text.mask == ()


def test_padding_that_is_attended_is_shown() -> None:
    text = token_text("input_ids", [1, 3, 0, 0, 0, 0], [1] * 6, None, DECODER)
    assert text.text == "[CLS] a [PAD] (4 times) "
    assert (text.attended, text.padding) == (6, "")


def test_without_a_mask_only_the_ends_are_padding() -> None:
    text = token_text("input_ids", [1, 0, 3, 0, 0], None, None, DECODER)
    assert (text.text, text.attended, text.padding) == ("[CLS] [PAD] a", 3, "right")


def test_a_decoder_may_start_with_padding() -> None:
    assert token_text("decoder_input_ids", [0, 3, 4, 0], None, None, DECODER).text == "[PAD] a cat"


def test_a_mask_with_a_hole_is_shown_as_ranges() -> None:
    text = token_text("input_ids", [1, 3, 4, 5], [1, 0, 1, 1], None, DECODER)
    assert (text.padding, text.mask) == ("inside", (Span(1, 0, 0), Span(1, 2, 3)))


def test_types_are_ranges_of_attended_tokens() -> None:
    text = token_text("input_ids", [1, 3, 2, 4, 2, 0], [1, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0], DECODER)
    assert text.types == (Span(0, 0, 2), Span(1, 3, 4))


def test_ids_that_the_tokenizer_does_not_have_are_shown_as_numbers() -> None:
    assert token_text("input_ids", [1, 99], None, None, DECODER).text == "1 99"


def test_spans_end_where_the_value_or_the_position_jumps() -> None:
    assert spans_of([1, 1, 1, 2], [0, 1, 3, 4]) == (Span(1, 0, 1), Span(1, 3, 3), Span(2, 4, 4))
    assert spans_of([0, 1] * 40, list(range(80))) == ()


def test_characters_are_put_together_without_a_space_and_words_with_one() -> None:
    assert vocabulary_decoder("stoi", ["a", "b"]).text([0, 1, 1]) == "abb"
    assert vocabulary_decoder("vocab", ["a", "cat"]).text([0, 1]) == "a cat"


@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [
        ("0", (3, 8, 8), "image"),
        ("0", (8, 8, 3), "image"),
        ("x", (28, 28), "image"),
        ("0", (6,), "numbers"),
        ("0", (12, 5), "numbers"),
        ("input_values", (1600,), "audio"),
        ("batch.waveform", (1, 1600), "audio"),
        ("features", (1600,), "numbers"),
        ("input_features", (80, 300), "spectrogram"),
    ],
)
def test_numbers_are_classified_by_shape_and_name(name: str, shape: tuple[int, ...], kind: str) -> None:
    assert values_of(name, "float32", np.zeros(shape, "float32"), None).kind == kind


def test_numbers_that_are_not_finite_are_counted_and_left_out_of_the_range() -> None:
    values = values_of("x", "float32", np.asarray([1.0, np.nan, np.inf, 3.0]), None)
    assert (values.minimum, values.maximum, values.mean, values.non_finite) == (1.0, 3.0, 2.0, 2)


def test_the_length_of_sound_comes_from_its_sampling_rate() -> None:
    values = values_of("input_values", "float32", np.asarray([0.25, -0.5] * 400), 16_000)
    assert (values.seconds, values.peak) == (0.05, 0.5)


def test_the_picture_of_an_image_is_a_small_png_in_its_colours() -> None:
    image = np.zeros((3, 100, 50), "float32") - 1
    image[0] = 1
    png = base64.b64decode(values_of("0", "float32", image, None).picture)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
    start = png.index(b"IDAT") + 4
    lines = zlib.decompressobj().decompress(png[start:])
    assert (width, height, len(lines)) == (25, 50, 50 * (1 + 25 * 3))
    assert lines[1:4] == b"\xff\0\0"


@pytest.mark.parametrize(
    ("targets", "form"),
    [
        (array(0, 1, 2), "class"),
        (array(0.5, 1.5), "number"),
        (array([0, 1, 0], [1, 0, 0]), "one-hot"),
        (array([0.0, 1.0, 1.0], [1.0, 0.0, 0.0]), "classes"),
        (array([0.1, 1.3], [1.0, 0.5]), "numbers"),
        (array([3, 4, -100], [3, 5, 2]), "tokens"),
        (np.zeros((2, 4, 4), "int64"), "pixels"),
    ],
)
def test_labels_have_forms(targets: Any, form: str) -> None:
    assert form_of(targets, Asked(NAMES, DECODER)) == form


def test_a_class_has_its_name_and_the_other_name_of_the_model() -> None:
    assert label_of(array(0, 1), 1, Asked(NAMES)) == RowAnswer("1", "no", "NO")
    assert label_of(array(0, 1), 0, Asked(NAMES)) == RowAnswer("0", "yes")
    assert label_of(array(0, 1), 1, Asked(Names((), {1: "LABEL_1"}))) == RowAnswer("1")


def test_a_prediction_has_the_probability_of_logits_and_of_probabilities() -> None:
    logits = prediction_of(torch.tensor([[0.0, 0.0]]), array(1), 0, Asked(NAMES))
    assert logits == RowAnswer("0", "yes", "", 0.5)
    given = prediction_of(torch.tensor([[0.25, 0.75]]), array(1), 0, Asked(NAMES))
    assert given == RowAnswer("1", "no", "NO", 0.75)


def test_one_output_is_shown_as_a_number() -> None:
    assert prediction_of(torch.tensor([[0.375]]), array(1), 0, Asked(NAMES)) == RowAnswer("0.375")


def test_several_labels_of_a_row_are_listed() -> None:
    targets = array([1.0, 1.0], [0.0, 0.0])
    assert label_of(targets, 0, Asked(NAMES)) == RowAnswer("yes, no")
    assert label_of(targets, 1, Asked(NAMES)) == RowAnswer("none")
    assert prediction_of(torch.tensor([[-1.0, 2.0]]), targets, 0, Asked(NAMES)) == RowAnswer("no")


def test_tags_stand_at_their_tokens() -> None:
    asked = Asked(NAMES, DECODER, tags=True, ids=array([1, 3, 4, 2]))
    targets = array([-100, 0, 1, -100])
    assert label_of(targets, 0, asked) == RowAnswer("a/yes cat/no")
    logits = torch.tensor([[[0.0, 1.0]] * 4])
    assert prediction_of(logits, targets, 0, asked) == RowAnswer("a/no cat/no")


def test_labels_of_a_language_model_are_texts_unless_they_are_the_input() -> None:
    ids = array([1, 3, 4, 2])
    asked = Asked(Names(), DECODER, shifts=True, ids=ids)
    assert label_of(ids, 0, asked) is None
    assert label_of(array([-100, -100, 4, 2]), 0, asked) == RowAnswer("cat [SEP]")
    assert label_of(array([-100] * 4), 0, asked) is None


def test_a_model_that_shifts_its_labels_predicts_the_next_token() -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([[3, 4, 5, 0]]), 6).float()
    asked = Asked(Names(), DECODER, shifts=True, ids=array([1, 3, 4, 2]))
    targets = array([-100, -100, 4, 2])
    assert prediction_of(logits, targets, 0, asked) == RowAnswer("cat sat")
    assert prediction_of(logits, targets, 0, Asked(Names(), DECODER, ids=asked.ids)) == RowAnswer("sat [PAD]")


def test_outputs_of_all_tokens_in_one_axis_are_taken_apart() -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([3, 4, 5, 2]), 6).float()
    targets = array([3, 4], [4, 2])
    assert prediction_of(logits, targets, 1, Asked(Names(), DECODER)) == RowAnswer("sat [SEP]")


def test_predicted_classes_are_counted_next_to_the_labels() -> None:
    counted = predicted_classes(torch.tensor([[0.0, 1.0], [2.0, 3.0], [0.0, 4.0]]), array(0, 0, 1), Asked(NAMES))
    assert counted == (PredictedClass(0, "yes", 0, 2), PredictedClass(1, "no", 3, 1))


def test_rows_with_scores_that_are_not_finite_have_no_class() -> None:
    nan = float("nan")
    scores = torch.tensor([[nan, nan], [2.0, 3.0], [0.0, float("-inf")]])
    expected = (PredictedClass(0, "yes", 1, 2), PredictedClass(1, "no", 1, 1), PredictedClass(-1, "not finite", 1))
    assert predicted_classes(scores, array(0, 0, 1), Asked(NAMES)) == expected
    assert predicted_classes(scores.numpy(), array(0, 0, 1), Asked(NAMES)) == expected
    assert predicted_classes(scores, None, Asked(NAMES))[-1] == PredictedClass(-1, "not finite", 1)


def test_outputs_are_the_logits_or_the_only_tensor_of_rows() -> None:
    logits = torch.zeros(4, 2)
    assert outputs_in({"loss": torch.zeros(()), "logits": logits}, 4) is logits
    assert outputs_in({"scores": logits}, 4) is logits
    assert outputs_in({"scores": logits, "hidden": torch.zeros(4, 3)}, 4) is None
    assert outputs_in((logits, torch.zeros(4, 3)), 4) is logits


def test_a_batch_is_named_whatever_its_form_is() -> None:
    assert list(named({"a": torch.zeros(2), "b": {"c": torch.zeros(2)}})) == ["a", "b.c"]
    assert list(named((torch.zeros(2, 3), torch.zeros(2)))) == ["0", "1"]
    assert list(named(({"ids": torch.zeros(2)}, torch.zeros(2)))) == ["0.ids", "1"]
    assert named([{"prompt": "a"}, {"prompt": "b"}]) == {"prompt": ["a", "b"]}


def test_the_labels_of_a_batch_are_found_by_name_or_as_the_second_of_a_pair() -> None:
    assert Batch({"x": torch.zeros(2, 3), "target": torch.tensor([0, 1])}, ()).label == "target"
    pair = Batch((torch.zeros(2, 3), torch.tensor([[0], [1]])), ())
    assert (pair.label, pair.rows, pair.targets.shape) == ("1", 2, (2,))
    assert Batch((torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2)), ()).label == ""


def test_numbers_of_short_formats_become_arrays() -> None:
    assert plain(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1.0, 1.0]


class StandInRun:
    """What a table needs of a run."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(2, 2)
        self.session = SimpleNamespace(rows=[], tokenizers={})
        self.class_names: dict[Any, Any] = {}
        self.columns: dict[Any, Any] = {}
        self.splits: dict[Any, Any] = {}
        self.label_inputs = ()
        self.passes_all = False
        self.collator = None

    def tokenizer_holders(self) -> tuple[()]:
        return ()


ROWS, CLASSES = torch.zeros(4, 3), torch.arange(4)
ODD: dict[str, tuple[Any, Any, int]] = {
    "a number for each row": ({"x": ROWS, "index": CLASSES, "label": CLASSES}, torch.zeros(4, 4), 3),
    "a number for all": ({"x": ROWS, "n": torch.tensor(3.0), "label": None}, ROWS, 3),
    "no rows": ({"x": torch.zeros(0, 3), "label": torch.zeros(0, dtype=torch.int64)}, torch.zeros(0, 3), 0),
    "texts": ({"text": ["a", "b"], "label": ["yes", "no"]}, None, 2),
    "chats": ([{"prompt": [{"role": "user", "content": "hi"}]}] * 3, None, 3),
    "rows of several keys": ([{"a": 1}, {"b": 2}], None, 0),
    "booleans and complex numbers": ((ROWS.bool(), torch.zeros(4, dtype=torch.complex64)), ROWS, 3),
    "a sparse tensor": ((torch.eye(4).to_sparse(), CLASSES), torch.zeros(4, 4), 3),
    "pictures as labels": ((torch.zeros(4, 3, 8, 8), torch.zeros(4, 3, 8, 8)), torch.zeros(4, 3, 8, 8), 3),
    "more labels than tokens": (
        {"input_ids": torch.ones(2, 5, dtype=torch.int64), "labels": torch.ones(2, 9, dtype=torch.int64)},
        torch.zeros(2, 5, 7),
        2,
    ),
    "objects": (np.zeros(4, dtype=object), None, 3),
    "nothing": (None, None, 0),
}


@pytest.mark.parametrize("name", ODD)
def test_a_table_can_be_made_of_any_batch(name: str) -> None:
    batch, output, rows = ODD[name]
    run: Any = StandInRun()
    table = Table(run, "train_dataset", [batch], None)
    table.predict(output, 0, None, -100, ())
    assert len(table.evidence().rows) == rows


def test_a_prediction_of_nan_is_no_class() -> None:
    assert prediction_of(torch.full((1, 2), float("nan")), array(0), 0, Asked(NAMES)) == RowAnswer("not finite")


def test_the_first_row_of_each_label_is_shown() -> None:
    run: Any = StandInRun()
    table = Table(run, "train_dataset", [(torch.zeros(6, 2), torch.tensor([1, 1, 1, 0, 2, 2]))], None)
    assert [row.row for row in table.evidence().rows] == [0, 3, 4]


def test_columns_that_the_batch_does_not_have_are_dropped() -> None:
    run: Any = StandInRun()
    run.columns["train_dataset", None] = ("text", "label", "x")
    found = Table(run, "train_dataset", [{"x": ROWS, "labels": CLASSES}], None).evidence()
    assert (found.dropped, found.renamed) == (("text",), (("label", "labels"),))
    made = Table(run, "train_dataset", [{"y": ROWS}], None).evidence()
    assert made.dropped == ()
