"""What the client writes, each message within a bound: the protocol's library reads as much as is announced."""

from __future__ import annotations

import json
from typing import BinaryIO

from lintrain.startup.lazy_pattern import lazy_pattern

LARGEST_MESSAGE = 16 * 2**20
"""Bytes; the code of a document has at most two million characters."""

TOO_LARGE = "lintrain/tooLarge"
"""The notification that stands for a message that was too large: it names the document that the message was about."""

LONGEST_HEADER = 4096
HEAD = 64 * 1024
CHUNK = 1024 * 1024

LENGTH = lazy_pattern(rb"(?i)content-length:[ \t]*(\d{1,20})[ \t]*\r?\n$")
"""Searched at the end of a line: a message that was shorter than announced leaves its rest before it."""
METHOD = lazy_pattern(rb'"method"\s*:\s*"([^"\\]{1,200})"')
NUMBER = lazy_pattern(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{0,200}")')
ADDRESS = lazy_pattern(rb'"uri"\s*:\s*("(?:[^"\\]|\\.){0,4096}")')


class BoundedInput:
    """A stream of messages for the library, without those that are too large and without broken headers."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._body: bytes | None = None

    def readline(self) -> bytes:
        """The next line of a header; empty at the end of the stream."""
        if self._lines:
            return self._lines.pop()
        length = self._next_length()
        if length is None:
            return b""
        if length > LARGEST_MESSAGE:
            self._body = _stand_in(self._skip(length), length)
            length = len(self._body)
        self._lines = [b"\r\n"]
        return b"Content-Length: %d\r\n" % length

    def read(self, size: int) -> bytes:
        """The body of the message whose header was read."""
        if self._body is not None:
            body, self._body = self._body, None
            return body
        return self._stream.read(size)

    def _next_length(self) -> int | None:
        """The length of the next message that has a body; None at the end of the stream."""
        length = 0
        while line := self._stream.readline(LONGEST_HEADER):
            if found := LENGTH.search(line):
                length = int(found[1])
            elif not line.strip() and length:
                return length
        return None

    def _skip(self, length: int) -> bytes:
        """Read over a body, and give its beginning."""
        head = self._stream.read(min(length, HEAD))
        left = length - len(head)
        while left > 0 and (chunk := self._stream.read(min(left, CHUNK))):
            left -= len(chunk)
        return head


def _stand_in(head: bytes, length: int) -> bytes:
    """The message that says that another was too large: which document it was about, and which question it asked."""
    address, number, method = ADDRESS.search(head), NUMBER.search(head[:1000]), METHOD.search(head)
    params = {
        "uri": _value(address[1]) if address else None,
        "id": _value(number[1]) if number else None,
        "method": method[1].decode(errors="replace") if method else "",
        "length": length,
    }
    return json.dumps({"jsonrpc": "2.0", "method": TOO_LARGE, "params": params}).encode()


def _value(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
