"""Texts that do not parse as they are, read all the same: pasted code with a shifted margin, and notebooks.

    repaired = repair(text, cells)   # None where nothing helps
    repaired.tree                    # with the places of the text as it was given

A piece of a script is copied without the indentation of its first line, from a page with full-width punctuation, or
from the days of Python 2; a bracket or a line is cut off, and prose stands between. Of a notebook, a cell that does not
parse is left out, and the others are read. A whole file in the grammar of Python 2 is read as what it means, and one
with commands of a notebook without these.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from itertools import accumulate

from lintrain.source.magics import PROMPT, Cell
from lintrain.source.nodes import walk
from lintrain.source.parsing import parse
from lintrain.source.pasted import is_pasted
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_REPAIRS = 60
"""Lines of one text that are repaired, each with a parse of the whole."""

LONGEST = 60_000
"""Characters of a text that is repaired: people paste less."""

MOST_LEFT_OUT = 8
"""Lines of a piece that are left out: of prose with a few words of code nothing is read."""

MOST_JOINED = 12
"""Lines of one `print` of Python 2."""

MOST_MARKS = 8
"""Signs of a line that may begin its comment."""

LONGEST_HEAD = 300
"""Characters of the head of a block."""

WIDE = (
    "\uff1a\uff0c\uff08\uff09\uff1b\u201c\u201d\u2018\u2019\uff1d\u3010\u3011\uff0d\u2013\u2212\uff0b\u060c\u061b\u00a0"
    "\u200b\u3000"
)
SIGNS = str.maketrans(WIDE, ":,();\"\"''=[]---+,;   ")
"""Signs that a page or an input method writes in place of Python's own, each as wide."""

PRINT = lazy_pattern(r"(?P<margin>\s*+(?:.*:\s*)?)print\b\s?(?P<rest>.*)", re.DOTALL)
CATCH = lazy_pattern(r"(\s*+except\s++\(?[\w., ]+?\)?)\s*,\s*(\w+)\s*:(.*)")
ASYNC = lazy_pattern(r"\basync(?=\s*=[^=])")
OLD = lazy_pattern(
    r"^(?:.*:)?[ \t]*print(?:[ \t]+[^\s(=.,\[+\-*/%]|[ \t]*>>|[ \t]+\(.*\)[ \t]*[%,])|"
    r"^[ \t]*except[ \t(][^:#]*,[ \t]*\w+[ \t]*:|^.*\basync[ \t]*=[^=]",
    re.MULTILINE,
)
"""Lines in the grammar of Python 2, or of Python before 3.7."""

COMMAND = lazy_pattern(r"^([ \t]*+)(?:%%?[A-Za-z]|![ \t]?[A-Za-z.]).*", re.MULTILINE)
"""A line of a notebook that Python does not read."""

FENCE = "```"
LINE = lazy_pattern(r"\bline (\d+)")
CLOSING = {"(": ")", "[": "]", "{": "}"}
STAND_IN = "aSync"
"""What `async` is called while it is parsed, as long as the word itself."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The tree of a text, with the places of that text though some of its lines were read with another margin.

    `flaws` are what Python says about parts that were left out, or for which it has no grammar any more; a shifted
    margin is none. `is_partial` where a part was left out. Of a text that parses it is the plain tree.
    """

    tree: ast.Module
    flaws: tuple[SyntaxError, ...] = ()
    is_partial: bool = False
    is_repaired: bool = True


def repair(text: str, cells: Sequence[Cell]) -> Repaired | None:
    """The tree of a text that does not parse; None where it is no piece, no notebook and not in an old grammar."""
    if cells:
        return _without_broken_cells(text, cells)
    if is_pasted(text) or _is_shifted(text):
        return _repaired_piece(text) if len(text) <= LONGEST else None
    return _without_commands(text) or _in_grammar_of_python_2(text)


def _without_commands(text: str) -> Repaired | None:
    """The tree of a whole file that only commands of a notebook keep from being parsed."""
    given = text.split("\n")
    lines = COMMAND.sub(r"\1pass", text).split("\n")
    if (error := _error_in(given)) is None or lines == given or _error_in(lines) is not None:
        return None
    return Repaired(_placed(parse("\n".join(lines)), given, lines), (error,), is_partial=True)


def _in_grammar_of_python_2(text: str) -> Repaired | None:
    """The tree of a whole file that only its `print`, `except` or `async=` keep from being parsed."""
    given = text.split("\n")
    if (error := _error_in(given)) is None or OLD.search(text) is None:
        return None
    lines, index = list(given), 0
    while index < len(lines):
        if OLD.match(lines[index]):
            for old in REWRITES:
                lines = old(lines, index) or lines
        index += 1
    if len(lines) != len(given) or _error_in(lines) is not None:
        return None
    return Repaired(_placed(parse("\n".join(lines)), given, lines), (error,))


def _is_shifted(text: str) -> bool:
    """Whether the first line of code is indented, as in a block that was copied out of its function."""
    first = next(filter(_is_code, text.split("\n")), "")
    return first[:1].isspace()


def _repaired_piece(text: str) -> Repaired | None:
    given = text.split("\n")
    is_whole = not is_pasted(text)  # with imports it may be a file that has to run, and its margin a mistake
    found = _repaired_lines(_without_quotation(given), leaves_out=not is_whole)
    if found is None:
        return None
    lines, errors, flaws = found
    tree = _placed(parse("\n".join(lines)), given, lines)
    return Repaired(tree, tuple((errors if is_whole else flaws)[:1]), is_partial=is_whole)


def _repaired_lines(
    lines: list[str], *, leaves_out: bool = False
) -> tuple[list[str], list[SyntaxError], list[SyntaxError]] | None:
    """Lines that parse, the errors that were in them, and which of those are worth a word; None if any is left."""
    most = min(MOST_LEFT_OUT, sum(map(_is_code, lines)) // 3) if leaves_out else 0
    errors: list[SyntaxError] = []
    flaws: list[SyntaxError] = []
    for _ in range(MOST_REPAIRS):
        error = _error_in(lines)
        if error is None:
            return lines, errors, flaws
        edited, is_flaw = _edited(lines, error)
        if edited is None and len(flaws) < most:
            edited, is_flaw = _closed(lines, error) or _left_out(lines, error), True
        if edited is None or edited == lines:
            return None
        lines = edited
        errors.append(error)
        flaws += [error] if is_flaw else []
    return None


def _without_quotation(lines: list[str]) -> list[str]:
    """The code in fences of Markdown, or behind the prompts of an interpreter; blank lines for what is around it."""
    if any(line.startswith(FENCE) for line in lines):
        fences = list(accumulate(int(line.startswith(FENCE)) for line in lines))
        pairs = zip(lines, fences, strict=True)
        # Code is below an odd number of fences.
        lines = [line if count % 2 and not line.startswith(FENCE) else "" for line, count in pairs]
    if PROMPT.match(next(filter(str.strip, lines), "")):
        # The prompt becomes a margin, so that all columns stay.
        lines = [f"    {line[4:]}" if PROMPT.match(line) else "" for line in lines]
    return lines


def _edited(lines: list[str], error: SyntaxError) -> tuple[list[str] | None, bool]:
    """The lines with the cause of an error repaired, and whether that cause is worth a word."""
    index = min(max((error.lineno or 1) - 1, 0), len(lines) - 1)
    if isinstance(error, IndentationError):
        return _with_margin(lines, index, error.msg), False
    if error.msg.startswith(("invalid character", "invalid non-printable")):
        return _with_line(lines, index, lines[index].translate(SIGNS)), False
    for old in REWRITES:
        if (edited := old(lines, index)) is not None:
            return edited, True
    return None, False


def _closed(lines: list[str], error: SyntaxError) -> list[str] | None:
    """A bracket that nothing closes is closed before the next statement that begins as far left as its own."""
    index = (error.lineno or 1) - 1
    if "forgot a comma" in error.msg:  # the bracket above, and the statement after it
        index = next((at for at in range(index - 1, -1, -1) if lines[at].rstrip()[-1:] in CLOSING), -1)
    elif not error.msg.endswith("was never closed"):
        return None
    bracket = CLOSING.get(lines[index].rstrip()[-1:] if "comma" in error.msg else error.msg[1])
    if index < 0 or bracket is None:
        return None
    below = range(index + 1, len(lines))
    ends = (at for at in below if _is_code(lines[at]) and _depth(lines[at]) <= _depth(lines[index]))
    end = next((at for at in ends if lines[at].lstrip()[0] not in ")]}"), len(lines))
    last = max(at for at in range(index, end) if at == index or _is_code(lines[at]))
    code, mark, comment = lines[last].partition("#")
    return _with_line(lines, last, code.rstrip() + bracket + mark + comment)


def _left_out(lines: list[str], error: SyntaxError) -> list[str] | None:
    """A line that is no code, or code that was cut off, is left out."""
    index = min(max((error.lineno or 1) - 1, 0), len(lines) - 1)
    return _with_line(lines, index, _margin(lines[index]) + "pass") if lines[index].strip() != "pass" else None


def _with_line(lines: list[str], index: int, line: str) -> list[str]:
    return [*lines[:index], line, *lines[index + 1 :]]


def _with_margin(lines: list[str], index: int, message: str) -> list[str] | None:
    """The lines with another indentation where the parser stumbled over it."""
    if "\t" in "".join(_margin(line) for line in lines):
        return [_margin(line).expandtabs(4) + line[len(_margin(line)) :] for line in lines]
    above = next((at for at in range(index - 1, -1, -1) if _is_code(lines[at])), None)
    if above is None:
        return _moved(lines, range(index, len(lines)), -len(_margin(lines[index])))
    if message.startswith("unexpected indent"):
        return _with_step_removed(lines, above, index)
    if message.startswith("unindent"):
        return _snapped(lines, index)
    if message.startswith("expected an indented block"):
        return _with_body(lines, message, above)
    return None


def _with_body(lines: list[str], message: str, above: int) -> list[str] | None:
    """A statement without its block gets an empty one; the message names its line."""
    named = LINE.search(message)
    for at in (int(named[1]) - 1 if named else above, above):
        if lines[at].rstrip().endswith(":"):
            return _with_line(lines, at, lines[at].rstrip() + " pass")
    return None


def _with_step_removed(lines: list[str], above: int, index: int) -> list[str]:
    """A line that is deeper than the one above without a reason: if that is the first one, its margin was lost."""
    step = len(_margin(lines[index])) - len(_margin(lines[above]))
    if not any(_is_code(line) for line in lines[:above]):
        return _moved(lines, range(above, above + 1), step)
    end = next(
        (at for at in range(index, len(lines)) if _is_code(lines[at]) and _depth(lines[at]) < _depth(lines[index])),
        len(lines),
    )
    return _moved(lines, range(index, end), -step)


def _snapped(lines: list[str], index: int) -> list[str]:
    """A line that ends blocks at a depth that none of them has gets the nearest one that is open there."""
    depths: list[int] = []
    for line in filter(_is_code, lines[:index]):
        depths = [*(depth for depth in depths if depth < _depth(line)), _depth(line)]
    depth = _depth(lines[index])
    nearest = min(depths, key=lambda each: (abs(each - depth), -each), default=depth)
    return _moved(lines, range(index, index + 1), nearest - depth)


def _moved(lines: list[str], rows: range, by: int) -> list[str]:
    """Some lines with a margin that is wider or narrower by so many blanks."""
    moved = list(lines)
    for at in rows:
        if moved[at].strip():
            moved[at] = " " * max(0, _depth(moved[at]) + by) + moved[at].lstrip()
    return moved


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _depth(line: str) -> int:
    return len(_margin(line))


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _print_called(lines: list[str], index: int) -> list[str] | None:
    """`print "a", b` as a call."""
    match = PRINT.fullmatch(lines[index])
    if match is None or not match["rest"].strip():
        return None
    for end in range(index + 1, min(index + MOST_JOINED, len(lines)) + 1):
        last = lines[end - 1] if end > index + 1 else match["rest"]
        marks = [at for at, sign in enumerate(last) if sign == "#"]
        for cut in (len(last), *marks[:MOST_MARKS]):
            body = [match["rest"], *lines[index + 1 : end - 1], last[:cut].rstrip()][(end == index + 1) :]
            code = "\n".join(body)
            if _parses(f"({code})"):
                called = f"{match['margin']}print({code})".split("\n")
                return [*lines[:index], *called, *lines[end:]]
    return None


def _parses(code: str) -> bool:
    try:
        parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def _exception_named(lines: list[str], index: int) -> list[str] | None:
    """`except Error, name:` with its `as`."""
    caught = CATCH.fullmatch(lines[index]) if len(lines[index]) < LONGEST_HEAD else None
    return _with_line(lines, index, f"{caught[1]} as {caught[2]}:{caught[3]}") if caught else None


def _async_renamed(lines: list[str], index: int) -> list[str] | None:
    """`cuda(async=True)` with another word, which the tree has under its own name again."""
    line, changes = ASYNC.subn(STAND_IN, lines[index])
    return _with_line(lines, index, line) if changes else None


REWRITES = (_print_called, _exception_named, _async_renamed)
"""What repairs a line of an old grammar; None where it is none."""


def _placed(tree: ast.Module, given: list[str], read: list[str]) -> ast.Module:
    """The tree with the places of the given lines, which differ from those that were read in their margins."""
    moved = {
        at + 1: column_mapping(old, new) for at, (old, new) in enumerate(zip(given, read, strict=True)) if old != new
    }
    for node in walk(tree) if moved else ():
        if isinstance(node, ast.keyword) and node.arg == STAND_IN:
            node.arg = "async"
        for line, column in (("lineno", "col_offset"), ("end_lineno", "end_col_offset")):
            column_of = moved.get(getattr(node, line, 0))
            if column_of is not None:
                setattr(node, column, column_of(getattr(node, column)))
    return tree


def column_mapping(given: str, read: str) -> Callable[[int], int]:
    """From a byte of a line as it was read to the byte of the line as it was given."""
    wider = _depth(given) - _depth(read)

    def original_column(column: int) -> int:
        characters = len(read.encode()[:column].decode(errors="replace"))
        return len(given[: max(0, characters + wider)].encode())

    return original_column


def _without_broken_cells(text: str, cells: Sequence[Cell]) -> Repaired | None:
    """The tree of a notebook, without the cells that parse neither as they are nor in the grammar of Python 2."""
    given = text.split("\n")
    lines = list(given)
    flaws: list[SyntaxError] = []
    is_partial = False
    for cell in cells:
        above = cell.first_line - 2
        code = lines[above : cell.last_line]
        if (error := _error_in(code)) is not None:
            old = _in_old_grammar(code)
            is_partial |= old is None
            lines[above : cell.last_line] = old or [""] * len(code)
            flaws.append(_moved_error(error, above))
    if not flaws or not any(map(_is_code, lines)):
        return None
    try:
        return Repaired(_placed(parse("\n".join(lines)), given, lines), tuple(flaws), is_partial)
    except (SyntaxError, ValueError):
        return None


def _in_old_grammar(code: list[str]) -> list[str] | None:
    """The lines of a cell of Python 2 as Python 3 reads them; None where anything else is wrong with them."""
    found = _repaired_lines(code) if sum(map(len, code)) <= LONGEST else None
    return found[0] if found is not None and len(found[1]) == len(found[2]) else None


def _moved_error(error: SyntaxError, above: int) -> SyntaxError:
    """An error of a cell with its place in the notebook; the lines of its message are those of the cell."""
    error.msg = LINE.sub(_in_cell, error.msg)
    error.end_lineno = (error.end_lineno or error.lineno or 1) + above
    error.lineno = (error.lineno or 1) + above
    return error


def _in_cell(line: re.Match[str]) -> str:
    """A line that a message names, counted from the first of the cell: a comment of ours stands above it."""
    return f"line {int(line[1]) - 1}"


def _error_in(code: list[str]) -> SyntaxError | None:
    """What is wrong with the grammar of some lines; a number without an end is another matter."""
    try:
        parse("\n".join([*code, ""]))
    except SyntaxError as error:
        return error
    except ValueError:
        return None
    return None
