"""Statements that load and transform data of the hub, and what the rows hold after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.metamorphic.editing import literal, name_of_call
from tests.metamorphic.script import Script

HUB: dict[tuple[str, ...], list[dict[str, str | int]]] = {
    ("glue", "sst2"): [
        {"sentence": "a fine film about the sea", "label": 1, "idx": 0},
        {"sentence": "two dull hours", "label": 0, "idx": 1},
    ],
    ("glue", "mrpc"): [
        {"sentence1": "the ship came home", "sentence2": "the ship is back", "label": 1, "idx": 0},
        {"sentence1": "the ship came home", "sentence2": "it rains", "label": 0, "idx": 1},
    ],
    ("glue", "mnli"): [
        {"premise": "all men sleep", "hypothesis": "some men sleep", "label": 0, "idx": 0},
        {"premise": "some men sleep", "hypothesis": "they dream", "label": 1, "idx": 1},
        {"premise": "no man sleeps", "hypothesis": "some men sleep", "label": 2, "idx": 2},
    ],
    ("ag_news",): [
        {"text": "peace was signed", "label": 0},
        {"text": "the match was won", "label": 1},
        {"text": "shares fell", "label": 2},
        {"text": "a new chip", "label": 3},
    ],
    ("wikitext", "wikitext-2-raw-v1"): [
        {"text": "the ship left the harbour in the morning and was not seen again"},
        {"text": "the town lies at the foot of a hill"},
    ],
}
"""Rows with the columns of the hub's data, one of each class."""

OF_ROWS = {"map", "rename_column", "remove_columns", "filter", "shuffle"}
"""Methods that both a DatasetDict and a Dataset have."""

HARMLESS = {"batched", "num_proc", "desc", "load_from_cache_file", "remove_columns"}
"""Arguments of `map` that change no value."""


@dataclass(frozen=True, slots=True)
class Chain:
    """`target = base.one(…).other(…)`, with the calls in order; `target` is "" for a `return`."""

    statement: ast.stmt
    target: str
    base: ast.expr
    calls: tuple[ast.Call, ...]


@dataclass(frozen=True)
class Rows:
    """What one row of a variable holds: columns of the hub, by their present name, and results of functions."""

    columns: dict[str, str]
    """The hub's name of each column."""
    made: tuple[tuple[str, str], ...] = ()
    """A name for each result that `map` merges into the row, and the code that computes it from `row`."""
    chains: tuple[Chain, ...] = ()

    @property
    def texts(self) -> set[str]:
        """The columns that hold text."""
        return {name for name, column in self.columns.items() if column not in ("label", "idx")}


def chain_of(statement: ast.stmt) -> Chain | None:
    """The chain of method calls that a statement assigns or returns."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call() as value):
            pass
        case ast.Return(value=ast.Call() as value):
            target = ""
        case _:
            return None
    calls: list[ast.Call] = []
    base: ast.expr = value
    while isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr in OF_ROWS:
        calls.insert(0, base)
        base = base.func.value
    return Chain(statement, target, base, tuple(calls))


def scopes(script: Script) -> Iterator[list[ast.stmt]]:
    """The statements of the top level, then those of each function, including those inside a `with`."""
    yield list(_flat(script.tree.body))
    for node in ast.walk(script.tree):
        if isinstance(node, ast.FunctionDef):
            yield list(_flat(node.body))


def _flat(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in block:
        if isinstance(statement, ast.With):
            yield from _flat(statement.body)
        else:
            yield statement


def loaded_from(base: ast.expr) -> ast.Call | None:
    """The call of `load_dataset` that an expression is."""
    return base if isinstance(base, ast.Call) and name_of_call(base) == "load_dataset" else None


def has_split(call: ast.Call) -> bool:
    """Whether a call of `load_dataset` asks for one split."""
    return any(keyword.arg == "split" for keyword in call.keywords)


def rows_after(script: Script, before: Rows, chain: Chain) -> Rows | None:
    """What rows hold after a chain; None if its text does not determine that."""
    rows: Rows | None = replace(before, chains=(*before.chains, chain))
    for call in chain.calls:
        assert isinstance(call.func, ast.Attribute)
        if rows is None:
            return None
        match call.func.attr:
            case "map":
                rows = _mapped(script, rows, call)
            case "rename_column":
                rows = _renamed(rows, call)
            case "remove_columns":
                rows = _without(rows, call.args[0] if call.args else None)
            case "filter":  # the rows written into the script have nothing to filter out
                pass
            case _:
                return None
    return rows


def _mapped(script: Script, rows: Rows, call: ast.Call) -> Rows | None:
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(call.args) != 1 or not named.keys() <= HARMLESS or rows.made:
        return None
    code = _code_for_one_row(script, call.args[0], is_batched="batched" in named)
    removed = named.get("remove_columns")
    if code is None:
        return None
    made = replace(rows, made=(("encoded", code),))
    return _without(made, removed) if removed else made


def _code_for_one_row(script: Script, function: ast.expr, *, is_batched: bool) -> str | None:
    """The code that applies a function of `map` to `row`; None if one row is not enough for it."""
    match function:
        case ast.Lambda(args=ast.arguments(args=[argument]), body=body):
            text = ast.unparse(_Renaming(argument.arg, "row").visit(ast.parse(ast.unparse(body))))
        case ast.Name(id=name):
            definition = definition_of(script, name)
            if definition is None or "padding=True" in ast.unparse(definition):
                return None
            if is_batched and any(isinstance(node, ast.comprehension | ast.For) for node in ast.walk(definition)):
                return None
            text = f"{name}(row)"
        case _:
            return None
    return None if "padding=True" in text else text


def definition_of(script: Script, name: str) -> ast.FunctionDef | None:
    """The only function of this name."""
    found = [node for node in ast.walk(script.tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[0] if len(found) == 1 else None


class _Renaming(ast.NodeTransformer):
    """Gives one variable another name."""

    def __init__(self, name: str, other: str) -> None:
        self.name, self.other = name, other

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.other if node.id == self.name else node.id
        return node


def _renamed(rows: Rows, call: ast.Call) -> Rows | None:
    old, new = (literal(argument) for argument in call.args) if len(call.args) == 2 else (None, None)
    if old not in rows.columns or not isinstance(new, str):
        return None
    return replace(rows, columns={new if name == old else name: column for name, column in rows.columns.items()})


def _without(rows: Rows, removed: ast.expr | None) -> Rows | None:
    """The rows without these columns; None if the columns are not literals, or not there."""
    match removed:
        case ast.List(elts=elements):
            names = {literal(each) for each in elements}
        case ast.Constant(value=str(name)):
            names = {name}
        case ast.Attribute(attr="column_names"):
            names = set(rows.columns)
        case _:
            return None
    if not names <= rows.columns.keys():
        return None
    return replace(rows, columns={name: column for name, column in rows.columns.items() if name not in names})
