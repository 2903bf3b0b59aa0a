"""Writing to the terminal, to pipes that may be closed, and to files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lintrain.cli._put import has_other_names, put_file
from lintrain.source.bounds import way_out
from lintrain.text.shown import for_terminal


class Refusal(Exception):  # noqa: N818 - what it is
    """Something that was asked for and cannot be done: one line per problem on stderr, exit code 2."""

    exit_code = 2

    def show(self) -> None:
        """Write the problems to stderr."""
        for line in str(self).splitlines():
            say(f"lintrain: {line}")


def say(line: str) -> None:
    """Write a line for the person, beside the report; a line break in it comes from foreign text and is escaped."""
    say_text(line.replace("\n", "\\n"))


def say_text(text: str) -> None:
    """Write lines for the person, beside the report."""
    _write(sys.stderr, text + "\n")


def write_report(text: str, file: Path | None = None) -> None:
    """Write a report to stdout, or to a file; raises Refusal where the file cannot be written."""
    if file is None:
        _write(sys.stdout, text)
        return
    write_named(file, text.encode("utf-8", "replace"))


def write_named(file: Path, content: bytes) -> None:
    """Write a file that the command line names, wherever links lead; other names of it keep what they hold.

    Raises Refusal where the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if has_other_names(file):
            put_file(str(file), content)
        else:
            file.write_bytes(content)
    except OSError as error:
        raise Refusal(f"{file}: {(error.strerror or str(error)).lower()}") from error


def write_for_people(text: str, file: Path | None = None) -> None:
    """Write a report for people, which holds nothing that a terminal would obey; raises as `write_report`."""
    write_report(text if file is None else for_terminal(text), file)


def write_document(text: str, file: Path | None = None) -> None:
    """Write a report for programs, in UTF-8 wherever it goes; raises Refusal where the file cannot be written."""
    if file is None:
        write_bytes(text.encode("utf-8", "replace"))
    else:
        write_report(text, file)


def refuse_what_cannot_be_written(file: Path | None) -> None:
    """Say that the folder of a file is not there now, and not after the run; raises Refusal."""
    if file is not None and not file.absolute().parent.is_dir():
        raise Refusal(f"{file}: its folder does not exist")


def write_contents(contents: Mapping[str, bytes]) -> None:
    """Write files as they are to be; raises Refusal, after the others are written, where one cannot be."""
    problems = [problem for path, content in contents.items() if (problem := _problem_of_writing(path, content))]
    if problems:
        raise Refusal("\n".join(problems))


def _problem_of_writing(path: str, content: bytes) -> str | None:
    """Write a file; gives one line where it cannot be written, or a link makes it one of another project."""
    if end := way_out(path):
        return f"{path}: a link leads out of the project, so it is left alone; name `{end}` itself to have it written"
    try:
        put_file(path, content)
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return None


@contextmanager
def hear_written() -> Generator[list[tuple[bytes, bytes]]]:
    """A list of all that is written meanwhile: `1` or `2` for the stream, and its bytes."""
    heard = list[tuple[bytes, bytes]]()
    _HEARING.append(heard)
    try:
        yield heard
    finally:
        _HEARING.remove(heard)


_HEARING: list[list[tuple[bytes, bytes]]] = []


def _tell(stream: TextIO, content: bytes) -> None:
    for heard in _HEARING:
        heard.append((b"1" if stream is sys.stdout else b"2", content))


def write_bytes(content: bytes) -> None:
    """Write bytes to stdout as they are."""
    _tell(sys.stdout, content)
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout, error)


def _give_up(stream: TextIO, error: OSError) -> None:
    """Write nothing more to a stream; raises Refusal where that loses a report, which a reader that has gone is not."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if stream is not sys.stderr and not isinstance(error, BrokenPipeError):
        raise Refusal(f"standard output: {(error.strerror or str(error)).lower()}") from error


def _write(stream: TextIO, text: str) -> None:
    """Write and flush what may be shown of a text.

    A reader that has gone (`| head`) is no error of ours, and the exit code stays true.
    """
    text = for_terminal(text)
    if _HEARING:
        _tell(stream, text.replace("\n", os.linesep).encode(stream.encoding, "backslashreplace"))
    _escape_what_it_lacks(stream)
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        _give_up(stream, error)


def _escape_what_it_lacks(stream: TextIO) -> None:
    """Let a stream write characters that its encoding does not have as their escapes."""
    written: object = stream
    if isinstance(written, io.TextIOWrapper):
        written.reconfigure(errors="backslashreplace")
