"""What stands for parts of the hub in a probe with `--stand-ins`: families by name, columns of data sets, texts.

family_of("Qwen/Qwen2.5-0.5B-Instruct", {"qwen2", "llama"})       "qwen2"
columns_by_name("trl-lib/Capybara")       (("train", "test"), {"messages": "chat"})
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lintrain.knowledge.checkpoint_facts import checkpoint_facts

SHORTEST_KEY = 4
"""Letters of a family's name that are found anywhere in a checkpoint's; shorter ones only as a word."""


def family_of(name: str, families: Collection[str], script: str = "") -> str | None:
    """The model type that a checkpoint most likely has, one of `families`; None if nothing tells.

    From the table of checkpoints, from the name, or from the classes that the script's text loads.
    """
    facts = checkpoint_facts(name)
    if facts is not None and facts.model_type in families:
        return facts.model_type
    lowered = name.lower()
    for pattern, family in table()["aliases"]:
        if family in families and re.search(pattern, lowered):
            return str(family)
    return _by_key(lowered, families) or _by_task(families, script)


def _by_key(name: str, families: Iterable[str]) -> str | None:
    plain, words = _plain(name), re.split(r"[^a-z0-9]+", name)
    for family in sorted(families, key=len, reverse=True):
        key = _plain(family)
        if key in (plain if len(key) >= SHORTEST_KEY else words):
            return family
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _by_task(families: Collection[str], script: str) -> str | None:
    tasks: Mapping[str, str] = table()["by_task"]
    found = (family for task, family in tasks.items() if task in script and family in families)
    return next(found, None)


def values_by_name(name: str, family: str) -> dict[str, Any]:
    """Values of a configuration that checkpoints of a family with such a name have, in contrast to its class."""
    rows: list[tuple[str, str, dict[str, Any]]] = table()["values"]
    found = (values for own, pattern, values in rows if own == family and re.search(pattern, name.lower()))
    return next(found, dict[str, Any]())


def parts_by_name(name: str) -> tuple[str, str] | None:
    """The families of a checkpoint's encoder of images and decoder of texts; None for one that is not joined."""
    rows: list[tuple[str, str, str]] = table()["parts"]
    found = ((encoder, decoder) for pattern, encoder, decoder in rows if re.search(pattern, name.lower()))
    return next(found, None)


def columns_by_name(name: str) -> tuple[tuple[str, ...], dict[str, str]] | None:
    """The splits of a data set and its columns with their kinds; None for one that the table does not have."""
    known: Mapping[str, str] = table()["datasets"]
    row = known.get(name)
    if row is None:
        return None
    splits, _, columns = row.partition("|")
    found = re.findall(r"\s*([^:]+):([\w-]+)", columns)
    return tuple(splits.split()), dict(found)


def columns_of_trainer(script: str) -> dict[str, str]:
    """The columns that a trainer of preferences or chats in a script's text takes; none without such a trainer."""
    trainers: Mapping[str, str] = table()["trainers"]
    named = (columns for name, columns in trainers.items() if re.search(rf"\b{name}\b", script))
    return dict(re.findall(r"(\S+):(\S+)", next(named, "")))


def columns_of_loss(script: str) -> dict[str, str]:
    """The columns that the only loss of sentence-transformers in a script's text takes, in order; none for several."""
    if "sentence_transformers" not in script:
        return {}
    losses: Mapping[str, str] = table()["losses"]
    named = [columns for names, columns in losses.items() if re.search(rf"\b(?:Sparse|Cached)?(?:{names})\b", script)]
    return dict(re.findall(r"(\S+):(\S+)", named[0])) if len(named) == 1 else {}


def kind_of_column(name: str) -> str:
    """What a column of that name most likely holds."""
    kinds: list[tuple[str, str]] = table()["kinds"]
    return next((kind for pattern, kind in kinds if re.fullmatch(pattern, name.lower())), "text")


def is_produced(name: str) -> bool:
    """Whether a key is one that tokenizers, models and trainers write, so that no data set needs to have it."""
    return re.fullmatch(table()["produced"], name) is not None


def holds_chats(name: str) -> bool:
    """Whether a checkpoint of that name has a template of chats."""
    return re.search(table()["chats"], name.lower()) is not None


def scores_with_one_output(name: str) -> bool:
    """Whether a checkpoint of that name is a reward model or ranks pairs: its head has one output."""
    return re.search(table()["rewards"], name.lower()) is not None


@cache
def table() -> Mapping[str, Any]:
    """The shipped table. `Any`: the file is our own."""
    rows: dict[str, Any] = json.loads((Path(__file__).parent / "stand_ins.json").read_bytes())
    return rows
