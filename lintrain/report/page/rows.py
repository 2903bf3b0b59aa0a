"""Rows of the collated batches on a page: their text, pictures and numbers, labels and predictions."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.evidence.run import BatchRow, BatchTable, Evidence, RowAnswer, RowText, RowValues
from lintrain.report.page.charts import Bar, bars
from lintrain.report.page.markup import Markup, Piece, figure, section, table, tag, with_code
from lintrain.report.text.rows import (
    chosen_text,
    columns_of,
    details_of,
    heading_of,
    name_of,
    number_of,
    scored_text,
    values_text,
)


def rows_of(evidence: Evidence) -> Iterator[Markup]:
    """A section with the rows of each data set, the training data first."""
    for one in evidence.tables:
        if one.rows:
            yield section(f"Rows of {name_of(one)}", _columns(one), _rows(one), _classes(one))


def _columns(one: BatchTable) -> Piece:
    text = columns_of(one)
    return tag("p", with_code(text), class_="where") if text else None


def _rows(one: BatchTable) -> Markup:
    has_answers = any(row.label or row.prediction for row in one.rows)
    head = ("row", "label", "predicted", "what the model gets") if has_answers else ("row", "what the model gets")
    rows = [(*_first_cells(row, has_answers=has_answers), _content(row)) for row in one.rows]
    return table(
        head, rows, caption=heading_of(one, len(one.rows)), kind="words rows answers" if has_answers else "words rows"
    )


def _first_cells(row: BatchRow, *, has_answers: bool) -> tuple[Piece, ...]:
    number = ", ".join(part for part in (number_of(row), chosen_text(row)) if part)
    return (number, _answer(row.label), _answer(row.prediction)) if has_answers else (number,)


def _answer(answer: RowAnswer | None) -> Piece:
    if answer is None:
        return ""
    share = f"{answer.share:.2f}" if answer.share is not None else None
    named = f"{answer.text} ({answer.name})" if answer.name and answer.name != answer.text else answer.text
    other = tag("div", f"the model's name: {answer.model_name}", class_="aside") if answer.model_name else None
    return [tag("bdi", named), other, tag("div", f"probability {share}", class_="aside") if share else None]


def _content(row: BatchRow) -> Markup:
    scored = scored_text(row)
    return tag(
        "div",
        [_text(text, is_alone=len(row.texts) == 1) for text in row.texts],
        tag("div", scored, class_="aside") if scored else None,
        [_values(values) for values in row.values],
    )


def _text(text: RowText, *, is_alone: bool) -> list[Piece]:
    details = details_of(text)
    return [
        None if is_alone else tag("div", tag("code", text.name), class_="aside"),
        tag("bdi", text.text, class_="words"),
        tag("div", details, class_="aside") if details else None,
    ]


def _values(values: RowValues) -> Piece:
    shown = tag("div", values_text(values), class_="aside")
    if not values.picture:
        return shown
    source = f"data:image/png;base64,{values.picture}"
    return [tag("img", src=source, alt=f"{values.name} as a picture", class_="thumbnail"), shown]


def _classes(one: BatchTable) -> Piece:
    """The predicted classes of the first batch as bars."""
    every = sum(each.predicted for each in one.classes)
    if not every:
        return None
    entries = [
        Bar(
            each.name or str(each.value),
            each.predicted / every,
            str(each.predicted) if each.labels is None else f"{each.predicted} ({_labels(each.labels)})",
        )
        for each in one.classes
    ]
    return figure("predicted classes of the first batch", bars("predicted classes", entries))


def _labels(count: int) -> str:
    return "1 label" if count == 1 else f"{count} labels"
