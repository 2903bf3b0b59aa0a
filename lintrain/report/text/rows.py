"""Rows of the collated batches for a terminal: a table for each data set, every row decoded and wrapped.

A row has its label and what the model predicts, its text with special tokens, and a line about tokens, types, what is
scored, and numbers. Long texts lose their middle unless rows were asked for. Another line counts what reaches the model
of all texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lintrain.evidence.run import (
    BatchRow,
    BatchTable,
    EncodedTexts,
    Evidence,
    PredictedClass,
    RowAnswer,
    RowText,
    RowValues,
    Span,
)
from lintrain.report.text.style import CUT, Style, printable, wrap
from lintrain.text import show_number

INDENT = 12
BRIEF = 1
"""Rows that are shown of data that is not trained on, unless rows were asked for."""
MOST_LINES = 12
FIRST_LINES = 8
"""Of a longer text its first lines are shown, and as many of the last as fit."""
MOST_SPANS = 8


def rows_lines(evidence: Evidence, style: Style) -> Iterator[str]:
    """The tables of a run, the training data first."""
    first = next(iter(evidence.tables), None)
    for table in evidence.tables:
        has_own_columns = table is first or first is None or columns_of(table) != columns_of(first)
        yield from _table(table, style, columns=columns_of(table) if has_own_columns else "")


def _table(table: BatchTable, style: Style, *, columns: str) -> Iterator[str]:
    shown = table.rows if table.is_asked or table.argument == "train_dataset" else table.rows[:BRIEF]
    if not shown:
        return
    yield from _headed("rows", heading_of(table, len(shown)), style)
    for line in (columns, classes_of(table)):
        if line:
            yield from _indented(line, style)
    for row in shown:
        yield from _row(row, style, is_whole=table.is_asked)


def heading_of(table: BatchTable, shown: int) -> str:
    """Which rows these are: `train_dataset, as the model gets them: 3 of 8 in the first batch`."""
    is_of_others = any(row.batch for row in table.rows)
    count = f"{shown} rows" if is_of_others else f"{shown} of {table.of} in the first batch"
    decoded = f", decoded with {table.tokenizer}" if table.tokenizer else ""
    return f"{name_of(table)}, as the model gets them: {count}{decoded}"


def name_of(table: BatchTable) -> str:
    """The argument of the data set, with its key in a dictionary."""
    return f"{table.argument}[{table.key}]" if table.key else table.argument


def columns_of(table: BatchTable) -> str:
    """Columns against the model: `columns: input_ids, labels (from label) used; idx dropped`."""
    origins = {entry: f"{entry} (from {column})" for column, entry in table.renamed}
    used = [origins.get(entry, entry) for entry in table.used]
    parts = [f"{', '.join(used)} used"] if used else []
    parts += [f"{', '.join(table.dropped)} dropped"] if table.dropped else []
    parts += [f"{', '.join(table.ignored)} not read by the model"] if table.ignored else []
    return f"columns: {'; '.join(parts)}" if parts else ""


def classes_of(table: BatchTable) -> str:
    """The histogram of the predicted classes, with the labels."""
    if not table.classes:
        return ""
    predicted = ", ".join(_count(each, each.predicted) for each in table.classes)
    given = ", ".join(_count(each, each.labels) for each in table.classes if each.labels is not None)
    return f"first batch: predicted {predicted}" + (f"; labels {given}" if given else "")


def _count(one: PredictedClass, count: int) -> str:
    return f"{count} {one.name}" if one.name else f"{count} of class {one.value}"


def _row(row: BatchRow, style: Style, *, is_whole: bool) -> Iterator[str]:
    first, *others = [*answers_of(row)] or [""]
    yield from _headed(number_of(row), "; ".join(part for part in (chosen_text(row), first) if part), style)
    for answer in others:
        yield from _indented(answer, style, is_whole=is_whole)
    for text in row.texts:
        name = f"{text.name}: " if len(row.texts) > 1 else ""
        yield from _indented(f"{name}{text.text}", style, is_whole=is_whole)
        yield from _facts(details_of(text), style)
    yield from _facts(scored_text(row), style)
    for values in row.values:
        yield from _indented(values_text(values), style)


def _facts(text: str, style: Style) -> Iterator[str]:
    for line in _wrapped(text, style) if text else ():
        yield f"{' ' * INDENT}{style.paint(line, dim=True)}"


def answers_of(row: BatchRow) -> Iterator[str]:
    """The label and the prediction, in one line where they are short."""
    answers = [
        f"{what} {answer_text(each)}" for what, each in (("label", row.label), ("predicted", row.prediction)) if each
    ]
    if sum(map(len, answers)) < LONG_ANSWER:
        yield from ["; ".join(answers)] if answers else []
    else:
        yield from answers


def scored_text(row: BatchRow) -> str:
    """What the loss scores of a row: `65% of 412 tokens scored: 144-411`; "" for other labels."""
    if row.scored is None or not row.scorable:
        return ""
    share = f"{row.scored / row.scorable:.0%} of {row.scorable} tokens scored"
    where = spans_text(row.scored_at)
    return f"{share}: {where}" if where and row.scored != row.scorable else share


def number_of(row: BatchRow) -> str:
    """The number of a row in its batch, from 0 on; none for a row of no batch."""
    return "row" if row.is_of_all else f"row {row.row}"


def chosen_text(row: BatchRow) -> str:
    """Why a row is shown, and its batch where it is not in the first one: `longest, batch 3`."""
    if row.is_of_all:
        return f"{row.chosen} of all rows"
    return ", ".join(part for part in (row.chosen, f"batch {row.batch}" if row.batch else "") if part)


LONG_ANSWER = 56


def answer_text(answer: RowAnswer) -> str:
    """A label or a prediction: `2 (contradiction), probability 0.36`."""
    name = f" ({answer.name})" if answer.name and answer.name != answer.text else ""
    other = f" (the model's name: {answer.model_name})" if answer.model_name else ""
    share = f", probability {answer.share:.2f}" if answer.share is not None else ""
    return f"{answer.text}{name}{other}{share}"


def details_of(text: RowText) -> str:
    """What is known of the tokens of a text: `18 of 24 tokens attended, padding right; types 0 at 0-9, 1 at 10-17`."""
    if text.tokens is None:
        return ""
    parts = [f"{text.tokens} tokens" if text.attended == text.tokens else _attended(text)]
    if text.mask:
        parts.append(f"attended at {spans_text(text.mask)}")
    if text.types:
        parts.append(f"token types {types_text(text.types)}")
    return "; ".join(parts)


def _attended(text: RowText) -> str:
    side = {"both": "on both sides", "inside": "inside", "everywhere": "everywhere"}.get(text.padding)
    return f"{text.attended} of {text.tokens} tokens attended, padding {side or f'on the {text.padding}'}"


def types_text(types: Sequence[Span]) -> str:
    """Token types as ranges: `0 at 0-9, 1 at 10-17`."""
    if len({span.value for span in types}) == 1:
        return f"{types[0].value} throughout"
    return ", ".join(f"{span.value} at {_range(span)}" for span in types[:MOST_SPANS]) + _more(types)


def spans_text(spans: Sequence[Span]) -> str:
    """Positions as ranges: `0-9, 12`."""
    return ", ".join(map(_range, spans[:MOST_SPANS])) + _more(spans)


def _range(span: Span) -> str:
    return str(span.first) if span.first == span.last else f"{span.first}-{span.last}"


def _more(spans: Sequence[Span]) -> str:
    return f", {CUT}" if len(spans) > MOST_SPANS else ""


def values_text(values: RowValues) -> str:
    """Numbers in a line: `pixel_values: image float32 [3, 32, 32], from -2.1 to 2.6, mean 0.03`."""
    kind = f"{values.kind} " if values.kind != "numbers" else ""
    head = f"{values.name}: {kind}{values.dtype} {list(values.shape)}"
    if values.values and len(values.values) >= _entries(values):
        return f"{values.name}: {', '.join(show_number(each, '.4g') for each in values.values)}"
    parts = [head]
    if values.seconds is not None:
        parts.append(f"{values.seconds:.2f} s")
    if values.kind == "audio" and values.peak is not None:
        parts.append(f"peak {show_number(values.peak, '.3g')}")
    elif values.minimum is not None and values.maximum is not None:
        parts.append(f"from {show_number(values.minimum, '.3g')} to {show_number(values.maximum, '.3g')}")
    if values.mean is not None:
        parts.append(f"mean {show_number(values.mean, '.3g')}")
    if values.non_finite:
        parts.append(f"{values.non_finite} not finite")
    return ", ".join(parts)


def _entries(values: RowValues) -> int:
    entries = 1
    for size in values.shape:
        entries *= size
    return entries


def _headed(head: str, text: str, style: Style) -> Iterator[str]:
    first, *rest = _wrapped(text, style)
    room = " " * max(1, INDENT - 4 - len(head))
    yield f"    {style.paint(head, dim=True)}{room}{style.code(first)}".rstrip()
    for line in rest:
        yield f"{' ' * INDENT}{style.code(line)}"


def _indented(text: str, style: Style, *, is_whole: bool = True) -> Iterator[str]:
    lines = _wrapped(text, style)
    if not is_whole and len(lines) > MOST_LINES:
        last = MOST_LINES - FIRST_LINES - 1
        left_out = sum(len(line) + 1 for line in lines[FIRST_LINES:-last])
        between = f"{style.writable(CUT)} {left_out:,} characters, `--rows` shows them {style.writable(CUT)}"
        lines = [*lines[:FIRST_LINES], between, *lines[-last:]]
    for line in lines:
        yield f"{' ' * INDENT}{line}".rstrip()


def _wrapped(text: str, style: Style) -> list[str]:
    return [line for part in text.splitlines() or [""] for line in wrap(printable(part), INDENT, INDENT, style.width)]


def kept_of_texts(evidence: Evidence) -> Iterator[str]:
    """What reaches the model of texts and rows: what is cut, lost by the tokenizer, and given by the collator."""
    texts, cut = sum(each.texts for each in evidence.encodings), sum(each.cut for each in evidence.encodings)
    if texts:
        lost, tokens = (sum(getattr(each, name) for each in evidence.encodings) for name in ("lost", "tokens"))
        sides = {each.side for each in evidence.encodings if each.cut}
        where = {frozenset({"right"}): "at the end", frozenset({"left"}): "at the start"}.get(frozenset(sides), "")
        yield f"{cut} of {texts} cut" + (f" {where}".rstrip() + f" ({lost} of {tokens} tokens)" if cut else "")
    losses = {name for each in evidence.encodings for name, lost in _lost_by_tokenizer(each) if lost}
    if losses:
        yield f"lost by the tokenizer: {' and '.join(sorted(losses))}"
    batch = evidence.batch()
    if batch is not None and batch.segments is not None and batch.segments.given:
        yield f"type 0: {batch.segments.first} tokens, type 1: {batch.segments.second}"
    if batch is not None and (rows := batch.collated) is not None and (rows.relabelled or rows.cut or rows.misplaced):
        yield f"{rows.relabelled + rows.misplaced} of {rows.matched} rows with other labels after the collator"
        yield f"{rows.lost} of their {rows.tokens} tokens lost by it"


def _lost_by_tokenizer(texts: EncodedTexts) -> tuple[tuple[str, int], ...]:
    return (
        ("capital letters", texts.lost_capitals),
        ("accents", texts.lost_accents),
        ("newlines", texts.lost_newlines),
        ("several spaces", texts.lost_spaces),
    )
