"""The part of a script that a name needs: its definition, and everything at the top of the script that this uses."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator

BUILTINS = frozenset(dir(builtins))


def definitions_of(text: str, names: set[str]) -> tuple[list[str], list[str]] | None:
    """The imports, and the statements that define the names, in the order of the script; None if one is missing."""
    tree = ast.parse(text)
    by_name: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _bound(statement):
            by_name.setdefault(name, []).append(statement)
    chosen: set[ast.stmt] = set()
    waiting = set(names)
    if not waiting <= set(by_name):
        return None
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        known.add(name)
        for statement in by_name.get(name, ()):
            if statement not in chosen:
                chosen.add(statement)
                waiting |= _used(_source(text, statement)) - known
    ordered = [statement for statement in tree.body if statement in chosen]
    imports = [_import_of(one, known) for one in ordered if isinstance(one, ast.Import | ast.ImportFrom)]
    rest = [_source(text, one) for one in ordered if not isinstance(one, ast.Import | ast.ImportFrom)]
    return imports, rest


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a script gives a meaning to."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
        case _:
            pass


def _used(text: str) -> set[str]:
    """The names that a statement takes from around it, not those that its functions have for themselves."""
    return set(_looked_up(symtable.symtable(text, "<statement>", "exec"))) - BUILTINS


def _looked_up(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _looked_up(inner)


def _import_of(statement: ast.Import | ast.ImportFrom, known: set[str]) -> str:
    """An import with only those names that are needed."""
    names = [alias for alias in statement.names if (alias.asname or alias.name).partition(".")[0] in known]
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names))
    return ast.unparse(ast.ImportFrom(statement.module, names, statement.level))


def _source(text: str, statement: ast.stmt) -> str:
    lines = text.splitlines()
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(one.lineno for one in decorators)])
    return "\n".join(lines[first - 1 : statement.end_lineno])
