"""Go on after a failing stage: ask the parent for the repaired text of the script, and run it in this process.

The libraries are imported by then, which is most of what another start of the script would cost. The text runs in a
`__main__` of its own, its lines numbered as in the script's file, so that every error and frame is at a line that the
user knows. What a library keeps for a process is still there: a script that sets such a thing twice may fail at a line
that it has passed before, and the parent then drops that run.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from types import CodeType, ModuleType
from typing import Any

from lintrain.runtime.child.channel import CLOSE, OPEN, Channel
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import loaded
from lintrain.startup.lazy_dataclass import dataclass

READ, SLEEP, NOW = os.read, time.sleep, time.monotonic
"""As they are before the script, which may put something else in their place."""
ANSWER = "answer-"
"""Of the files in the folder of a pass that hold what the parent repaired; a number follows."""
WAIT_SECONDS = 60.0
"""For an answer; the parent judges what was measured in less than a second."""
POLL_SECONDS = 0.01
KEPT_NAMES = ("__builtins__", "__file__", "__loader__", "__package__", "__spec__", "__cached__")
"""What Python gives `__main__`, which also tells how the script was started."""


CELLS = "cells.json"
"""Of the folder of a pass: the cells of a notebook."""


class StartOverError(BaseException):
    """Ends a run that stand-ins made in vain, for another one; no `except Exception` of the script stops it."""


class TooSlowError(StartOverError):
    """The script takes too long before it trains."""


class NoBatchesError(StartOverError):
    """So few rows were made that a loader has no batch."""


@dataclass(frozen=True)
class Repaired:
    """The text of the script with repairs; `lines` holds for each of its lines the number in the script's file.

    `cells` is the file with those of a notebook, which run in place of the text; "" for a script.
    """

    path: str
    text: str
    lines: tuple[int, ...]
    argv: tuple[str, ...]
    folder: str
    cells: str = ""


class Questions:
    """What was asked in this process until now; each question has an answer in a file of its own."""

    def __init__(self, channel: Channel, exchange: str) -> None:
        self._channel, self._exchange = channel, exchange
        self._asked = 0

    def ask(self, *, is_corrected: bool = False) -> Repaired | None:
        """What to go on with; None if there is nothing to repair. Corrected stand-ins leave the text as it is."""
        self._asked += 1
        self._channel.send("corrected" if is_corrected else "asks")
        answer = _read_when_whole(os.path.join(self._exchange, f"{ANSWER}{self._asked}.json"))
        if not answer:
            return None
        lines, argv = tuple(answer["lines"]), tuple(answer["argv"])
        return Repaired(answer["path"], answer["text"], lines, argv, answer["folder"], self._cells())

    def _cells(self) -> str:
        path = os.path.join(self._exchange, CELLS)
        return path if os.path.exists(path) else ""


def _read_when_whole(path: str) -> dict[str, Any]:
    """The object in a file that ends with a line feed once it is written; empty if none comes in time."""
    ends = NOW() + WAIT_SECONDS
    # The parent may still be writing. A file without its last line feed is half an object, and reading it would end the
    # probe with an error of JSON.
    while NOW() < ends:
        content = _content(path)
        if content.endswith(b"\n"):
            found: dict[str, Any] = json.loads(content)
            return found
        SLEEP(POLL_SECONDS)
    # No answer is treated as "nothing to repair": the run then ends with what it has, and no probe waits for ever.
    return {}


def _content(path: str) -> bytes:
    try:
        descriptor = OPEN(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        parts = list[bytes]()
        while part := READ(descriptor, 2**16):
            parts.append(part)
        return b"".join(parts)
    finally:
        CLOSE(descriptor)


def run_from_the_top(repaired: Repaired) -> None:
    """Run the repaired text as Python would start it; raises whatever the script raises."""
    if repaired.cells:
        _run_cells(repaired)
        return
    code = compiled(repaired)
    # `__spec__` and `__loader__` are taken over, because `multiprocessing` decides by them how a new process
    # imports the main module.
    before = sys.modules["__main__"]
    main = ModuleType("__main__")
    main.__dict__.update({name: vars(before)[name] for name in KEPT_NAMES if name in vars(before)})
    main.__dict__.update(__file__=repaired.path, __annotations__={})
    let_go(before)
    sys.modules["__main__"] = main
    sys.argv[:] = repaired.argv
    # Relative paths of the second run have to start where those of the first did, wherever that one had moved to.
    os.chdir(repaired.folder)
    _as_at_first()
    forget_own_modules()
    exec(code, main.__dict__)


def let_go(main: ModuleType) -> None:
    """Free the models and data of the run before: two of them may not fit into memory."""
    vars(main).clear()
    # `dill` holds on to the first `__main__`, and takes any dictionary that equals its names for that module's: with
    # no name left, each empty dictionary that `datasets` sends to its processes would be one.
    main.__dict__["__name__"] = "__main__"


def _run_cells(repaired: Repaired) -> None:
    from lintrain.runtime.child.notebook.main import run

    let_go(sys.modules["__main__"])
    sys.argv[:] = repaired.argv
    os.chdir(repaired.folder)
    _as_at_first()
    forget_own_modules()
    run(repaired.cells)


def forget_own_modules() -> None:
    """Let the project's own modules be imported again: what they keep for a process is that of the run before.

    Libraries stay, whose import is most of what another start would cost.
    """
    for name, module in [*sys.modules.items()]:
        # Not `getattr`: a module may define one, which is code of the script.
        file = vars(module).get("__file__") if type(module) is ModuleType else None
        is_probes = name == "__main__" or name.partition(".")[0] == "lintrain"
        if isinstance(file, str) and not is_probes and is_users(file):
            del sys.modules[name]


def _as_at_first() -> None:
    """Undo what libraries keep for a process: the stage may have failed within `no_grad`, and some begin only once."""
    if (hydra := loaded("hydra.core.global_hydra")) is not None:
        hydra.GlobalHydra.instance().clear()
    if (torch := loaded("torch")) is None:
        return
    torch.set_grad_enabled(True)
    groups = loaded("torch.distributed")
    if groups is not None and groups.is_available() and groups.is_initialized():
        groups.destroy_process_group()


def compiled(repaired: Repaired) -> CodeType:
    """The code of the text, at the lines that its statements have in the script's file."""
    # Numbering the tree keeps the text parsable as it is; blank lines in place of removed code
    # could not undo added lines.
    tree = ast.parse(repaired.text, repaired.path)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword | ast.alias | ast.excepthandler | ast.pattern):
            _renumber(node, repaired.lines)
    return compile(tree, repaired.path, "exec", dont_inherit=True)


def _renumber(node: Any, lines: tuple[int, ...]) -> None:
    first, last = int(node.lineno), int(node.end_lineno or node.lineno)
    node.lineno, node.end_lineno = lines[first - 1], lines[last - 1]
    # Lines that a repair added are at the same line of the file as the one next to them.
    # A repair may join what was on two lines, `f(a,\n b)`: the end is then left of the start, which `compile` refuses.
    if node.lineno == node.end_lineno and node.end_col_offset < node.col_offset:
        node.end_col_offset = node.col_offset
