"""One entry of a row of a batch, for a person to read: token ids as text, and numbers by shape, range and a picture.

Token ids are decoded by the tokenizer that made them, with their special tokens; padding is left out and named apart.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from lintrain.evidence.run import RowText, RowValues, Span
from lintrain.runtime.child.library import has, library
from lintrain.startup.lazy_dataclass import dataclass

LONGEST = 20_000
"""Characters that are kept of a text: more than 4,000 tokens."""
REPEATED = 4
"""A special token that occurs as often in a row is written once, with the number."""
MOST_SPANS = 24


@dataclass(frozen=True)
class Decoder:
    """What turns token ids into text: its name, its function, and the special tokens that it writes."""

    name: str
    decode: Callable[[list[int]], str]
    pad: int | None = None
    special: tuple[str, ...] = ()

    def text(self, ids: list[int]) -> str:
        """Token ids as text; a special token that is repeated stands there once."""
        try:
            text = str(self.decode(ids))
        except Exception:  # noqa: BLE001 - ids that it has no token for; they are what is to be seen
            return " ".join(map(str, ids))[:LONGEST]
        for token in self.special:
            if text.count(token) >= REPEATED:
                text = re.sub(rf"(?:{re.escape(token)} ?){{{REPEATED},}}", _once(token), text)
        return text[:LONGEST]


def _once(token: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{token} ({found[0].count(token)} times) "


def decoder_of(tokenizer: Any) -> Decoder:
    """The decoder of a tokenizer of transformers."""
    added: Mapping[str, int] = tokenizer.get_added_vocab() if has(tokenizer, "get_added_vocab") else {}
    special = dict.fromkeys([*map(str, tokenizer.all_special_tokens), *added])
    return Decoder(type(tokenizer).__name__, tokenizer.decode, tokenizer.pad_token_id, tuple(special))


def vocabulary_decoder(name: str, tokens: list[str]) -> Decoder:
    """The decoder of a list of tokens by their ids; single characters are put together without a space."""
    between = "" if all(len(token) == 1 for token in tokens) else " "
    return Decoder(name, lambda ids: between.join(tokens[one] for one in ids))


def spans_of(values: list[int], positions: list[int]) -> tuple[Span, ...]:
    """Values at ascending positions as spans of equal values without a gap; empty where these are too many."""
    pairs = enumerate(zip(values, positions, strict=True))
    runs = [[pair for _, pair in run] for _, run in groupby(pairs, lambda one: (one[1][0], one[1][1] - one[0]))]
    return () if len(runs) > MOST_SPANS else tuple(Span(run[0][0], run[0][1], run[-1][1]) for run in runs)


def token_text(
    name: str, ids: list[int], mask: list[int] | None, types: list[int] | None, decoder: Decoder | None
) -> RowText:
    """A row of token ids; without a mask, padding at its ends is known by the padding token."""
    attended = _attended(ids, mask, decoder.pad if decoder else None, is_decoders=name.endswith("decoder_input_ids"))
    kept = [ids[position] for position in attended]
    spans = spans_of([1] * len(attended), attended)
    return RowText(
        name,
        decoder.text(kept) if decoder else " ".join(map(str, kept))[:LONGEST],
        len(ids),
        len(attended),
        _padding(attended, len(ids)),
        spans if len(spans) > 1 else (),
        spans_of([types[position] for position in attended], attended) if types else (),
    )


def _attended(ids: list[int], mask: list[int] | None, pad: int | None, *, is_decoders: bool) -> list[int]:
    if mask is not None:
        return [position for position, is_attended in enumerate(mask) if is_attended]
    read = [position for position, token in enumerate(ids) if token != pad]
    # The decoder of T5 starts with the padding token.
    return list(range(0 if is_decoders else read[0], read[-1] + 1)) if read else []


def _padding(attended: list[int], tokens: int) -> str:
    if len(attended) == tokens:
        return ""
    if not attended:
        return "everywhere"
    left, right = attended[0] > 0, attended[-1] < tokens - 1
    return "both" if left and right else "left" if left else "right" if right else "inside"


def plain(value: Any) -> Any:
    """A tensor or an array as an array of NumPy; other values as they are."""
    if has(value, "detach"):
        value = value.detach().cpu()
        if "strided" not in str(value.layout):
            value = value.to_dense()
        return (value.float() if value.is_floating_point() else value).numpy()
    return value


MOST_VALUES = 16
LEAST_SAMPLES = 400
"""A row of fewer numbers is no sound: 25 ms at 16 kHz."""
CHANNELS = (1, 3, 4)
AUDIO = ("input_values", "audio", "waveform", "waveforms", "speech", "wav")
SPECTROGRAMS = ("input_features", "mel", "mels", "spectrogram", "spectrograms")
LEAST_SIDE = 4


def values_of(name: str, dtype: str, array: Any, rate: int | None) -> RowValues:
    """A row of numbers, classified by its shape and its name; `rate` is a sampling rate."""
    numpy = library("numpy")
    kind = _kind(name, array)
    finite = array[numpy.isfinite(array)] if array.dtype.kind == "f" else array
    has_range = bool(finite.size) and array.dtype.kind in "fiub"
    return RowValues(
        name,
        kind,
        tuple(array.shape),
        dtype,
        float(finite.min()) if has_range else None,
        float(finite.max()) if has_range else None,
        float(finite.mean()) if has_range else None,
        int(array.size - finite.size),
        tuple(float(each) for each in array.reshape(-1)[:MOST_VALUES]) if kind == "numbers" and array.ndim < 2 else (),
        array.shape[-1] / rate if kind == "audio" and rate else None,
        picture(_plane(array)) if kind == "image" and has_range else "",
    )


def _kind(name: str, array: Any) -> str:
    shape, last = array.shape, name.rpartition(".")[2].lower()
    if not shape:
        return "numbers"
    if last in SPECTROGRAMS:
        return "spectrogram"
    is_image = array.ndim == 3 and (shape[0] in CHANNELS or shape[-1] in CHANNELS) and sorted(shape)[1] >= LEAST_SIDE
    if is_image or (array.ndim == 2 and min(shape) >= LEAST_SIDE and _is_square(shape)):
        return "image"
    is_wave = shape[-1] >= LEAST_SAMPLES and (array.ndim == 1 or (array.ndim == 2 and shape[0] <= 2))
    if array.ndim and array.dtype.kind == "f" and is_wave and (last in AUDIO or shape[-1] >= 10 * LEAST_SAMPLES):
        return "audio"
    return "numbers"


def _is_square(shape: tuple[int, ...]) -> bool:
    """Whether a row of two axes may be a picture: no sequence of vectors has as many entries as steps but by chance."""
    return shape[0] == shape[1]


def _plane(array: Any) -> Any:
    """An image as [height, width] or [height, width, 3]."""
    if array.ndim == 2:
        return array
    if array.shape[0] in CHANNELS and array.shape[-1] not in CHANNELS:
        array = array.transpose(1, 2, 0)
    return array[..., 0] if array.shape[-1] == 1 else array[..., :3]


SIDE = 64
"""Pixels of the longer side of a picture."""


def picture(plane: Any) -> str:
    """A small PNG in base64, its smallest value black and its largest white."""
    numpy = library("numpy")
    step = -(-max(plane.shape[:2]) // SIDE)
    small = numpy.nan_to_num(plane[::step, ::step].astype("float64"), posinf=0.0, neginf=0.0)
    spread = float(small.max() - small.min())
    pixels = ((small - small.min()) / (spread or 1.0) * 255).astype("uint8")
    return base64.b64encode(_png(pixels)).decode()


def _png(pixels: Any) -> bytes:
    """Bytes of [height, width] in grey or [height, width, 3] in colour, as PNG (RFC 2083)."""
    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
