"""What a fix changed outside the places that it speaks of: nothing, if it is right."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from lintrain.model.fixes import (
    AddArgument,
    AddImport,
    AddParameter,
    Edit,
    Fix,
    InsertAfter,
    InsertAtTop,
    InsertBefore,
    MoveAfter,
    MoveBefore,
    RemoveArgument,
    RemoveImport,
    RenameArgument,
    Replace,
    WrapBody,
    WrapInWith,
)
from lintrain.model.location import Location
from lintrain.source.notebook import written_sources
from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from lintrain.source.writing import editable_text

SHARES_ITS_LINE = re.compile(r";|:\s*[^\s#]")
"""A statement beside another, or on the line of its `for`: there an insertion has to part the line."""


def strays(source: Source, fix: Fix, after: str) -> Iterator[str]:
    """The lines that one fix changed without speaking of them, and the comments that it lost."""
    before = editable_text(source)
    lines = before.split("\n")
    allowed = set(_lines_of(source, fix))
    for kind, start, end, _, _ in SequenceMatcher(None, lines, after.split("\n"), autojunk=False).get_opcodes():
        if kind in ("replace", "delete"):
            for number in range(start + 1, end + 1):
                if number not in allowed and lines[number - 1].strip():
                    yield f"line {number} changed: {lines[number - 1].strip()}"
    lost = _comments(before) - _comments(after) - _comments_at(source, fix)
    yield from (f"a comment is lost: {comment}" for comment in lost)


def strays_of_file(before: Source, changed: bytes) -> Iterator[str]:
    """What is different in a notebook beside the code of its changed cells."""
    if before.notebook is None:
        return
    after = read_bytes(before.path, changed)
    assert after.notebook
    if _around_cells(before.notebook.json, after.notebook.json) != _around_cells(
        after.notebook.json, before.notebook.json
    ):
        yield "more of the notebook changed than the code of its cells"


def _around_cells(text: str, other: str) -> str:
    """A notebook without the sources of the cells that are different in another state of it."""
    codes = {each.number: [string for _, string in each.strings] for each in written_sources(other)}
    kept: list[str] = []
    position = 0
    for each in written_sources(text):
        if codes.get(each.number) != [string for _, string in each.strings]:
            kept.append(text[position : each.start])
            position = each.end
    return "\0".join([*kept, text[position:]])


def _lines_of(source: Source, fix: Fix) -> Iterator[int]:
    for edit in fix.edits:
        yield from _lines_of_edit(source, edit)


def _lines_of_edit(source: Source, edit: Edit) -> Iterator[int]:
    match edit:
        case Replace(location=location):
            yield from range(location.line, location.end_line + 1)
        case AddArgument(call=location) | RenameArgument(call=location) | RemoveArgument(call=location):
            yield from _lines_of_argument(source, location, edit.name)
        case InsertBefore(location=location) | InsertAfter(location=location) | InsertAtTop(location=location):
            yield from (
                line for line in {location.line, location.end_line} if SHARES_ITS_LINE.search(source.lines[line - 1])
            )
        case AddParameter(function=location):
            yield from _lines_of_head(source, location)
        case WrapInWith(location=location) | WrapBody(location=location):
            yield from _lines_of_statement(source, location)
        case MoveBefore(location=location, target=target) | MoveAfter(location=location, target=target):
            yield from range(min(location, target).line, max(location, target).end_line + 1)
        case AddImport(module=module) | RemoveImport(module=module):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ImportFrom) and node.module == module:
                    yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _lines_of_argument(source: Source, location: Location, name: str) -> Iterator[int]:
    """The lines of an argument and of its neighbours, whose comma may come or go; of a new one, where a call ends."""
    call = next(
        (each for each in ast.walk(source.tree) if isinstance(each, ast.Call) and source.location(each) == location),
        None,
    )
    if call is None:
        return
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    given = sorted(nodes, key=source.location)
    index = next(
        (index for index, each in enumerate(given) if isinstance(each, ast.keyword) and each.arg == name), len(given)
    )
    for each in given[max(0, index - 1) : index + 2]:
        at = source.location(each)
        yield from range(at.line, at.end_line + 1)
    if index >= len(given) - 1:
        yield location.end_line


def _lines_of_head(source: Source, location: Location) -> Iterator[int]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and source.location(node).line == location.line:
            yield from range(node.lineno, node.body[0].lineno)


def _lines_of_statement(source: Source, location: Location) -> Iterator[int]:
    around = [
        source.location(each)
        for each in ast.walk(source.tree)
        if isinstance(each, ast.stmt)
        and source.location(each).line <= location.line
        and location.end_line <= source.location(each).end_line
    ]
    if around:
        statement = min(around, key=lambda each: (each.end_line - each.line, -each.column))
        yield from range(statement.line, statement.end_line + 1)


def _comments_at(source: Source, fix: Fix) -> Counter[str]:
    """The comments inside of code that the fix replaces, and on the lines of arguments that go: they go with it."""
    replaced = (source.code(edit.location) for edit in fix.edits if isinstance(edit, Replace))
    left_out = (_lines_left_out(source, edit) for edit in fix.edits if isinstance(edit, RemoveArgument | RemoveImport))
    return sum((Counter(re.findall(r"#.*", code)) for code in (*replaced, *left_out)), Counter[str]())


def _lines_left_out(source: Source, edit: RemoveArgument | RemoveImport) -> str:
    """The lines that hold an argument or imported name which goes, and nothing else."""
    named = [
        source.location(each)
        for each in ast.walk(source.tree)
        if (isinstance(each, ast.keyword) and each.arg == edit.name)
        or (isinstance(each, ast.alias) and each.name == edit.name)
    ]
    return "\n".join(
        "\n".join(source.lines[location.line - 1 : location.end_line])
        for location in named
        if not isinstance(edit, RemoveArgument) or edit.call.holds(location)
        if not source.lines[location.line - 1][: location.column - 1].strip()
    )


def _comments(text: str) -> Counter[str]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return Counter()
    return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)
