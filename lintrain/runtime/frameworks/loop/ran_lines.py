"""Which lines of a loop ran while it was followed: a claim about a line that never ran was not observed.

Only the user's own code is traced, from the first backward pass on, and each function for a few thousand lines at most:
one that runs longer counts as having run everywhere.
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from types import CodeType, FrameType
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import caller_of, is_users, shown
from lintrain.runtime.child.given import nodes_of

MOST_LINES = 5_000
"""Lines of one function that are traced: some milliseconds."""
MOST_SKIPPED = 200


class RanLines:
    """Follows the frames of the script from `start` to `stop`."""

    def __init__(self) -> None:
        self._ran: dict[CodeType, set[int]] = {}
        self._counts: Counter[CodeType] = Counter()
        self._loops: dict[CodeType, ast.stmt | None] = {}
        self._starts: dict[CodeType, int] = {}
        self._is_on = False

    def start(self) -> None:
        """Trace the loop that the user's frames are in, unless a debugger or a coverage tool traces already."""
        if sys.gettrace() is not None or threading.current_thread() is not threading.main_thread():
            return
        self._is_on = True
        frame: FrameType | None = inspect.currentframe()
        while frame is not None:
            if is_users(frame.f_code.co_filename):
                self._loops[frame.f_code] = _outermost_loop(frame.f_code.co_filename, frame.f_lineno, frame.f_code)
                self._starts[frame.f_code] = frame.f_lineno
                self._ran.setdefault(frame.f_code, set()).add(frame.f_lineno)
                # `settrace` only affects frames that begin after it: those that run already get their
                # trace function one by one.
                frame.f_trace = self._on_line
            frame = caller_of(frame)
        sys.settrace(self._on_call)

    def stop(self) -> None:
        """Trace no longer."""
        # A debugger that the script started since then keeps its own trace function.
        if self._is_on and sys.gettrace() == self._on_call:
            sys.settrace(None)
        self._is_on = False

    def _on_call(self, frame: FrameType, _event: str, _value: Any) -> Any:
        code = frame.f_code
        # While Python shuts down, the names of this module are gone.
        if not self._is_on or sys is None or sys.is_finalizing():
            return None
        if code not in self._ran:
            if not is_users(code.co_filename):
                return None
            self._ran[code] = {frame.f_lineno}
        if self._loops.get(code, code) is None:  # called again as a whole
            del self._loops[code]
        return self._on_line if self._counts[code] < MOST_LINES else None

    def _on_line(self, frame: FrameType, event: str, _value: Any) -> Any:
        code = frame.f_code
        if event == "line":
            self._ran[code].add(frame.f_lineno)
            self._counts[code] += 1
        return self._on_line if self._is_on and self._counts[code] < MOST_LINES else None

    def skipped(self, *, has_come_round: bool) -> tuple[Location, ...]:
        """Other loops that train; then the lines of the loop, and of what it called, that never ran, in runs of lines.

        Of lines above the first backward pass this is known if the loop has come round since.
        """
        found = (location for code in tuple(self._ran) for location in self._skipped_in(code, has_come_round))
        return (*self._other_loops(), *found)[:MOST_SKIPPED]

    def _other_loops(self) -> Iterator[Location]:
        """Loops with a backward pass, in the files of the followed code, that this run did not come to."""
        for path in dict.fromkeys(code.co_filename for code in tuple(self._ran)):
            codes = [code for code in self._ran if code.co_filename == path]
            ran = {line for code in codes for line in self._ran[code]}
            untraced = [code.co_firstlineno for code in codes if self._counts[code] >= MOST_LINES]
            for loop in _training_loops(path):
                last = loop.end_lineno or loop.lineno
                if not ran & {*range(loop.lineno, last + 1)} and not any(line <= loop.lineno for line in untraced):
                    yield Location(shown(path), loop.lineno, 1, last, 1_000)

    def _skipped_in(self, code: CodeType, has_come_round: bool) -> Iterator[Location]:
        loop = self._loops.get(code)
        if self._counts[code] >= MOST_LINES or (code in self._loops and loop is None):
            return
        first, last = (loop.lineno, loop.end_lineno or loop.lineno) if loop else (0, sys.maxsize)
        # Lines above the first backward pass ran before tracing began, which is not to be taken for "never".
        if loop and not has_come_round:
            first = self._starts[code]
        lines = {line for _, _, line in code.co_lines() if line and first <= line <= last}
        missing = sorted(lines - self._ran[code])
        for _, each in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
            run = [line for _, line in each]
            yield Location(shown(code.co_filename), run[0], 1, run[-1], 1_000)


def _training_loops(path: str) -> list[ast.stmt]:
    """The innermost loops of a file that have a backward pass in their own lines."""
    passes = [
        node.lineno
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
    ]
    loops = [node for node in nodes_of(path) if isinstance(node, ast.For | ast.While)]
    inner = (
        max((each for each in loops if _has(each, line)), key=lambda each: each.lineno, default=None) for line in passes
    )
    return list(dict.fromkeys(each for each in inner if each is not None))


def _has(loop: ast.stmt, line: int) -> bool:
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


def _outermost_loop(path: str, line: int, code: CodeType) -> ast.stmt | None:
    """The outermost loop around a line in its function; None if there is none, or the text cannot be read."""
    loops = [
        node
        for node in nodes_of(path)
        if isinstance(node, ast.For | ast.While) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return next((loop for loop in loops if code.co_firstlineno <= loop.lineno), None)
