"""What a tokenizer keeps of the texts that a script encodes: a few of them, encoded again without truncation, and
decoded.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import repeat
from typing import Any

from lintrain.evidence.run import EncodedTexts
from lintrain.model.location import Location
from lintrain.runtime.child.library import attribute, is_mapping, is_row
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.startup.lazy_dataclass import dataclass

MOST_CALLS = 8
MOST_TEXTS = 32
LONGEST_TEXT = 20_000
"""Letters of a text that are encoded again."""
ALWAYS = ("add_special_tokens", "is_split_into_words")
TRUNCATION = ("truncation", "max_length", "stride")
NAMES = ("text", "text_pair", "text_target", "text_pair_target")
IGNORED = -100
SPACES = re.compile(r"[^\s](?: {2,}|\t)[^\s]|\n(?: {2,}|\t)[^\s]")

Pair = tuple[Any, Any]
"""A text, and the second one that is encoded with it, or None."""


@dataclass(eq=False)
class EncodingCall:
    """Where a script encodes texts: some of them, and the options of the call."""

    tokenizer: Any
    location: Location
    options: dict[str, Any]
    is_target: bool
    texts: list[Pair] = field(default_factory=list[Pair])

    @property
    def are_words(self) -> bool:
        """Whether each text is a list of words."""
        return bool(self.options.get("is_split_into_words"))

    @property
    def truncates(self) -> bool:
        """Whether what is cut off is lost: it may also become further rows."""
        asked = self.options.get("truncation")
        is_off = asked in (None, False) or str(attribute(asked, "value", asked)) == "do_not_truncate"
        return not is_off and not self.options.get("return_overflowing_tokens")

    def encoded(self, texts: list[Pair], names: tuple[str, ...] = ALWAYS) -> Any:
        """The encoding of some texts, with some of the options."""
        options = {name: self.options[name] for name in names if name in self.options}
        ending = "_target" if self.is_target else ""
        given = {f"text{ending}": [first for first, _ in texts]}
        if any(second is not None for _, second in texts):
            given[f"text_pair{ending}"] = [second for _, second in texts]
        return self.tokenizer(**given, **options, return_attention_mask=False, verbose=False)


class Encodings:
    """The calls where a script encodes texts."""

    def __init__(self) -> None:
        self.calls: dict[Any, EncodingCall] = {}
        self.rows: dict[str, set[tuple[int, ...]]] = {}

    def note_rows(self, argument: str, dataset: Any) -> None:
        """The ids of the first rows of a table: a script encodes them first."""
        if "input_ids" not in dataset.column_names:
            return
        rows = dataset.with_format(None)[:MOST_TEXTS]
        masks = rows.get("attention_mask") or repeat(repeat(1))
        found = (tuple(one for one, kept in zip(ids, mask, strict=False) if kept)
                 for ids, mask in zip(rows["input_ids"], masks, strict=False) if is_row(ids))  # fmt: skip
        self.rows.setdefault(argument, set()).update(found)

    def add(self, tokenizer: Any, location: Location, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call of a tokenizer, before it is made: of one text or of several."""
        given = {**dict(zip(NAMES, args, strict=False)), **kwargs}
        options = {name: value for name, value in given.items() if name not in NAMES}
        for first, second, is_target in ((*NAMES[:2], False), (*NAMES[2:], True)):
            key = (location, id(tokenizer), is_target)
            if given.get(first) is None or (key not in self.calls and len(self.calls) == MOST_CALLS):
                continue
            call = self.calls.setdefault(key, EncodingCall(tokenizer, location, options, is_target))
            if len(call.texts) < MOST_TEXTS:
                call.texts += _some_texts(call, given[first], given.get(second))


def _some_texts(call: EncodingCall, first: Any, second: Any) -> Iterator[Pair]:
    room = MOST_TEXTS - len(call.texts)
    is_one = isinstance(first, str) or (call.are_words and len(first) > 0 and isinstance(first[0], str))
    firsts = [first] if is_one else list(first)[:room]
    seconds = repeat(None) if second is None else [second] if is_one else list(second)[:room]
    for one, other in zip(firsts, seconds, strict=False):
        # Two texts may also be given as one entry.
        is_both = is_row(one) and len(one) == 2 and not call.are_words
        yield (_shortened(one[0]), _shortened(one[1])) if is_both else (_shortened(one), _shortened(other))


def _shortened(text: Any) -> Any:
    return text[:LONGEST_TEXT] if isinstance(text, str) else text


def measure_encodings(run: MeasuredRun, tokenizer: Any) -> None:
    """Send what was kept of the texts that were encoded until now; `tokenizer` is that of the run."""
    encodings: Encodings | None = run.session.origins.texts
    calls = list(encodings.calls.values()) if encodings is not None else []
    if calls:
        run.measured(encodings=list(_measured(run, calls, tokenizer)))


def _measured(run: MeasuredRun, calls: list[EncodingCall], tokenizer: Any) -> Iterator[EncodedTexts]:
    targets, rows = set(_scored_rows(run.batches)), run.session.origins.texts.rows
    for call in calls:
        try:
            with _as_it_was(call.tokenizer):
                found = _with_round_trip(call, _with_truncation(call, targets, rows))
            yield replace(found, tokenizer=str(call.tokenizer.name_or_path), shared=_shared(call.tokenizer, tokenizer))
        except Exception:  # noqa: BLE001 - a tokenizer of the script's own kind may encode in its own way only
            continue


def _scored_rows(batches: list[Any]) -> Iterator[tuple[int, ...]]:
    """The labels of rows that are a list of tokens, those that are ignored left out."""
    for batch in batches:
        labels: Any = batch.get("labels") if is_mapping(batch) else None
        for row in labels if attribute(labels, "ndim", 0) == 2 and not labels.is_floating_point() else ():
            yield tuple(row[row != IGNORED].tolist())


@contextmanager
def _as_it_was(tokenizer: Any) -> Generator[None]:
    """A fast tokenizer remembers how it truncates and pads, and a script may use what is below it."""
    below = attribute(tokenizer, "backend_tokenizer", None)
    if below is None:
        yield
        return
    truncation, padding = below.truncation, below.padding
    try:
        yield
    finally:
        below.no_truncation()
        below.no_padding()
        if truncation is not None:
            below.enable_truncation(**truncation)
        if padding is not None:
            below.enable_padding(**padding)


def _shared(tokenizer: Any, other: Any) -> float | None:
    """The share of the tokens of another tokenizer that have the same id in this one."""
    if other is None or tokenizer is other or tokenizer.name_or_path == other.name_or_path:
        return None if other is None else 1.0
    here: dict[str, int] = tokenizer.get_vocab()
    there: dict[str, int] = other.get_vocab()
    return sum(here.get(token) == number for token, number in there.items()) / max(len(there), 1)


def _with_truncation(
    call: EncodingCall, targets: set[tuple[int, ...]], rows: dict[str, set[tuple[int, ...]]]
) -> EncodedTexts:
    """How much of the texts is cut off."""
    whole = call.encoded(call.texts)
    kept = call.encoded(call.texts, (*ALWAYS, *TRUNCATION)) if call.truncates else whole
    lengths = [(len(one), len(other)) for one, other in zip(whole["input_ids"], kept["input_ids"], strict=True)]
    lost = [every - left for every, left in lengths if every > left]
    pairs = sum(second is not None for _, second in call.texts)
    return EncodedTexts(
        location=call.location,
        texts=len(call.texts),
        tokens=sum(every for every, _ in lengths),
        cut=len(lost),
        lost=sum(lost),
        side=str(attribute(call.tokenizer, "truncation_side", "right")),
        limit=max((left for _, left in lengths), default=0),
        pairs=pairs,
        second_lost=_second_lost(whole, kept, len(call.texts)) if pairs else 0,
        are_targets=call.is_target or any(tuple(ids) in targets for ids in kept["input_ids"]),
        made=tuple(name for name, known in rows.items() if any(tuple(ids) in known for ids in kept["input_ids"])),
    )


def _second_lost(whole: Any, kept: Any, texts: int) -> int:
    """The rows that have a second text, and nothing of it once they are cut; 0 for slow tokenizers."""
    if not attribute(whole, "is_fast", False):
        return 0
    return sum(1 in whole.sequence_ids(row) and 1 not in kept.sequence_ids(row) for row in range(texts))


def _with_round_trip(call: EncodingCall, found: EncodedTexts) -> EncodedTexts:
    """What of the first texts does not come back when they are decoded."""
    tokenizer, counts = call.tokenizer, Counter[str]()
    unknown, special = attribute(tokenizer, "unk_token_id", None), set(tokenizer.all_special_tokens)
    for first, _ in call.texts:
        text = " ".join(map(str, first)) if is_row(first) else str(first)
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        if unknown is None or unknown not in ids or len(special) == 1:
            back = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            counts += _losses(_without(special, text), back)
    return replace(
        found,
        decoded=counts["decoded"],
        with_capitals=counts["with capitals"],
        lost_capitals=counts["lost capitals"],
        with_accents=counts["with accents"],
        lost_accents=counts["lost accents"],
        with_newlines=counts["with newlines"],
        lost_newlines=counts["lost newlines"],
        with_spaces=counts["with spaces"],
        lost_spaces=counts["lost spaces"],
    )


def _without(special: set[str], text: str) -> str:
    for token in special:
        text = text.replace(token, "")
    return text


def _losses(text: str, back: str) -> Counter[str]:
    """What a text has, and what of it the decoded one has not at all."""
    here, there = _features(text), _features(back)
    found = Counter({"decoded": 1})
    for kind, count in here.items():
        found[f"with {kind}"] += count > 0
        found[f"lost {kind}"] += count > 0 == there[kind]
    return found


def _features(text: str) -> dict[str, int]:
    inner = text.strip()
    return {
        "capitals": sum(letter.isupper() for letter in inner),
        "accents": sum(unicodedata.combining(letter) > 0 for letter in unicodedata.normalize("NFD", inner)),
        "newlines": inner.count("\n"),
        "spaces": len(SPACES.findall(inner)),
    }
