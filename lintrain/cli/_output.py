"""Writing to the terminal, to pipes that may be closed, and to files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lintrain.cli._file_writing import has_other_names, put_file
from lintrain.source.bounds import way_out
from lintrain.text.shown import for_terminal


class CommandError(Exception):
    """A command that cannot be run: one line per problem on stderr, exit code 2."""

    exit_code = 2

    def show(self) -> None:
        """Write the problems to stderr."""
        for line in str(self).splitlines():
            say(f"lintrain: {line}")


def say(line: str) -> None:
    """Write a line to stderr; a line break in it comes from untrusted text and is escaped."""
    say_text(line.replace("\n", "\\n"))


def say_text(text: str) -> None:
    """Write lines to stderr."""
    _write(sys.stderr, text + "\n")


def write_report(text: str, file: Path | None = None) -> None:
    """Write a report to stdout or to a file; raises CommandError if the file cannot be written."""
    if file is None:
        _write(sys.stdout, text)
        return
    write_named(file, text.encode("utf-8", "replace"))


def write_named(file: Path, content: bytes) -> None:
    """Write a file that the command line names, following links; other hard links keep the old content.

    Raises CommandError if the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if has_other_names(file):
            put_file(str(file), content)
        else:
            file.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{file}: {(error.strerror or str(error)).lower()}") from error


def write_for_people(text: str, file: Path | None = None) -> None:
    """Write a report for a terminal, without control sequences from untrusted text; raises as `write_report`."""
    write_report(text if file is None else for_terminal(text), file)


def write_document(text: str, file: Path | None = None) -> None:
    """Write a report for programs in UTF-8; raises CommandError if the file cannot be written."""
    if file is None:
        write_bytes(text.encode("utf-8", "replace"))
    else:
        write_report(text, file)


def check_writable(file: Path | None) -> None:
    """Raise CommandError before the run if the folder of an output file does not exist."""
    if file is not None and not file.absolute().parent.is_dir():
        raise CommandError(f"{file}: the folder does not exist")


def write_contents(contents: Mapping[str, bytes]) -> None:
    """Write files; raises CommandError after the other files are written if one cannot be."""
    problems = [problem for path, content in contents.items() if (problem := _problem_of_writing(path, content))]
    if problems:
        raise CommandError("\n".join(problems))


def _problem_of_writing(path: str, content: bytes) -> str | None:
    """Write a file; returns an error message if it cannot be written or a link leads out of the project."""
    if end := way_out(path):
        return f"{path}: not written, because a link leads out of the project; name `{end}` itself to change it"
    try:
        put_file(path, content)
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return None


@contextmanager
def record_output() -> Generator[list[tuple[bytes, bytes]]]:
    """A list of everything that is written meanwhile: `1` or `2` for the stream, and the bytes."""
    recording = list[tuple[bytes, bytes]]()
    _RECORDINGS.append(recording)
    try:
        yield recording
    finally:
        _RECORDINGS.remove(recording)


_RECORDINGS: list[list[tuple[bytes, bytes]]] = []


def _record(stream: TextIO, content: bytes) -> None:
    for recording in _RECORDINGS:
        recording.append((b"1" if stream is sys.stdout else b"2", content))


def write_bytes(content: bytes) -> None:
    """Write bytes to stdout."""
    _record(sys.stdout, content)
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout, error)


def _give_up(stream: TextIO, error: OSError) -> None:
    """Write nothing more to a stream; raises CommandError if a report is lost, unless the reader closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if stream is not sys.stderr and not isinstance(error, BrokenPipeError):
        raise CommandError(f"standard output: {(error.strerror or str(error)).lower()}") from error


def _write(stream: TextIO, text: str) -> None:
    """Write and flush a text without control sequences.

    A reader that closes the pipe (`| head`) is not an error, and the exit code stays the same.
    """
    text = for_terminal(text)
    if _RECORDINGS:
        _record(stream, text.replace("\n", os.linesep).encode(stream.encoding, "backslashreplace"))
    _escape_unencodable(stream)
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        _give_up(stream, error)


def _escape_unencodable(stream: TextIO) -> None:
    """Let a stream escape characters that its encoding does not have."""
    written: object = stream
    if isinstance(written, io.TextIOWrapper):
        written.reconfigure(errors="backslashreplace")
