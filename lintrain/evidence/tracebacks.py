"""A traceback that was saved as text: its error, its frames, and the user's line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lintrain.evidence.stages import Failure
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
CELL = re.compile(r"^\s*(?:File |Cell )(?P<path>\S+?)(?::(?P<line>\d+)|, line (?P<other>\d+)),? in (?P<function>.+)$")
ERROR = re.compile(
    r"^(?P<type>[A-Za-z_][\w.]*?(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Offline\w*)): ?(?P<message>.*)$"
)
BARE = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))$")
WARNED = re.compile(r"^\s*(?:(?P<path>\S.*?):(?P<line>\d+): )?(?P<type>\w+Warning): (?P<message>.*)$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WORKER = re.compile(r"Caught (?P<type>\w+) in (?P<worker>DataLoader worker process \d+|replica \d+[^.\n]*)")
INSTALLED = re.compile(r"(?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|<frozen|<string>|<__array")


@dataclass(frozen=True, slots=True)
class TextFrame:
    """One frame of a traceback: where, in which function, and the line of code if it was shown."""

    path: str
    line: int
    function: str
    code: str

    @property
    def is_installed(self) -> bool:
        """Whether the frame is in an installed package or the standard library."""
        return INSTALLED.search(self.path) is not None

    @property
    def module(self) -> str:
        """The module of an installed file, as `torch.nn.functional`."""
        tail = INSTALLED.split(self.path)[-1]
        return re.sub(r"[/\\]", ".", tail.removesuffix(".py").removesuffix("/__init__"))


def read_traceback(text: str) -> Failure | None:
    """The last error in a text, with its frames; None if the text contains none."""
    plain = COLOUR.sub("", text).strip()
    lines = [line.removeprefix("[rank0]: ") for line in plain.splitlines()]
    matches = [(index, match) for index, line in enumerate(lines) if (match := ERROR.match(line) or BARE.match(line))]
    if not matches:
        return None
    found, match = matches[-1]
    message = "\n".join([match.groupdict().get("message") or "", *lines[found + 1 :]]).strip()
    worker = WORKER.search("\n".join(lines[:found]))
    frames, kind = _frames(lines[:found]), match["type"].rpartition(".")[2]
    return _failure(kind, message, frames, worker["worker"] if worker else "")


def read_warning(text: str) -> Failure | None:
    """The last warning in a text, as Python writes it, with its line; None if the text contains none.

    It is no end of a script: whoever asks for the end of one reads a traceback.
    """
    lines = COLOUR.sub("", text).strip().splitlines()
    found = [(index, match) for index, line in enumerate(lines) if (match := WARNED.match(line))]
    if not found:
        return None
    index, match = found[-1]
    path, line = match["path"], int(match["line"] or 1)
    code = lines[index + 1].strip() if path and index + 1 < len(lines) else ""
    return Failure(
        type=match["type"],
        message=match["message"],
        location=Location(path, line, 1, line, 1) if path and not INSTALLED.search(path) else None,
        code=code,
    )


def _failure(kind: str, message: str, frames: Sequence[TextFrame], worker: str) -> Failure:
    own = [frame for frame in frames if not frame.is_installed]
    last, first = (frames[-1] if frames else None), (own[-1] if own else None)
    is_library = last is not None and last.is_installed
    return Failure(
        type=kind,
        message=message,
        location=Location(first.path, first.line, 1, first.line, 1) if first else None,
        code=first.code if first else "",
        frames=tuple(_described(frame) for frame in reversed(frames)),
        raised_in=f"{last.module}.{last.function}" if last and is_library else "",
        worker=worker,
    )


def unwrapped(message: str) -> Failure | None:
    """The error of a worker process, whose traceback is the message of the error in the main process."""
    found = WORKER.search(message.splitlines()[0] if message else "")
    if found is None or "\n" not in message:
        return None
    return read_traceback(message)


def read_frames(text: str) -> list[TextFrame]:
    """The frames of the last traceback in a text."""
    return _frames(text.splitlines())


def _frames(lines: Sequence[str]) -> list[TextFrame]:
    """The frames of the last traceback: those after the last line that begins one."""
    starts = [index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    found: list[TextFrame] = []
    part = lines[starts[-1] :] if starts else lines
    for index, line in enumerate(part):
        if (match := FRAME.match(line) or CELL.match(line)) is None:
            continue
        following = part[index + 1].strip() if index + 1 < len(part) else ""
        code = "" if FRAME.match(following) else following
        number = match.groupdict().get("line") or match.groupdict().get("other") or "1"
        found.append(TextFrame(match["path"], int(number), match["function"] or "<module>", code))
    return found


def _described(frame: TextFrame) -> str:
    shown = INSTALLED.split(frame.path)[-1] if frame.is_installed else frame.path
    return f"{shown}:{frame.line} in {frame.function}: {frame.code}"
