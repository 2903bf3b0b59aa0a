"""Reads the generated tables of names and signatures, each once and only on request.

`tools/api_tables/tables.py` describes the format and writes it.

Facts about a data set or a checkpoint, with their source. None means unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

from lintrain.knowledge.target import Version
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

COVERED_PACKAGES = (
    "accelerate",
    "datasets",
    "evaluate",
    "keras",
    "lightning",
    "peft",
    "torch",
    "torchmetrics",
    "transformers",
    "trl",
)

CONFIGURED_PACKAGES = ("axolotl", "deepspeed", "llamafactory", "torchtune")
"""Tools that are started with a configuration file; their tables hold its keys."""

REMOVED_FROM = ("numpy",)
"""Packages of whose names the tables have only those that some version lacks; a name that is not there is unknown."""

PACKAGES = (*COVERED_PACKAGES, *CONFIGURED_PACKAGES, *REMOVED_FROM)


@cache
def _choices() -> Mapping[str, Mapping[str, list[str | int]]]:
    return _load("choices.json")["callables"]  # type: ignore[no-any-return] # the file is our own


def choices_of(path: str, argument: str) -> tuple[str | int, ...]:
    """The values that an argument of a callable may have in some version; empty if others are accepted, or unknown."""
    return tuple(_choices().get(path, {}).get(argument, ()))


def holds_keys(path: str) -> bool:
    """Whether a callable of the tables stands for a configuration file of a tool, or a section of one."""
    package, _, rest = path.partition(".")
    return rest.partition(".")[0] == "config" and (package in CONFIGURED_PACKAGES or package == "accelerate")


_FOLDER = Path(__file__).parent / "tables"
_LEADING = lazy_pattern(r"v?(\d+)(?:\.(\d+))?")


@cache
def covered_versions(package: str) -> tuple[Version, ...]:
    """The versions in the tables of a package, oldest first; empty for a package without tables."""
    if package not in PACKAGES:
        return ()
    with (_FOLDER / f"{package}.signatures.json").open(encoding="utf-8") as file:
        file.readline()
        file.readline()
        line = file.readline()
    listed: list[str] = json.loads(line.partition(":")[2].rstrip().rstrip(","))
    return tuple(_minor(version) for version in listed)


def covered_version(package: str, version: str) -> Version | None:
    """The version of the tables to use for a published version.

    A version newer than the newest of its major version is treated as that newest one; others outside the tables are
    None.
    """
    covered = covered_versions(package)
    if not covered or _LEADING.match(version) is None:
        return None
    minor = _minor(version)
    if minor in covered:
        return minor
    newest = covered[-1]
    return newest if minor > newest and minor[0] == newest[0] else None


@cache
def names_of(package: str) -> Mapping[str, Any]:
    """The table of names of a package. `Any`: the file is our own, made and checked by the generator."""
    return _load(f"{package}.names.json")


@cache
def lives_of(package: str, module: str) -> Mapping[str, str]:
    """The spans (`"0-18,20-21"`) in which each name of a module could be imported."""
    groups: Mapping[str, str] = names_of(package)["modules"].get(module, {})
    return {name: spans for spans, names in groups.items() for name in names.split(" ")}


@cache
def history_of(package: str, name: str) -> tuple[tuple[str, ...] | None, ...]:
    """A callable's signature in every covered version, in the notation of the tables; None if it does not exist."""
    changes: list[tuple[int, Any]] = _load_signatures(package)["callables"].get(name, [])
    history: list[tuple[str, ...] | None] = []
    current: tuple[str, ...] | None = None
    for position, change in changes:
        history += [current] * (position - len(history))
        current = None if change is None else tuple(change) if current is None else _edited(current, change)
    return (*history, *[current] * (len(covered_versions(package)) - len(history)))


@cache
def callable_names(package: str) -> frozenset[str]:
    """The full names of all callables in a package's table."""
    return frozenset(_load_signatures(package)["callables"])


def holds(spans: str, position: int) -> bool:
    """Whether the index of a version is inside spans such as `"0-18,20-21"`."""
    return bool(among(spans) >> position & 1)


@cache
def among(spans: str) -> int:
    """The versions inside spans as the bits of a number: thousands of names share a few hundred spans."""
    return sum(1 << location for location in locations(spans))


def locations(spans: str) -> list[int]:
    """The indices of all versions inside spans."""
    return [location for since, until in _parts(spans) for location in range(int(since), int(until))]


def _parts(spans: str) -> list[list[str]]:
    return [part.split("-") for part in spans.split(",")] if spans else []


def _edited(items: tuple[str, ...], edits: list[tuple[int, int, list[str]]]) -> tuple[str, ...]:
    changed = list(items)
    for start, removed, inserted in edits:
        changed[start : start + removed] = inserted
    return tuple(changed)


@cache
def _load_signatures(package: str) -> Mapping[str, Any]:
    return _load(f"{package}.signatures.json")


def _load(name: str) -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = json.loads((_FOLDER / name).read_bytes())
    return loaded


def version_named(text: str) -> Version:
    """The minor version in a text; (0, 0) if it names none."""
    return _minor(text)


def _minor(version: str) -> Version:
    found = _LEADING.match(version)
    return (int(found[1]), int(found[2] or 0)) if found is not None else (0, 0)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column: `kind` is "text", "integer", "float", "class label", "list", "image", "audio" or "unknown".

    A list of class labels is a "list" with `class_names` or `num_classes`.
    """

    name: str
    kind: str = "unknown"
    class_names: tuple[str, ...] = ()
    num_classes: int | None = None


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A data set: its columns, and its splits with their rows (None if only the name is known). `splits` is empty if
    they are unknown. `sorted_by` names the column that the train split is sorted by; `unlabelled` are splits whose
    labels are all -1.
    """

    columns: Mapping[str, ColumnFacts]
    splits: Mapping[str, int | None] = field(default_factory=dict[str, "int | None"])
    sorted_by: str | None = None
    unlabelled: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """A saved model: its architecture and what its tokenizer has.

    `max_positions` is the number of tokens that its position embeddings support, None if there is no limit or if it is
    unknown. `head` is the class that its weights were saved from (`BertForSequenceClassification`), None for a model
    without a head of its own; `num_labels` the outputs of that head. `size` is "small", "base", "large" or "huge".
    """

    model_type: str | None = None
    max_positions: int | None = None
    has_pad_token: bool | None = None
    has_eos_token: bool | None = None
    has_bos_token: bool | None = None
    size: str | None = None
    dtype: str | None = None
    vocab_size: int | None = None
    head: str | None = None
    num_labels: int | None = None
    label_names: tuple[str, ...] = ()
    source: str = ""
