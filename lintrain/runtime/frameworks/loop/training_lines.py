"""Where a script trains: each location with the lines of all functions that lead to it.

Whether two of them are in one loop, and whether the text behind one trains once more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType

from lintrain.runtime.child.given import parsed
from lintrain.runtime.child.library import attribute
from lintrain.runtime.child.own_files import own_files
from lintrain.runtime.child.surroundings import Line, lines_now

Lines = tuple[Line, ...]
TRAINS = frozenset({"backward", "manual_backward"})
STARTS = frozenset({"fit", "train"})
"""Methods of a trainer that train; modules have one of the second name too, which sets their mode."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def outside_in() -> Lines:
    """The lines of the script that are being executed, the outermost first."""
    return tuple(reversed(lines_now()))


def joined(first: Lines, steps: Lines) -> Lines:
    """The lines that lead to an error, whose traceback `steps` begins within the functions that lead to a place."""
    codes = [code for code, _ in steps]
    for level, (code, _) in enumerate(first):
        if code in codes:
            return (*first[:level], *steps[codes.index(code) :])
    return ()


@lru_cache(maxsize=256)
def are_one_training(first: Lines, second: Lines, made: Lines) -> bool:
    """Whether two places are passed in turn by one loop; `made` is where the optimizer of the first was made.

    A loop that makes the optimizer again is one over folds or settings: each of its rounds is a training.
    """
    for level, (one, other) in enumerate(zip(first, second, strict=False)):
        if one[0] is not other[0] and one[0].co_name != "<module>":
            return True  # one line calls both
        makes = _line_at(made, first, level)
        if any(_holds(loop, other[1]) and not (makes and _holds(loop, makes)) for loop in _loops_around(*one)):
            return True
        if one[1] != other[1]:
            return False
    return True


def is_in_loop(lines: Lines, made: Lines) -> bool:
    """Whether a loop repeats a place, other than one that makes its optimizer again."""
    for level, line in enumerate(lines):
        makes = _line_at(made, lines, level)
        if any(not (makes and _holds(loop, makes)) for loop in _loops_around(*line)):
            return True
    return False


def comes_again(lines: Lines, made: Lines) -> bool:
    """Whether a loop around a place makes its optimizer again."""
    levels = ((_line_at(made, lines, level), line) for level, line in enumerate(lines))
    return any(makes and any(_holds(loop, makes) for loop in _loops_around(*line)) for makes, line in levels)


def trains_behind(lines: Lines, made: Lines) -> bool:
    """Whether the text behind the loops around a place trains; of a loop over folds, behind those in it."""
    for level, (code, line) in enumerate(lines):
        makes = _line_at(made, lines, level)
        loops = [loop for loop in _loops_around(code, line) if not (makes and _holds(loop, makes))]
        last = max((loop.end_lineno or line for loop in loops), default=line)
        if any(_trains(node) for node in _nodes_of(code) if attribute(node, "lineno", 0) > last):
            return True
    return False


def is_later_loop(lines: Lines, first: Lines, made: Lines) -> bool:
    """Whether a place is in a loop that trains, and not in that of the first one."""
    if are_one_training(first, lines, made):
        return False
    return any(_trains(node) for line in lines for loop in _loops_around(*line) for node in ast.walk(loop))


def _line_at(made: Lines, lines: Lines, level: int) -> int:
    """The line of a function in which an optimizer was made, on the way to it; 0 if it was made elsewhere."""
    # The way to both has to be the same until here, or the line is of another call of the same function.
    if len(made) <= level or made[:level] != lines[:level] or made[level][0] is not lines[level][0]:
        return 0
    return made[level][1]


def _holds(loop: ast.stmt, line: int) -> bool:
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


def _loops_around(code: CodeType, line: int) -> list[ast.stmt]:
    return [
        node
        for node in _nodes_of(code)
        if isinstance(node, ast.For | ast.While | ast.AsyncFor) and _holds(node, line) and node.lineno < line
    ]


@lru_cache(maxsize=256)
def _nodes_of(code: CodeType) -> tuple[ast.AST, ...]:
    """The nodes of a function or module, without those of the functions and classes in it."""
    tree = parsed(code.co_filename)
    if tree is None:
        return ()
    if code.co_name == "<module>":
        return tuple(_own(tree.body))
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    node = next((each for each in functions if _begins(each) == code.co_firstlineno), None)
    return tuple(_own(node.body)) if node is not None else ()


def _begins(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _own(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, DEFINITIONS):
            yield node
            waiting += ast.iter_child_nodes(node)


def _trains(node: ast.AST) -> bool:
    """Whether a node makes gradients, starts a trainer, or calls a function of the script that does."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            is_trainer = name in STARTS and "trainer" in ast.unparse(owner).lower()
            return name in TRAINS or is_trainer or name in _training_functions()
        case ast.Call(func=ast.Name(id=name)):
            return name in _training_functions()
        case _:
            return False


def _training_functions() -> frozenset[str]:
    return _functions_that_train(tuple(own_files()))


@lru_cache(maxsize=4)
def _functions_that_train(files: tuple[str, ...]) -> frozenset[str]:
    """The names of functions and methods of the script's files that make gradients, themselves or through others."""
    calls = dict[str, set[str]]()
    for tree in filter(None, map(parsed, files)):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                calls.setdefault(node.name, set()).update(_called_in(node))
    # A fixed point over names: `train` calls `run_epoch`, which calls `step`, which calls `backward`.
    found, before = set(TRAINS), 0
    while len(found) > before:
        before = len(found)
        found |= {name for name, called in calls.items() if called & found and not name.startswith("__")}
    return frozenset(found - TRAINS)


def _called_in(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                yield name
            case _:
                pass
