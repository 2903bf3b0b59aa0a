"""Data files that are not here: a table or a list of rows with the columns that the script reads."""

from __future__ import annotations

import builtins
import functools
import inspect
import io
import itertools
import json
import linecache
import os
import pathlib
import re
import zlib
from collections.abc import Callable
from types import FrameType
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.knowledge.stand_in_facts import kind_of_column
from lintrain.runtime.child.frames import START_FOLDER, callers_frame, is_called_by_user, is_users, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row, library
from lintrain.runtime.stand_ins.array_files import ArrayFiles, bytes_of_pickle
from lintrain.runtime.stand_ins.columns import TURN, read_of, structs_of
from lintrain.runtime.stand_ins.folders import Folders
from lintrain.runtime.stand_ins.given_rows import rows_of_file
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.runtime.stand_ins.mappings import setting, settings_of_file
from lintrain.runtime.stand_ins.picture_files import PICTURE, picture_file
from lintrain.runtime.stand_ins.rows import TAGS, Rows
from lintrain.runtime.stand_ins.setting_trees import settings_tree

FEW = 64
TOKENS = 200_000
PICKLED = (".pkl", ".pickle", ".p")
READERS = ("read_csv", "read_json", "read_table", "read_excel", "read_parquet", "read_pickle", "read_feather")
NAMES_CLASSES = re.compile(r"id2label|label2id|class_?names|labels?\.json")
CLASSES = 20
OF_WORDS, OF_ENTITIES = re.compile(r"(?i)words?|tokens?"), re.compile(r"(?i)(ner_?)?(tag|label|entity)s?")
"""Columns of a table that has a word and its class in each row."""
PLAIN = ("text", "float", "integer", "label", "chat", "texts", "boolean", "integers")
"""Kinds of columns that a text file can hold."""


def install(ledger: Ledger, hooks: AfterImport, folders: Folders, arrays: ArrayFiles) -> None:
    """Answer the readers of tables, of arrays of numbers, and `open` in the script's own code."""
    hooks.add("pandas", lambda module: _answer_tables(ledger, module))
    hooks.add("numpy", lambda module: _answer_arrays(ledger, module))
    hooks.add("omegaconf.omegaconf", lambda module: _load_settings(ledger, module.OmegaConf))
    builtins.open = _opening(ledger, folders, arrays, builtins.open)
    _open_paths(ledger)


def _columns(ledger: Ledger, name: str) -> dict[str, list[Any]]:
    """The columns that the script reads, with few rows."""
    if given := ledger.session.stand_in_data:
        return dict(rows_of_file(given).to_dict("list"))
    read = read_of(ledger.script)
    kinds = {each: kind if (kind := kind_of_column(each)) in PLAIN else "text" for each in read.columns}
    kinds |= dict.fromkeys((each for each in read.choices if each in kinds), "text")
    # A row for each word, as in tables of named entities.
    has_words = any(kind == "text" and OF_WORDS.fullmatch(each) for each, kind in kinds.items())
    tagged = [each for each in kinds if OF_ENTITIES.fullmatch(each)] if has_words else []
    kinds |= dict.fromkeys(tagged, "text")
    if re.search(r"\.jsonl?$", name) or "." not in os.path.basename(name):
        fields = {each: inner for each, inner in read.fields.items() if each in kinds and not TURN & inner.keys()}
        kinds |= structs_of(read, kinds)
        kinds |= {each: f"structs {' '.join(inner)}" for each, inner in fields.items()}
    kinds |= ledger.corrections.kinds(name)
    rows = Rows(
        kinds or {"text": "text", "label": "label"},
        {
            **dict.fromkeys(tagged, TAGS),
            **{each: [*texts] for each, texts in read.choices.items()},
            **ledger.corrections.choices,
        },
        ledger.session.folder("hub"),
        zlib.crc32(name.encode()),
    )
    columns = rows.columns(FEW)
    if (several := max(FEW, ledger.corrections.rows)) > FEW:
        columns = {each: [values[at % FEW] for at in range(several)] for each, values in columns.items()}
    ledger.corrections.remember(name, columns, several, is_known=False)
    return columns


def _note(ledger: Ledger, name: str, what: str) -> None:
    ledger.replace(StandInKind.DATA, os.path.basename(name), what)


def _note_rows(ledger: Ledger, name: str, columns: dict[Any, Any]) -> None:
    if given := ledger.session.stand_in_data:
        _note(ledger, name, f"the rows of {os.path.basename(given)}")
        return
    count = max(map(len, columns.values()), default=0)
    what = f"{count} rows with the columns that the script reads: {', '.join(map(str, columns))}"
    ledger.renew(StandInKind.DATA, os.path.basename(name), what)


def _answer_tables(ledger: Ledger, pandas: Any) -> None:
    for name in READERS:
        if hasattr(pandas, name):
            setattr(pandas, name, _reading(ledger, pandas, getattr(pandas, name)))


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _reading(ledger: Ledger, pandas: Any, read: Callable[..., Any]) -> Any:
    @functools.wraps(read)
    def reading(path: Any, *args: Any, **kwargs: Any) -> Any:
        is_name = _is_path(path)
        # An open file or a buffer holds real rows.
        if not is_name or (is_there(path) and "://" not in str(path)):
            return read(path, *args, **kwargs)
        with ledger.making(str(path)):
            columns = _columns(ledger, str(path))
        # With `names=` the file has no header, and the script reads these columns whatever the stand-in calls them.
        names = kwargs.get("names")
        if is_row(names):
            others = iter([values for each, values in columns.items() if each not in names])
            columns = {each: columns.get(each) or next(others, [*range(FEW)]) for each in names}
        _note_rows(ledger, str(path), columns)
        return pandas.DataFrame(columns)

    return reading


def _answer_arrays(ledger: Ledger, numpy: Any) -> None:
    """`np.memmap` of tokens, which a script of its own has prepared."""
    original = numpy.memmap

    class StandInMemmap(original):  # type: ignore[misc, valid-type]
        def __new__(cls, filename: Any, dtype: Any = numpy.uint8, mode: str = "r+", **kwargs: Any) -> Any:
            # A map that is written is the script's own result, not data that it expects.
            if mode != "r" or not _is_path(filename) or is_there(filename):
                return original.__new__(original, filename, dtype=dtype, mode=mode, **kwargs)
            _note(ledger, str(filename), f"{TOKENS} numbers below 64")
            shape = kwargs.get("shape")
            count = TOKENS if shape is None else int(numpy.prod(shape))
            made = numpy.random.default_rng(0).integers(0, 64, count).astype(dtype)
            return made if shape is None else made.reshape(shape)

    numpy.memmap = StandInMemmap


def _opening(ledger: Ledger, folders: Folders, arrays: ArrayFiles, original: Callable[..., Any]) -> Any:
    """`open` that finds a file of rows where the script reads one that is not here."""

    @functools.wraps(original)
    def opening(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return original(file, mode, *args, **kwargs)
        except FileNotFoundError:
            # Only after the real `open` has failed: a file that exists is never replaced.
            if "r" in mode and (made := folders.path(file)) is not None:
                return original(made, mode, *args, **kwargs)
            is_picture = "b" in mode and PICTURE.search(str(file)) is not None and is_called_by_user("PIL", "imageio")
            if is_picture and (picture := picture_file(ledger, str(file))) is not None:
                return original(picture, mode, *args, **kwargs)
            caller = callers_frame(above=1)
            if "r" not in mode or caller is None or not is_users(caller.f_code.co_filename):
                raise
            if "b" in mode and str(file).endswith(PICKLED):
                return io.BytesIO(bytes_of_pickle(arrays, str(file)))
            path = _for_missing(ledger, str(file), caller)
            if path is None:
                raise
            return original(path, mode, *args, **kwargs)

    return opening


def _for_missing(ledger: Ledger, name: str, caller: FrameType | None) -> str | None:
    """The file that is read in place of one that is not here; None where nothing tells what it holds."""
    if (found := _of_project(ledger, name)) is not None:
        return found
    made = _written_settings(ledger, name, caller) if caller is not None else None
    return made or written(ledger, name)


FOLDERS_ABOVE = 3


def _of_project(ledger: Ledger, name: str) -> str | None:
    """The file of a relative name in a folder above the script's: it was written to be started there."""
    if os.path.isabs(name):
        return None
    script = pathlib.Path(START_FOLDER, ledger.session.script).parent
    for folder in (script, *itertools.islice(script.parents, FOLDERS_ABOVE)):
        # Not `exists`, which the stand-ins of folders answer.
        if is_there(path := os.path.normpath(os.path.join(folder, name))):
            _note(ledger, name, f"the file of that name in {os.path.basename(folder) or folder}")
            return path
    return None


def _open_paths(ledger: Ledger) -> None:
    """`Path(name).open()` and `read_text()`, as `open`."""
    owner: Any = pathlib.Path
    original = owner.open

    @functools.wraps(original)
    def opened(self: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, mode, *args, **kwargs)
        except FileNotFoundError:
            is_read = "r" in mode and is_called_by_user("pathlib")
            made = _for_missing(ledger, str(self), users_frame()) if is_read else None
            if made is None:
                raise
            return original(type(self)(made), mode, *args, **kwargs)

    owner.open = opened


def _load_settings(ledger: Ledger, owner: Any) -> None:
    """`OmegaConf.load`, which opens its file by `io.open`."""
    original = owner.load

    @functools.wraps(original)
    def load(file_: Any) -> Any:
        is_missing = _is_path(file_) and not is_there(file_) and is_called_by_user("omegaconf")
        made = _for_missing(ledger, str(file_), users_frame()) if is_missing else None
        return original(made or file_)

    owner.load = staticmethod(load)


def written(ledger: Ledger, name: str) -> str | None:
    """A file of rows in the form that a name's ending tells; None for other files."""
    is_plain = "." not in os.path.basename(name) and "json.load" in ledger.script
    ending = "json" if is_plain else name.rpartition(".")[2].lower()
    if ending in OF_TAGS and READS_TAGS.search(ledger.script) and SPLITS_LINES.search(ledger.script):
        return _written_tags(ledger, name)
    if ending not in ("json", "jsonl", "csv", "tsv", *OF_TEXT):
        return None
    if NAMES_CLASSES.search(name) and ending == "json":
        return _class_names(ledger, name)
    with ledger.making(name):
        columns = _columns(ledger, name)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    path = os.path.join(ledger.session.folder("hub"), f"{zlib.crc32(name.encode())}.{ending}")
    with builtins.open(path, "w", encoding="utf-8", newline="") as opened:
        opened.write(_as_text(ending, columns, rows, ledger.script))
    _note_rows(ledger, name, columns)
    return path


OF_TEXT = ("txt", "tex", "md", "rst")
OF_TAGS = ("txt", "conll", "bio", "iob", "iob2", "bmes", "tsv")
READS_TAGS = re.compile(r"(?i)conll|\bBIO\b|[\"'][BI]-|startswith\([\"']-DOCSTART")
SPLITS_LINES = re.compile(r"(line|row)\w*(\.r?strip\([^)]*\))?\.r?split\(")
TAG = re.compile(r"[\"']([BI]-\w+)[\"']")
SENTENCES = 32


def _written_tags(ledger: Ledger, name: str) -> str:
    """A file with a word and its tag in each line, and an empty line after each sentence."""
    tags = ["O", *(dict.fromkeys(TAG.findall(ledger.script)) or ("B-PER", "I-PER", "B-LOC", "I-LOC"))]
    between = "\t" if re.search(r"split\([\"']\\t", ledger.script) else " "
    # A script that asks for the fourth column reads the form of CoNLL 2003: word, part of speech, chunk, tag.
    inner = ["NN", "B-NP"] if re.search(r"\[3\]", ledger.script) else []
    # No features of `datasets` are needed for lines of text, only the words.
    rows = Rows({"words": "texts"}, {}, "", zlib.crc32(name.encode()))
    with ledger.making(name):
        sentences: list[list[str]] = rows.columns(SENTENCES)["words"]
    path = os.path.join(ledger.session.folder("hub"), f"{zlib.crc32(name.encode())}.{name.rpartition('.')[2]}")
    with builtins.open(path, "w", encoding="utf-8") as opened:
        for words in sentences:
            lines = (between.join([word, *inner, tags[at % len(tags)]]) for at, word in enumerate(words))
            opened.write("\n".join(lines) + "\n\n")
    _note(ledger, name, f"{SENTENCES} sentences with a word and its tag in each line")
    return path


SETTINGS = (".yaml", ".yml")
READS_SETTINGS = re.compile(r"yaml\.\w*load|YAML\(|OmegaConf\.load|toml\.load")


def _written_settings(ledger: Ledger, name: str, caller: FrameType) -> str | None:
    """A file of settings, where the line that opens it reads one object and no rows; None for other files."""
    if name.endswith(SETTINGS) or ("." not in os.path.basename(name) and READS_SETTINGS.search(_function(caller))):
        found: Any = settings_tree(ledger.script, functools.partial(_setting, ledger))
    else:
        is_json = name.endswith(".json") and not NAMES_CLASSES.search(name)
        found = settings_of_file(caller, ledger.script) if is_json else None
    if found is None:
        return None
    # A YAML file may have JSON in it.
    path = os.path.join(ledger.session.folder("hub"), f"{zlib.crc32(name.encode())}.json")
    with builtins.open(path, "w", encoding="utf-8") as opened:
        json.dump(found, opened)
    _note(ledger, name, f"an object with the keys that the script reads: {', '.join(found) or 'none'}")
    return path


def _setting(ledger: Ledger, name: str) -> Any:
    """The value of a setting: one that an error has shown to be known to the script, else one by its name."""
    corrections = ledger.corrections
    made = corrections.arguments.get(name) or setting(name, ledger.script)
    if isinstance(made, str):
        corrections.made_settings.add(name)
        corrections.made_arguments.setdefault(name, made)
    return made


def _function(caller: FrameType) -> str:
    """The text of the function that a frame runs, or of its module."""
    lines = linecache.getlines(caller.f_code.co_filename)
    if caller.f_code.co_name == "<module>":
        return "".join(lines[caller.f_lineno - 1 : caller.f_lineno + 2])
    return "".join(inspect.getblock(lines[caller.f_code.co_firstlineno - 1 :]))


def _class_names(ledger: Ledger, name: str) -> str:
    """A file with the names of classes by their numbers, or the other way round if its name says so."""
    names = {str(number): f"class {number}" for number in range(CLASSES)}
    found: dict[str, Any] = {each: int(key) for key, each in names.items()} if "label2id" in name else dict(names)
    path = os.path.join(ledger.session.folder("hub"), f"{zlib.crc32(name.encode())}.json")
    with builtins.open(path, "w", encoding="utf-8") as opened:
        json.dump(found, opened)
    _note(ledger, name, f"the names of {CLASSES} classes")
    return path


BETWEEN = re.compile(r"""\b(?:delimiter|sep)\s*=\s*["'](\\t|;|\|)["']""")
"""What a script's text says that its tables have between columns, in place of a comma."""


def _as_text(ending: str, columns: dict[str, list[Any]], rows: list[dict[str, Any]], script: str) -> str:
    if ending == "json":
        return json.dumps(rows)
    if ending == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows)
    if ending in OF_TEXT:
        texts = next((values for values in columns.values() if isinstance(values[0], str)), ())
        return "".join(f"{each}\n" for each in texts)
    named = BETWEEN.search(script)
    between = "\t" if ending != "csv" or (named and named[1] == "\\t") else named[1] if named else ","
    return str(library("pandas").DataFrame(columns).to_csv(index=False, sep=between))
