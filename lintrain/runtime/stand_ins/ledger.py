"""What was replaced in a probe with `--stand-ins`, and how stand-ins are made without a trace in the script's run."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lintrain.evidence.run import StandIn, StandInKind
from lintrain.runtime.child.frames import START_FOLDER
from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.stand_ins.corrections import Corrections
from lintrain.runtime.stand_ins.project_packages import folder_of_package

if TYPE_CHECKING:
    from lintrain.runtime.child.probe_session import ProbeSession

LONGEST_SCRIPT = 1_000_000
MOST_FILES = 40
MODULES = (".py", "/__init__.py")
SHELL = re.compile(r"^([ \t]*)[!%].*$", re.MULTILINE)


class Ledger:
    """The stand-ins of one process, each once, in the order in which the script asked for them."""

    def __init__(self, session: ProbeSession) -> None:
        self.session = session
        self._script: str | None = None
        self._shapes: dict[str, str] = {}
        self._loaded: dict[str, list[str]] = {}
        self.corrections = Corrections(self)
        self.make_again: Callable[[], None] = lambda: None

    def replace(self, kind: StandInKind, name: str, by: str) -> None:
        """Remember that something was replaced."""
        entry = StandIn(kind, name, by)
        if entry not in self.session.stand_ins:
            self.session.stand_ins.append(entry)

    def renew(self, kind: StandInKind, name: str, by: str) -> None:
        """Remember something that was replaced, in place of what an earlier run of the script put there."""
        self.withdraw(kind, name)
        self.replace(kind, name, by)

    def withdraw(self, kind: StandInKind, name: str) -> None:
        """Forget what was replaced under a name."""
        made = self.session.stand_ins
        made[:] = [each for each in made if (each.kind, each.name) != (kind, name)]

    def describe(self, name: str, by: str, shape: str) -> None:
        """Remember a checkpoint of which no weights were asked for yet; `shape` is added to the class that loads it."""
        self._shapes[name] = shape
        self.replace(StandInKind.MODEL, name, by)

    def name_model(self, name: str, kind: str, *, is_loaded: bool = False) -> None:
        """Say which class a checkpoint was loaded as; the one that it is published as, until a class has loaded it."""
        if name not in self._shapes:
            return
        loaded_as = self._loaded.setdefault(name, [])
        if is_loaded and kind not in loaded_as:
            loaded_as.append(kind)
        entry = StandIn(
            StandInKind.MODEL, name, f"{' and '.join(loaded_as) or kind}{self._shapes[name]}, random weights"
        )
        made = self.session.stand_ins
        made[:] = [entry if (each.kind, each.name) == (entry.kind, name) else each for each in made]

    def is_made(self, name: str) -> bool:
        """Whether a checkpoint of this name is a stand-in."""
        return name in self._shapes

    def folder_of_package(self, name: str) -> str | None:
        """The folder of the project that has a package which is not on the path."""
        return folder_of_package(name, Path(START_FOLDER, self.session.script))

    @property
    def has_made_models(self) -> bool:
        """Whether a model of the script is a stand-in."""
        return any(each.kind is StandInKind.MODEL for each in self.session.stand_ins)

    @property
    def script(self) -> str:
        """The text of the script and of what it imports from its folder."""
        if self._script is None:
            self._script = "\n".join(_texts_of(Path(START_FOLDER, self.session.script)))
        return self._script

    @contextmanager
    def making(self, name: str) -> Generator[None]:
        """Make a stand-in: calls are not followed, and random numbers are those of the name, not of the script."""
        before = self.session.measuring
        self.session.measuring = True
        try:
            with same_random_numbers():
                _seed(zlib.crc32(name.encode()))
                yield
        finally:
            self.session.measuring = before


def _texts_of(script: Path) -> list[str]:
    """The text of a script, then those of modules in its folder and in the working folder, as they are imported."""
    files, texts = [script], list[str]()
    known = {os.path.abspath(script)}
    for file in files:
        text = _text_of(file)
        names = _imports(text)
        if names is None and file != script:
            continue  # no Python of this version
        texts.append(text)
        paths = [name.replace(".", "/") for name in names or ()]
        # Within a package a module imports those next to it.
        folders = dict.fromkeys((file.parent, script.parent, Path()))
        beside = (folder / f"{path}{end}" for path in paths for folder in folders for end in MODULES)
        for each in beside:
            # The working folder is mostly that of the script, so that a module has two paths.
            whole = os.path.abspath(each)
            if len(files) < MOST_FILES and whole not in known and each.is_file() and not _is_installed(each):
                known.add(whole)
                files.append(each)
    return texts


def _is_installed(file: Path) -> bool:
    """Whether a relative path is that of a package's source, and the script imports the installed one instead."""
    if file.is_absolute() or len(file.parts) == 1:
        return False
    with suppress(ImportError, ValueError, AttributeError):
        found = importlib.util.find_spec(file.parts[0])
        return found is not None and "site-packages" in str(found.origin)
    return False


def _imports(text: str) -> list[str] | None:
    """The names of the modules that a text imports; None for one that is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    plain = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    given = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    parts = [f"{node.module}.{alias.name}" for node in given for alias in node.names]
    return [*plain, *(str(node.module) for node in given), *parts]


def _text_of(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        # The outputs of a notebook, pictures among them, may be longer than any code.
        return (_code_of(json.loads(text)) if path.suffix == ".ipynb" else text)[:LONGEST_SCRIPT]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""


def _code_of(notebook: dict[str, Any]) -> str:
    """The code cells of a notebook that are Python, without the lines for its shell."""
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    texts = (SHELL.sub(r"\1pass", cell) for cell in cells)
    return "\n".join(text for text in texts if _imports(text) is not None)


def _seed(number: int) -> None:
    torch = loaded("torch")
    if torch is not None:
        torch.manual_seed(number)
    if loaded("numpy") is not None:
        library("numpy").random.seed(number % 2**32)


def is_there(name: Any) -> bool:
    """Whether a name is that of a file or folder of this machine, and not of one that was made for the script."""
    try:
        return exists(name)
    except (TypeError, ValueError):
        return False
