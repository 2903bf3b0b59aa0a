"""Data sets of the hub and missing data files: rows of the columns that are known, or that the script reads."""

from __future__ import annotations

import functools
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.knowledge.dataset_facts import dataset_facts
from lintrain.knowledge.stand_in_facts import (
    columns_by_name,
    columns_of_loss,
    columns_of_trainer,
    kind_of_column,
)
from lintrain.runtime.child.frames import is_called_by_user
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_dictionary, is_row, library
from lintrain.runtime.stand_ins.columns import TURN, columns_of_data_set, read_of, structs_of
from lintrain.runtime.stand_ins.given_rows import part_of_file
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.runtime.stand_ins.lengths import MOST_ASKED, SHORTER, fitted, length
from lintrain.runtime.stand_ins.rows import DIFFERENT, Rows, kind_of_fact, read_wave

NEEDS_LABEL = re.compile(r"ForSequenceClassification\b[\s\S]*\bTrainer\(")
NAMES_LABEL = re.compile(r"""(?i)["'][\w ]*(labels?|targets?|class|category|score|rating|sentiment)(_ids?)?["']""")
"""A column that a classifier learns, by whichever name the script's text calls it."""
PAIR = {"chosen", "rejected"}
"""Columns of the same kind."""
MEDIA = ("image", "images", "audio", "mask", "instances")
CLASSES = [f"class {number}" for number in range(10)]
"""The names of classes that a script asks the data set for, so that it is ready for any number."""
OF_SOUND = ("array", "sampling_rate")
"""What a row's sound has, which is no column."""
SPLITS = ("train", "validation", "test")
READERS = ("json", "csv", "text", "parquet", "arrow", "pandas", "imagefolder", "audiofolder")
PART = re.compile(r"([\w.-]+)(?:\[(-?\d*)(%?):(-?\d*)(%?)\])?")


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Answer the functions of `datasets` that load."""
    hooks.add("datasets.load", functools.partial(_answer_loads, ledger))
    hooks.add("datasets.inspect", functools.partial(_answer_questions, ledger))
    hooks.add("datasets.features.audio", _decode_waves)
    hooks.add("datasets.arrow_dataset", functools.partial(_repeat_rows, ledger))


def _repeat_rows(ledger: Ledger, module: Any) -> None:
    """Rows beyond the end of a stand-in are its rows again, as they are within it."""
    select = module.Dataset.select

    @functools.wraps(select)
    def selecting(self: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
        is_made = any(each.kind is StandInKind.DATA for each in ledger.session.stand_ins)
        # `select(range(50_000))` of a stand-in with 20,000 rows: the real data set has them, so it must not raise.
        if is_made and isinstance(indices, range) and indices and max(indices) >= len(self) > 0:
            indices = [each % len(self) for each in indices[:MOST_ASKED]]
        return select(self, indices, *args, **kwargs)

    module.Dataset.select = selecting
    module.Dataset.filter = _keeping(ledger, module.Dataset.filter)
    for name in ("rename_column", "rename_columns", "add_column"):
        setattr(module.Dataset, name, _making_room(ledger, name, getattr(module.Dataset, name)))


def _keeping(ledger: Ledger, leave: Any) -> Any:
    """A filter that no row of a stand-in passes keeps them all: it looks for texts of the published rows."""

    @functools.wraps(leave)
    def filtering(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = leave(self, *args, **kwargs)
        is_made = any(each.kind is StandInKind.DATA for each in ledger.session.stand_ins)
        # A library that filters by length or by rank expects what it asks for.
        if len(found) or not len(self) or not is_made or not is_called_by_user("datasets/"):
            return found
        ledger.replace(StandInKind.DATA, "filter", f"all {len(self)} rows: none of a stand-in's passes it")
        return self

    return filtering


def _making_room(ledger: Ledger, method: str, change: Any) -> Any:
    """A column gets a name, or is added under one, that the script reads elsewhere and that a stand-in so has."""

    @functools.wraps(change)
    def changing(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if method == "rename_columns":
            old, new = [*given[0]], [*given[0].values()]
        else:
            old, new = ([given[0]], [given[1]]) if method == "rename_column" else ([], [given[0]])
        is_made = any(each.kind is StandInKind.DATA for each in ledger.session.stand_ins)
        in_the_way = [name for name in new if name in self.column_names and name not in old]
        rows = self.remove_columns(in_the_way) if is_made and in_the_way else self
        return change(rows, *args, **kwargs)

    return changing


def _decode_waves(module: Any) -> None:
    """Sound is decoded also where the package that `datasets` decodes it with is not installed."""
    encode, decode = module.Audio.encode_example, module.Audio.decode_example

    @functools.wraps(encode)
    def encode_example(self: Any, value: Any) -> Any:
        is_file = is_dictionary(value) and value.get("bytes") is not None
        return {"bytes": value["bytes"], "path": value.get("path")} if is_file else encode(self, value)

    @functools.wraps(decode)
    def decode_example(self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return decode(self, value, *args, **kwargs)
        except (ImportError, RuntimeError):
            if not value.get("bytes"):
                raise
            return read_wave(value["bytes"], self.sampling_rate)

    module.Audio.encode_example, module.Audio.decode_example = encode_example, decode_example


def _answer_loads(ledger: Ledger, module: Any) -> None:
    load, from_disk = module.load_dataset, module.load_from_disk

    @functools.wraps(load)
    def load_dataset(path: Any, name: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            if _has_its_files(path, kwargs):
                return load(path, name, *args, **kwargs)
        except Exception as error:
            # Offline, or not in the cache: each version has its own errors.
            # An error about the use of a name that is here (a wrong configuration) is the script's own.
            if not _is_elsewhere(path, error):
                raise
        return HubData(ledger, str(path), name, kwargs).loaded()

    @functools.wraps(from_disk)
    def load_from_disk(path: Any, *args: Any, **kwargs: Any) -> Any:
        if is_there(path):
            return from_disk(path, *args, **kwargs)
        # A script that names no split has saved a single data set.
        given: dict[str, Any] = {} if read_of(ledger.script).splits else {"split": "train"}
        return HubData(ledger, str(path), None, given, is_saved=True).loaded()

    module.load_dataset, module.load_from_disk = load_dataset, load_from_disk


def _is_elsewhere(path: Any, error: Exception) -> bool:
    """Whether a data set cannot be reached, in contrast to an error about its name's use."""
    return not is_there(path) and (str(path) not in READERS or isinstance(error, FileNotFoundError | ConnectionError))


def _has_its_files(path: Any, given: dict[str, Any]) -> bool:
    files = given.get("data_files")
    named = [each for each in _texts(files) if "://" not in each and "*" not in each]
    folder = given.get("data_dir")
    base = folder if isinstance(folder, str) else ""
    if str(path) in READERS:
        is_far = any("://" in each for each in _texts(files))
        return not is_far and all(is_there(os.path.join(base, each)) or is_there(each) for each in named)
    return True


def _texts(files: Any) -> Iterator[str]:
    if isinstance(files, str | os.PathLike):
        yield os.fspath(files)
    elif is_dictionary(files):
        for each in files.values():
            yield from _texts(each)
    elif is_row(files):
        for each in files:
            yield from _texts(each)


def _answer_questions(ledger: Ledger, module: Any) -> None:
    for name, answer in (
        ("get_dataset_config_names", _config_names),
        ("get_dataset_split_names", _split_names),
    ):
        ask = getattr(module, name, None)
        if ask is not None:
            setattr(module, name, _asking(ledger, ask, answer))


def _config_names(_: HubData) -> list[str]:
    return ["default"]


def _split_names(data: HubData) -> list[str]:
    return [*data.splits()]


def _asking(ledger: Ledger, ask: Any, answer: Any) -> Any:
    @functools.wraps(ask)
    def asked(path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return ask(path, *args, **kwargs)
        except Exception:  # noqa: BLE001 - as above
            return answer(HubData(ledger, str(path), next(iter(args), None), kwargs))

    return asked


TOKENIZES = re.compile(r"tokenizer\(|\.map\(|(SFT|DPO|Reward|GRPO|KTO)Trainer\(")
OF_TOKENS = {"input_ids": "token-ids", "attention_mask": "ones", "labels": "token-ids"}
"""What a script has saved that loads rows from the disk and passes them to a model as they are."""


class HubData:
    """One data set that is not here: its splits, columns and rows."""

    def __init__(
        self, ledger: Ledger, path: str, config: Any, given: dict[str, Any], *, is_saved: bool = False
    ) -> None:
        self._ledger = ledger
        self._is_tokenized = is_saved and TOKENIZES.search(ledger.script) is None
        self._path = path
        self._config = config if isinstance(config, str) else None
        self._given = given
        self._facts = dataset_facts(path, self._config)
        self._known = columns_by_name(f"{path}, {self._config}") or columns_by_name(path)
        self._is_known = self._facts is not None or self._known is not None
        self._read = read_of(ledger.script)
        self._temporary = ledger.session.folder("hub")

    def splits(self) -> dict[str, int]:
        """The splits with their numbers of rows."""
        if self._facts is not None and self._facts.splits:
            rows = {name: count or SHORTER for name, count in self._facts.splits.items()}
        elif self._known is not None:
            rows = {name: length(name) for name in self._known[0]}
        else:
            # The splits of `data_files={"train": ..., "test": ...}` are the keys that the script will ask for.
            files = self._given.get("data_files")
            named: list[str] = [*files] if is_dictionary(files) else []
            asked = [part for part in str(self._given.get("split") or "").split("+") if part and part != "None"]
            asked = [part.partition("[")[0] for part in asked]
            of_files = ["train"] if self._path in READERS else [*SPLITS, *self._read.splits]
            rows = {name: length(name) for name in dict.fromkeys([*asked, *(named or of_files)])}
        has_media = any(kind in MEDIA for kind in self.kinds().values())
        made = fitted(rows, self._ledger.script, has_media=has_media, is_known=self._facts is not None)
        # No more than are published: a script that asks for a row beyond those is wrong.
        least = self._ledger.corrections.rows
        published = self._facts.splits if self._facts is not None else dict[str, int]()
        bounded = self._ledger.corrections.bounded
        return {name: bounded(max(count, min(least, published.get(name) or least))) for name, count in made.items()}

    def kinds(self) -> dict[str, str]:
        """The columns with their kinds."""
        corrected = self._ledger.corrections.kinds(self._path)
        is_of_instances = "instance" in f"{self._path} {self._config}".lower()
        return {
            name: "instances" if kind == "mask" and is_of_instances else kind
            for name, kind in {**self._kinds(), **corrected}.items()
        }

    def _kinds(self) -> dict[str, str]:
        if self._facts is not None:
            columns = self._facts.columns
            return {name: kind_of_fact(each) or kind_of_column(name) for name, each in columns.items()}
        if self._known is not None:
            return self._known[1]
        if self._path == "text":
            return {"text": "text"}
        if self._is_tokenized and not self._read.columns:
            return dict(OF_TOKENS)
        if listed := columns_of_data_set(self._ledger.script, self._path):
            return {name: kind_of_column(name) for name in listed}
        chats = self._read.chats | (PAIR if self._read.chats & PAIR else set[str]())
        others = self._read.of_others(self._path)
        own = [name for name in self._read.columns if name not in others]
        found = {name: "chat" if name in chats else kind_of_column(name) for name in own}
        found |= structs_of(self._read, found)
        found |= {
            name: f"structs {' '.join(fields)}"
            for name, fields in self._read.fields.items()
            if name in found and found[name] not in MEDIA and not TURN & fields.keys()
        }
        if "audio" in found.values():
            found = {name: kind for name, kind in found.items() if name not in OF_SOUND}
        found |= {
            name: kind for name, kind in self._read.classes.items() if found.get(name) in ("text", "label", "texts")
        }
        found |= dict.fromkeys((name for name in self._read.choices if found.get(name) in ("label", "class")), "text")
        of_trainer = columns_of_trainer(self._ledger.script)
        if of_trainer and not {"text", "messages", *of_trainer} & found.keys():
            found |= of_trainer
        # What the script reads elsewhere may be a part of it; a loss takes texts in their order, and a label.
        if (of_loss := columns_of_loss(self._ledger.script)) and found.keys() <= of_loss.keys():
            return of_loss
        if found and NEEDS_LABEL.search(self._ledger.script) and not NAMES_LABEL.search(self._ledger.script):
            found["label"] = "label"  # which a Trainer takes to the model without being asked
        return found or {"text": "text", "label": "label"}

    def _names(self) -> dict[str, Sequence[str]]:
        known = {name: each.class_names for name, each in self._facts.columns.items()} if self._facts else {}
        counts = {name: each.num_classes for name, each in self._facts.columns.items()} if self._facts else {}
        made = {name: known.get(name) or [str(each) for each in range(counts.get(name) or 0)] for name in counts}
        if "translation" in self.kinds():
            pair = re.findall(r"[a-z]{2,3}", self._config or "") or self._languages()
            made["translation"] = pair[:2] if len(pair) > 1 else ["en", "fr"]
        elif self._facts is None:
            kinds = self.kinds()
            made |= {name: ["negative", "positive"] for name, kind in kinds.items() if kind == "label"}
            made |= {name: CLASSES for name, kind in kinds.items() if kind == "class"}
            choices = self._read.choices
            made |= {name: [*choices[name]] for name, kind in kinds.items() if kind == "text" and name in choices}
        made |= self._ledger.corrections.choices
        return {name: names for name, names in made.items() if names}

    def _languages(self) -> list[str]:
        import sys

        words = dict(zip(sys.argv, sys.argv[1:], strict=False))
        return [words[name] for name in ("--source_lang", "--target_lang") if name in words]

    def loaded(self) -> Any:
        """What `load_dataset` returns."""
        datasets = library("datasets")
        with self._ledger.making(self._path):
            parts = {name: self._split(datasets, name, rows) for name, rows in self.splits().items()}
        made = datasets.DatasetDict(parts)
        self._report(made)
        split = self._given.get("split")
        if split is None:
            found: Any = made
        elif is_row(split):
            found = [_part(datasets, made, str(each)) for each in split]
        else:
            found = _part(datasets, made, str(split))
        return _streamed(datasets, found) if self._given.get("streaming") else found

    def _split(self, datasets: Any, name: str, count: int) -> Any:
        if given := self._ledger.session.stand_in_data:
            return part_of_file(datasets, given, is_train=name.startswith("train"))
        rows = Rows(self.kinds(), self._names(), self._temporary, zlib.crc32(f"{self._path} {name}".encode()))
        different = min(DIFFERENT, count)
        columns = rows.columns(different)
        self._ledger.corrections.remember(self._path, columns, count, is_known=self._is_known)
        made = datasets.Dataset.from_dict(columns, features=rows.features(), split=name)
        if count > different:
            # Few different rows, repeated by index: 20,000 rows cost no more memory than those.
            made = made.select(library("numpy").arange(count) % different, keep_in_memory=True)
        return made

    def _report(self, made: Any) -> None:
        if given := self._ledger.session.stand_in_data:
            sizes = ", ".join(f"{name} {len(part)}" for name, part in made.items())
            self._ledger.replace(StandInKind.DATA, self._path, f"rows of {os.path.basename(given)} ({sizes})")
            return
        columns = ", ".join(self.kinds())
        source = "known" if self._is_known else "that the script reads"
        named = f"{self._path}, {self._config}" if self._config else self._path
        sizes = ", ".join(f"{name} {len(part)}" for name, part in made.items())
        self._ledger.renew(StandInKind.DATA, named, f"rows with the columns {source}: {columns} ({sizes})")


def _part(datasets: Any, made: Any, text: str) -> Any:
    """A split by the notation of `split=`: `train`, `train[:10%]`, `train+test`."""
    parts = [_sliced(made, each.strip()) for each in text.split("+")]
    return parts[0] if len(parts) == 1 else datasets.concatenate_datasets(parts)


def _sliced(made: Any, text: str) -> Any:
    found = PART.fullmatch(text)
    name = found[1] if found else text
    if name == "all":
        return next(iter(made.values()))
    rows = made[name] if name in made else next(iter(made.values()))  # its rows are like those of any other
    if found is None or "[" not in text:
        return rows
    first, last = _row(found[2], found[3], len(rows), 0), _row(found[4], found[5], len(rows), len(rows))
    # At least one row: `train[:1%]` of a short stand-in would be empty, and an empty data set fails in other ways.
    return rows.select(range(first, max(min(last, len(rows)), first + 1)))


def _row(number: str, percent: str, count: int, otherwise: int) -> int:
    if not number:
        return otherwise
    value = int(number) * count // 100 if percent else int(number)
    return max(0, min(count, value + count if value < 0 else value))


def _streamed(datasets: Any, made: Any) -> Any:
    if is_row(made):
        return [each.to_iterable_dataset() for each in made]
    if isinstance(made, datasets.DatasetDict):
        return datasets.IterableDatasetDict({name: each.to_iterable_dataset() for name, each in made.items()})
    return made.to_iterable_dataset()
