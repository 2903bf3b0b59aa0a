"""Values to compare, as `--try learning_rate=1e-5,5e-5` names them, and where a script gives the setting."""

from __future__ import annotations

import ast
import difflib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache

from lintrain.knowledge.tables import history_of
from lintrain.runtime.parent.entry import Entry
from lintrain.source.reading import load_bytes
from lintrain.startup.lazy_dataclass import dataclass

ALIASES = {
    "learning_rate": ("lr",),
    "lr": ("learning_rate",),
    "batch_size": ("per_device_train_batch_size",),
    "per_device_train_batch_size": ("batch_size",),
}
"""Other names of a setting, looked for where a script has no setting of the given name."""
PARSERS = ("HfArgumentParser", "TrlParser", "LightningCLI")
"""They make an option of each field of a class, those of training arguments of a library too."""
OPTIMIZERS = ("Adam", "AdamW", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "SGD")
OF_ROWS = ("map", "filter")
"""Methods of data sets, whose `batch_size` is that of no training."""
MOST_NAMES = 3
MOST_RUNS = 24
BETWEEN = ", "
"""Between the values of several settings in one run."""
Edit = tuple[tuple[int, int], tuple[int, int], str]
"""Start, end and the new text."""
PARTS = re.compile(r"[^,\[({]+(?:\[[^\]]*\]|\([^)]*\)|\{[^}]*\})?|\[[^\]]*\]|\([^)]*\)")


class NoTrialError(ValueError):
    """What cannot be tried; the text says why, as text after the option."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a script's text; `is_literal`: it is a value, and not computed from others."""

    start: tuple[int, int]
    end: tuple[int, int]
    is_literal: bool = True


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that has several values, and how the script gets one: as an `option` or in its text.

    `missing` are the ends of calls of training arguments that lack it, where it is added.
    """

    name: str
    values: tuple[str, ...]
    option: str = ""
    text: str = ""
    spans: tuple[Span, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()

    def arguments(self, value: str) -> tuple[str, ...]:
        """What follows the arguments of the script."""
        return (self.option, value) if self.option else ()

    def text_with(self, value: str) -> str | None:
        """The script with another value; None where an option gives it."""
        return None if self.option else _edited(self.text, self.edits(value))

    def edits(self, value: str) -> list[Edit]:
        """What changes in the script's text."""
        code = _code(value)
        return [
            *((span.start, span.end, code) for span in self.spans),
            *((end, end, f", {self.name}={code}") for end in self.missing),
        ]

    @property
    def where(self) -> str:
        """How it is given, in words."""
        if self.option:
            return f"the option `{self.option}`"
        lines = sorted({span.start[0] for span in self.spans} or {end[0] for end in self.missing})
        return f"`{self.name}` in line{'s' * (len(lines) != 1)} {', '.join(map(str, lines))}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Several settings at once: each value of one with each of the others."""

    settings: tuple[Setting, ...]

    @property
    def name(self) -> str:
        """The names of the settings."""
        return " and ".join(setting.name for setting in self.settings)

    @property
    def values(self) -> tuple[str, ...]:
        """The values of each run, in the order of the settings."""
        return tuple(map(BETWEEN.join, itertools.product(*(setting.values for setting in self.settings))))

    def arguments(self, value: str) -> tuple[str, ...]:
        """What follows the arguments of the script."""
        return tuple(word for setting, each in self._pairs(value) for word in setting.arguments(each))

    def text_with(self, value: str) -> str | None:
        """The script with other values; None where options give all of them."""
        written = [(setting, each) for setting, each in self._pairs(value) if not setting.option]
        edits = [edit for setting, each in written for edit in setting.edits(each)]
        return _edited(written[0][0].text, edits) if written else None

    @property
    def where(self) -> str:
        """How they are given, in words."""
        return " and ".join(setting.where for setting in self.settings)

    def _pairs(self, value: str) -> Iterator[tuple[Setting, str]]:
        return zip(self.settings, value.split(BETWEEN), strict=True)


def _edited(text: str, edits: Iterable[Edit]) -> str:
    lines = text.encode().splitlines(keepends=True)
    # From the end of the text on: an edit shifts what comes after it on its line.
    for start, end, new in sorted(edits, reverse=True):
        before, after = lines[start[0] - 1][: start[1]], lines[end[0] - 1][end[1] :]
        # A value over three lines becomes one: empty lines keep the numbers of all lines below, which reports show.
        gap = b"\n" * (end[0] - start[0]) if start[0] != end[0] else b""
        lines[start[0] - 1 : end[0]] = [before + new.encode() + after, *([gap] if gap else [])]
    return b"".join(lines).decode()


def _code(value: str) -> str:
    """A value as code: itself where it is a literal of Python, else a text."""
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return repr(value)
    return value


def setting_of(given: Sequence[str], entry: Entry) -> Setting | Grid:
    """The settings of a script that `--try` names; raises NoTrialError."""
    found = tuple(_setting_of(each, entry) for each in given)
    runs = math.prod(len(setting.values) for setting in found)
    if runs > MOST_RUNS:
        raise NoTrialError(f"--try: {runs} runs, at most {MOST_RUNS} are compared; name fewer values")
    return found[0] if len(found) == 1 else Grid(found)


def _setting_of(given: str, entry: Entry) -> Setting:
    if entry.is_notebook or entry.module is not None:
        raise NoTrialError(f"--try {given}: values are tried in a script, not in a notebook or a module")
    try:
        return read_trial(given, load_bytes(str(entry.script)).decode("utf-8", "replace"), str(entry.script))
    except NoTrialError as error:
        raise NoTrialError(f"--try {error}") from error


def read_trial(given: str, text: str, file: str) -> Setting:
    """The setting that `NAME=VALUE,VALUE` names, in the text of a script; raises NoTrialError."""
    name, equals, rest = given.partition("=")
    values = tuple(value.strip() for value in PARTS.findall(rest) if value.strip())
    if not equals or len(values) < 2:
        raise NoTrialError(f"{given}: expected a name and at least two values, as `learning_rate=1e-5,5e-5`")
    name = name.strip().lstrip("-").replace("-", "_")
    try:
        found = _Found(ast.parse(text))
    except SyntaxError as error:
        raise NoTrialError(f"{given}: {file} cannot be read: {error.msg}") from error
    for known in (name, *ALIASES.get(name, ())):
        if (setting := found.setting(known, values, text)) is not None:
            return setting
    near = difflib.get_close_matches(name, sorted(found.names), n=MOST_NAMES, cutoff=0.5)
    hint = f"; names that are near: {', '.join(near)}" if near else ""
    raise NoTrialError(f"{name}: {file} has no option, argument or name of this kind{hint}")


@dataclass(eq=False)
class _Found:
    """The settings of a script by name."""

    tree: ast.Module
    options: dict[str, str] = field(default_factory=dict[str, str])
    spans: dict[str, list[Span]] = field(default_factory=dict[str, "list[Span]"])
    arguments: list[ast.Call] = field(default_factory=list[ast.Call])
    optimizers: list[ast.Call] = field(default_factory=list[ast.Call])
    parses_classes: bool = False

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            for name, value in _given(node):
                span = Span(*_ends(value), is_literal=_is_literal(value))
                self.spans.setdefault(name, []).append(span)
            if isinstance(node, ast.Call):
                self._take(node)

    def _take(self, call: ast.Call) -> None:
        called = _last_name(call.func)
        self.parses_classes |= called in PARSERS
        if called.endswith("TrainingArguments"):
            self.arguments.append(call)
        if called in OPTIMIZERS:
            self.optimizers.append(call)
        if called in ("add_argument", "option"):
            words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            for word in words:
                if word.startswith("-"):
                    self.options[word.lstrip("-").replace("-", "_")] = word

    @property
    def names(self) -> set[str]:
        """Everything that could be tried."""
        return {*self.options, *self.spans, *(_fields() if self.arguments or self.parses_classes else ())}

    def setting(self, name: str, values: tuple[str, ...], text: str) -> Setting | None:
        """One by its name, or None."""
        if name in self.options:
            return Setting(name, values, option=self.options[name])
        spans = self.spans.get(name, [])
        # `lr = 1e-3` and `Adam(lr=lr)`: the literal is changed, and the name keeps passing it on.
        chosen = [span for span in spans if span.is_literal] or spans
        if chosen:
            return Setting(name, values, text=text, spans=tuple(chosen))
        if self.parses_classes and _is_known(name):
            return Setting(name, values, option=f"--{name}")
        calls = self.optimizers if name == "lr" else self.arguments if _is_known(name) else []
        # Not where arguments come from a dictionary: the setting may be in it, and would then be given twice.
        ends = (_end_of_arguments(call) for call in calls if not _spreads(call))
        missing = tuple(end for end in ends if end is not None)
        return Setting(name, values, text=text, missing=missing) if missing else None


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a part of the text gives a value to."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), value=ast.expr() as value):
            yield name, value
        case ast.Call(func=function, keywords=keywords) if _last_name(function) not in OF_ROWS:
            yield from ((each.arg, each.value) for each in keywords if each.arg)
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            yield from ((key.value, value) for key, value in pairs if _is_text(key))  # type: ignore[union-attr]
        case ast.arguments(args=args, defaults=defaults, kwonlyargs=only, kw_defaults=of_only):
            named = list(zip(args[len(args) - len(defaults) :], defaults, strict=True))
            named += [(arg, value) for arg, value in zip(only, of_only, strict=True) if value is not None]
            yield from ((arg.arg, value) for arg, value in named)
        case _:
            pass


def _is_text(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _is_literal(value: ast.expr) -> bool:
    parts = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Tuple, ast.List, ast.expr_context)
    return all(isinstance(node, parts) for node in ast.walk(value))


def _ends(value: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    end = (value.end_lineno or value.lineno, value.end_col_offset or value.col_offset)
    return (value.lineno, value.col_offset), end


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _spreads(call: ast.Call) -> bool:
    return any(each.arg is None for each in call.keywords)


def _end_of_arguments(call: ast.Call) -> tuple[int, int] | None:
    """Where the last argument of a call ends; None if it has none."""
    given = [*call.args, *(each.value for each in call.keywords)]
    return max((_ends(each)[1] for each in given), default=None)


def _is_known(name: str) -> bool:
    """Whether training arguments of transformers have a field of this name."""
    return name in _fields()


@cache
def _fields() -> frozenset[str]:
    newest = history_of("transformers", "transformers.TrainingArguments")[-1] or ()
    return frozenset(item.partition("=")[0] for item in newest)
