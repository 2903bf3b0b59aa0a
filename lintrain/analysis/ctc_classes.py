"""Letters that are numbered from 0 in files whose CTC loss has the blank 0."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

ALPHABETS = {"ascii_lowercase": "a", "ascii_uppercase": "A", "ascii_letters": "a", "digits": "0"}
"""Constants of `string`, each with its first character."""
FIRST = frozenset("aA0")
"""What an alphabet without a sign for the blank begins with."""
LOSSES = {"CTCLoss": 0, "ctc_loss": 4}
"""The functions with a blank, each with the position of this argument."""
ADDED = re.compile(r"(?:\+=? ?1\b|\b1 ?\+)")
COUNTED = re.compile(
    r"(?:len\([^()]*\)|\w*(?:epoch|step|idx|index|num_\w+|n_\w+|batch\w*|class\w*)|\b[ij])\s*\+=?\s*1\b", re.IGNORECASE
)
"""What 1 is added to that is no number of a letter: sizes and counters."""


@dataclass(frozen=True, slots=True)
class BlankLetter:
    """A letter with the number of the blank: where the loss is, the letter, and where the letters are numbered."""

    loss: Location
    letter: str
    numbered: Location


def blank_letters(source: Source) -> list[BlankLetter]:
    """The losses of a file whose blank is a letter of its only alphabet."""
    return source.cached(_blank_letters) if source.contains(r"CTCLoss\(|ctc_loss\(") else []


def _blank_letters(source: Source) -> list[BlankLetter]:
    calls = [call for call in source.nodes_of(ast.Call) if last_name(call.func) in LOSSES]
    alphabets = list(_alphabets(source))
    if len(alphabets) != 1 or not alphabets[0][0] or not all(map(_has_first_blank, calls)) or _adds_one(source):
        return []
    letter, node = alphabets[0]
    return [BlankLetter(source.location(call), letter, source.location(node)) for call in calls]


def _has_first_blank(call: ast.Call) -> bool:
    position = LOSSES[last_name(call.func)]
    given = [each.value for each in call.keywords if each.arg in ("blank", None)] + call.args[position : position + 1]
    return all(isinstance(each, ast.Constant) and each.value == 0 for each in given)


def _alphabets(source: Source) -> Iterator[tuple[str, ast.expr]]:
    """The first letter of each dictionary `{letter: number for number, letter in enumerate(letters)}` that is read."""
    bound = _bound_once(source)
    read = {unparse(each.value) for each in source.nodes_of(ast.Subscript) if isinstance(each.ctx, ast.Load)}
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(
                targets=[target],
                value=ast.DictComp(
                    key=ast.Name(id=key),
                    value=ast.Name(id=value),
                    generators=[
                        ast.comprehension(
                            target=ast.Tuple(elts=[ast.Name(id=number), ast.Name(id=letter)]),
                            iter=ast.Call(func=ast.Name(id="enumerate"), args=[letters], keywords=[]),
                            ifs=[],
                        )
                    ],
                ) as numbered,
            ) if (key, value) == (letter, number) and unparse(target) in read:
                yield _first_letter(letters, bound), numbered
            case _:
                pass


def _first_letter(letters: ast.expr, bound: dict[str, ast.expr]) -> str:
    """The first of some letters, if it is certainly no sign for the blank; "" for any other."""
    match bound.get(unparse(letters), letters):
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return _first_letter(inner, bound)
        case ast.Constant(value=str() as text) | ast.List(elts=[ast.Constant(value=str() as text), *_]):
            return text[:1] if text[:1] in FIRST else ""
        case ast.Attribute(value=ast.Name(id="string"), attr=name):
            return ALPHABETS.get(name, "")
        case _:
            return ""


def _bound_once(source: Source) -> dict[str, ast.expr]:
    """What the names of a file are given, of those that are given something once."""
    found = dict[str, list[ast.expr]]()
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            found.setdefault(unparse(target), []).append(node.value)
    changed = {unparse(node.target) for node in source.nodes_of(ast.AugAssign)}
    return {name: given[0] for name, given in found.items() if len(given) == 1 and name not in changed}


def _adds_one(source: Source) -> bool:
    """Whether the file may number its letters from 1 after all, as `ids + 1` does."""
    return ADDED.search(COUNTED.sub("", source.text)) is not None
