"""The columns and splits that a script reads: from its text and from its arguments, which name them."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Container, Iterator, Mapping, Sequence

from lintrain.knowledge.stand_in_facts import is_produced

NAMING = re.compile(r"(?i)(.*_)?(cols?|columns?|field|key)(_names?)?")
"""Options and parameters whose values are names of columns."""
NAMED = re.compile(r"(?i)(.*_)?(cols?|columns?|field)(_names?)?")
"""Variables and defaults of parameters whose values are names of columns; one with `key` may hold a secret."""
KEEPING = (
    "remove_columns",
    "rename_column",
    "select_columns",
    "sort",
    "cast_column",
    "class_encode_column",
    "unique",
    "groupby",
    "sort_values",
)
RECEIVERS = re.compile(
    r"(?i)(\w+_)?(example|row|batch|sample|item|record|element|data|entry|point|line|inst|instance|dataset|split|df)(s|es)?\d?"
    r"(_\w+)?|x|d|e|ex|b|ds|elem|dp|datum"
)
BLANKS = re.compile(r"\{([a-z_]\w*)\}")
"""What `"…{question}…".format_map(row)` fills in."""
OF_CLASSES = {**dict.fromkeys(("int2str", "str2int", "names", "num_classes"), "class"), "feature": "tags"}
"""What a script asks the feature of a column that holds classes: `rows.features["genre"].int2str`."""
COMPLETIONS = "completions"
OF_REWARDS = frozenset({COMPLETIONS, "prompts", "completion_ids", "prompt_ids", "trainer_state", "self"})
"""What TRL's trainers pass to a reward function; its other parameters are columns."""
TURN = frozenset({"role", "content"})
SPLITS = re.compile(r"(?i)(train|test|val|valid|validation|dev|eval)([_.]\w+)*")
NO_COLUMNS = frozenset({"train", "test", "validation", "valid", "val", "dev", "eval", "unsupervised"})


class Read:
    """What a text reads of rows: names of columns, and of splits."""

    def __init__(self) -> None:
        self.columns: dict[str, None] = {}
        self.splits: dict[str, None] = {}
        self.chats = set[str]()
        self.classes: dict[str, str] = {}
        self.fields: dict[str, dict[str, None]] = {}
        self.inner: dict[str, dict[str, None]] = {}
        self.choices: dict[str, dict[str, None]] = {}
        self.lines = dict[str, int]()
        self.loaded: dict[str, set[str]] = {}
        self.readers: dict[str, set[str]] = {}

    def add_column(self, name: str, line: int = 0, reader: str = "") -> None:
        """A name that rows are asked for, unless tokenizers and models make it; `reader` is the variable asked."""
        self.readers.setdefault(name, set()).add(reader)
        if name and len(name) < 60 and not is_produced(name) and name not in NO_COLUMNS and not name.startswith("__"):
            self.columns.setdefault(name)
            self.lines[name] = min(line, self.lines.get(name, line))

    def of_others(self, path: str) -> set[str]:
        """Columns that are read only from variables which hold other data sets than that of a path."""
        others = {name for name, paths in self.loaded.items() if path not in paths}
        if others == self.loaded.keys():
            return set()  # which variable holds this one is not known
        return {name for name, readers in self.readers.items() if readers <= others}


@functools.cache
def read_of(script: str) -> Read:
    """The columns and splits that a script's text reads; nothing for a text that is no Python."""
    found = Read()
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError, RecursionError):
        return found
    written = dict[str, int]()
    for name, path in _names_of_loaded(tree):
        found.loaded.setdefault(name, set()).add(path)
    fills = any(isinstance(node, ast.Attribute) and node.attr == "format_map" for node in ast.walk(tree))
    for node in ast.walk(tree):
        _take(node, found, written)
        _take_fields(node, found)
        _take_choices(node, found)
        if fills and isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in BLANKS.findall(node.value):
                found.add_column(name)
    for name, line in _read_by_constants(tree, found.loaded):
        found.add_column(name, line)
    for name, line in written.items():
        if line < found.lines.get(name, 0):
            del found.columns[name]  # the script makes it before it reads it
    for name in _named_in_arguments(sys.argv):
        found.add_column(name)
    return found


def _take(node: ast.AST, found: Read, written: dict[str, int]) -> None:
    match node:
        case ast.FunctionDef(args=arguments) if COMPLETIONS in (names := [each.arg for each in arguments.args]):
            for name in names[: len(names) - len(arguments.defaults)]:
                if name not in OF_REWARDS:
                    found.add_column(name)
        case ast.Attribute(attr=attribute, value=ast.Subscript(value=ast.Attribute(attr="features"), slice=key)):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and attribute in OF_CLASSES:
                found.add_column(key.value, node.lineno)
                found.classes[key.value] = OF_CLASSES[attribute]
        case ast.Subscript(slice=ast.Constant(value=str(name))) if name in TURN:
            _take_chat(node.value, found)
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name)), ctx=context):
            if SPLITS.fullmatch(name):
                found.splits.setdefault(name)
            elif not _is_row(value, found.loaded):
                pass
            elif isinstance(context, ast.Store):
                written[name] = min(node.lineno, written.get(name, node.lineno))
            else:
                found.add_column(name, node.lineno, _root(value))
        case ast.Subscript(value=value, slice=ast.List(elts=names)) if _is_row(value, found.loaded):
            for name in (text for each in names for text in _texts(each)):
                found.add_column(name, node.lineno, _root(value))
        case ast.Call(
            func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value=str(option)), *_], keywords=given
        ):
            if _names_columns(option.replace("-", "_")):
                _take_default(given, found)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Name(id="field"), keywords=given)) if (
            _names_columns(name) and "remove" not in name
        ):
            _take_default(given, found)
        case ast.Call(func=ast.Attribute(attr="get", value=value), args=[ast.Constant(value=str(name)), *_]):
            if _is_row(value, found.loaded):
                found.add_column(name)
        case ast.Call(func=ast.Attribute(attr=method), args=arguments, keywords=keywords):
            _take_arguments(method, arguments, found)
            _take_keywords(keywords, found)
        case ast.Call(keywords=keywords):
            _take_keywords(keywords, found)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(value))) if _names_columns(name):
            found.add_column(value)
        case _:
            pass


def _take_arguments(method: str, arguments: Sequence[ast.expr], found: Read) -> None:
    """The columns that a method of rows is given."""
    if method == "apply_chat_template" and arguments:
        _take_chat(arguments[0], found)
    if method in KEEPING and arguments:
        for name in _texts(arguments[0]):
            found.add_column(name)
    if method == "rename_columns" and arguments and isinstance(arguments[0], ast.Dict):
        for name in (each for key in arguments[0].keys if key is not None for each in _texts(key)):
            found.add_column(name)


def _read_by_constants(tree: ast.AST, loaded: Container[str]) -> Iterator[tuple[str, int]]:
    """Columns that the text names once, in a variable or a default: `TEXT = "content"`, then `row[TEXT]`."""
    constants = dict[str, str]()
    read = dict[str, int]()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                constants[name] = text
            case ast.arguments():
                constants.update(_texts_by_default(node))
            case ast.Subscript(value=value, slice=ast.Name(id=name)) if _is_row(value, loaded):
                read.setdefault(name, node.lineno)
            case _:
                pass
    for name, text in constants.items():
        # A name with `file` leads to a path, and a text with spaces is a prompt.
        is_named = NAMED.fullmatch(name) is not None and "file" not in name.lower()
        if text.isidentifier() and (name in read or is_named):
            yield text, read.get(name, 0)


def _texts_by_default(given: ast.arguments) -> Iterator[tuple[str, str]]:
    """The parameters of a function that are a text by default."""
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(positional), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    for each, value in pairs:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield each.arg, value.value


def _take_default(given: Sequence[ast.keyword], found: Read) -> None:
    """The column that an option names by default."""
    for keyword in given:
        if (
            keyword.arg == "default"
            and isinstance(keyword.value, ast.Constant)
            and isinstance(keyword.value.value, str)
        ):
            found.add_column(keyword.value.value)


def _take_fields(node: ast.AST, found: Read) -> None:
    """The keys of a column, `example["chosen"]["text"]`, and of its items: `for each in example["completions"]: …`."""
    match node:
        case ast.Subscript(
            value=ast.Subscript(value=row, slice=ast.Constant(value=str(column))), slice=ast.Constant(value=str(key))
        ) if _is_row(row, found.loaded) and not SPLITS.fullmatch(column):
            found.inner.setdefault(column, {}).setdefault(key)
        case _:
            pass
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.For):
        pairs = [(node.target, node.iter)]
    elif isinstance(node, ast.ListComp | ast.GeneratorExp):
        pairs = [(each.target, each.iter) for each in node.generators]
    for target, items in pairs:
        match target, items:
            case ast.Name(id=item), ast.Subscript(value=row, slice=ast.Constant(value=str(column))) if _is_row(
                row, found.loaded
            ):
                keys = dict.fromkeys(_keys_of(item, node))
                if keys:
                    found.fields.setdefault(column, {}).update(keys)
            case _:
                pass


def _take_choices(node: ast.AST, found: Read) -> None:
    """The texts that a column has: `df["label"] == "spam"`, `df["label"].map({"ham": 0, "spam": 1})`."""
    match node:
        case ast.Compare(left=ast.Subscript(value=row, slice=ast.Constant(value=str(column))), comparators=[other]):
            texts = [*_texts(other)]
        case ast.Call(
            func=ast.Attribute(
                attr="map" | "replace" | "isin", value=ast.Subscript(value=row, slice=ast.Constant(value=str(column)))
            ),
            args=[given, *_],
        ):
            keys = given.keys if isinstance(given, ast.Dict) else [given]
            texts = [text for key in keys if key is not None for text in _texts(key)]
        case _:
            return
    if _is_row(row, found.loaded) and any(texts):
        found.choices.setdefault(column, {}).update(dict.fromkeys(each for each in texts if each))


def _keys_of(item: str, node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name == item:
                yield key
            case ast.Call(
                func=ast.Attribute(attr="get", value=ast.Name(id=name)), args=[ast.Constant(value=str(key)), *_]
            ) if name == item:
                yield key
            case _:
                pass


def _take_chat(value: ast.expr, found: Read) -> None:
    """A column whose turns are read: `example["messages"][0]["role"]`."""
    while isinstance(value, ast.Subscript):
        if (
            isinstance(value.slice, ast.Constant)
            and isinstance(value.slice.value, str)
            and _is_row(value.value, found.loaded)
        ):
            found.add_column(value.slice.value)
            found.chats.add(value.slice.value)
        value = value.value


def _take_keywords(keywords: Sequence[ast.keyword], found: Read) -> None:
    for keyword in keywords:
        name = keyword.arg or ""
        if name == "split":
            for split in _texts(keyword.value):
                for part in split.split("+"):
                    found.splits.setdefault(part.partition("[")[0])
        elif _names_columns(name) or name == "remove_columns":
            for column in _texts(keyword.value):
                found.add_column(column)


@functools.cache
def columns_of_data_set(script: str, name: str) -> tuple[str, ...]:
    """The columns that a table in the script's text has for a data set: `{"squad": ("context", "question")}`."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name and isinstance(value, ast.Tuple):
                    return tuple(each for each in _texts(value) if each)
    return ()


def structs_of(read: Read, kinds: Mapping[str, str]) -> dict[str, str]:
    """The columns of texts whose values are read by keys: a dictionary each."""
    inner = ((name, keys) for name, keys in read.inner.items() if name not in read.chats and not TURN & keys.keys())
    return {name: f"struct {' '.join(keys)}" for name, keys in inner if kinds.get(name) in ("text", "label", "texts")}


def _names_columns(name: str) -> bool:
    return NAMING.fullmatch(name.lstrip("-_")) is not None and "file" not in name


def _root(value: ast.expr) -> str:
    """The variable that a subscript begins with: `rows` of `rows["train"][0]`."""
    while isinstance(value, ast.Subscript | ast.Attribute):
        value = value.value
    return value.id if isinstance(value, ast.Name) else ""


def _names_of_loaded(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that are assigned what `load_dataset` returns, or its rows after another call; with its path."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                while isinstance(value, ast.Subscript | ast.Attribute | ast.Call):
                    called = getattr(value, "func", None)
                    if getattr(called, "id", getattr(called, "attr", "")) in LOADS:
                        given = value.args[:1] if isinstance(value, ast.Call) else []
                        yield name, next((text for each in given for text in _texts(each)), "")
                        break
                    value = value.func if isinstance(value, ast.Call) else value.value
            case _:
                pass


LOADS = ("load_dataset", "load_from_disk")


def _is_row(value: ast.expr, loaded: Container[str]) -> bool:
    """Whether a subscript's owner is a row or a batch of rows: by its name, or as it is read from a line."""
    match value:
        case ast.Name(id=name):
            return name in loaded or RECEIVERS.fullmatch(name) is not None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="json"), attr="loads")):
            return True
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return SPLITS.fullmatch(name) is not None
        case ast.Subscript(value=inner):
            return _is_row(inner, loaded)
        case _:
            return False


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for each in elements:
                yield from _texts(each)
        case _:
            pass


def _named_in_arguments(words: Sequence[str]) -> Iterator[str]:
    """Values of options such as `--text_column article` and `--dataset_field query response`."""
    names_columns = False
    for word in words:
        name, equals, given = word.partition("=")
        if not word.startswith("--"):
            yield from word.split(",") if names_columns else ()
            continue
        # `--remove_unused_columns` is a switch.
        names_columns = "remove" not in name and _names_columns(name.replace("-", "_"))
        if equals:
            yield from given.split(",") if names_columns else ()
            names_columns = False
