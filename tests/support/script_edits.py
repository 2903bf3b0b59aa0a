"""Random edits of a script: of lines as people type them, and of what functions take from their file."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Statement = TypeVar("Statement", bound=ast.stmt)
Edit = Callable[[list[str], random.Random], None]


def edited(text: str, chance: random.Random) -> str:
    """A text with one more edit; it may not parse."""
    lines = text.split("\n")
    chance.choice(EDITS)(lines, chance)
    return "\n".join(lines)


def _statements(lines: Sequence[str], *kinds: type[Statement]) -> list[Statement]:
    """The outermost statements of these kinds."""
    try:
        return [each for each in ast.parse("\n".join(lines)).body if isinstance(each, kinds)]
    except (SyntaxError, ValueError):
        return []


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(lines: Sequence[str]) -> list[Function]:
    return [*_statements(lines, ast.FunctionDef), *_statements(lines, ast.AsyncFunctionDef)]


def _definitions(lines: Sequence[str]) -> list[Function | ast.ClassDef]:
    return sorted([*_functions(lines), *_statements(lines, ast.ClassDef)], key=lambda each: each.lineno)


OTHERS = (ast.Assign, ast.Import, ast.ImportFrom, ast.Expr)


def _start(statement: ast.stmt) -> int:
    """The index of its first line."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)]) - 1


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def change_line(lines: list[str], chance: random.Random) -> None:
    """Another line in place of one, or none, or two."""
    at = chance.randrange(len(lines))
    line, margin = lines[at], _margin(lines[at])
    lines[at : at + 1] = chance.choice(
        [
            [f"{line}  # typed"],
            [],
            ["", line],
            [line, line],
            [f"{margin}model.train()", line],
            [f"{margin}optimizer.zero_grad()", line],
            [line.replace("loss", "total")],
            [line.replace("=", "+=", 1)],
            [line.replace("1", "2", 1)],
            [line.replace(")", "", 1)],
            [f"{margin}if count:", f"    {line}"],
            [f"{line}.detach()"],
        ]
    )


def change_literal(lines: list[str], chance: random.Random) -> None:
    """Another literal for a name of the file, or one more further down."""
    found = [each for each in _statements(lines, ast.Assign) if isinstance(each.value, ast.Constant)]
    names = [each.targets[0].id for each in found if isinstance(each.targets[0], ast.Name)]
    if not names or chance.random() < 0.3:
        lines.insert(chance.choice([0, len(lines)]), f"LIMIT = {chance.randrange(5)}")
        return
    name, literal = chance.choice(names), chance.choice(["3", "0.5", '"x"', "None", "LIMIT", "len([])"])
    if chance.random() < 0.4:
        lines.append(f"{name} = {literal}")
        return
    statement = chance.choice(found)
    lines[_start(statement) : _end(statement)] = [f"{name} = {literal}"]


def change_import(lines: list[str], chance: random.Random) -> None:
    """An import more or less, or under another name."""
    found = _statements(lines, ast.Import, ast.ImportFrom)
    if not found or chance.random() < 0.4:
        new = [
            "import torch",
            "from torch import nn",
            "import numpy as torch",
            "from math import *",
            "from own import f",
        ]
        lines.insert(chance.choice([0, 0, len(lines)]), chance.choice(new))
        return
    statement = chance.choice(found)
    del lines[_start(statement) : _end(statement)]


def change_order(lines: list[str], chance: random.Random) -> None:
    """A function or class in front of the one before it."""
    found = _definitions(lines)
    if len(found) < 2:
        return
    at = chance.randrange(1, len(found))
    first, second = (slice(_start(each), _end(each)) for each in found[at - 1 : at + 1])
    between = lines[first.stop : second.start]
    lines[first.start : second.stop] = [*lines[second], *between, *lines[first]]


def change_decorator(lines: list[str], chance: random.Random) -> None:
    """A decorator more, or none."""
    found = _definitions(lines)
    if not found:
        return
    statement = chance.choice(found)
    if statement.decorator_list:
        del lines[_start(statement) : statement.lineno - 1]
        return
    lines.insert(_start(statement), chance.choice(["@torch.no_grad()", "@wrap", "@staticmethod", "@f(1)"]))


def change_calls(lines: list[str], chance: random.Random) -> None:
    """A call of a function, at the end of the file or in another function; or a statement of the file less."""
    found = _definitions(lines)
    if not found or chance.random() < 0.2:
        others = _statements(lines, *OTHERS)
        if others:
            statement = chance.choice(others)
            del lines[_start(statement) : _end(statement)]
        return
    name = chance.choice(found).name
    call = chance.choice([f"{name}()", f"{name}(model, loader)", f"{name} = wrap({name})", f"x = {name}", f"# {name}"])
    if chance.random() < 0.5:
        lines.append(call)
        return
    last = chance.choice(found)
    lines.insert(_end(last), f"{' ' * last.body[-1].col_offset}{call}")


def change_function(lines: list[str], chance: random.Random) -> None:
    """A function that binds a name of the file, takes one more, or has another default."""
    found = _functions(lines)
    if not found:
        lines += ["", "def f(model, rate=LIMIT):", "    return model(rate)"]
        return
    statement = chance.choice(found)
    names = [each.targets[0].id for each in _statements(lines, ast.Assign) if isinstance(each.targets[0], ast.Name)]
    name = chance.choice([*names, "LIMIT"])
    if chance.random() < 0.2:
        lines[statement.lineno - 1] = lines[statement.lineno - 1].replace("):", ", more=LIMIT):", 1)
        return
    inserted = [f"global {name}", f"{name} = 5"] if chance.random() < 0.4 else [f"if {name}:", f"    print({name})"]
    margin = " " * statement.body[0].col_offset
    at = statement.body[0].lineno - 1
    lines[at:at] = [f"{margin}{each}" for each in inserted]


EDITS: list[Edit] = [
    *(change_line, change_line, change_line, change_literal, change_import, change_order, change_decorator),
    *(change_calls, change_function),
]
