"""What an attack is, and the registry that modules of this package add theirs to.

An attack is a function that gets an empty folder, does in it what somebody hostile would do, runs lintrain, and asserts
that the promise held:

    @attack("git-starts-nothing", cases={"invalid-byte": b"\\xff", "plain": b"clean"})
    def filter_named(folder: Path, name: bytes) -> None:
        ...

Its name is the function's, with the case after a colon: `filter-named:invalid-byte`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FRAME = {"__main__", "attack", "commands", "hub", "sending", "tiny"}
"""Modules of this package that hold no attacks."""

Run = Callable[[Path], None]


class NotPossibleError(Exception):
    """This machine lacks what the attack needs; the text says what."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack; `promise` is the name of the promise in SECURITY.md, `is_slow` keeps it out of the test command."""

    name: str
    module: str
    promise: str
    run: Run
    is_slow: bool


ATTACKS: dict[str, Attack] = {}


def attack(
    promise: str, *, cases: Mapping[str, Any] | Sequence[str] = (), slow: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as an attack on a promise; with `cases`, as one attack for each, given its value."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        name = function.__name__.replace("_", "-")
        module = function.__module__.rpartition(".")[2]
        values = cases if isinstance(cases, Mapping) else {case: case for case in cases}
        runs: dict[str, Run] = {f"{name}:{case}": _with_value(function, value) for case, value in values.items()}
        for full_name, run in (runs or {name: function}).items():
            if full_name in ATTACKS:
                raise ValueError(f"two attacks are called {full_name}")
            ATTACKS[full_name] = Attack(full_name, module, promise, run, slow)
        return function

    return register


def _with_value(function: Callable[..., None], value: Any) -> Run:
    return lambda folder: function(folder, value)


def all_attacks() -> dict[str, Attack]:
    """Every attack of this package by its name, in the order of their modules."""
    package = sys.modules[__package__ or ""]
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in FRAME:
            importlib.import_module(f"{package.__name__}.{module.name}")
    return ATTACKS
