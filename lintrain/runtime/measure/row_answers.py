"""The label of a row of a batch and what the model predicts for it, in words: classes, tags, spans, tokens, numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from lintrain.evidence.run import PredictedClass, RowAnswer
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.measure.row_entries import Decoder, plain
from lintrain.startup.lazy_dataclass import dataclass

IGNORED = -100
MOST_TOKENS = 40
"""Tokens of a row whose tags or predictions are written."""
MOST_CLASSES = 12
MOST_NUMBERS = 8
NOT_FINITE = "not finite"
NO_CLASS = -1
MOST_PIXELS = 128
"""Of a side of the map whose classes are counted."""
MOST_SCORES = 2**22
"""Predictions of a batch are counted up to so many scores: more take longer than the forward pass that made them."""


@dataclass(frozen=True, eq=False)
class Names:
    """The names of the classes: those of the data set by their order, and those of the model by number."""

    of_data: tuple[str, ...] = ()
    of_model: Mapping[int, str] = field(default_factory=dict[int, str])

    def of(self, value: int) -> tuple[str, str]:
        """The name of a class, and the model's name of it where that is another one."""
        of_model = str(self.of_model.get(value, ""))
        of_model = "" if of_model == f"LABEL_{value}" else of_model
        of_data = self.of_data[value] if 0 <= value < len(self.of_data) else ""
        return of_data or of_model, of_model if of_data and of_model not in ("", of_data) else ""

    def answer(self, value: int, share: float | None = None) -> RowAnswer:
        """A class as an answer."""
        return RowAnswer(str(value), *self.of(value), share)

    def word(self, value: int) -> str:
        """A class by its name, or by its number."""
        return self.of(value)[0] or str(value)


@dataclass(frozen=True, eq=False)
class Asked:
    """What the answers of a batch are read with: names of classes, the decoder, and how labels match the outputs.

    `shifts`: the model itself compares the output at a token with the label of the next one. `tags`: labels of tokens
    are classes. `ids` are those of [rows, tokens] that labels of the same shape belong to.
    """

    names: Names
    decoder: Decoder | None = None
    tags: bool = False
    shifts: bool = False
    ids: Any = None
    ignored: int = IGNORED


def form_of(targets: Any, asked: Asked) -> str:
    """What labels of [rows, …] are: `class`, `number`, `one-hot`, `classes`, `tags`, `tokens`, `pixels`, `numbers`."""
    is_whole = targets.dtype.kind in "iub"
    if targets.ndim == 1:
        return "class" if is_whole else "number"
    if targets.ndim == 2 and not _is_of_tokens(targets, asked):
        return _form_of_vector(targets)
    if targets.ndim == 2 and is_whole:
        return "tags" if asked.tags else "tokens" if asked.decoder is not None else "numbers"
    return "pixels" if targets.ndim == 3 and is_whole else "numbers"


def _is_of_tokens(targets: Any, asked: Asked) -> bool:
    is_beside = asked.ids is not None and asked.ids.shape == targets.shape
    return is_beside or bool(targets.dtype.kind in "iu" and targets.size and (targets.min() < 0 or targets.max() > 1))


def _form_of_vector(targets: Any) -> str:
    if targets.size and bool(((targets == 0) | (targets == 1)).all()) and targets.shape[1] > 1:
        return "one-hot" if bool((targets.sum(axis=1) == 1).all()) else "classes"
    return "numbers"


def label_of(targets: Any, row: int, asked: Asked) -> RowAnswer | None:
    """The label of a row; None for labels that are the tokens of the input."""
    here = targets[row]
    match form_of(targets, asked):
        case "class":
            return asked.names.answer(int(here))
        case "one-hot":
            return asked.names.answer(int(here.argmax()))
        case "classes":
            return RowAnswer(_listed(here, asked.names))
        case "tags":
            return RowAnswer(_tagged(here, here, row, asked))
        case "tokens":
            return _tokens(here, row, asked)
        case "pixels":
            return RowAnswer(_shares(here, asked))
        case _:
            return RowAnswer(_numbers(here))


def prediction_of(outputs: Any, targets: Any, row: int, asked: Asked) -> RowAnswer | None:
    """What the model predicts for a row; None where its outputs do not fit the labels."""
    if outputs is None or not attribute(outputs, "ndim", 0) or len(outputs) <= row:
        return None
    form = form_of(targets, asked) if targets is not None else "class"
    if outputs.ndim == 1 or (outputs.ndim == 2 and outputs.shape[1] == 1 and form != "tags"):
        return RowAnswer(_numbers(plain(outputs[row])))
    if form in ("tags", "tokens"):
        return _predicted_tokens(outputs, targets, row, asked, form)
    if form == "pixels":
        is_map = outputs.ndim == 4 and outputs.shape[1] > 1
        # A part of the pixels has the same shares, and takes a fraction of the time.
        step = -(-max(outputs.shape[2:]) // MOST_PIXELS) if is_map else 1
        return RowAnswer(_shares(plain(outputs[row][:, ::step, ::step].argmax(0)), asked)) if is_map else None
    if outputs.ndim != 2:
        return None
    return _predicted_row(plain(outputs[row]), form, asked.names)


def _predicted_row(scores: Any, form: str, names: Names) -> RowAnswer:
    if form == "classes":
        return RowAnswer(_listed(scores > 0, names))
    if form in ("number", "numbers"):
        return RowAnswer(_numbers(scores))
    if not bool(library("numpy").isfinite(scores).all()):
        return RowAnswer(NOT_FINITE)
    best = int(scores.argmax())
    return names.answer(best, share_of(scores, best))


def share_of(scores: Any, best: int) -> float:
    """The probability of a class, of finite logits or of probabilities."""
    numpy = library("numpy")
    if bool((scores >= 0).all()) and abs(float(scores.sum()) - 1) < 1e-3:
        return float(scores[best])
    shares = numpy.exp(scores - scores.max())
    return float(shares[best] / shares.sum())


def _listed(marked: Any, names: Names) -> str:
    words = [names.word(int(position)) for position in library("numpy").flatnonzero(marked)]
    return ", ".join(words[:MOST_CLASSES]) + (" …" if len(words) > MOST_CLASSES else "") or "none"


def _numbers(here: Any) -> str:
    flat = here.reshape(-1)
    shown = ", ".join(f"{float(each):.4g}" for each in flat[:MOST_NUMBERS])
    return f"{shown}, …" if len(flat) > MOST_NUMBERS else shown


def _shares(here: Any, asked: Asked) -> str:
    values, counts = library("numpy").unique(here[here != asked.ignored], return_counts=True)
    every = int(counts.sum()) or 1
    found = Counter(dict(zip(values.tolist(), counts.tolist(), strict=True))).most_common(MOST_CLASSES)
    return ", ".join(f"{asked.names.word(value)} {count / every:.0%}" for value, count in found) or "nothing scored"


def _scored(labels: Any, asked: Asked) -> list[int]:
    return [position for position, value in enumerate(labels.tolist()) if value != asked.ignored]


def _tagged(tags: Any, labels: Any, row: int, asked: Asked) -> str:
    """The scored tokens with their tags; without ids the tags alone."""
    scored = _scored(labels, asked)
    words = [asked.names.word(int(tags[position])) for position in scored[:MOST_TOKENS]]
    if asked.decoder is not None and _has_ids(asked, labels):
        pieces = [asked.decoder.text([int(asked.ids[row][position])]).strip() for position in scored[:MOST_TOKENS]]
        words = [f"{piece}/{word}" for piece, word in zip(pieces, words, strict=True)]
    return " ".join(words) + (" …" if len(scored) > MOST_TOKENS else "")


def _has_ids(asked: Asked, labels: Any) -> bool:
    """Whether the ids of the tokens are known, one beside each label."""
    return asked.ids is not None and bool(asked.ids.shape[1] == len(labels))


def _tokens(labels: Any, row: int, asked: Asked) -> RowAnswer | None:
    scored = _scored(labels, asked)
    kept = [int(labels[position]) for position in scored]
    if not kept:
        return None
    if asked.shifts and _has_ids(asked, labels) and kept == [int(asked.ids[row][position]) for position in scored]:
        outside = len(labels) - len(scored)
        if not outside or asked.decoder is None or _is_padding(asked, row, scored):
            return None
    return RowAnswer(asked.decoder.text(kept) if asked.decoder is not None else _numbers(labels))


def _is_padding(asked: Asked, row: int, scored: list[int]) -> bool:
    """Whether all that is not scored is padding."""
    pad = asked.decoder.pad if asked.decoder is not None else None
    others = set(range(len(asked.ids[row]))) - set(scored)
    return pad is not None and all(int(asked.ids[row][position]) == pad for position in others)


def _predicted_tokens(outputs: Any, targets: Any, row: int, asked: Asked, form: str) -> RowAnswer | None:
    """The most probable tokens or tags at the scored positions, the first of them."""
    if outputs.ndim == 2 and len(outputs) == targets.size:  # own models give an entry for each token of the batch
        outputs = outputs.reshape(*targets.shape, -1)
    if outputs.ndim != 3 or outputs.shape[1] < targets.shape[1] - asked.shifts:
        return None
    outputs = outputs[:, -targets.shape[1] :]  # embeddings put before the tokens, as of images and prompts
    if form == "tags":
        kept = _scored(targets[row], asked)[:MOST_TOKENS]
        best = dict(zip(kept, plain(outputs[row][kept].argmax(-1)).tolist(), strict=True))
        return RowAnswer(_tagged(best, targets[row], row, asked))
    scored = [position for position in _scored(targets[row], asked) if not asked.shifts or position]
    scored = scored[:MOST_TOKENS]
    if not scored or asked.decoder is None:
        return None
    best = plain(outputs[row][[position - asked.shifts for position in scored]].argmax(-1))
    return RowAnswer(asked.decoder.text([int(token) for token in best]))


def predicted_classes(outputs: Any, targets: Any, asked: Asked) -> tuple[PredictedClass, ...]:
    """How often each class is predicted in a batch, and how often it is the label; empty for other outputs."""
    form = form_of(targets, asked) if targets is not None else "class"
    if outputs is None or form not in ("class", "one-hot", "tags"):
        return ()
    if outputs.ndim != (3 if form == "tags" else 2) or outputs.shape[-1] < 2:
        return ()
    if math.prod(outputs.shape) > MOST_SCORES:
        return ()
    best = plain(outputs.argmax(-1))
    labels: Any = targets.argmax(axis=1) if form == "one-hot" and targets is not None else targets
    if labels is not None and labels.shape != best.shape:
        return ()
    # The largest of scores with NaN is the NaN: no class is predicted.
    largest = outputs.amax(-1) if has(outputs, "amax") else outputs.max(-1)
    is_known = library("numpy").isfinite(plain(largest))
    is_scored = is_known | True if labels is None else labels != asked.ignored
    given = Counter[int](labels[is_scored].tolist()) if labels is not None else None
    counted = tuple(_counted(Counter(best[is_scored & is_known].tolist()), given, asked.names))
    lost = int((is_scored & ~is_known).sum())
    return (*counted, PredictedClass(NO_CLASS, NOT_FINITE, lost)) if lost else counted


def _counted(predicted: Counter[int], given: Counter[int] | None, names: Names) -> Iterator[PredictedClass]:
    frequent = (predicted + (given or Counter[int]())).most_common(MOST_CLASSES)
    for value in sorted(value for value, _ in frequent):
        yield PredictedClass(value, names.of(value)[0], predicted[value], None if given is None else given[value])


def outputs_in(output: Any, rows: int) -> Any:
    """The scores in a model's output: its logits, or the only tensor that has an entry for each row; else None."""
    if has(output, "shape"):
        return output
    if is_mapping(output):
        if has(output.get("logits"), "shape"):
            return output["logits"]
        parts = [part for name, part in output.items() if name != "loss"]
    else:
        parts = list(output) if is_row(output) else []
    fitting = [part for part in parts if attribute(part, "shape", ()) and part.shape[0] == rows]
    is_first_enough = is_row(output) and fitting
    return fitting[0] if is_first_enough or len(fitting) == 1 else None


def answer_span(ids: Any, first: int, last: int, decoder: Decoder | None) -> RowAnswer:
    """The answer to a question, by its first and last token."""
    text = decoder.text([int(token) for token in ids[first : last + 1]]) if decoder is not None else ""
    return RowAnswer(f"tokens {first} to {last}" + (f": {text}" if text else ""))
