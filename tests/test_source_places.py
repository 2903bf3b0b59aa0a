"""Places of code, and how files are decoded."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lintrain.source.reading import UnreadableError, read_bytes, read_file
from lintrain.source.source import Source
from lintrain.source.writing import file_bytes


def first_call(source: Source) -> ast.Call:
    return next(node for node in ast.walk(source.tree) if isinstance(node, ast.Call))


def test_columns_count_characters_where_the_parser_counts_bytes() -> None:
    source = Source("t.py", 'größe = "日本" + f(1)\n')
    location = source.location(first_call(source))
    assert (location.line, location.column, location.end_column) == (1, 16, 20)
    assert source.code(location) == "f(1)"


def test_code_of_several_lines_keeps_its_line_ends() -> None:
    source = Source("t.py", "x = f(\n    1,\n)\n")
    assert source.code(source.location(first_call(source))) == "f(\n    1,\n)"


def test_a_form_feed_does_not_begin_a_line() -> None:
    source = read_bytes("t.py", b"a = 1\n\x0cb = f(2)\n")
    assert source.location(first_call(source)).line == 2
    assert len(source.lines) == 3


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_gives_the_same_places(newline: str) -> None:
    source = read_bytes("t.py", f"a = 1{newline}b = f(2){newline}".encode())
    location = source.location(first_call(source))
    assert (location.line, location.column) == (2, 5)
    assert source.code(location) == "f(2)"


def test_a_byte_order_mark_is_no_part_of_the_code() -> None:
    source = read_bytes("t.py", b"\xef\xbb\xbff(1)\n")
    assert source.location(first_call(source)).column == 1


@pytest.mark.parametrize(
    "comment", ["# -*- coding: latin-1 -*-", "#!/usr/bin/python\n# vim: set fileencoding=latin-1 :"]
)
def test_a_declared_encoding_is_honoured(comment: str) -> None:
    source = read_bytes("t.py", f'{comment}\nx = "é"\n'.encode("latin-1"))
    assert 'x = "é"' in source.text


def test_an_encoding_declared_below_code_does_not_count() -> None:
    with pytest.raises(UnreadableError, match="not UTF-8"):
        read_bytes("t.py", 'x = 1\n# coding: latin-1\ny = "é"\n'.encode("latin-1"))


def test_text_that_is_not_utf_8_is_named_with_its_line() -> None:
    with pytest.raises(UnreadableError, match="byte 0xe9 is not UTF-8") as caught:
        read_bytes("t.py", b'x = 1\ny = "\xe9"\n')
    assert caught.value.line == 2


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(UnreadableError, match="the encoding `klingon`"):
        read_bytes("t.py", '# coding: klingon\nx = "é"\n'.encode())


def test_null_bytes_are_named_with_their_line() -> None:
    with pytest.raises(UnreadableError, match="null byte") as caught:
        read_bytes("t.py", b"x = 1\n\x00\n")
    assert caught.value.line == 2


def test_a_file_that_may_not_be_read_gives_its_reason(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="is a directory"):
        read_file(str(tmp_path))


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbfx = 1\r\ny = 2\r\n",
        b"x = 1\ry = 2\r",
        b"x = 1\r\ny = 2\nz = 3\r\n",
        '# coding: latin-1\nx = "é"\n'.encode("latin-1"),
        b"no newline at the end",
    ],
)
def test_a_file_that_is_not_edited_is_written_back_byte_by_byte(raw: bytes) -> None:
    source = read_bytes("t.py", raw)
    assert file_bytes(source, source.text, raw) == raw


def test_an_edit_leaves_the_line_ends_of_other_lines_alone() -> None:
    raw = b"x = 1\r\ny = 2\nz = 3\r\n"
    source = read_bytes("t.py", raw)
    assert file_bytes(source, source.text.replace("y = 2", "y = 4"), raw) == b"x = 1\r\ny = 4\r\nz = 3\r\n"


@pytest.mark.parametrize("after", ["x\n\ny\nz\nw\n", "x\n\n\ny\nz\n", "x\n\nz\n"])
def test_an_empty_line_behind_a_carriage_return_stays_a_line(after: str) -> None:
    raw = b"x\ry\nz\nw\n"
    assert read_bytes("t.py", file_bytes(read_bytes("t.py", raw), after, raw)).text == after


def test_a_doubtful_escape_in_a_string_is_no_error() -> None:
    assert Source("t.py", 'x = "\\d"\n').tree.body


@pytest.mark.parametrize(
    "code",
    [
        """f"{rows[0]["text"]} and {rows[1]["text"]}\"""",
        """f'{x}: {rows['text']}'""",
        """f"{name.split("/")[-1]}" """.strip(),
        """f"{", ".join(rows)} {{x}} {"" if rows else 'none'}\"""",
        r'''f"{"\n".join(rows)}" f'{rows}' "plain"''',
        r'''rf"\d{name.replace("it's", "a")}"''',
    ],
)
def test_an_f_string_may_hold_its_own_quotes_whatever_python_reads_it(code: str) -> None:
    source = Source("t.py", f"y = f(\n    {code}, z\n)\n")
    call = next(node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    assert source.code(source.location(call.args[0])) == code
    assert source.code(source.location(call.args[1])) == "z"


def test_an_f_string_that_no_python_parses_stays_an_error() -> None:
    with pytest.raises(SyntaxError):
        _ = Source("t.py", """print(f"{rows["text"]")\n""").tree
