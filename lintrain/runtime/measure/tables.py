"""Rows of the collated batches of a run as a table: which rows, what the model gets of each, and what it predicts.

A table is made when batches are there, and gets predictions when the model has seen them: an error in between leaves
the rows.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import BatchRow, BatchTable, PredictedClass, RowAnswer, RowText, RowValues
from lintrain.runtime.child.library import attribute, has, is_mapping, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.batch import describe
from lintrain.runtime.measure.batch_entries import ANSWER_ENDS, TOKEN_IDS, Batch, array_of, as_text, is_text, last_name
from lintrain.runtime.measure.columns import rows_in_order
from lintrain.runtime.measure.model import base_model, task_of
from lintrain.runtime.measure.row_answers import (
    IGNORED,
    Asked,
    Names,
    answer_span,
    form_of,
    label_of,
    outputs_in,
    predicted_classes,
    prediction_of,
)
from lintrain.runtime.measure.row_entries import (
    Decoder,
    decoder_of,
    plain,
    spans_of,
    token_text,
    values_of,
    vocabulary_decoder,
)
from lintrain.runtime.measure.row_values import LABEL_NAMES
from lintrain.runtime.measure.tokenizer import find_tokenizer, find_vocabulary
from lintrain.startup.lazy_dataclass import dataclass

DEFAULT = (("first", 3),)
OTHER_IDS = frozenset({"ids", "tokens", "token_ids", "input", "inputs", "src", "x", "text"})
CLASSES_OF_TOKENS = ("ForTokenClassification", "ForSequenceClassification", "ForQuestionAnswering")
BESIDE_IDS = ("attention_mask", "token_type_ids", "position_ids", "special_tokens_mask", "length")
"""Entries that say something of the ids, and are shown with them."""


def record_batches(
    run: MeasuredRun, argument: str, batches: list[Any], key: str | None = None, source: Source | None = None
) -> None:
    """Describe the batches of one data set, and show some of their rows, or those of `source` that were asked for."""
    run.batch_evidence.append(describe(run, argument, batches))
    run.measured(batches=run.batch_evidence)
    show_rows(run, argument, batches, key, source)


def show_rows(
    run: MeasuredRun, argument: str, batches: Sequence[Any], key: str | None = None, source: Source | None = None
) -> None:
    """Make the table of some batches and send it."""

    def show() -> None:
        asked = list(_asked_batches(run, source)) if source is not None else []
        run.tables[argument, key] = Table(run, argument, batches, key, asked)

    _change(run, argument, show)


@dataclass(frozen=True, eq=False)
class Source:
    """A data set whose rows can be had by their numbers, and how some of them become batches."""

    dataset: Any
    collate: Callable[[list[int]], list[Any]]


def _asked_batches(run: MeasuredRun, source: Source) -> Iterator[tuple[str, Any]]:
    """Batches of the rows of the whole data set that come first in an order, each with the order."""
    for order, count in run.session.rows:
        rows = rows_in_order(source.dataset, order, count) if order != DEFAULT[0][0] else []
        for batch in source.collate(rows) if rows else ():
            yield order, batch


def asked_batches(run: MeasuredRun, argument: str) -> dict[int, Any]:
    """The batches of a table that were made of rows that were asked for, by their numbers in it."""
    table = run.tables.get((argument, None))
    return table.asked if isinstance(table, Table) else {}


def show_predictions(
    run: MeasuredRun,
    argument: str,
    output: Any,
    key: str | None = None,
    *,
    batch: int = 0,
    target: Any = None,
    ignored: int = IGNORED,
    used: tuple[str, ...] = (),
) -> None:
    """Put what the model predicts for a batch into its table; `target` are labels that only the loss was given."""
    table = run.tables.get((argument, key))
    if table is not None:
        _change(run, argument, lambda: table.predict(output, batch, target, ignored, used))


def _change(run: MeasuredRun, argument: str, change: Callable[[], None]) -> None:
    """Change a table and send all; what cannot be shown is no error of the script's."""
    try:
        change()
        # Lightning evaluates a batch before it trains: the training data is sent first all the same.
        ordered = sorted(run.tables.items(), key=lambda one: one[0][0] != "train_dataset")
        run.measured(tables=[table.evidence() for _, table in ordered])
    except Exception as error:  # noqa: BLE001 - batches hold whatever a script puts into them
        run.session.note(f"rows of `{argument}` are not shown: {type(error).__name__}: {error}")


class Table:
    """The table of one data set while it is made."""

    def __init__(
        self,
        run: MeasuredRun,
        argument: str,
        batches: Sequence[Any],
        key: str | None,
        asked: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self._run, self._argument, self._key = run, argument, key
        self._batches = [Batch(batch, run.label_inputs) for batch in (*batches, *(batch for _, batch in asked))]
        self._orders = {number: order for number, (order, _) in enumerate(asked, len(batches))}
        self.asked = {number: batch for number, (_, batch) in enumerate(asked, len(batches))}
        self._decoder = _decoder(run)
        self._pad = self._decoder.pad if self._decoder is not None else None
        self._has_own_tokens = self._decoder is not None and self._decoder.name.startswith("`")
        self._rate = _sampling_rate(run)
        self._names = Names(run.class_names.get((argument, key), ()), _names_of_model(run))
        self._classes: tuple[PredictedClass, ...] = ()
        # A Trainer hands all of a batch to the model.
        self._used = tuple(self._batches[0].entries) if self._batches and run.passes_all else ()
        self._rows = [self._shown(number, row, why, self._asked(number)) for number, row, why in self._chosen()]

    def evidence(self) -> BatchTable:
        """What is known now."""
        first = self._batches[0] if self._batches else None
        dropped, renamed = self._columns()
        return BatchTable(
            self._argument,
            tuple(self._rows),
            first.rows if first is not None else 0,
            self._key,
            self._decoder.name if self._decoder is not None and any(row.texts for row in self._rows) else "",
            self._used,
            renamed,
            dropped,
            self._ignored(),
            self._classes,
            is_asked=bool(self._run.session.rows),
        )

    # which rows

    def _chosen(self) -> list[tuple[int, int, str]]:
        """Batch, row and the reason of each row that is shown."""
        every = [
            (number, row)
            for number, batch in enumerate(self._batches)
            for row in range(batch.rows)
            if number not in self._orders
        ]
        chosen: dict[tuple[int, int], str] = {}
        for order, count in self._run.session.rows or DEFAULT:
            for position, why in self._in_order(order, count, every):
                chosen.setdefault(position, why)
        return [(*position, why) for position, why in chosen.items()]

    def _in_order(self, order: str, count: int, every: list[tuple[int, int]]) -> list[tuple[tuple[int, int], str]]:
        of_order = [number for number, name in self._orders.items() if name == order]
        if of_order:
            every = [(number, row) for number in of_order for row in range(self._batches[number].rows)]
        if order in ("longest", "shortest"):
            ordered = sorted(every, key=lambda position: self._length(*position), reverse=order == "longest")
            return [(position, order) for position in ordered[:count]]
        if order == "random":
            # Not the generator of the script: what it draws next would be something else.
            drawn = random.SystemRandom().sample(every, min(count, len(every)))
            return [(position, order) for position in sorted(drawn)]
        return self._first_of_each_label(every, count)

    def _first_of_each_label(self, every: list[tuple[int, int]], count: int) -> list[tuple[tuple[int, int], str]]:
        labelled: dict[int, tuple[int, int]] = {}
        for number, batch in enumerate(self._batches):
            targets = batch.targets
            if targets is not None and form_of(targets, self._asked(number)) in ("class", "one-hot"):
                values = targets if targets.ndim == 1 else targets.argmax(axis=1)
                for row, value in enumerate(values.tolist()):
                    labelled.setdefault(value, (number, row))
        firsts = sorted(labelled.values())[:count] if len(labelled) > 1 else []
        others = [position for position in every if position not in firsts][: count - len(firsts)]
        return [(position, "") for position in sorted([*firsts, *others])]

    def _length(self, number: int, row: int) -> int:
        """The attended tokens of a row, else the characters of its text, else its numbers."""
        batch = self._batches[number]
        for name in batch.entries:
            value = batch.row(name, row)
            if last_name(name).endswith(TOKEN_IDS) and attribute(value, "ndim", 0) == 1:
                mask = self._beside(batch, name, BESIDE_IDS[0], row)
                return sum(mask) if mask is not None else int((value != self._pad).sum())
            if isinstance(value, str):
                return len(value)
        return sum(int(attribute(batch.row(name, row), "size", 0)) for name in batch.entries)

    # what is shown of a row

    def _asked(self, number: int, ignored: int = IGNORED) -> Asked:
        batch, model = self._batches[number], base_model(self._run.model)
        kind = type(model).__name__
        is_beside = batch.ids is not None and attribute(batch.targets, "shape", None) == batch.ids.shape
        shifts = is_beside and task_of(model) == "CausalLM"
        tags = kind.endswith(CLASSES_OF_TOKENS) or bool(self._names.of_data) or self._decoder is None
        return Asked(self._names, self._decoder, tags, shifts, batch.ids, ignored)

    def _shown(self, number: int, row: int, why: str, asked: Asked) -> BatchRow:
        batch = self._batches[number]
        texts, values = list[RowText](), list[RowValues]()
        for name in batch.entries:
            if name == batch.label or last_name(name) in ANSWER_ENDS or last_name(name).endswith(BESIDE_IDS):
                continue
            shown = self._entry(batch, name, row)
            if isinstance(shown, RowText):
                texts.append(shown)
            elif shown is not None:
                values.append(shown)
        label, is_of_all = self._label(batch, row, asked), number in self._orders
        made = BatchRow(number, row, why, tuple(texts), tuple(values), label, is_of_all=is_of_all)
        return self._with_scored(made, batch, row, asked)

    def _entry(self, batch: Batch, name: str, row: int) -> RowText | RowValues | None:
        value = batch.row(name, row)
        if is_text(value):
            return RowText(name, as_text(value))
        if not has(value, "dtype") or value.dtype.kind not in "fiub" or not value.size:
            return None
        is_ids = last_name(name).endswith(TOKEN_IDS) or (self._decoder is not None and self._may_be_ids(name, value))
        if is_ids and value.ndim == 1 and value.dtype.kind in "iu":
            return self._text(batch, name, row)
        return values_of(name, str(batch.entries[name].dtype).removeprefix("torch."), value, self._rate)

    def _may_be_ids(self, name: str, value: Any) -> bool:
        """Whether an entry without a telling name may be token ids."""
        is_open = last_name(name).isdigit() or last_name(name).lower() in OTHER_IDS or self._has_own_tokens
        return is_open and value.ndim == 1 and value.dtype.kind in "iu" and value.size > 1

    def _text(self, batch: Batch, name: str, row: int) -> RowText:
        ids = batch.row(name, row)
        mask, types = (self._beside(batch, name, each, row) for each in BESIDE_IDS[:2])
        return token_text(name, ids.tolist(), mask, types, self._decoder)

    def _beside(self, batch: Batch, name: str, of: str, row: int) -> list[int] | None:
        """A row of the mask or of the types that belong to some ids."""
        beside = batch.beside(name, of)
        value = batch.row(beside, row) if beside in batch.entries else None
        if value is None or attribute(value, "shape", None) != batch.row(name, row).shape:
            return None
        return [int(each) for each in value.tolist()]

    def _label(self, batch: Batch, row: int, asked: Asked) -> RowAnswer | None:
        first, last = (batch.entries.get(name) for name in ANSWER_ENDS)
        if first is not None and last is not None and batch.ids is not None:
            return answer_span(batch.ids[row], int(first[row]), int(last[row]), self._decoder)
        if batch.targets is not None:
            return label_of(batch.targets, row, asked)
        value = batch.row(batch.label, row) if batch.label else None
        return RowAnswer(as_text(value)) if is_text(value) else None

    def _with_scored(self, made: BatchRow, batch: Batch, row: int, asked: Asked) -> BatchRow:
        """The row with what the loss scores of it, if it has a label for each token."""
        targets = batch.targets
        if targets is None or form_of(targets, asked) not in ("tags", "tokens"):
            return made
        scored = [position for position, label in enumerate(targets[row].tolist()) if label != asked.ignored]
        is_beside = batch.ids is not None and batch.ids.shape == targets.shape
        attended = (
            next((text.attended for text in made.texts if last_name(text.name) == TOKEN_IDS), None)
            if is_beside
            else None
        )
        return replace(
            made,
            scored=len(scored),
            scorable=attended or len(targets[row]),
            scored_at=spans_of([1] * len(scored), scored),
        )

    # what the model predicts

    def predict(self, output: Any, number: int, target: Any, ignored: int, used: tuple[str, ...]) -> None:
        """Add the predictions for a batch."""
        batch = self._batches[number] if number < len(self._batches) else None
        if batch is None:
            return
        self._used = used or self._used
        if batch.targets is None and target is not None:
            self._take_target(batch, number, target, ignored)
        asked = self._asked(number, ignored)
        outputs = outputs_in(output, batch.rows)
        wanted = batch.compared_with(target)
        self._rows = [
            replace(row, prediction=self._prediction(batch, row.row, output, outputs, asked, wanted))
            if row.batch == number
            else row
            for row in self._rows
        ]
        if number == 0:
            self._classes = predicted_classes(outputs, wanted, asked)

    def _prediction(
        self, batch: Batch, row: int, output: Any, outputs: Any, asked: Asked, wanted: Any
    ) -> RowAnswer | None:
        if is_mapping(output) and "start_logits" in output and batch.ids is not None:
            first, last = (int(output[f"{end}_logits"][row].argmax()) for end in ("start", "end"))
            return answer_span(batch.ids[row], first, last, self._decoder)
        return prediction_of(outputs, wanted, row, asked)

    def _take_target(self, batch: Batch, number: int, target: Any, ignored: int) -> None:
        """Labels that the script gives its loss, and that have no name in the batch."""
        array = plain(target)
        if attribute(array, "ndim", 0) == 1 and batch.rows and len(array) > batch.rows and len(array) % batch.rows == 0:
            array = array.reshape(batch.rows, -1)
        batch.targets = array_of(array, batch.rows)
        batch.label = next((name for name, one in batch.entries.items() if _is_same(one, target)), "")
        asked = self._asked(number, ignored)
        self._rows = [
            self._shown(number, row.row, row.chosen, asked)
            if row.batch == number and batch.targets is not None
            else row
            for row in self._rows
        ]

    # columns

    def _columns(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Columns of the data set that the batch has not, and those that it has under another name."""
        columns = self._run.columns.get((self._argument, self._key), ())
        entries = set(self._batches[0].entries) if self._batches else set[str]()
        label = next((name for name in LABEL_NAMES if name in columns and name not in entries), None)
        renamed = ((label, "labels"),) if label is not None and "labels" in entries - {*columns} else ()
        # Where the collator makes all of the entries, it may read any column.
        kept = entries & {*columns}
        known = {column for column, _ in renamed}
        return tuple(name for name in columns if kept and name not in entries and name not in known), renamed

    def _ignored(self) -> tuple[str, ...]:
        """Entries that a model takes only because it takes anything."""
        if not self._used or not self._run.passes_all:
            return ()
        parameters = inspect.signature(base_model(self._run.model).forward).parameters.values()
        taken = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
        return tuple(name for name in self._used if name not in taken)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two tensors hold the same."""
    is_alike = attribute(one, "shape", None) == other.shape
    return is_alike and bool(library("numpy").array_equal(plain(one), plain(other)))


def _decoder(run: MeasuredRun) -> Decoder | None:
    tokenizer = find_tokenizer(run)
    if tokenizer is not None:
        return decoder_of(tokenizer)
    vocabulary = find_vocabulary(run)
    return vocabulary_decoder(f"`{vocabulary[0]}`", vocabulary[1]) if vocabulary is not None else None


def _names_of_model(run: MeasuredRun) -> Mapping[int, str]:
    names: object = attribute(attribute(base_model(run.model), "config", None), "id2label", None)
    return {int(value): str(name) for value, name in names.items()} if is_mapping(names) else {}


def _sampling_rate(run: MeasuredRun) -> int | None:
    """The sampling rate of a feature extractor that the run holds."""
    held = [attribute(owner, "__dict__", {}).get(name) for owner, name in run.tokenizer_holders()]
    held += [attribute(run.collator, name) for name in ("processor", "feature_extractor")]
    for each in held:
        found = attribute(attribute(each, "feature_extractor", each), "sampling_rate", None)
        if isinstance(found, int):
            return found
    return None
