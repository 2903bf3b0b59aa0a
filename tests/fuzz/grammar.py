"""Training scripts grown from `training.grammar`, with statements and expressions of real ones grafted in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

GRAMMAR = Path(__file__).with_name("training.grammar")
HEADING = re.compile(r"^<(\w+)>$", re.MULTILINE)
PART = re.compile(r"\{\{|\}\}|\{(\w+)\}")
BLOCK = re.compile(r"^( *)\{(\w+)\}$")

DEEPEST = 7
"""Symbols inside symbols, behind which only the short alternatives are taken."""
LARGEST = 2_500
"""Characters, about: behind them, too."""

Graft = Callable[[Random], str]


@dataclass(frozen=True, slots=True)
class Symbol:
    """The alternatives of a symbol; the `short` ones end what has grown deep."""

    long: tuple[str, ...]
    short: tuple[str, ...]


@cache
def symbols() -> Mapping[str, Symbol]:
    """The grammar, by the names of its symbols."""
    _, *parts = HEADING.split(GRAMMAR.read_text(encoding="utf-8"))
    return {name: _symbol(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _symbol(body: str) -> Symbol:
    long, _, short = body.strip("\n").partition("\n~\n")
    return Symbol(tuple(long.split("\n|\n")), tuple(short.split("\n|\n")) if short else ())


class Growth:
    """One text that grows, choice by choice."""

    def __init__(self, random: Random, grafts: Mapping[str, Graft]) -> None:
        self._random, self._grafts = random, grafts
        self._size = 0

    def grow(self, name: str, depth: int = 0) -> str:
        """A text for a symbol; for a graft, what it gives."""
        if name in self._grafts:
            if depth > DEEPEST + 2:
                return "None"
            return self._grafts[name](self._random)
        symbol = symbols()[name]
        is_full = depth > DEEPEST or self._size > LARGEST
        chosen = self._random.choice(symbol.short if is_full and symbol.short else symbol.long + symbol.short)
        self._size += len(chosen)
        return "\n".join(self._line(line, depth + 1) for line in chosen.split("\n"))

    def _line(self, line: str, depth: int) -> str:
        block = BLOCK.match(line)
        if block and self._knows(block[2]):
            return "\n".join(f"{block[1]}{inner}" for inner in self.grow(block[2], depth).split("\n"))
        return PART.sub(lambda found: self._part(found, depth), line)

    def _part(self, found: re.Match[str], depth: int) -> str:
        if found[1] is None:
            return found[0][0]
        return self.grow(found[1], depth) if self._knows(found[1]) else found[0]

    def _knows(self, name: str) -> bool:
        return name in self._grafts or name in symbols()
