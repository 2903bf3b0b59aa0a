"""The position of the script in its text: in a loop or after it, and in which top-level statement.

The script's random numbers: the state before the probe's own draws is restored.

Garbage is collected rarely while a script imports its libraries: they make many objects and hardly any garbage.
"""

from __future__ import annotations

import ast
import gc
import inspect
import linecache
import random
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType

from lintrain.model.location import Location
from lintrain.runtime.child.frames import caller_of, is_users, shown
from lintrain.runtime.child.library import gpu_answers, loaded, uses_gpu

Line = tuple[CodeType, int]


def lines_now() -> list[Line]:
    """The lines of the user's code that are being executed."""
    return _lines_above(inspect.currentframe())


def _lines_above(frame: FrameType | None) -> list[Line]:
    found: list[Line] = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            found.append((frame.f_code, frame.f_lineno))
        # A script that runs again is called from its first run: those frames are at lines that no longer mean anything.
        frame = caller_of(frame)
    return found


def statement_now(script: str) -> Location | None:
    """The whole statement of a script's top level that is being executed; None if there is none by now."""
    # Another thread may ask.
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - the one way to them
    main = frames.get(threading.main_thread().ident or 0)
    for code, line in (*lines_now(), *_lines_above(main)):
        # Only the top level: a function may be called from several statements, and the one being executed now decides.
        if code.co_name != "<module>" or shown(code.co_filename) != shown(script):
            continue
        statements = _tree_of(code).body
        for each in (each for each in statements if _holds(each, line)):
            return Location(shown(code.co_filename), each.lineno, 1, each.end_lineno or line, 1)
    return None


def is_in_loop() -> bool:
    """Whether a loop of one of the running functions holds its line, so that the line may run again."""
    for code, line in lines_now():
        loops = (node for node in ast.walk(_tree_of(code)) if isinstance(node, ast.For | ast.While))
        if any(loop.lineno >= code.co_firstlineno and loop.lineno < line and _holds(loop, line) for loop in loops):
            return True
    return False


def is_behind(error: BaseException, step: list[Line]) -> bool:
    """Whether an error is where no loop can return to a step; False if that is not clear.

    Where both are under the same line of the script, that line may call a library's loop.
    """
    # The same function may be on the stack in both; its two lines decide whether a loop holds them.
    numbers = {_owner(code): line for code, line in step}
    found = [(code, numbers.get(_owner(code)), line) for code, line in _lines_of(error.__traceback__)]
    pairs = [(code, first, line) for code, first, line in found if first is not None]
    # No common function means that nothing is known, so it is not behind: an error would wrongly be reported
    # as harmless otherwise.
    return bool(pairs) and not any(
        first == second or _has_common_loop(code, first, second) for code, first, second in pairs
    )


def lines_of(error: BaseException) -> Iterator[Line]:
    """The lines of the user's code that an error passed through, the outermost first."""
    return ((code, line) for code, line in _lines_of(error.__traceback__) if is_users(code.co_filename))


def _owner(code: CodeType) -> object:
    """What some code belongs to: the cells of a notebook are one module."""
    return code.co_filename if code.co_name == "<module>" else code


def _lines_of(traceback: TracebackType | None) -> Iterator[Line]:
    while traceback is not None:
        yield traceback.tb_frame.f_code, traceback.tb_lineno
        traceback = traceback.tb_next


def _has_common_loop(code: CodeType, first: int, second: int) -> bool:
    """Whether one loop of a function (or module) holds both lines; True if its text cannot be read."""
    tree = _tree_of(code)
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While | ast.AsyncFor)]
    # True without a text: the error then counts as one of the loop, which is the careful reading.
    return not tree.body or any(_holds(loop, first) and _holds(loop, second) for loop in loops)


def _tree_of(code: CodeType) -> ast.Module:
    """The file of some code; an empty one where its text cannot be read."""
    try:
        return ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return ast.Module([], [])


def _holds(loop: ast.stmt, line: int) -> bool:
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


@contextmanager
def same_random_numbers() -> Generator[None]:
    """Let Python, NumPy and torch, on the GPU too, continue afterwards as if nothing had been drawn."""
    torch, numpy = loaded("torch"), loaded("numpy.random")
    # All generators at once, even if only one is used in between: a collator may draw from Python's and
    # a dropout from torch's.
    python = random.getstate()
    of_torch = torch.get_rng_state() if torch is not None else None
    # Not before the script uses the GPU: asking would create a context there, with hundreds of megabytes. Nor after an
    # error in one of its kernels: each call then raises the same error again.
    of_devices = torch.cuda.get_rng_state_all() if torch is not None and uses_gpu() and gpu_answers() else None
    of_numpy = numpy.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        if torch is not None:
            torch.set_rng_state(of_torch)
        if torch is not None and of_devices is not None and gpu_answers():
            torch.cuda.set_rng_state_all(of_devices)
        if numpy is not None:
            numpy.set_state(of_numpy)


RARELY = (50_000, 20, 20)
"""A seventh of the CPU time of importing torch and transformers went into collections at Python's own thresholds."""


class Thresholds:
    """Python's thresholds of garbage collection, raised until the training starts."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()

    def raise_them(self) -> None:
        """Collect rarely from now on."""
        gc.set_threshold(*RARELY)

    def put_back(self) -> None:
        """Collect as before, unless the script has set thresholds of its own."""
        # A script that sets thresholds itself keeps them: only our own value is undone.
        if gc.get_threshold() == RARELY:
            gc.set_threshold(*self._before)
