"""Where in the user's own code something happens: frames of the script, and of cells and lines that were typed and are
in no file; not those of its libraries or of the probe.
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from types import CodeType, FrameType, TracebackType
from typing import Any

from lintrain.evidence.run import Failure
from lintrain.evidence.tracebacks import COLOUR, read_frames, unwrapped
from lintrain.model.location import Location
from lintrain.runtime.child.empty_loops import is_of_empty_loop
from lintrain.runtime.child.given import blocks_around, changed_in_place, given_values, near_files
from lintrain.runtime.child.library import attribute, has, loaded
from lintrain.startup.folders import PACKAGE, RULES_OF_CHECKOUT

START_FOLDER = os.getcwd()
LONGEST_MESSAGE = 2_000
FORWARD_TRACE = "lintrain_forward_trace"
"""The attribute of an error of a backward pass with the traceback of its forward call."""
DOWNLOADED = ("/evaluate_modules/", "/datasets_modules/", "/transformers_modules/")
"""Folders of code that the libraries of Hugging Face load from their hub."""
PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Names of folders of installed packages."""
_cells: dict[str, list[tuple[int, int, int]]] = {}
ran_files: set[str] = set()
"""Files of the user that a frame or module was in."""


def know_cells(path: str, cells: list[tuple[int, int, int]]) -> None:
    """Remember where the cells of a notebook lie: number, first and last line in the text of them all."""
    _cells[path] = cells


def spot(path: str, line: int) -> str:
    """A line of a file in words: `train.py:7`, in a notebook `train.ipynb:cell 3:7`."""
    for number, first, last in _cells.get(path, ()):
        if first <= line <= last:
            return f"{shown(path)}:cell {number}:{line - first + 1}"
    return f"{_short(path)}:{line}"


@cache
def library_folders() -> tuple[str, ...]:
    """Folders that hold no code of the user: the standard library, installed packages, lintrain itself."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages(), [site.getusersitepackages(), PACKAGE, RULES_OF_CHECKOUT])
    # A `.pth` file or PYTHONPATH may add the packages of another environment.
    folders.update(path for path in sys.path if os.path.basename(path) in PACKAGES)
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)


@cache
def is_users(path: str) -> bool:
    """Whether a file is the user's own code."""
    if is_typed(path):
        return True
    # A module that was compiled from Cython names its source: `pandas/_libs/parsers.pyx`, which is not there.
    if path.startswith("<") or path.endswith((".pyx", ".pxi")) or any(name in path for name in DOWNLOADED):
        return False
    # An environment may become known after the folders of libraries were looked up.
    if PACKAGES & set(path.split(os.sep)) or os.path.realpath(path).startswith(library_folders()):
        return False
    if os.path.isfile(path):
        ran_files.add(os.path.abspath(path))
    return True


def shown(path: str) -> str:
    """A path as a person in the starting folder would write it; of a cell its name."""
    if (name := cell_name(path)) is not None:
        return name
    absolute = os.path.abspath(os.path.join(START_FOLDER, path))
    return os.path.relpath(absolute, START_FOLDER) if absolute.startswith(START_FOLDER + os.sep) else absolute


def is_called_from(function: Callable[..., Any]) -> bool:
    """Whether a function is among the callers."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def users_frame(skip: object = None) -> FrameType | None:
    """The innermost frame of the user's code, past the methods of the object `skip` (its own `__init__` chain)."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename) and (skip is None or _first_argument(frame) is not skip):
            return frame
        frame = frame.f_back
    return None


MADE_AT = "lintrain_made_at"
"""The attribute of an object with the location where the script made it."""


def keep_location(made: Any) -> None:
    """Remember on an object where the script makes it, unless that is known."""
    own: dict[str, Any] = attribute(made, "__dict__", {})
    if MADE_AT not in own:
        own[MADE_AT] = frame_location(users_frame(skip=made))


def made_at(made: Any) -> Location | None:
    """Where the script made an object, if that was remembered."""
    location = attribute(made, "__dict__", {}).get(MADE_AT)
    return location if isinstance(location, Location) else None


def function_location(function: Any) -> Location | None:
    """The `def` line of a function, from its decorators on; None if it is not the user's."""
    code = attribute(function, "__code__")
    if code is None or not is_users(code.co_filename):
        return None
    line = code.co_firstlineno
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    return Location(shown(code.co_filename), line, len(text) - len(text.lstrip()) + 1, line, len(text) + 1)


RERUN = "run_from_the_top"
"""The function of lintrain that a script runs in once more: the frames that called it are those of its earlier run."""


def caller_of(frame: FrameType) -> FrameType | None:
    """The frame that called one; None at the start of the script, also of one that runs again."""
    caller = frame.f_back
    is_start = caller is not None and caller.f_code.co_name == RERUN and _is_own_code(caller.f_code)
    return None if is_start else caller


def callers_frame(above: int) -> FrameType | None:
    """The frame so many calls above the one that asks, or None if there are not so many."""
    frame = inspect.currentframe()
    for _ in range(above + 1):
        frame = frame.f_back if frame else None
    return frame


def is_called_by_user(*through: str) -> bool:
    """Whether the user's code called what runs now: itself, or through files whose paths hold one of some texts."""
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if is_users(path):
            return True
        if not path.startswith(PACKAGE) and not any(text in path for text in through):
            return False
        frame = frame.f_back
    return False


def _first_argument(frame: FrameType) -> object:
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return frame.f_locals.get(names[0]) if names else None


def frame_location(frame: FrameType | None) -> Location | None:
    """The expression that a frame is at, or None for no frame."""
    return None if frame is None else _location(frame.f_code, frame.f_lasti, frame.f_lineno)


def code_at(location: Location | None) -> str:
    """The code of a location in one line, "" if it is not known."""
    if location is None:
        return ""
    path = called(location.path) or os.path.join(START_FOLDER, location.path)
    lines = [linecache.getline(path, line).rstrip("\n") for line in range(location.line, location.end_line + 1)]
    lines[-1] = lines[-1][: location.end_column - 1]
    lines[0] = lines[0][location.column - 1 :]
    return " ".join(" ".join(lines).split())


def _location(code: CodeType, instruction: int, line: int) -> Location:
    path = code.co_filename
    start, end, first, last = _positions(code, instruction)
    if start is None or end is None or first is None or last is None:
        text = linecache.getline(path, line).rstrip("\n")
        return Location(shown(path), line, len(text) - len(text.lstrip()) + 1, line, len(text) + 1)
    return Location(shown(path), start, characters(path, start, first), end, characters(path, end, last))


def _positions(code: CodeType, instruction: int) -> tuple[int | None, int | None, int | None, int | None]:
    if not has(code, "co_positions"):  # before Python 3.11
        return (None, None, None, None)
    for index, position in enumerate(code.co_positions()):
        if index == instruction // 2:
            return position
    return (None, None, None, None)


def characters(path: str, line: int, offset: int) -> int:
    """Column from 1 in characters, of an offset in UTF-8 bytes."""
    return len(linecache.getline(path, line).encode()[:offset].decode(errors="replace")) + 1


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def failure_of(error: BaseException, fallback: Location | None) -> Failure:
    """An error with the user's own frames first; `fallback` is the place when no frame of the user is on its way."""
    # Frames of the probe lie between the library and the script wherever a function is patched; the user sees the
    # traceback of a run without them.
    steps = [step for step in _steps(error.__traceback__) if not _is_own(step)]
    users = [step for step in steps if is_users(step.tb_frame.f_code.co_filename)]
    inner = unwrapped(_message(error))
    if inner is not None:
        return replace(inner, location=_in_folder(inner.location), kinds=_kinds(error), reached=_reached(users))
    location = _step_location(users[-1]) if users else fallback
    # A file that cannot be parsed has no frame: the error itself says where.
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        column = error.offset or 1
        location = Location(shown(error.filename), error.lineno, column, error.end_lineno or error.lineno, column + 1)
    last = users[-1] if users else None
    others = [step for step in steps if step not in users and not _is_plumbing(step)]
    behind = [step for step in (steps[steps.index(last) + 1 :] if last else steps) if not _is_plumbing(step)]
    return Failure(
        type=type(error).__name__,
        message=_message(error),
        location=location,
        code=linecache.getline(
            called(location.path) or os.path.join(START_FOLDER, location.path), location.line
        ).strip()
        if location
        else "",
        frames=tuple(_described(step) for step in [*reversed(users), *others[-3:]]),
        reached=_reached(users),
        raised_in=_function(behind[-1]) if behind else "",
        kinds=_kinds(error),
        caused_by=tuple(f"{type(each).__name__}: {_message(each)[:200]}" for each in _causes(error)),
        given=(*given_values(users, behind), *near_files(error)),
        around=blocks_around(users),
        forward=_forward_lines(error),
        is_of_empty_loop=last is not None and is_of_empty_loop(error, last.tb_frame, last.tb_lineno),
    )


def _forward_lines(error: BaseException) -> tuple[str, ...]:
    """The user's line whose backward pass fails, as autograd remembers it, and the lines that change its result."""
    frames = read_frames(str(attribute(error, FORWARD_TRACE, "")))
    own = next((frame for frame in reversed(frames) if is_users(frame.path)), None)
    if own is None:
        return ()
    changes = changed_in_place(own.path, own.line)
    return (
        f"{spot(own.path, own.line)}: {own.code}",
        *(f"{spot(own.path, line)}: {code} (changes its result in place)" for line, code in changes),
    )


def _reached(users: list[TracebackType]) -> Location | None:
    return next((_step_location(step) for step in users if step.tb_frame.f_code.co_name == "<module>"), None)


def _is_plumbing(step: TracebackType) -> bool:
    """A frame that only passes a call on, between a module that is called and its `forward`."""
    return step.tb_frame.f_code.co_name in ("_call_impl", "_wrapped_call_impl")


def _function(step: TracebackType) -> str:
    return f"{step.tb_frame.f_globals.get('__name__', '')}.{step.tb_frame.f_code.co_name}"


def _kinds(error: BaseException) -> tuple[str, ...]:
    return tuple(kind.__name__ for kind in type(error).__mro__[1:-1])


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = [error]
    while (following := seen[-1].__cause__ or seen[-1].__context__) is not None and following not in seen[:5]:
        seen.append(following)
        yield following


def _in_folder(location: Location | None) -> Location | None:
    """A location of a traceback in text, with its path as it is shown."""
    return None if location is None else replace(location, path=shown(location.path))


def _step_location(step: TracebackType) -> Location:
    return _location(step.tb_frame.f_code, step.tb_lasti, step.tb_lineno)


LOOP = ("activations", "batches", "metrics", "odd_calls", "scalers", "scored_axes", "torch_hooks")
BETWEEN = frozenset(
    f"lintrain.runtime.{name}"
    for name in (
        *(f"frameworks.loop.{part}" for part in LOOP),
        *(
            "measure.filled_values",
            "sandbox.files.calls",
            "stand_ins.devices",
            "stand_ins.older_names",
            "stand_ins.empty_loaders",
        ),
    )
)
"""Modules that pass the script's own calls on to the system, to torch and to metrics, and its errors back."""

PASSES_ON = frozenset({"compute_loss", "compute_metrics", "loss_of"})
"""Functions of the probe that only hand their arguments to the user's of the same name."""


def is_probes_own(error: BaseException) -> bool:
    """Whether the probe itself raised an error: its innermost frame is lintrain's.

    Arguments that the user's function does not take are refused in the frame that hands them on.
    """
    steps = list(_steps(error.__traceback__))
    if not steps or not _is_own(steps[-1]) or steps[-1].tb_frame.f_globals.get("__name__") in BETWEEN:
        return False
    # A wrong signature of `compute_metrics` raises in our frame, before the user's function has one.
    return not (isinstance(error, TypeError) and steps[-1].tb_frame.f_code.co_name in PASSES_ON)


def _is_own(step: TracebackType) -> bool:
    return _is_own_code(step.tb_frame.f_code)


def _is_own_code(code: CodeType) -> bool:
    return os.path.realpath(code.co_filename).startswith(PACKAGE + os.sep)


def _message(error: BaseException) -> str:
    text = COLOUR.sub("", str(error))
    if len(text) <= LONGEST_MESSAGE:
        return text
    # Some write a whole tensor first, and what is wrong with it last.
    return f"{text[: LONGEST_MESSAGE // 2]} … {text[-LONGEST_MESSAGE // 2 :]}"


def _described(step: TracebackType) -> str:
    path = step.tb_frame.f_code.co_filename
    code = linecache.getline(path, step.tb_lineno).strip()
    return f"{spot(path, step.tb_lineno)} in {step.tb_frame.f_code.co_name}: {code}"


def _short(path: str) -> str:
    """A user's path as `shown`; a library's from its package on."""
    if is_typed(path):
        return shown(path)
    real = os.path.realpath(path)
    folders = sorted((folder for folder in library_folders() if real.startswith(folder)), key=len)
    return os.path.relpath(real, folders[-1]) if folders else shown(path)


TYPED = re.compile(r"^<(?:ipython-input-(?P<cell>\d+)-\w+|python-input-\d+)>$|[/\\]ipykernel_\d+[/\\]\d+\.py$")
"""How IPython, Python's prompt since 3.13, and Jupyter call it; the lines of all of them are known to `linecache`."""

_called: dict[str, str] = {}


def is_typed(path: str) -> bool:
    """Whether what Python calls a file is code that was typed."""
    return TYPED.search(path) is not None


def cell_name(path: str) -> str | None:
    """`In[3]`, as IPython numbers its cells; None if it says nothing, and for every real file."""
    match = TYPED.search(path)
    if match is None:
        return None
    number = match["cell"]
    name = _asked(path) or (f"In[{number}]" if number else None)
    if name is not None:
        _called[name] = path
    return name


def called(name: str) -> str | None:
    """What Python calls the cell of a name; None for all other names."""
    return _called.get(name)


def _asked(path: str) -> str | None:
    """What IPython calls it in its own tracebacks, since 8.0."""
    ipython = loaded("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    try:
        named = shell.compile.format_code_name(path)
    except AttributeError:  # no shell, or an older one
        return None
    return str(named[1]) if named else None
