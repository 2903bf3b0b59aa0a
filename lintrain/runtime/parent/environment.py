"""The environment of a probed script: trackers off, caches of small things private, temporary files in one folder.

The free space on disks that no layer protects: those of downloads, and shared memory.

The Python that runs the user's script: one that has the libraries which the script imports.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lintrain.installed.environments import environment_folders
from lintrain.runtime.parent.remains import SHARED_MEMORY
from lintrain.source.reading import read_plain
from lintrain.source.source import LARGEST_CODE
from lintrain.startup.lazy_dataclass import dataclass

SITE_FOLDER = Path(__file__).parent.parent / "child" / "site"
LARGEST_MODULES_CACHE = 64 * 2**20
TRACKERS_OFF = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "SWANLAB_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1",
    "DVCLIVE_TEST": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
XET_OFF = {"HF_HUB_DISABLE_XET": "1"}
"""Requests of its compiled client cannot be read; without it the hub's files are downloaded over HTTPS."""
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
}
PYTHON = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1", "MPLBACKEND": "Agg"}


def script_environment(request_file: Path, temporary: Path, device: str, *, offline: bool = False) -> dict[str, str]:
    """This process's environment with what a probe changes; where it is `offline` the libraries know that they are."""
    environment = dict(os.environ)
    environment.update(TRACKERS_OFF)
    environment.update(XET_OFF)
    if offline:
        environment.update(OFFLINE)
    environment.pop("LINTRAIN_PROBE_NETWORK", None)
    environment.update(PYTHON)
    environment.pop("LINTRAIN_PROBE_ROOT", None)
    environment["LINTRAIN_PROBE_REQUEST"] = str(request_file)
    inherited = environment.get("PYTHONPATH")
    # In front: Python imports the first `sitecustomize` that it finds, and ours loads the script's own after it.
    environment["PYTHONPATH"] = os.pathsep.join([str(SITE_FOLDER), *([inherited] if inherited else [])])
    for name in ("TMPDIR", "TEMP", "TMP"):
        environment[name] = _made(temporary / "files")
    environment["TENSORBOARD_LOGGING_DIR"] = str(temporary / "tensorboard")
    environment["MLFLOW_TRACKING_URI"] = (temporary / "mlruns").as_uri()
    environment["TRACKIO_DIR"] = str(temporary / "trackio")
    environment["HF_METRICS_CACHE"] = _made(temporary / "metrics")
    environment["HF_MODULES_CACHE"] = _modules_cache(request_file.parent)
    if device == "cpu":
        # Empty and not unset: unset means all devices.
        environment["CUDA_VISIBLE_DEVICES"] = ""
    else:
        environment["CUDA_LAUNCH_BLOCKING"] = "1"  # an error of a kernel is raised at the line that started it
    return environment


def _made(folder: Path) -> str:
    with suppress(FileExistsError):  # an earlier pass of the script may have put something else there
        folder.mkdir(parents=True)
    return str(folder)


def _modules_cache(exchange: Path) -> str:
    """A private copy of the folder where libraries keep downloaded code, so that a probe adds nothing to it."""
    home = Path(os.environ.get("HF_HOME", Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"))
    original = Path(os.environ.get("HF_MODULES_CACHE", home / "modules")).expanduser()
    private = Path(tempfile.mkdtemp(dir=exchange, prefix="modules-")) / "modules"
    if not original.is_dir():
        return _made(private)
    if sum(file.stat().st_size for file in original.rglob("*") if file.is_file()) > LARGEST_MODULES_CACHE:
        return str(original)
    left_out = shutil.ignore_patterns("*.lock", "__pycache__")
    shutil.copytree(original, private, ignore=left_out)
    return str(private)


LEAST_LEFT = 0.1
"""The share of what was free at the start; below it the run itself would fail for lack of space."""
GIB = 2**30


class Room:
    """What was free at the start, on each disk once."""

    def __init__(self, downloads: Iterable[str]) -> None:
        self._free = dict(_free_on_each((*downloads, str(SHARED_MEMORY))))

    def lack(self) -> str:
        """Which disk is nearly full by now; empty if none is."""
        for folder, before in self._free.items():
            left = _free(folder)
            if left is not None and left < before * LEAST_LEFT:
                return f"{folder} has {left / GIB:.1f} GiB left of {before / GIB:.1f}"
        return ""


def _free_on_each(folders: Iterable[str]) -> Iterator[tuple[str, int]]:
    seen = set[int]()
    for folder in folders:
        try:
            disk = os.stat(folder).st_dev  # noqa: PTH116 - paths are strings here
        except OSError:
            continue
        free = _free(folder)
        if disk not in seen and free:
            seen.add(disk)
            yield folder, free


def _free(folder: str) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


LIBRARIES = ("torch", "transformers", "lightning", "pytorch_lightning", "tensorflow", "tf_keras", "keras")
"""A script that imports one of these cannot train without it; Python itself reports any other missing module."""

FRAMEWORKS = ("torch", "tensorflow")
"""A probe can follow training only with one of these."""

OLDEST = (3, 10)
QUESTION = (
    "import sys, importlib.util as u;"
    f"print(*sys.version_info[:2], *[n for n in {LIBRARIES!r} if u.find_spec(n) is not None])"
)


class NoInterpreterError(Exception):
    """No Python at hand can run the script; the text says what was tried and what to do."""


def choose_interpreter(asked: str | None, script: Path) -> str:
    """The interpreter asked for, else this one, else the project's `.venv`; raises NoInterpreterError."""
    needed = needed_libraries(script)
    if asked is not None:
        problem = _problem(asked, needed)
        if problem:
            raise NoInterpreterError(f"{asked}: {problem}")
        return asked
    if not _missing({name for name in LIBRARIES if find_spec(name) is not None}, needed):
        return sys.executable
    for candidate in _project_interpreters(script):
        if _problem(str(candidate), needed) is None:
            return str(candidate)
    raise NoInterpreterError(
        f"{sys.executable}: {_problem(sys.executable, needed)}; give the project's Python with `--python PATH`, "
        "or install what is missing"
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """The interpreter that a probe would try first, and whether it is the project's own."""

    python: str
    is_of_project: bool


def planned_interpreter(script: Path, folder: Path) -> Plan:
    """What `choose_interpreter` would try first in this folder, without starting any."""
    needed = needed_libraries(script)
    if not _missing({name for name in LIBRARIES if find_spec(name) is not None}, needed):
        return Plan(sys.executable, is_of_project=False)
    found = next(_project_interpreters(script, folder), None)
    return Plan(str(found), is_of_project=True) if found else Plan(sys.executable, is_of_project=False)


def needed_libraries(script: Path) -> tuple[str, ...]:
    """Those of the libraries that a script imports in any case; none for a file that is not Python."""
    try:
        tree = ast.parse(read_plain(script, LARGEST_CODE))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    imported = {name.partition(".")[0] for node in tree.body for name in _imported(node)}
    return tuple(name for name in LIBRARIES if name in imported)


def _imported(node: ast.stmt) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case _:
            return []


def _missing(found: set[str], needed: tuple[str, ...]) -> list[str]:
    """What an interpreter with such libraries lacks."""
    lacking = [name for name in needed if name not in found]
    if not found.intersection(FRAMEWORKS) and not set(lacking).intersection(FRAMEWORKS):
        lacking.append(FRAMEWORKS[0])
    return lacking


def _project_interpreters(script: Path, here: Path | None = None) -> Iterator[Path]:
    for folder in environment_folders(script.resolve().parent, here or Path.cwd()):
        for inside in ("bin/python", "Scripts/python.exe"):
            if (folder / inside).exists():
                yield folder / inside


def _problem(python: str, needed: tuple[str, ...]) -> str | None:
    """Why an interpreter cannot run the script, or None."""
    try:
        answer = subprocess.run([python, "-c", QUESTION], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be started ({error})"
    if answer.returncode != 0:
        return f"cannot be started ({answer.stderr.strip()[-200:]})"
    major, minor, *found = answer.stdout.split()
    if (int(major), int(minor)) < OLDEST:
        return f"is Python {major}.{minor}, a probe needs {'.'.join(map(str, OLDEST))} or newer"
    missing = _missing(set(found), needed)
    return f"has no {' and no '.join(missing)}" if missing else None
