"""Grammar that is newer than the Python which runs lintrain, read as older forms that mean the same to a reader.

    tree = parse_newer(text, error)  # None if the text has no newer form

libcst parses the text, and each newer form is overwritten by an older one of as many bytes, so every location is the
one in the text: `type` statements and type parameters (Python 3.12), f-strings that hold any expression (3.12),
t-strings and `except` without brackets (3.14), `lazy import` and unpacking in comprehensions (3.15).
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import libcst as cst

STATEMENT = r"(?:^|[:;])[ \t]*+(?:type[ \t]+\w|lazy[ \t]+(?:import|from)\b|(?:async[ \t]+|)(?:def|class)\b[^(:\n]*\[)"
NEWER_STATEMENT = lazy_pattern(STATEMENT)
NEWER = lazy_pattern(
    STATEMENT + r"""|^[ \t]*+except\b\*?[ \t]*[^(#\n:]*,|[\[({,][ \t\n]*\*|(?<![\w"'])(?:[fFtT][rR]?|[rR][fFtT])["']""",
    re.MULTILINE,
)
"""Where a newer form may be: without it, libcst is not imported for a text that does not parse."""

TEMPLATED = lazy_pattern(r"""(?<![\w"'])(?:[tT][rR]?|[rR][tT])["']""")

LONGEST = 300_000
"""Characters of a text: libcst takes a second for 4,000 lines."""

NOT_READ = f"it has grammar that is newer than Python {sys.version_info[0]}.{sys.version_info[1]}, which runs lintrain"

F_STRINGS_NEST = sys.version_info >= (3, 12)

TEMPLATE = "t-string"
"""The function that a t-string is read as a call of: no identifier, so that no script can define it."""

Span = tuple[int, int]
"""The first byte, and the one after the last."""

Form = tuple[int, int, int, int]
"""Line and column of the start and of the end, as in a syntax tree."""


class NewerGrammarError(SyntaxError):
    """A text that is valid in the newest grammar, and that cannot be read here."""


@dataclass(frozen=True, slots=True)
class Part:
    """A replacement field of an f-string: how its value is converted, and the format, which may have fields itself."""

    conversion: int
    format: tuple[str | Part, ...] | None


@dataclass(frozen=True, slots=True)
class Formatted:
    """An f-string that is read as a tuple of its values; `is_template` for a t-string."""

    parts: tuple[str | Part, ...]
    is_template: bool


@dataclass(eq=False, slots=True)
class Older:
    """A text whose newer forms are overwritten, and what they were, by their location."""

    code: bytearray
    strings: dict[Span, Formatted] = field(default_factory=dict[Span, Formatted])
    handlers: dict[Span, int] = field(default_factory=dict[Span, int])
    keywords: set[Span] = field(default_factory=set[Span])
    touched: list[Span] = field(default_factory=list[Span])
    is_python_2: bool = False

    def blank(self, start: int, end: int) -> None:
        """Overwrite bytes by spaces; lines stay."""
        for at in range(start, end):
            if self.code[at] != ord("\n"):
                self.code[at] = ord(" ")

    def blank_outside_brackets(self, start: int, end: int) -> None:
        """Overwrite bytes by spaces, in code where a line does not go on by itself."""
        self.blank(start, end)
        for at in range(start + 1, end):
            if self.code[at] == ord("\n"):
                self.code[at - 1] = ord("\\")

    def put(self, at: int, text: bytes) -> None:
        """Overwrite bytes."""
        self.code[at : at + len(text)] = text


def may_be_newer(text: str) -> bool:
    """Whether a text that does not parse may have newer grammar."""
    return NEWER.search(text) is not None


def is_at_newer(text: str, error: SyntaxError) -> bool:
    """Whether an error is on the line of a statement that is valid in newer grammar."""
    lines = text.split("\n")
    return 0 < (error.lineno or 0) <= len(lines) and NEWER_STATEMENT.search(lines[(error.lineno or 1) - 1]) is not None


def parse_newer(text: str, first: SyntaxError) -> ast.Module | None:
    """The tree of a text that this Python does not parse, for the reason `first`; None if it has no newer form.

    Raises NewerGrammarError for a form that has no older equivalent, and SyntaxError for what is wrong in any grammar.
    """
    if (older := _overwritten(text, first)) is None:
        return None
    starts = _line_starts(older.code)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in `parsing.parse`
            tree = ast.parse(bytes(older.code))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 0
        if isinstance(error, SyntaxError) and not any(_lines(span, starts, line) for span in older.touched):
            raise
        raise NewerGrammarError(NOT_READ) from error
    forms = {_form(span, starts): string for span, string in older.strings.items()}
    handlers = {_form(span, starts): number for span, number in older.handlers.items()}
    read = _Restored(forms, handlers, {_form(span, starts) for span in older.keywords}).visit(tree)
    assert isinstance(read, ast.Module)
    return read


def _overwritten(text: str, first: SyntaxError) -> Older | None:
    import libcst as cst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

    try:
        code = bytearray(text.encode("utf-8"))
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        spans = wrapper.resolve(ByteSpanPositionProvider)
    except UnicodeEncodeError:
        return None
    except cst.ParserSyntaxError as error:
        if not is_at_newer(text, first):
            return None
        lines = text.split("\n")
        line = min(error.raw_line, len(lines))
        position = (first.filename, line, error.raw_column + 1, lines[line - 1])
        raise SyntaxError("invalid syntax", position) from error  # `first` is about a statement that is valid
    except Exception as error:
        if TEMPLATED.search(text):  # libcst 1.9 accepts several in a row, and has no node for them
            raise NewerGrammarError(NOT_READ) from error
        return None
    older = Older(code)
    _Reader(older, cast("dict[cst.CSTNode, Any]", spans)).read(wrapper.module)
    return older if older.touched and not older.is_python_2 else None


class _Reader:
    """Finds the newer forms of a tree of libcst, and overwrites each in the text."""

    def __init__(self, older: Older, spans: dict[cst.CSTNode, Any]) -> None:  # Any: libcst's spans of bytes
        self.older, self._spans = older, spans

    def read(self, node: cst.CSTNode) -> None:
        """Overwrite the newer forms of a node and of all below it."""
        is_rewritten = self._rewrite(node)
        if is_rewritten:
            self.older.touched.append(self.span(node))
        is_string = type(node).__name__ in STRINGS
        inner = [part.expression for part in _fields_of(node)] if is_string and is_rewritten else node.children
        for child in () if is_string and not is_rewritten else inner:  # this Python reads a string with all it holds
            self.read(child)

    def _rewrite(self, node: cst.CSTNode) -> bool:
        rewrite = REWRITES.get(type(node).__name__)
        return rewrite(self, node) if rewrite else False

    def span(self, node: cst.CSTNode) -> Span:
        """The bytes of a node."""
        found = self._spans[node]
        return found.start, found.start + found.length

    def keyword(self, node: cst.CSTNode) -> bool:
        """A statement that begins with a keyword of four letters: an empty statement before it takes its place."""
        start = self.span(node)[0]
        self.older.put(start, b"0;  ")
        self.older.keywords.add((start, start + 1))
        return True

    def type_parameters(self, node: cst.CSTNode) -> bool:
        """Type parameters are left out: they are names for type checkers."""
        self.older.blank_outside_brackets(*self.span(node))
        return True

    def handler(self, node: cst.CSTNode) -> bool:
        """Exceptions without brackets: `except A, B:` is read as `except A| B:`, then as the tuple that it is."""
        kinds: Any = getattr(node, "type", None)  # Any: two classes of libcst have it
        if type(kinds).__name__ != "Tuple" or kinds.lpar:
            return False
        name = kinds.elements[-1].value
        if len(kinds.elements) == 2 and type(name).__name__ == "Name" and name.value.islower():
            self.older.is_python_2 = True  # `except ValueError, error:`
            return False
        for element in kinds.elements[:-1]:
            end = self.span(element.value)[1]
            self.older.put(self.older.code.index(b",", end), b"|")
        self.older.handlers[self.span(kinds.elements[0].value)[0], self.span(kinds)[1]] = len(kinds.elements)
        return True

    def comprehension(self, node: cst.CSTNode) -> bool:
        """Unpacking in a comprehension: a value that is not known takes its place."""
        value: Any = getattr(node, "elt", None)  # Any: three classes of libcst have it
        if type(value).__name__ != "StarredElement":
            return False
        self.older.put(self.span(value)[0], b"-")
        return True

    def dictionary(self, node: cst.CSTNode) -> bool:
        """The same for a dictionary."""
        start = self.span(node)[0]
        self.older.put(self.older.code.index(b"**", start), b"--")
        return True

    def string(self, node: cst.CSTNode) -> bool:
        """An f-string or t-string, or several strings in a row, as a tuple of the values in them."""
        start, end = self.span(node)
        strings = list(_strings(node))
        is_template = any(type(each).__name__ == "TemplatedString" for each in strings)
        if not is_template and (F_STRINGS_NEST or _is_readable(bytes(self.older.code[start:end]))):
            return False
        kept = [self.span(part.expression) for part in _fields_of(node)]
        held = [bytes(self.older.code[first:last]) for first, last in kept]
        self.older.blank(start, end)
        self.older.put(start, b"(")
        self.older.put(end - 1, b")")
        for (first, last), code in zip(kept, held, strict=True):
            self.older.put(first, code)
            self.older.put(last, b",")
        self.older.strings[start, end] = Formatted(tuple(_parts(strings)), is_template)
        return True


STRINGS = frozenset(("FormattedString", "TemplatedString", "ConcatenatedString"))

REWRITES = {
    "TypeAlias": _Reader.keyword,
    "LazyImport": _Reader.keyword,
    "LazyImportFrom": _Reader.keyword,
    "TypeParameters": _Reader.type_parameters,
    "ExceptHandler": _Reader.handler,
    "ExceptStarHandler": _Reader.handler,
    "ListComp": _Reader.comprehension,
    "SetComp": _Reader.comprehension,
    "GeneratorExp": _Reader.comprehension,
    "StarredDictComp": _Reader.dictionary,
    **dict.fromkeys(STRINGS, _Reader.string),
}
"""By the name of libcst's class: an older libcst may not have it."""


def _is_readable(code: bytes) -> bool:
    """Whether this Python parses a string by itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(b"(" + code + b")")
    except (SyntaxError, ValueError):
        return False
    return True


def _strings(node: Any) -> Iterator[Any]:  # Any: four classes of libcst
    """The strings in a row."""
    if type(node).__name__ == "ConcatenatedString":
        yield from _strings(node.left)
        yield from _strings(node.right)
    else:
        yield node


def _fields_of(node: Any) -> Iterator[Any]:  # Any: as above
    """The replacement fields of a string, or of several in a row."""
    for each in _strings(node):
        yield from _fields(getattr(each, "parts", ()))


def _fields(parts: Sequence[Any]) -> Iterator[Any]:  # Any: four classes of libcst, two of them for t-strings
    """The replacement fields of an f-string, those in their formats too, in order."""
    for part in parts:
        if hasattr(part, "expression"):
            yield part
            yield from _fields(part.format_spec or ())


def _parts(strings: Sequence[Any]) -> Iterator[str | Part]:  # Any: as above
    for each in strings:
        if hasattr(each, "parts"):
            quote = ("r" if "r" in each.start.lower() else "") + each.end
            yield from _formatted(each.parts, quote)
        elif isinstance(each.evaluated_value, str):
            yield each.evaluated_value


def _formatted(parts: Sequence[Any], quote: str) -> Iterator[str | Part]:  # Any: as above
    for part in parts:
        if not hasattr(part, "expression"):
            yield _text(part.value, quote)
            continue
        inner = None if part.format_spec is None else tuple(_formatted(part.format_spec, quote))
        default = "r" if part.equal and inner is None else None
        kind = part.conversion or default
        yield Part(ord(kind) if kind else -1, inner)


def _text(written: str, quote: str) -> str:
    """The text of an f-string between its fields."""
    plain = written.replace("{{", "{").replace("}}", "}")
    try:
        read: object = ast.literal_eval(f"{quote}{plain}{quote.lstrip('r')}")
    except (SyntaxError, ValueError):
        return plain
    return read if isinstance(read, str) else plain


def _line_starts(code: bytearray) -> list[int]:
    return [0, *(at + 1 for at, byte in enumerate(code) if byte == ord("\n"))]


def _lines(span: Span, starts: Sequence[int], line: int) -> bool:
    """Whether a line is one of those that bytes are on."""
    first, _, last, _ = _form(span, starts)
    return first <= line <= last


def _form(span: Span, starts: Sequence[int]) -> Form:
    from bisect import bisect_right

    first, last = bisect_right(starts, span[0]), bisect_right(starts, span[1] - 1)
    return first, span[0] - starts[first - 1], last, span[1] - starts[last - 1]


class _Restored(ast.NodeTransformer):
    """Makes of the older forms the nodes of those that are in the text."""

    def __init__(self, strings: dict[Form, Formatted], handlers: dict[Form, int], keywords: set[Form]) -> None:
        self._strings, self._handlers, self._keywords = strings, handlers, keywords

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """An empty statement in the place of a keyword."""
        return None if _form_of(node.value) in self._keywords else self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        """A tuple of the values of an f-string."""
        self.generic_visit(node)
        string = self._strings.get(_form_of(node))
        if string is None:
            return node
        values = iter(node.elts)
        joined = _joined(string.parts, values, node)
        joined.values += [_placed(ast.FormattedValue(left, -1, None), node) for left in values]
        if not string.is_template:
            return joined
        called = ast.Call(_placed(ast.Name(TEMPLATE, ast.Load()), node), [joined], [])
        return ast.copy_location(called, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Exceptions without brackets."""
        self.generic_visit(node)
        number = self._handlers.get(_form_of(node), 0)
        return ast.copy_location(ast.Tuple(_operands(node, number), ast.Load()), node) if number else node


def _form_of(node: ast.expr) -> Form:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _placed(new: Any, node: ast.expr) -> Any:  # Any: the same node, whatever kind it is
    return ast.copy_location(new, node)


def _joined(parts: Sequence[str | Part], values: Iterator[ast.expr], node: ast.expr) -> ast.JoinedStr:
    joined: list[ast.expr] = []
    for part in parts:
        if isinstance(part, str):
            joined.append(_placed(ast.Constant(part), node))
        elif (value := next(values, None)) is not None:
            inner = None if part.format is None else _joined(part.format, values, node)
            joined.append(_placed(ast.FormattedValue(value, part.conversion, inner), node))
    return cast("ast.JoinedStr", _placed(ast.JoinedStr(joined), node))


def _operands(node: ast.expr, number: int) -> list[ast.expr]:
    if number > 1 and isinstance(node, ast.BinOp):
        return [*_operands(node.left, number - 1), node.right]
    return [node]
