"""The call at the location of a probe's finding, for its fix: a run gives the location, not the code there."""

from __future__ import annotations

import ast

from lintrain.model.finding import Finding
from lintrain.model.location import Location
from lintrain.source.parsing import expression_of


def callee_in(finding: Finding) -> tuple[Location, str] | None:
    """Location and code of the callee of that call; None if the text is not known, or contains no such call."""
    call = _call_of(finding)
    return _located(finding, call.func) if call else None


def argument_in(finding: Finding, position: int, name: str) -> tuple[Location, str] | None:
    """The same for an argument that is passed by name, otherwise by position."""
    call = _call_of(finding)
    if call is None or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    named = next((each.value for each in call.keywords if each.arg == name), None)
    given = named or (call.args[position] if position < len(call.args) else None)
    return _located(finding, given) if given else None


def _call_of(finding: Finding) -> ast.Call | None:
    try:
        call = expression_of(finding.code) if finding.code else None
    except (SyntaxError, ValueError):
        return None
    return call if isinstance(call, ast.Call) else None


def _located(finding: Finding, node: ast.expr) -> tuple[Location, str]:
    """Location and code of a part of the call."""
    code = finding.code
    lines, at = code.split("\n"), finding.location
    end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    start, end = _column(lines, at, node.lineno, node.col_offset), _column(lines, at, end_line, end_offset)
    location = Location(at.path, at.line + node.lineno - 1, start, at.line + end_line - 1, end)
    return location, ast.get_source_segment(code, node) or ""


def _column(lines: list[str], at: Location, line: int, offset: int) -> int:
    """The column in the file, in characters from 1, of an offset in bytes on a line of the call."""
    characters = len(lines[line - 1].encode()[:offset].decode(errors="replace"))
    return characters + (at.column if line == 1 else 1)
