"""The values of YAML on one line: plain and quoted ones, and lists and mappings in brackets."""

from __future__ import annotations

from lintrain.startup.lazy_pattern import lazy_pattern

NULL = {"", "~", "null", "Null", "NULL"}
TRUE = {f(word) for word in ("yes", "true", "on") for f in (str.lower, str.upper, str.capitalize)}
FALSE = {f(word) for word in ("no", "false", "off") for f in (str.lower, str.upper, str.capitalize)}
INTEGER = lazy_pattern(r"[-+]?(?:0|[1-9][0-9_]*)")
OTHER_NUMBER = lazy_pattern(
    r"[-+]?(?:0[0-9_]+|0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.(?:inf|Inf|INF))"
    r"|\.(?:nan|NaN|NAN)|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?|=|<<"
)
FLOAT = lazy_pattern(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
WITHOUT_POINT = lazy_pattern(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+")
COMMENT = lazy_pattern(r"""(?:^|\s)#.*|"(?:\\.|[^"\\])*"|(?<![\w)])'[^']*'""")
PART = lazy_pattern(r"""\s*("[^"\\]*"|'[^']*'|[^\[\]{},"'#&*!|>%@`\s](?:[^\[\]{},:"'#]|:(?=[^\s,\[\]{}])|(?<=\S)')*)""")


class NotPlainError(Exception):
    """The text uses more of YAML than is read here."""


class Unread:
    """A value in a form that is not read."""


UNREAD = Unread()


def without_comment(line: str) -> str:
    """A line up to its comment."""
    return COMMENT.sub(lambda found: "" if found[0].lstrip().startswith("#") else found[0], line)


def inline(text: str, *, numbers_without_point: bool) -> object:
    """The value that a whole line or the rest of one holds; raises NotPlainError."""
    if text[0] in "[{":
        value, end = _flow(text, 0, numbers_without_point, 0)
        if text[end:].strip():
            raise NotPlainError
        return value
    return scalar(text, numbers_without_point=numbers_without_point)


def scalar(text: str, *, numbers_without_point: bool) -> object:
    """A single value; UNREAD for dates, numbers to other bases and the like; raises NotPlainError."""
    if text[:1] in {'"', "'"}:
        if len(text) < 2 or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
            raise NotPlainError
        return text[1:-1]
    if text[:1] and (text[0] in "&*!|>%@`,[]{}?" or ": " in text or text.endswith(":") or text.startswith("- ")):
        raise NotPlainError
    if text in NULL:
        return None
    if text in TRUE or text in FALSE:
        return text in TRUE
    if OTHER_NUMBER.fullmatch(text):
        return UNREAD
    return _number(text, numbers_without_point)


def _number(text: str, numbers_without_point: bool) -> int | float | str:
    if INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if FLOAT.fullmatch(text) or (numbers_without_point and WITHOUT_POINT.fullmatch(text)):
        return float(text.replace("_", ""))
    return text


def _flow(text: str, position: int, loose: bool, depth: int) -> tuple[object, int]:
    """A list or mapping in brackets that starts here, and where it ends."""
    if depth > 8:
        raise NotPlainError
    is_list, closing = text[position] == "[", "]" if text[position] == "[" else "}"
    items: list[object] = []
    entries: dict[object, object] = {}
    position = _blank(text, position + 1)
    while not text.startswith(closing, position):
        value, position = _flow_part(text, position, loose, depth)
        if not is_list:
            if not text.startswith(":", position) or isinstance(value, list | dict):
                raise NotPlainError
            entries[value], position = _flow_part(text, position + 1, loose, depth)
        else:
            items.append(value)
        if text.startswith(",", position):
            position = _blank(text, position + 1)
        elif not text.startswith(closing, position):
            raise NotPlainError
    return (items if is_list else entries), position + 1


def _flow_part(text: str, position: int, loose: bool, depth: int) -> tuple[object, int]:
    position = _blank(text, position)
    if text.startswith(("[", "{"), position):
        value, position = _flow(text, position, loose, depth + 1)
        return value, _blank(text, position)
    found = PART.match(text, position)
    if found is None:
        raise NotPlainError
    return scalar(found[1].rstrip(), numbers_without_point=loose), _blank(text, found.end())


def _blank(text: str, position: int) -> int:
    while text.startswith(" ", position):
        position += 1
    return position
