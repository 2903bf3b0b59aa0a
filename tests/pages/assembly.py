"""A page's example as a whole script: what it uses and does not define is put before it."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PRELUDE = Path(__file__).with_name("prelude.py")
MARK = re.compile(r"# <- ([a-z0-9-]+(?:, [a-z0-9-]+)*)\s*$")
TRAINING = """\
trainer = Trainer(model, args, train_dataset=tokenized["train"], eval_dataset=tokenized["validation_matched"],
                  processing_class=tokenizer)
trainer.train()
"""
RAISES = re.compile(r"^# raises (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """An example with its prelude: the first `prelude_lines` lines of `text` are not the page's own."""

    text: str
    example: str
    prelude_lines: int

    def marked_lines(self, rule: str) -> list[int]:
        """The lines of `text` that the page says a rule reports, once for each mark."""
        return [
            number
            for number, line in enumerate(self.text.splitlines(), start=1)
            for name in marked_rules(line)
            if name == rule
        ]

    @property
    def raises(self) -> str | None:
        """What the page says the example ends with (`# raises IndexError: Target 2`), or None where it runs through."""
        match = RAISES.search(self.example)
        return match[1] if match else None


def marked_rules(line: str) -> list[str]:
    """The rules that a line's mark names."""
    match = MARK.search(line)
    return match[1].split(", ") if match else []


def assemble(example: str, *, sharing: str = "") -> Script:
    """The script of an example; definitions that `sharing` needs are put before it too, so that two scripts compare."""
    ending = _ending(example)
    needed = free_names(example + ending)
    all_needed = needed | free_names(sharing + _ending(sharing))
    definitions = _closure(all_needed, _fitting(all_needed))
    needed |= {name for definition in definitions for name in definition.uses}
    lines = [*_import_lines(needed), *(definition.code for definition in definitions)]
    prelude = "".join(f"{line}\n" for line in lines)
    return Script(prelude + example + ending, example, prelude.count("\n"))


def free_names(code: str) -> set[str]:
    """The names that a piece of code reads before it binds them."""
    body = ast.parse(code).body
    bound_anywhere = {name for statement in body for name in bound_names(statement)}
    free: set[str] = set()
    bound: set[str] = set(vars(builtins))
    for statement in body:
        compound = not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr)
        own = bound_names(statement)
        free |= _read_at_once(statement) - bound - (own if compound else set())
        free |= _read_inside(statement) - set(vars(builtins)) - bound_anywhere
        bound |= own
    return free


def bound_names(statement: ast.stmt) -> set[str]:
    """The module's names that a statement binds."""
    table = _table(statement)
    return {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}


@dataclass(frozen=True, slots=True)
class Definition:
    """One statement of the prelude, with the names that it binds and those that it needs."""

    code: str
    binds: frozenset[str]
    uses: frozenset[str]


def _fitting(needed: set[str]) -> tuple[Definition, ...]:
    """The definitions, one of each name: where there are two, the second is for examples that speak of `net`."""
    chosen: dict[frozenset[str], Definition] = {}
    for definition in _definitions():
        if definition.binds not in chosen or "net" in needed:
            chosen[definition.binds] = definition
    return tuple(definition for definition in _definitions() if chosen[definition.binds] is definition)


@cache
def _definitions() -> tuple[Definition, ...]:
    text = PRELUDE.read_text(encoding="utf-8")
    return tuple(
        Definition(
            ast.unparse(statement),
            frozenset(bound_names(statement)),
            frozenset(_read_at_once(statement) | _read_inside(statement)) - set(vars(builtins)),
        )
        for statement in _statements(text)
        if not isinstance(statement, ast.Import | ast.ImportFrom)
    )


def _statements(text: str) -> list[ast.stmt]:
    return [statement for statement in ast.parse(text).body if not _is_docstring(statement)]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _closure(needed: Iterable[str], definitions: tuple[Definition, ...]) -> list[Definition]:
    wanted = set(needed)
    chosen: set[Definition] = set()
    for definition in reversed(definitions):
        if definition.binds & wanted:
            chosen.add(definition)
            wanted |= definition.uses
    return [definition for definition in definitions if definition in chosen]


def _import_lines(names: set[str]) -> Iterator[str]:
    for statement in _statements(PRELUDE.read_text(encoding="utf-8")):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            aliases = [alias for alias in statement.names if _bound_as(alias) in names]
            if aliases:
                kept = ast.Import(aliases) if isinstance(statement, ast.Import) else _import_from(statement, aliases)
                yield ast.unparse(kept)


def _import_from(statement: ast.ImportFrom, aliases: list[ast.alias]) -> ast.ImportFrom:
    return ast.ImportFrom(statement.module, aliases, statement.level)


def _bound_as(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _ending(example: str) -> str:
    """Pages end where the mistake is complete; a trainer, or the arguments of one, are then set to work."""
    tree = ast.parse(example)
    bound = {name for statement in tree.body for name in bound_names(statement)}
    if "trainer" in bound:
        return "" if _uses_trainer(tree) else "trainer.train()\n"
    return TRAINING if "args" in bound and "Trainer(" not in example else ""


def _uses_trainer(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "trainer"
        for node in ast.walk(tree)
    )


def _table(statement: ast.stmt) -> symtable.SymbolTable:
    return symtable.symtable(ast.unparse(statement), "<page>", "exec")


def _read_at_once(statement: ast.stmt) -> set[str]:
    symbols = _table(statement).get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_referenced()} | _augmented(statement)


def _augmented(statement: ast.stmt) -> set[str]:
    target = statement.target if isinstance(statement, ast.AugAssign) else None
    return {target.id} if isinstance(target, ast.Name) else set()


def _read_inside(statement: ast.stmt) -> set[str]:
    """Globals that functions and classes of the statement read when they are called."""
    tables = list(_table(statement).get_children())
    names: set[str] = set()
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return names
