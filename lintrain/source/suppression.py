"""Suppression comments: `# lintrain: ignore[rule] -- reason`."""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from lintrain.builtin import UNCONDITIONAL
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_NAMED = 1000
"""The most rules that one comment may name."""

COMMENT = lazy_pattern(r"#\s*+lintrain:\s*+(?P<words>[^#]*)")
DIRECTIVE = lazy_pattern(r"(?P<word>ignore-file|ignore)\s*+(?:\[(?P<rules>[^\]]*)\])?\s*+(?:--(?P<reason>.*))?")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: the rules that it names (none: all of them) and the line that it applies to (None: the whole file).

    `flaw` says why a comment was not understood; such a comment suppresses nothing. `reason` is what follows its `--`.
    """

    location: Location
    rules: tuple[str, ...]
    line: int | None
    flaw: str = ""
    reason: str = ""

    def covers(self, rule: str, location: Location) -> bool:
        """Whether the comment suppresses a rule at a location: on its first line or on its last one.

        A file that cannot be read or parsed was not checked, and no comment hides that.
        """
        if self.flaw or rule in UNCONDITIONAL or (self.rules and rule not in self.rules):
            return False
        return self.line is None or self.line in (location.line, location.end_line)


def find_suppressions(path: str, text: str, lines: Sequence[str]) -> tuple[Suppression, ...]:
    """The suppressions of a text, in its order; strings that only look like comments are none."""
    return tuple(_suppressions(path, text, lines))


def _suppressions(path: str, text: str, lines: Sequence[str]) -> Iterator[Suppression]:
    code_lines = set[int]()
    comments: list[tokenize.TokenInfo] = []
    for token in _tokens(text):
        if token.type == tokenize.COMMENT:
            comments.append(token)
        elif token.type not in NO_CODE:
            code_lines.update(range(token.start[0], token.end[0] + 1))
    ordered = sorted(code_lines)
    first_code = ordered[0] if ordered else len(lines) + 1
    for comment in comments:
        match = COMMENT.search(comment.string)
        if match:
            line = comment.start[0]
            yield _read(path, comment, match, line if line in code_lines else _next_line(ordered, line), first_code)


NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(text).readline)
    except (tokenize.TokenError, SyntaxError):
        return  # what is above the broken line still counts


def _read(path: str, comment: tokenize.TokenInfo, match: re.Match[str], about: int, first_code: int) -> Suppression:
    line, start = comment.start
    words = match["words"].rstrip()
    end = start + match.start("words") + len(words.split("--")[0].rstrip())
    location = Location(path, line, start + match.start() + 1, line, end + 1)
    directive = DIRECTIVE.fullmatch(words)
    if directive is None:
        return Suppression(location, (), line, f"`{words}` is not understood")
    names = dict.fromkeys(name.strip() for name in (directive["rules"] or "").split(","))
    rules = tuple(name for name in names if name)
    if directive["rules"] is not None and not rules:
        return Suppression(location, (), line, "the brackets name no rule")
    if len(rules) > MOST_NAMED:
        return Suppression(location, (), line, f"the brackets name {len(rules)} rules, more than there are")
    reason = (directive["reason"] or "").strip()
    if directive["word"] == "ignore":
        return Suppression(location, rules, about, reason=reason)
    flaw = "" if line < first_code else "`ignore-file` counts only above the first line of code"
    return Suppression(location, rules, None, flaw, reason)


def _next_line(code_lines: Sequence[int], line: int) -> int:
    """The line that a comment on its own line applies to: the next one with code."""
    position = bisect_right(code_lines, line)
    return code_lines[position] if position < len(code_lines) else line
