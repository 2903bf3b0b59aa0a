"""Writing to the terminal, to pipes that may be closed, and to files.

Writes one file: only its own content, whatever links lead to it or share it.

A file whose other names (hard links) are all in its project is written in place. One with a name elsewhere is replaced
by a new file, so that the file under the other name does not change. Folders on the path are opened one by one without
following a link, so that none can be exchanged between the check and the writing.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TextIO

from lintrain.source.bounds import project_around, way_out
from lintrain.source.reading import read_start
from lintrain.text import for_terminal


class CommandError(Exception):
    """A command that cannot be run: one line per problem on stderr, exit code 2."""

    exit_code = 2

    def show(self) -> None:
        """Write the problems to stderr."""
        for line in str(self).splitlines():
            say(f"lintrain: {line}")


def how_to_install(package: str) -> str:
    """The command that installs a package that lintrain may need into the Python that runs it, in backticks.

    It names that package itself: one of lintrain's name in a public index would not be ours.
    """
    import shlex

    return f"`{shlex.quote(sys.executable)} -m pip install {shlex.quote(_requirement(package))}`"


def _requirement(package: str) -> str:
    """What lintrain requires of a package: its name with the versions."""
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        stated = requires("lintrain") or []
    except PackageNotFoundError:  # a checkout that is not installed
        return package
    for each in stated:
        try:
            requirement = Requirement(each)
        except InvalidRequirement:
            continue
        if requirement.name == package and "==" not in str(requirement.specifier):  # not that of our own tests
            return f"{requirement.name}{requirement.specifier}"
    return package


def say(line: str) -> None:
    """Write a line to stderr; a line break in it comes from untrusted text and is escaped."""
    write_to_stderr(line.replace("\n", "\\n"))


def write_to_stderr(text: str) -> None:
    """Write lines to stderr."""
    _write(sys.stderr, text + "\n")


class Progress:
    """What a long command does, in the last line of a terminal: after the first second, ten times a second at most."""

    def __init__(self, started: float, *, is_shown: bool = True) -> None:
        self._next = started + 1.0 if is_shown and sys.stderr.isatty() else float("inf")
        self._is_on_screen = False

    def show(self, text: Callable[[], str]) -> None:
        """Show a text, which is made only if it is."""
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + 0.1
            self._is_on_screen = True
            self._put(f"{CLEAR_LINE}lintrain: {for_terminal(text())}")

    def clear(self) -> None:
        """Remove the text."""
        if self._is_on_screen:
            self._is_on_screen = False
            self._put(CLEAR_LINE)

    def _put(self, text: str) -> None:
        """Write to the terminal; a cached report does not contain it."""
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


CLEAR_LINE = "\r\x1b[2K"


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
    try:
        # This flushes, too: what a cached report left unwritten on a full disk fails here.
        _escape_unencodable(stream)
        stream.write(text)
        stream.flush()
    except OSError as error:
        _give_up(stream, error)


def _escape_unencodable(stream: TextIO) -> None:
    """Let a stream escape characters that its encoding does not have."""
    written: object = stream
    if isinstance(written, io.TextIOWrapper):
        written.reconfigure(errors="backslashreplace")


MOST_SEARCHED = 200_000
"""Entries of a project among which other names of a file are looked for; beyond that they count as elsewhere."""

CAN_OPEN_FOLDERS = {os.open, os.unlink, os.stat} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


def put_file(path: str, content: bytes) -> None:
    """Write a file, its links and rights as they were; on a full disk it keeps what it held. Raises OSError."""
    if not CAN_OPEN_FOLDERS:
        _put_by_path(Path(path), content)
        return
    real = Path(os.path.realpath(path))
    with _opened(real.parent) as folder:
        try:
            state = os.stat(real.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            _create(folder, real.name, content, 0o666)
            return
        if not stat.S_ISREG(state.st_mode):
            read_start(real, 0)  # says what it is
            raise OSError(errno.EINVAL, "not a plain file")
        if state.st_nlink > 1 and not _has_all_names_in_project(real, state):
            _replace(folder, real.name, content)
        else:
            _overwrite_open(os.open(real.name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder), content)


def has_other_names(file: Path) -> bool:
    """Whether a file is there, a plain one, and goes by several names."""
    try:
        state = file.stat()
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_nlink > 1


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    """A descriptor of a folder that is reached over no link; raises OSError."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(folder.anchor, flags)
    try:
        for part in folder.parts[1:]:
            inner = os.open(part, flags, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def _create(folder: int, name: str, content: bytes, mode: int) -> None:
    """A new file; nothing of it stays where it cannot be written whole."""
    made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
    try:
        with os.fdopen(made, "wb") as file:
            file.write(content)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise


def _replace(folder: int, name: str, content: bytes) -> None:
    """Put a new file in the place of one, with its owner, rights and attributes; the other names keep the old one."""
    new = f".lintrain-{os.getpid()}.new"
    _create(folder, new, content, 0o600)
    try:
        before = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        after = os.open(new, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            _copy_rights(before, after)
        finally:
            os.close(before)
            os.close(after)
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(new, dir_fd=folder)
        raise


def _copy_rights(before: int, after: int) -> None:
    """Give one file the owner, rights and attributes of another; raises OSError where the owner cannot be kept."""
    old, new = os.fstat(before), os.fstat(after)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        os.fchown(after, old.st_uid, old.st_gid)
    os.fchmod(after, stat.S_IMODE(old.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(before):
                os.setxattr(after, name, os.getxattr(before, name))


def _has_all_names_in_project(file: Path, state: os.stat_result) -> bool:
    around = project_around(os.fspath(file.parent)) or os.fspath(file.parent)
    names = 0
    for count, entry in enumerate(_entries_below(around)):
        if count > MOST_SEARCHED:
            return False
        names += entry.inode() == state.st_ino and entry.stat(follow_symlinks=False).st_dev == state.st_dev
    return names >= state.st_nlink


def _entries_below(folder: str) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry


def _put_by_path(path: Path, content: bytes) -> None:
    if not path.exists():
        path.write_bytes(content)
        return
    read_start(path, 0)  # a pipe would be waited for
    _overwrite_open(os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0)), content)


def _overwrite_open(descriptor: int, content: bytes) -> None:
    """Other content for an open file; where there is no room for it, the old one again. Raises OSError."""
    with FileIO(descriptor, "r+b") as file:
        before = file.readall()
        try:
            _overwrite(file, content)
        except OSError:
            _overwrite(file, before)
            raise


def _overwrite(file: FileIO, content: bytes) -> None:
    """Other content for a file, cut to its length at the end: nothing is lost before there was room for all of it."""
    file.seek(0)
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]
    file.truncate()
