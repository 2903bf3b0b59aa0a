"""What an error asks of rows that were made up: a column that is missing, or values of another kind.

A name that a published data set lacks is the script's own mistake; what its texts hold is made up and may be corrected.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lintrain.knowledge.stand_in_facts import is_produced, kind_of_column
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import is_dictionary, is_row
from lintrain.runtime.stand_ins.columns import NO_COLUMNS, TURN
from lintrain.runtime.stand_ins.expressions import MISSING, Raised, origins, raised, value_of
from lintrain.runtime.stand_ins.patterns import fitting_text
from lintrain.startup.lazy_dataclass import dataclass

ROWS = re.compile(r"Lazy(Row|Batch|Dict)|(Iterable)?Dataset|DataFrame|Series")
"""Classes of rows and tables, as libraries call them."""
NO_COLUMN = re.compile(
    r"(?i)\b(?:columns?|key|field|feature)s?\b[^'\"\[]{0,30}\[?['\"](?P<name>\w+)['\"]"
    r"|\b[Cc]olumn \((?P<bare>\w+)\) not in"
    r"|['\"](?P<other>\w+)['\"]\]? (?:not in|is not in|not found in)|object has no attribute '(?P<attribute>\w+)'"
)
"""How libraries say that a column is missing; KeyError says only its name."""
QUOTED = re.compile(
    r"(?:: |time data |literal )(['\"])(?P<value>.*?)\1(?: does not match format '(?P<form>[^']*)')?\Z", re.S
)
"""A value that is no number or date, at the end of a message."""
NO_DATE = re.compile(r"unable to parse: (?P<value>.*?)(?:, at position \d+)?\Z", re.S)
"""How pandas (2) says that a text is no date."""
OF_KINDS: Mapping[str, tuple[str, ...]] = {
    "text": ("split", "strip", "lower", "upper", "replace", "startswith", "endswith", "encode", "splitlines", "join"),
    "image": (
        "convert",
        "resize",
        "size",
        "mode",
        "width",
        "height",
        "save",
        "crop",
        "getbands",
        "thumbnail",
        "filter",
    ),
    "struct": ("items", "keys", "values", "get", "pop", "update"),
    "texts": ("append", "extend", "insert", "sort", "index"),
    "float": ("item", "astype", "round", "is_integer"),
    "class": ("names", "num_classes", "int2str", "str2int"),
    "tags": ("feature",),
}
KIND_OF_ATTRIBUTE = {name: kind for kind, names in OF_KINDS.items() for name in names}
"""By an attribute that a value lacks: the kind of values that have it."""
NO_TEXT = re.compile(r"text input must be of type|TextEncodeInput must be|TextInputSequence must be")
"""How tokenizers say that they were given no text."""
OF_VALUES = (TypeError, ValueError, IndexError, AttributeError, AssertionError)
"""Errors that a value of another kind may cause."""
OTHER_KINDS: Mapping[str, tuple[str, ...]] = {
    "str": ("texts", "float"),
    "int": ("text", "float"),
    "float": ("integer", "text"),
    "bool": ("label", "text"),
    "list": ("text", "integers"),
    "dict": ("text", "json"),
}
"""By the class of a value: the kinds that a column may have in its place."""
FORMS_OF_TEXTS = ("json", "parts ", "date ")
"""Kinds of values that are texts."""
LABELS = re.compile(r"(?i)(.*_)?(labels?|targets?|class|category|score|rating|stars|intent|sentiment)(_ids?)?")


@dataclass(frozen=True)
class Table:
    """Rows that were made: of which data set or file, their values by column, and whether the columns are published."""

    name: str
    columns: Mapping[str, Sequence[Any]]
    is_known: bool


@dataclass(frozen=True)
class Need:
    """A column of a table that has to be of a kind; or with `choices` one that has to have these texts."""

    table: str
    column: str
    kind: str
    choices: tuple[str, ...] = ()


class Needs:
    """Reads errors about the rows of some tables."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._values: dict[str, tuple[Table, str]] = {}
        for table in tables:
            for column, values in table.columns.items():
                for text in _texts(values):
                    self._values.setdefault(text, (table, column))

    def of(self, error: BaseException) -> Need | None:
        """What the rows lack most likely; None for an error that is not about them, or about rows that are known."""
        return next(self.all_of(error), None)

    def all_of(self, error: BaseException) -> Iterator[Need]:
        """What the rows may lack, the most likely first: the next is for an error that the one before did not end."""
        # A frame further out may hold a row too, but mostly the innermost one that does was asked for something.
        where = [*raised(error)]
        for each in where:
            found = self._missing(error, each) or self._unfit(error, each) or self._asserted(error, each)
            if found is not None:
                yield found
        if (found := self._about_value(error)) is not None:
            yield found
        # Only in the script's own line: a library's error may be about anything, and a caller's has more of the row.
        own = next((each for each in where if is_users(each.frame.f_code.co_filename)), None)
        if own is not None and isinstance(error, OF_VALUES):
            yield from self._guessed(own)

    def _guessed(self, where: Raised) -> Iterator[Need]:
        """Other kinds for a column whose value an expression works on, where the error does not tell which."""
        for node, _ in origins(where.node, where.frame):
            found = self._column_of(node, where)
            if found is None or is_dictionary(value_of(node, where.frame)) or not _may_have(*found, ""):
                continue
            table, column = found
            kind = type(next(iter(table.columns[column]), None)).__name__
            # Any other value of the row would be as good a guess: only the nearest one is tried.
            kinds = ("label",) if kind == "str" and LABELS.fullmatch(column) else OTHER_KINDS.get(kind, ())
            yield from (Need(table.name, column, other) for other in kinds)
            return

    # columns that are missing

    def _missing(self, error: BaseException, where: Raised) -> Need | None:
        name = _name(error)
        match where.node:
            case ast.Subscript(value=owner, slice=key):
                if isinstance(error, KeyError) and (found := self._choice(error, owner, key, where)) is not None:
                    return found
                asked = value_of(key, where.frame)
                name = asked if isinstance(asked, str) and isinstance(error, KeyError | ValueError) else None
            case ast.Attribute(value=owner) | ast.Call(func=ast.Attribute(value=owner)):
                pass
            case ast.Call(args=[owner, *_]):
                pass
            case _:
                return None
        if name is None or not name.isidentifier() or is_produced(name) or name in NO_COLUMNS:
            return None
        value = value_of(owner, where.frame)
        if value is MISSING and isinstance(where.node, ast.Call | ast.Attribute):
            return None
        return self._column_of_rows(name, value) or self._field(name, owner, value, where)

    def _asserted(self, error: BaseException, where: Raised) -> Need | None:
        """`assert "title" in row`: what an assertion expects among the columns or the keys of a dictionary."""
        tests = (each for each in ast.walk(where.node) if isinstance(error, AssertionError))
        for test in tests:
            match test:
                case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In()], comparators=[owner]):
                    value = value_of(owner, where.frame)
                    if value is not MISSING and is_dictionary(value) and name not in value:
                        return self._column_of_rows(name, value) or self._field(name, owner, value, where)
                case _:
                    pass
        return None

    def _column_of_rows(self, name: str, rows: Any) -> Need | None:
        """A column that rows lack: they are recognized by their class, or by the columns that they have."""
        has = {each for each in _keys(rows) if isinstance(each, str)}
        if name in has or (not ROWS.fullmatch(type(rows).__name__) and not _is_dict_of_rows(rows, has, self._tables)):
            return None
        table = max(self._tables, key=lambda each: len(has & each.columns.keys()), default=None)
        if table is None or table.is_known or name in table.columns:
            return None  # a column that the table has was removed by the script
        # Rows that have none of the columns were made by something else, unless there is only one table.
        is_clear = has & table.columns.keys() or len(self._tables) == 1
        return Need(table.name, name, kind_of_column(name)) if is_clear else None

    def _field(self, name: str, owner: ast.expr, value: Any, where: Raised) -> Need | None:
        """A key that the dictionaries in a column lack: those of a column that holds JSON or dictionaries."""
        if not is_dictionary(value) or any(table.columns.keys() & value.keys() for table in self._tables):
            return None  # a row itself, of which the script has removed the column
        for table, column, loops in self._columns(owner, where, "json"):
            own = next(iter(table.columns[column]), None)
            # Made values are read, not guessed: the column may have been corrected before.
            kind = "json" if isinstance(own, str) else "structs" if loops or is_row(own) else "struct"
            fields = [each for each in _keys(value) if isinstance(each, str)]
            if isinstance(own, str) and not _is_json(own):
                continue
            return Need(table.name, column, " ".join([kind, *dict.fromkeys([*fields, name])]))
        return None

    def _choice(self, error: KeyError, owner: ast.expr, key: ast.expr, where: Raised) -> Need | None:
        """`NUMBERS[row["label"]]`: the column has the keys of the script's own dictionary."""
        known = value_of(owner, where.frame)
        # Not a subclass: a defaultdict or a mapping of the script's own has no missing keys.
        keys: list[Any] = [*known] if type(known) is dict else []
        # A row is asked for a column: its values are no choices.
        is_of_row = any(table.columns.keys() & {*keys} for table in self._tables)
        if not keys or is_of_row or isinstance(key, ast.Constant) or not error.args:
            return None
        for table, column, _ in self._columns(key, where, "parts "):
            if all(isinstance(each, str) for each in keys):
                return Need(table.name, column, "text", tuple(keys))
            if not table.is_known and all(isinstance(each, int) for each in keys) and min(keys) >= 0:
                return Need(table.name, column, f"among {' '.join(map(str, keys))}")
        return None

    # values of another kind

    def _unfit(self, error: BaseException, where: Raised) -> Need | None:
        found = _wanted(error, where)
        if found is None:
            return None
        node, kind = found
        for table, column, loops in self._columns(node, where, kind):
            value = next(iter(table.columns[column]), None)
            if kind.startswith(("parts", "json", "date")) and not isinstance(value, str):
                continue
            # A loop over a text goes over its letters: what was meant is a list.
            if kind.startswith("struct ") and loops and isinstance(value, str):
                return Need(table.name, column, "chat" if TURN & {*kind.split()[1:]} else f"structs {kind[7:]}")
            if kind == "number":
                if not isinstance(value, str):
                    continue
                return Need(table.name, column, "label" if LABELS.fullmatch(column) else "float")
            if kind.startswith("struct ") and TURN & {*kind.split()[1:]}:
                return Need(table.name, column, "chat")
            return Need(table.name, column, kind)
        return None

    def _about_value(self, error: BaseException) -> Need | None:
        """A value that cannot be read as it was expected; it is in the message, or a library was given it."""
        document = getattr(error, "doc", None)
        kind = "json" if document is not None else ""
        found = QUOTED.search(str(error))
        if (dated := NO_DATE.search(str(error))) is not None and isinstance(error, ValueError):
            document, kind = dated["value"], "date %Y-%m-%d"
        if found is not None and isinstance(error, ValueError):
            form, is_whole = found["form"], "int()" in str(error)
            document, kind = found["value"], f"date {form}" if form else "integer" if is_whole else "float"
        elif isinstance(error, SyntaxError | ValueError) and not kind:
            reads = (each for each in raised(error) if each.frame.f_code.co_name == "literal_eval")
            document = next((each.frame.f_locals.get("node_or_string") for each in reads), None)
            kind = "json"
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
            # `os.path.join(folder, row["name"])`: the value is the last part.
            names = (error.filename, os.path.basename(error.filename))
            document, kind = next((each for each in names if each in self._values), None), "image-file"
        at = self._values.get(document) if isinstance(document, str) else None
        return Need(at[0].name, at[1], kind) if at is not None and _may_have(at[0], at[1], kind) else None

    def _columns(self, node: ast.AST, where: Raised, kind: str) -> Iterator[tuple[Table, str, int]]:
        """The columns that an expression takes its value from and that may be of a kind, with the loops between."""
        for each, loops in origins(node, where.frame):
            at = self._column_of(each, where)
            if at is not None and _may_have(*at, kind):
                yield *at, loops

    def _column_of(self, node: ast.AST, where: Raised) -> tuple[Table, str] | None:
        """The column whose value an expression has, or whose name it is asked for."""
        texts = _texts([value_of(node, where.frame)])
        at = next((self._values[text] for text in texts if text in self._values), None)
        if at is None and isinstance(node, ast.Subscript):
            key = value_of(node.slice, where.frame)
            at = next(((table, key) for table in self._tables if isinstance(key, str) and key in table.columns), None)
        return at


def _may_have(table: Table, column: str, kind: str) -> bool:
    """Whether a column may be of a kind; of one that is published, only what its texts hold is made up."""
    is_text = isinstance(next(iter(table.columns[column]), None), str)
    return not table.is_known or (is_text and kind.startswith(FORMS_OF_TEXTS))


def _wanted(error: BaseException, where: Raised) -> tuple[ast.AST, str] | None:
    """The expression whose value is of the wrong kind, and the kind that the code expects."""
    message = str(error)
    match where.node:
        case ast.Subscript(value=owner, slice=key) if isinstance(error, TypeError | IndexError):
            asked = value_of(key, where.frame)
            if isinstance(asked, str):
                return owner, f"struct {asked}"
            cut = _cut(owner, where) if isinstance(error, IndexError) else None
            return cut or ((owner, "text") if "not subscriptable" in message else None)
        case ast.Attribute(value=owner, attr=name) | ast.Call(func=ast.Attribute(value=owner, attr=name)) if isinstance(
            error, AttributeError
        ):
            if "NoneType" in message:
                return _cut(owner, where)
            kind = KIND_OF_ATTRIBUTE.get(name)
            return (owner, kind) if kind is not None and "has no attribute" in message else None
        case ast.Call(func=ast.Attribute(attr="index", value=owner), args=[ast.Constant(value=str(text))]) if (
            "substring" in message
        ):
            return owner, f"parts {text}"
        case ast.Call(args=[given, *_]) if NO_TEXT.search(message):
            return given, "text"
        case _ if "values to unpack" in message:
            return _cut(where.node.value if isinstance(where.node, ast.Assign) else where.node, where)
        case _ if isinstance(error, TypeError | ValueError) and re.search(r"\bstr\b|'str'", message):
            return where.node, "number"
        case _:
            return None


def _cut(node: ast.AST, where: Raised) -> tuple[ast.AST, str] | None:
    """The text that an expression is a part of, and what it has to contain: `text.split("####")`, `re.search(…)`."""
    for each, _ in origins(node, where.frame):
        match each:
            case ast.Call(func=ast.Attribute(attr="split" | "rsplit", value=owner), args=[mark, *_]):
                text = value_of(mark, where.frame)
                return (owner, f"parts {text}") if isinstance(text, str) and text.strip() else None
            case ast.Call(
                func=ast.Attribute(attr="search" | "match" | "findall" | "fullmatch"), args=[pattern, text, *_]
            ):
                fitting = fitting_text(value_of(pattern, where.frame))
                return (text, f"parts {fitting}") if fitting else None
            case ast.Call(func=ast.Attribute(attr="search" | "match" | "findall", value=owner), args=[text]):
                fitting = fitting_text(getattr(value_of(owner, where.frame), "pattern", None))
                return (text, f"parts {fitting}") if fitting else None
            case _:
                pass
    return None


def _name(error: BaseException) -> str | None:
    """The name of the column that an error says is missing."""
    key = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 else None
    if isinstance(key, str) and key.isidentifier():
        return key
    found = NO_COLUMN.search(str(error)) if isinstance(error, KeyError | ValueError | AttributeError) else None
    return found["name"] or found["bare"] or found["other"] or found["attribute"] if found is not None else None


def _keys(rows: Any) -> Iterator[Any]:
    """The columns of rows, without running code of the script."""
    inner = getattr(rows, "data", None) if type(rows).__name__.startswith("Lazy") else rows
    if is_dictionary(inner):
        yield from inner
        return
    named: Any = getattr(rows, "column_names", None) if ROWS.fullmatch(type(rows).__name__) else None
    named = named if named is not None else getattr(rows, "columns", getattr(rows, "index", None))
    if is_dictionary(named):
        yield from (each for names in named.values() for each in names)
    elif named is not None and not callable(named):
        yield from named


def _is_dict_of_rows(rows: Any, has: set[str], tables: Sequence[Table]) -> bool:
    """Whether a dictionary is a row: it has columns of a table, and values that are this table's."""
    if not is_dictionary(rows):
        return False
    return any(
        len(shared := has & table.columns.keys()) > 0 and any(rows[each] in [*table.columns[each]] for each in shared)
        for table in tables
    )


def _is_json(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


def _texts(values: Any) -> Iterator[str]:
    """Texts among values, and in dictionaries and lists of them."""
    for each in values if is_row(values) else ():
        if isinstance(each, str):
            yield each
        elif is_dictionary(each):
            yield from _texts([*each.values()])
        elif is_row(each):
            yield from _texts(each)
