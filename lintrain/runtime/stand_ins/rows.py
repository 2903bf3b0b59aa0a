"""Rows with the columns of a data set: few different ones, repeated to its length."""

from __future__ import annotations

import io
import json
import random
import re
import wave
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from lintrain.knowledge.stand_in_facts import kind_of_column, table
from lintrain.knowledge.tables import ColumnFacts
from lintrain.runtime.child.library import library

DIFFERENT = 64
"""Rows that differ; the others repeat them."""
RATE = 16_000
SIDE = 96
LABELS = 2
CLASSES = 6
"""Classes of the pixels of a mask, that of the background included."""
IDS = re.compile(r"(?i)(.*[_-])?id")
"""Columns whose values tell rows apart; the same number has the same value in every table."""
ANSWERS = re.compile(r"(?i)(^|_)(response|answer|output|completion)s?$")
"""Columns of texts that a model learns to write, which are longer than a question."""
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
SENTENCES = ((1, 3), (5, 7))
TOKENS, FIRST_TOKENS = 64, 200
"""Tokens of a row that is tokenized already, and the first entries of the vocabulary that they are taken from."""
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


class Rows:
    """The values of one data set's columns; `names` are the classes of labels, or the texts that a column has."""

    def __init__(self, kinds: Mapping[str, str], names: Mapping[str, Sequence[str]], folder: str, seed: int) -> None:
        self._kinds = kinds
        self._names = names
        self._folder = folder
        self._random = random.Random(seed)
        self._sentences: list[str] = table()["sentences"]
        self._asked = ""

    def features(self) -> Any:
        """The features of the library `datasets`."""
        datasets = library("datasets")
        found = {name: _feature(datasets, kind, self._names.get(name, ())) for name, kind in self._kinds.items()}
        return datasets.Features(found)

    def columns(self, count: int) -> dict[str, list[Any]]:
        """The values by column."""
        rows = [self._row(number) for number in range(count)]
        return {name: [row[name] for row in rows] for name in self._kinds}

    def _row(self, number: int) -> dict[str, Any]:
        words = self._text(number).split()
        self._asked = self._text(number)
        return {name: self._value(name, kind, number, words) for name, kind in self._kinds.items()}

    def _value(self, name: str, kind: str, number: int, words: list[str]) -> Any:
        if kind in ("label", "class"):
            return number % max(len(self._names.get(name, ())), LABELS)
        if kind.startswith("structs "):
            return [self._struct(kind, number + offset) for offset in range(4)]
        if kind.startswith("struct "):
            return self._struct(kind, number)
        if kind == "json" or kind.startswith("json "):
            return json.dumps(self._struct(kind, number))
        if kind.startswith("among "):
            return int((among := kind.split()[1:])[number % len(among)])
        if kind.startswith("parts "):
            return self._marked(kind.removeprefix("parts ").split("\n"), number)
        if kind.startswith("date "):
            return (FIRST_DAY + timedelta(days=number)).strftime(kind.removeprefix("date "))
        if kind == "text" and (choices := self._names.get(name)):
            return choices[number % len(choices)]
        if kind == "text":
            return f"id-{number}" if IDS.fullmatch(name) else self._text(number, *SENTENCES[bool(ANSWERS.search(name))])
        if kind == "texts":
            return words
        if kind == "boxes":
            return [[10 * (index % 80), 10, 10 * (index % 80) + 10, 20] for index, _ in enumerate(words or [name])]
        if kind == "tags":
            return [index % max(1, len(self._names.get(name, TAGS))) for index, _ in enumerate(words)]
        return self._makers[kind](self, number) if kind in self._makers else self._text(number)

    def _struct(self, kind: str, number: int) -> dict[str, Any]:
        return {name: self._value(name, kind_of_column(name), number, []) for name in kind.split()[1:]}

    def _marked(self, marks: Sequence[str], number: int) -> str:
        """A text with the marks that the script cuts it at, and text around each."""
        return self._text(number) + "".join(f" {mark} {self._text(number)}" for mark in marks)

    def _text(self, number: int, least: int = 1, most: int = 3) -> str:
        chosen = self._random.sample(self._sentences, self._random.randint(least, most))
        return f"{' '.join(chosen)} ({number})"

    def _chat(self, number: int) -> list[dict[str, str]]:
        return [*self._question(number), *self._answer(number)]

    def _question(self, _: int) -> list[dict[str, str]]:
        # The chats of a row answer the same question: trainers of preferences take what they have in common.
        return [{"role": "user", "content": self._asked}]

    def _answer(self, number: int) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": self._text(number)}]

    def _image(self, number: int) -> Any:
        numpy = library("numpy")
        noise = numpy.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), dtype="uint8")
        return library("PIL.Image").fromarray(noise)

    def _images(self, number: int) -> list[Any]:
        return [self._image(number)]

    def _image_file(self, number: int) -> str:
        path = f"{self._folder}/{number}.png"
        self._image(number).save(path)
        return path

    def _mask(self, number: int) -> Any:
        numpy = library("numpy")
        drawn = numpy.zeros((SIDE, SIDE), dtype="uint8")
        drawn[SIDE // 4 : SIDE // 2, number % SIDE :] = 1 + number % (CLASSES - 1)
        return library("PIL.Image").fromarray(drawn)

    def _instances(self, number: int) -> Any:
        numpy = library("numpy")
        classes = numpy.asarray(self._mask(number))
        drawn = numpy.stack([classes, (classes > 0).astype("uint8"), numpy.zeros_like(classes)], -1)
        return library("PIL.Image").fromarray(drawn)

    def _audio(self, number: int) -> dict[str, Any]:
        numpy = library("numpy")
        length = RATE * (2 + number % 3)
        tone = 3000 * numpy.sin(numpy.arange(length) * (0.02 + 0.001 * (number % 7)))
        written = io.BytesIO()
        with wave.open(written, "wb") as opened:
            opened.setparams((1, 2, RATE, length, "NONE", ""))
            opened.writeframes(tone.astype("<i2").tobytes())
        return {"bytes": written.getvalue(), "path": None}

    def _objects(self, number: int) -> dict[str, Any]:
        boxes = [[5.0, 5.0, 40.0 + number % 9, 30.0], [20.0, 30.0, 30.0, 40.0]]
        areas = [box[2] * box[3] for box in boxes]
        return {"id": [2 * number, 2 * number + 1], "area": areas, "bbox": boxes, "category": [0, 1]}

    def _spans(self, number: int) -> dict[str, Any]:
        return {"text": [self._sentences[number % len(self._sentences)][:12]], "answer_start": [0]}

    def _image_chat(self, number: int) -> list[dict[str, Any]]:
        return [*self._image_question(number), *self._image_answer(number)]

    def _image_question(self, _: int) -> list[dict[str, Any]]:
        text = {"type": "text", "text": self._asked}
        return [{"role": "user", "content": [{"type": "image", "text": None}, text]}]

    def _image_answer(self, number: int) -> list[dict[str, Any]]:
        return [{"role": "assistant", "content": [{"type": "text", "text": self._text(number)}]}]

    def _ids(self, number: int) -> list[str]:
        return [f"id-{each % DIFFERENT}" for each in range(number, number + 10)]

    def _passages(self, number: int) -> dict[str, Any]:
        texts = [self._text(number) for _ in range(6)]
        chosen = [int(index == number % 6) for index in range(6)]
        return {"is_selected": chosen, "passage_text": texts, "url": ["" for _ in texts]}

    def _translation(self, number: int) -> dict[str, str]:
        return {each: self._text(number) for each in self._names["translation"]}

    _makers: ClassVar[Mapping[str, Callable[[Any, int], Any]]] = {
        "chat": _chat,
        "question": _question,
        "answer": _answer,
        "image": _image,
        "image-file": _image_file,
        "images": _images,
        "mask": _mask,
        "instances": _instances,
        "audio": _audio,
        "objects": _objects,
        "spans": _spans,
        "image-chat": _image_chat,
        "image-question": _image_question,
        "image-answer": _image_answer,
        "passages": _passages,
        "translation": _translation,
        "ids": _ids,
        "class-ids": lambda _, __: {f"class {each}": each for each in range(CLASSES)},
        "integer": lambda _, number: number,
        "token-ids": lambda _, number: [1 + (number + 7 * at) % FIRST_TOKENS for at in range(TOKENS)],
        "ones": lambda _, __: [1] * TOKENS,
        "integers": lambda _, number: [number % 7, number % 5, 3],
        "float": lambda _, number: number % 6 / 5,
        "boolean": lambda _, number: number % 2 == 0,
        "booleans": lambda _, number: [number % 2 == 0, True],
    }
    """By kind of column: how one value is made."""


def _feature(datasets: Any, kind: str, names: Sequence[str]) -> Any:
    value, several = datasets.Value, getattr(datasets, "List", None) or datasets.Sequence
    turn = {"role": value("string"), "content": value("string")}
    part = {"role": value("string"), "content": several({"type": value("string"), "text": value("string")})}
    scalars = {"integer": "int64", "float": "float32", "boolean": "bool"}
    numbers_of = dict.fromkeys(("integers", "token-ids", "ones"), "int64")
    lists = {"texts": "string", "ids": "string", "booleans": "bool", **numbers_of}
    match kind:
        case "class":
            return datasets.ClassLabel(names=[*names])
        case "label":
            return datasets.ClassLabel(names=[*names]) if names else value("int64")
        case "tags":
            return several(datasets.ClassLabel(names=[*(names or TAGS)]))
        case "chat" | "question" | "answer":
            return several(turn)
        case "image-chat" | "image-question" | "image-answer":
            return several(part)
        case "image" | "mask" | "instances":
            return datasets.Image()
        case "images":
            return several(datasets.Image())
        case "audio":
            return datasets.Audio(sampling_rate=RATE)
        case "spans":
            return {"text": several(value("string")), "answer_start": several(value("int32"))}
        case "objects":
            numbers, boxes = several(value("int64")), several(several(value("float32")))
            return {"id": numbers, "area": several(value("float32")), "bbox": boxes, "category": numbers}
        case "passages":
            texts = several(value("string"))
            return {"is_selected": several(value("int32")), "passage_text": texts, "url": texts}
        case "class-ids":
            return {f"class {each}": value("int64") for each in range(CLASSES)}
        case "translation":
            return datasets.Translation(languages=[*names])
        case "boxes":
            return several(several(value("int64")))
        case _ if kind.startswith("structs "):
            return several({name: _feature(datasets, kind_of_column(name), ()) for name in kind.split()[1:]})
        case _ if kind.startswith("struct "):
            return {name: _feature(datasets, kind_of_column(name), ()) for name in kind.split()[1:]}
        case _ if kind.startswith("among "):
            return value("int64")
        case _ if kind in lists:
            return several(value(lists[kind]))
        case _:
            return value(scalars.get(kind, "string"))


def read_wave(content: bytes, rate: int | None) -> dict[str, Any]:
    """The sound of a file that `Rows` wrote, at the rate that is asked for."""
    numpy = library("numpy")
    with wave.open(io.BytesIO(content)) as opened:
        own, tone = opened.getframerate(), numpy.frombuffer(opened.readframes(opened.getnframes()), "<i2") / 32768
    wanted: int = rate or own
    asked = numpy.arange(int(len(tone) * wanted / own)) * own / wanted
    sound = numpy.interp(asked, numpy.arange(len(tone)), tone).astype("float32")
    return {"path": None, "array": sound, "sampling_rate": wanted}


def kind_of_fact(column: ColumnFacts) -> str | None:
    """The kind of a column of the shipped table; None where its name tells more."""
    if column.kind == "list":
        return "tags" if column.class_names else None
    known = {"class label": "class", "text": "text", "integer": "integer", "float": "float"}
    return {**known, "image": "image", "audio": "audio"}.get(column.kind or "")
