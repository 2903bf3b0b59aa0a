"""The rows that a collator receives, compared with the batch that it makes of them.

Rows are known again by their content, as the model reads it: token ids without padding, the numbers of tensors, or a
text in the decoded ids. Only short keys are kept, of the first batches of a data set.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from lintrain.evidence.run import CollatedRows
from lintrain.runtime.child.hooks import AfterImport, replaced
from lintrain.runtime.child.library import attribute, attributes_to_copy, has, is_mapping, is_row, library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.startup.lazy_dataclass import dataclass

MOST_BATCHES = 4
MOST_ROWS = 64
MOST_NUMBERS = 512
"""Numbers of a tensor that are compared, evenly spaced."""
LEAST_TEXT = 8
"""Letters of a text that say which row it is of."""
IGNORED = -100
LABELS = ("labels", "label", "label_ids", "target", "targets", "y")
IDS = "input_ids"
BESIDE_IDS = frozenset({"attention_mask", "token_type_ids", "position_ids", "special_tokens_mask", "length", "idx"})

Label = int | str | None


@dataclass
class Key:
    """What one row is known by: its ids without padding, the numbers of its other entries, its text; and its label.

    `of_tokens` are its labels at its ids, None for other labels.
    """

    ids: tuple[int, ...] | None = None
    numbers: tuple[tuple[str, bytes], ...] = ()
    text: str = ""
    label: Label = None
    of_tokens: tuple[int, ...] | None = None

    @property
    def content(self) -> tuple[Any, ...] | None:
        """What the model reads of it; None if nothing is known."""
        return (self.ids, self.numbers) if self.ids or self.numbers else None


@dataclass
class Counts:
    """Sums over the batches of one data set."""

    batches: int = 0
    rows: int = 0
    matched: int = 0
    misplaced: int = 0
    tokens: int = 0
    lost: int = 0
    cut: int = 0
    longest: int = 0
    sides: set[str] = field(default_factory=set[str])
    labels: list[tuple[Label, Label]] = field(default_factory=list[tuple[Label, Label]])
    are_kept: bool = True
    contents: dict[Any, list[Label]] = field(default_factory=lambda: defaultdict[Any, list[Label]](list))
    are_tokens: bool = True

    def evidence(self) -> CollatedRows:
        """The sums as evidence."""
        relabelled = _relabelled(self.labels)
        same = [labels for labels in self.contents.values() if len(labels) > 1]
        sides = self.sides if len(self.sides) == 1 else ("",)
        return CollatedRows(
            rows=self.rows,
            matched=self.matched,
            relabelled=relabelled,
            are_swapped=relabelled > 0 and self.are_kept,
            misplaced=self.misplaced,
            tokens=self.tokens,
            lost=self.lost,
            cut=self.cut,
            side=next(iter(sides)),
            longest=self.longest,
            alike=sum(map(len, same)),
            conflicting=sum(len(labels) for labels in same if len(set(labels)) > 1),
            are_tokens=self.are_tokens and bool(self.rows),
        )


def _relabelled(pairs: list[tuple[Label, Label]]) -> int:
    """How many rows got another label than by the one rule that a collator may have for each label."""
    by_label: dict[Label, Counter[Label]] = defaultdict(Counter[Label])
    for given, got in pairs:
        by_label[given][got] += 1
    # A collator may rename classes (`1` becomes `0`): one rule for each label is no mistake. A
    # label that becomes two is.
    if all(len(found) == 1 for found in by_label.values()):
        return 0
    # With numbers on both sides, staying the same is the only plausible rule; with texts, the most frequent result is.
    numbers = [(given, got) for given, got in pairs if isinstance(given, int)]
    if len(numbers) == len(pairs):
        return sum(given != got for given, got in numbers)
    return sum(found.total() - max(found.values()) for found in by_label.values())


class Collations:
    """The first batches of every data set, as they are collated; those of the latest one are asked for."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._counts: dict[int, Counts] = {}
        self._latest: Counts | None = None

    def latest(self) -> CollatedRows | None:
        """What was seen of the data set that gave a batch last; None if nothing was."""
        return self._latest.evidence() if self._latest is not None and self._latest.rows else None

    def collating(self, dataset: Any, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The collate function of a data set, with its first batches compared."""
        # A script that makes a data set for each batch would fill the memory with counts.
        if id(dataset) not in self._counts and len(self._counts) == MOST_BATCHES * 4:
            self._counts.clear()
        self._latest = counts = self._counts.setdefault(id(dataset), Counts())
        # The collator itself from here on: a whole training pays nothing for the comparison of its first batches.
        if counts.batches >= MOST_BATCHES or counts.rows >= MOST_ROWS:
            return collate

        @functools.wraps(collate, assigned=attributes_to_copy(collate), updated=())
        def compared(rows: Any) -> Any:
            # Before the call: a collator may take the labels out of its rows.
            keys = [_guarded(_key_of, row) for row in rows] if is_row(rows) else []
            batch = collate(rows)
            counts.batches += 1
            _guarded(functools.partial(self._add, counts, keys), batch)
            return batch

        return compared

    def _add(self, counts: Counts, keys: list[Key | None], batch: Any) -> None:
        received = [key for key in keys if key is not None]
        made = list(self._keys_in(batch, has_texts=any(key.text for key in received)))
        # Packing and windows make other rows than they were given, and no row of theirs can be compared.
        if not made or len(received) != len(made):
            return
        counts.rows += len(made)
        for key in made:
            counts.are_tokens &= key.ids is not None
            if key.content is not None and isinstance(key.label, int):
                counts.contents[key.content].append(key.label)
        pairs = [(row, key) for key in made if (row := _row_of(key, received)) is not None]
        # Rows with the same content may be in any order among themselves.
        known = [(row, key) for row, key in pairs if sum(_is_of(key, other) for other in received) == 1]
        counts.matched += len(known)
        counts.labels += [(row.label, key.label) for row, key in known if row.label is not None is not key.label]
        given, got = Counter(row.label for row in received), Counter(key.label for key in made)
        # The labels as a multiset: `[3, 1]` of two classes before and after means that labels were swapped
        # between rows, not renamed.
        counts.are_kept &= sorted(given.values()) == sorted(got.values())
        for row, key in known:
            _compare_tokens(counts, row, key)

    def _keys_in(self, batch: Any, *, has_texts: bool) -> Iterator[Key]:
        entries = _entries(batch)
        names = [name for name, value in entries.items() if attribute(value, "ndim", 0) >= 1]
        rows = len(entries[names[0]]) if names else 0
        tokenizer = self._tokenizer() if has_texts else None
        for row in range(min(rows, MOST_ROWS)):
            one = {name: entries[name][row] for name in names if len(entries[name]) == rows}
            key = _key_of(one if is_mapping(batch) else tuple(one.values()))
            if tokenizer is not None and key.ids:
                key.text = _letters(tokenizer.decode(list(key.ids), skip_special_tokens=True))
            yield key

    def _tokenizer(self) -> Any:
        found = list(self._session.tokenizers.values())
        # With two tokenizers it is unknown which one made the ids, and the other one's text would be nonsense.
        return found[0] if len(found) == 1 else None


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Look at what loaders collate: below them, where rows and batch are both at hand."""
    session.collations = Collations(session)
    hooks.add("torch.utils.data._utils.fetch", functools.partial(_watch, session.collations))


def _watch(collations: Collations, module: Any) -> None:
    for kind in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        kind.fetch = _followed(collations, kind.fetch)


def _followed(collations: Collations, fetch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fetch)
    def followed(self: Any, index: Any) -> Any:
        # Without a batch size the loader's function gets single rows, and collates nothing.
        if not self.auto_collation:
            return fetch(self, index)
        with replaced(self, collate_fn=collations.collating(self.dataset, self.collate_fn)):
            return fetch(self, index)

    return followed


def _guarded(work: Callable[[Any], Any], value: Any) -> Any:
    """The result of a comparison, None for rows of a kind that it does not know: no error of the script."""
    try:
        return work(value)
    except Exception:  # noqa: BLE001 - rows of any library's kind
        return None


def _entries(value: Any) -> Mapping[str, Any]:
    if is_mapping(value):
        return value
    return {str(position): part for position, part in enumerate(value)} if is_row(value) else {"0": value}


def _key_of(row: Any) -> Key:
    """The key of a row, before or after it was collated."""
    entries = _entries(row)
    label = _name_of_label(row, entries)
    key = Key(label=_class(entries.get(label)) if label else None)
    mask, numbers = _numbers(entries.get("attention_mask")), list[tuple[str, bytes]]()
    for name, value in entries.items():
        if isinstance(value, str) and name != label:
            key.text += _letters(value)
        elif name == IDS or (name == "0" and _is_text(value)):
            key.ids = _without_padding(_numbers(value), mask)
        elif name != label and name not in BESIDE_IDS and not isinstance(value, str):
            numbers += [(name, found)] if (found := _digest(value)) else []
    key.numbers = tuple(numbers)
    labels = _numbers(entries.get(label)) if label else None
    if key.ids is not None and labels is not None and labels.ndim == 1 and (mask is None or len(mask) == len(labels)):
        ids = _numbers(entries.get(IDS))
        if ids is not None and len(ids) == len(labels):
            key.of_tokens = tuple(labels.tolist() if mask is None else labels[mask != 0].tolist())
    return key


def _name_of_label(row: Any, entries: Mapping[str, Any]) -> str:
    if is_mapping(row):
        return next((name for name in LABELS if name in entries), "")
    return str(len(entries) - 1) if len(entries) > 1 else ""


def _class(value: Any) -> Label:
    """A label that is one class; None for others."""
    if isinstance(value, str):
        return value
    number = _numbers(value)
    return int(number) if number is not None and number.ndim == 0 and number.dtype.kind in "biu" else None


def _numbers(value: Any) -> Any:
    """A numpy array of numbers, or None."""
    if value is None or isinstance(value, str | bytes) or is_mapping(value):
        return None
    if has(value, "detach"):
        value = value.detach().cpu()
        # NumPy knows no bfloat16.
        value = value.float() if value.dtype.is_floating_point else value
    array = library("numpy").asarray(value)
    return array if array.dtype.kind in "biuf" else None


def _is_text(value: Any) -> bool:
    """Whether the first entry of a pair is a row of token ids: whole numbers, several of them."""
    numbers = _numbers(value)
    return numbers is not None and numbers.ndim == 1 and numbers.dtype.kind in "iu" and len(numbers) > 1


def _without_padding(ids: Any, mask: Any) -> tuple[int, ...] | None:
    """The ids that are attended; without a mask those between the fill at the ends, which is 0 in most batches."""
    if ids is None or ids.ndim != 1:
        return None
    if mask is not None and mask.shape == ids.shape:
        return tuple(ids[mask != 0].tolist())
    kept = ids.nonzero()[0]
    return tuple(ids[kept[0] : kept[-1] + 1].tolist()) if len(kept) else ()


def _digest(value: Any) -> bytes:
    """The numbers of an entry, at most so many; empty for one number, which many rows have."""
    numbers = _numbers(value)
    if numbers is None or numbers.size < 2:
        return b""
    # As float64, so that an image of uint8 before the collator equals its tensor of float32 after it.
    step = max(1, numbers.size // MOST_NUMBERS)
    found: bytes = numbers.reshape(-1)[::step].astype("float64").tobytes()
    return found


def _letters(text: str) -> str:
    return "".join(text.lower().split())


def _row_of(key: Key, rows: list[Key]) -> Key | None:
    """The row that a batch's row was made of, None if it is not known again."""
    return next((row for row in rows if _is_of(key, row)), None)


def _is_of(key: Key, row: Key) -> bool:
    if key.ids and row.ids:
        return key.ids == row.ids or _is_end_of(key.ids, row.ids)
    if key.numbers and row.numbers:
        return key.numbers == row.numbers
    texts = min(len(key.text), len(row.text))
    return texts >= LEAST_TEXT and (key.text in row.text or row.text in key.text)


def _is_end_of(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether some ids are the beginning or the end of others, but for a special token at the cut."""
    # A tokenizer that cuts at 512 puts its separator there: `[1, 5, 6, 7, 2]` becomes `[1, 5, 2]`, whose last id
    # is not that of the row.
    length = len(part)
    return 2 < length < len(whole) and (
        part[:-1] == whole[: length - 1] or part[1:] == whole[len(whole) - length + 1 :]
    )


def _compare_tokens(counts: Counts, row: Key, key: Key) -> None:
    if row.ids is None or key.ids is None:
        return
    counts.tokens += len(row.ids)
    counts.longest = max(counts.longest, len(key.ids))
    if len(key.ids) < len(row.ids):
        counts.cut += 1
        counts.lost += len(row.ids) - len(key.ids)
        counts.sides.add("right" if key.ids[:-1] == row.ids[: len(key.ids) - 1] else "left")
    elif row.of_tokens and key.of_tokens and len(row.of_tokens) == len(key.of_tokens):
        given, got = ([label for label in each if label != IGNORED] for each in (row.of_tokens, key.of_tokens))
        counts.misplaced += given == got and row.of_tokens != key.of_tokens
