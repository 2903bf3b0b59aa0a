"""Small damage done to a script or notebook: to its tokens, its lines, its bytes, the JSON around it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from tests.fuzz import seeds

TOKEN = re.compile(r"\w+|\s+|\"[^\"\n]*\"|'[^'\n]*'|[^\w\s]")
BYTES = (
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xe9",
    b"\r",
    b"\r\n",
    b"\t",
    b"\x0c",
    b"\x1a",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\x85",
)
"""NUL, a byte order mark, latin-1, ends of lines, form feed, end of file, half a surrogate pair, more ends of lines."""
CODINGS = (
    "latin-1",
    "utf-16",
    "utf-7",
    "cp1252",
    "rot13",
    "base64",
    "idna",
    "punycode",
    "unicode_escape",
    "utf-8-sig",
    "x",
)
WORDS = (
    "(",
    ")",
    "[",
    "{",
    ":",
    "=",
    ",",
    "*",
    "**",
    "lambda",
    "yield",
    "\\",
    '"""',
    "f'{",
    "#",
    "None",
    "@",
    "...",
    "ﬁ",
    "\n",
)

TextDamage = Callable[[Random, str], str]
ByteDamage = Callable[[Random, bytes], bytes]


def _swap(random: Random) -> Callable[[list[str], int], object]:
    """A change of parts: one of them and any other change places."""

    def swap(parts: list[str], at: int) -> None:
        other = random.randrange(len(parts))
        parts[at], parts[other] = parts[other], parts[at]

    return swap


def _tokens(random: Random, text: str, change: Callable[[list[str], int], object]) -> str:
    tokens = TOKEN.findall(text)
    if tokens:
        change(tokens, random.randrange(len(tokens)))
    return "".join(tokens)


def drop_token(random: Random, text: str) -> str:
    """One word or sign less."""
    return _tokens(random, text, lambda tokens, at: tokens.pop(at))


def double_token(random: Random, text: str) -> str:
    """One word or sign twice."""
    return _tokens(random, text, lambda tokens, at: tokens.insert(at, tokens[at]))


def swap_tokens(random: Random, text: str) -> str:
    """Two words change places."""
    return _tokens(random, text, _swap(random))


def put_word(random: Random, text: str) -> str:
    """A word or sign from elsewhere."""
    return _tokens(random, text, lambda tokens, at: tokens.insert(at, random.choice(WORDS)))


def _lines(random: Random, text: str, change: Callable[[list[str], int], object]) -> str:
    lines = text.split("\n")
    change(lines, random.randrange(len(lines)))
    return "\n".join(lines)


def drop_line(random: Random, text: str) -> str:
    """One line less."""
    return _lines(random, text, lambda lines, at: lines.pop(at))


def double_line(random: Random, text: str) -> str:
    """One line twice."""
    return _lines(random, text, lambda lines, at: lines.insert(at, lines[at]))


def swap_lines(random: Random, text: str) -> str:
    """Two lines change places."""
    return _lines(random, text, _swap(random))


def cut_off(random: Random, text: str) -> str:
    """The end is missing."""
    return text[: random.randrange(len(text) + 1)]


def splice(random: Random, text: str) -> str:
    """The beginning of one script, the end of another."""
    other = random.choice(seeds.scripts()).split("\n")
    lines = text.split("\n")
    return "\n".join(lines[: random.randrange(len(lines) + 1)] + other[random.randrange(len(other)) :])


def indent_with_tabs(random: Random, text: str) -> str:
    """Tabs for four spaces, in all lines or in some."""
    share = random.choice((1.0, 0.3))
    return "\n".join(line.replace("    ", "\t") if random.random() < share else line for line in text.split("\n"))


def graft(random: Random, text: str) -> str:
    """An expression of the tree is another one, of the same script or of a page; what does not parse stays."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    locations = [
        (node, name) for node in ast.walk(tree) for name, value in ast.iter_fields(node) if isinstance(value, ast.expr)
    ]
    if not locations:
        return text
    for _ in range(random.randint(1, 3)):
        node, name = random.choice(locations)
        other = random.choice(inner) if random.random() < 0.5 else ast.parse(seeds.donor(random), mode="eval").body
        if not any(each is node for each in ast.walk(other)):
            setattr(node, name, other)
    try:
        return ast.unparse(tree)
    except (ValueError, RecursionError):
        return text


def suppress(random: Random, text: str) -> str:
    """A comment that asks for silence, or nearly."""
    said = random.choice(
        (
            "# lintrain: ignore",
            "# lintrain: ignore[",
            "# lintrain: ignore[]: x",
            "#lintrain:ignore-file",
            "# lintrain: ignore[high-learning-rate,]: why",
        )
    )
    return _lines(random, text, lambda lines, at: lines.__setitem__(at, f"{lines[at]}  {said}"))


TEXT_DAMAGES: Sequence[TextDamage] = (
    drop_token, double_token, swap_tokens, put_word, drop_line, double_line, swap_lines, cut_off, splice,
    indent_with_tabs, graft, graft, graft, graft, suppress,
)  # fmt: skip


def damage_text(random: Random, text: str) -> str:
    """One to four pieces of damage."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 4))):
        text = random.choice(TEXT_DAMAGES)(random, text)
    return text


def put_bytes(random: Random, raw: bytes) -> bytes:
    """A few bytes where none belong."""
    at = random.randrange(len(raw) + 1)
    return raw[:at] + random.choice(BYTES) + raw[at:]


def change_line_ends(random: Random, raw: bytes) -> bytes:
    """Lines end as on Windows, as on old Macs, or each in its own way."""
    ends = random.choice(((b"\r\n",), (b"\r",), (b"\r\n", b"\n", b"\r")))
    first, *rest = raw.split(b"\n")
    return first + b"".join(random.choice(ends) + line for line in rest)


def flip(random: Random, raw: bytes) -> bytes:
    """One byte is another one."""
    changed = bytearray(raw)
    if changed:
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def declare_encoding(random: Random, raw: bytes) -> bytes:
    """An encoding is declared, which the bytes may be in or not."""
    name = random.choice(CODINGS)
    head = f"# -*- coding: {name} -*-\n"
    if random.random() < 0.5:
        return head.encode() + raw + "# é".encode(random.choice(("utf-8", "latin-1")))
    try:
        return head.encode() + raw.decode("utf-8").encode(name, "replace")
    except (LookupError, ValueError, AssertionError):
        return head.encode() + raw


def mark(random: Random, raw: bytes) -> bytes:
    """A byte order mark, once or twice, of this encoding or of another."""
    return random.choice((b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2, b"\xff\xfe", b"\xfe\xff\0")) + raw


BYTE_DAMAGES: Sequence[ByteDamage] = (put_bytes, change_line_ends, flip, declare_encoding, mark)


def damage_bytes(random: Random, raw: bytes) -> bytes:
    """One or two pieces of damage."""
    for _ in range(random.choice((1, 1, 2))):
        raw = random.choice(BYTE_DAMAGES)(random, raw)
    return raw


ODD: Sequence[Any] = (
    None,
    0,
    -1,
    1e999,
    "",
    "x",
    [],
    {},
    [None],
    {"cells": []},
    True,
    "\ud800",
    [["import torch\n"]],
    {"source": 3},
)
"""What may stand anywhere in JSON."""


def damage_notebook(random: Random, document: Any) -> Any:  # Any: whatever JSON holds
    """One value or key of a notebook's JSON is missing, doubled or of another kind."""
    at = document
    for _ in range(random.randint(0, 6)):
        inner = [each for each in _inside(at) if isinstance(each, dict | list) and each]
        if not inner:
            break
        at = random.choice(inner)
    if isinstance(at, dict) and at:
        key = random.choice(list(at))
        if random.random() < 0.4:
            del at[key]
        else:
            at[key] = _odd(random)
    elif isinstance(at, list) and at:
        location = random.randrange(len(at))
        at[location : location + random.randint(0, 1)] = [_odd(random), deepcopy(at[location])][: random.randint(1, 2)]
    return document


def _odd(random: Random) -> Any:  # Any: whatever JSON holds
    return deepcopy(random.choice(ODD))


def _inside(value: Any) -> list[Any]:  # Any: whatever JSON holds
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def written(random: Random, document: object) -> bytes:
    """A document as JSON, written in one of the ways that there are."""
    return json.dumps(document, indent=random.choice((None, 1, 4)), ensure_ascii=random.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    )
