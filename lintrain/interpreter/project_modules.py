"""The project's own modules: read when a name in them is first used, each once for one script."""

# ruff: noqa: PTH100, PTH119, PTH122 - asked for every script, and a `Path` costs ten times a string

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from lintrain.interpreter.scope import Deferred, Scope
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.python import UNKNOWN, Constant, Unknown, Value
from lintrain.source.project import ModuleFile, Project
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Frame, Reader

MOST_FILES = 40
"""Modules that are read for one script."""

MOST_CODE = 600_000
"""Characters of modules that are read for one script."""

DEEPEST = 12
"""How many modules may be waiting for each other."""

STEP_BUDGET = 20_000
"""Nodes that may be evaluated outside the script's own file: past them its modules are not followed any further."""

DEFINING_BUDGET = 4_000
"""Those of a file that only defines things: the scripts that use it show what its own modules do with them."""

UNCALLED_BUDGET = 6_000
"""Those of them that may be spent on the functions that the script defines and does not call."""


class ModuleBudgetSpentError(Exception):
    """The script's modules need more steps than they are given: what was called there is unknown."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What stood around the import that a module is read for."""

    conditions: tuple[Condition, ...] = ()
    guards: int = 0
    uncalled: bool = False


@dataclass(eq=False, slots=True)
class ProjectModule(Value):
    """A module of the project; `names` is None until something needs them."""

    file: ModuleFile
    imported: Circumstances
    names: Scope | None = None
    text: str = ""
    is_being_read: bool = False

    @property
    def name(self) -> str:
        """Its dotted name."""
        return self.file.name


@dataclass(eq=False, slots=True)
class Modules:
    """The modules of one reading, and what they have cost so far."""

    project: Project | None
    known: dict[str, ProjectModule] = field(default_factory=dict[str, ProjectModule])
    files: int = 0
    characters: int = 0
    depth: int = 0
    entered_at: int | None = None
    """The steps that were spent when reading left the script's own file; None while it is there."""
    steps: int = 0
    """The steps that were spent outside it."""
    most_steps: int = field(default_factory=lambda: STEP_BUDGET)
    limit_before: int = 0
    """The bound of the script's own steps, while reading is outside."""

    def add_script(self, path: str, names: Scope) -> None:
        """The script itself, for modules that import from it."""
        file = os.path.abspath(path)
        name = os.path.splitext(os.path.basename(path))[0]
        self.known[file] = ProjectModule(ModuleFile(name, file), Circumstances(), names)

    def leave(self, steps: int) -> None:
        """Leave so many steps for what is still to be read."""
        self.most_steps = min(self.most_steps, self.steps + steps)


def made_module(reader: Reader, file: ModuleFile) -> ProjectModule:
    """The module of a file, the same one each time."""
    modules = reader.modules
    key = file.file or file.folder or file.name
    if key not in modules.known:
        around = Circumstances(tuple(reader.conditions), reader.guards, reader.uncalled)
        modules.known[key] = ProjectModule(file, around)
    return modules.known[key]


def imported(reader: Reader, module: ProjectModule, name: str) -> Value:
    """What `from module import name` binds."""
    return Deferred(lambda: member(reader, module, name))


def member(reader: Reader, module: ProjectModule, name: str) -> Value:
    """What a module has under a name: what its code binds there, else its submodule."""
    held = _names(reader, module).lookup(name)
    return submodule(reader, module, name) if held is None else held


def submodule(reader: Reader, module: ProjectModule, name: str) -> Value:
    """The module of this name inside a package."""
    project = reader.modules.project
    below = project.submodule(module.file, name) if project else None
    if below is not None:
        return made_module(reader, below)
    return Unknown(name=f"{module.name}.{name}")


def starred(reader: Reader, module: ProjectModule) -> Callable[[str], Value | None]:
    """What `from module import *` brings in, asked by name: a module whose text lacks the name is not read."""

    def find(name: str) -> Value | None:
        if name.startswith("_"):
            return None
        source = _source(reader, module)
        may_have = source is not None and (name in source.text or "import *" in source.text)
        return _names(reader, module).lookup(name) if may_have else None

    return find


def _source(reader: Reader, module: ProjectModule) -> Source | None:
    """The module's code, within the bounds of one script."""
    modules = reader.modules
    if module.file.file is None or modules.project is None:
        return None
    source = modules.project.load(module.file.file)
    if source is None or module.text is source.text:
        return source
    if modules.files >= MOST_FILES or modules.characters + len(source.text) > MOST_CODE:
        return None
    modules.files += 1
    modules.characters += len(source.text)
    module.text = source.text
    return source


def _names(reader: Reader, module: ProjectModule) -> Scope:
    """The names of a module, which is read now if it was not before."""
    if module.names is not None:
        return module.names
    module.names = Scope(names={"__name__": Constant(module.name), "__file__": UNKNOWN})
    reader.record.circles.add(module.names)
    source = _source(reader, module)
    if module.file.file is not None:
        module.names.names["__file__"] = Constant(module.file.file)
    if source is not None and reader.modules.depth < DEEPEST:
        reader.record.sources[source.path] = source
        reader.modules.depth += 1
        with _imported_there(reader, module.imported), outside(reader):
            reader.read_module(source, module.names)
        reader.modules.depth -= 1
    return module.names


@contextmanager
def _imported_there(reader: Reader, around: Circumstances) -> Generator[None]:
    """What stands around the code is what stood around its import, not what stands around its first use."""
    before = (reader.loops, reader.conditions, reader.guards, reader.without_grad, reader.uncalled)
    reader.loops, reader.conditions = [], list(around.conditions)
    reader.guards, reader.without_grad, reader.uncalled = around.guards, 0, around.uncalled
    try:
        yield
    finally:
        reader.loops, reader.conditions, reader.guards, reader.without_grad, reader.uncalled = before


@contextmanager
def outside(reader: Reader) -> Generator[None]:
    """Code outside the script's own file: where its steps run out, reading goes on after it as if it were not known.

    What it recorded until then is taken back, since only the whole of it is true.
    """
    modules = reader.modules
    if modules.entered_at is not None:
        yield
        return
    before = _Mark.of(reader)
    modules.entered_at, modules.limit_before = reader.steps, reader.limit
    reader.limit = min(reader.limit, reader.steps + modules.most_steps - modules.steps)
    try:
        yield
    except ModuleBudgetSpentError:
        before.go_back(reader)
    finally:
        modules.steps += reader.steps - modules.entered_at
        modules.entered_at = None
        reader.limit = before.limit


@dataclass(eq=False, slots=True)
class Inside:
    """For the body of a `with`: back in the function that it stands in, from within that of its context manager."""

    reader: Reader
    frame: Frame
    was_outside: bool = False

    def __enter__(self) -> None:
        reader, modules = self.reader, self.reader.modules
        reader.frame.is_suspended = True
        reader.frames.append(self.frame)
        self.was_outside = modules.entered_at is not None and self.frame.source is None
        if modules.entered_at is not None and self.was_outside:
            modules.steps += reader.steps - modules.entered_at
            modules.entered_at, reader.limit = None, modules.limit_before

    def __exit__(self, *_: object) -> None:
        reader, modules = self.reader, self.reader.modules
        if self.was_outside:
            modules.entered_at = reader.steps
            reader.limit = min(modules.limit_before, reader.steps + modules.most_steps - modules.steps)
        reader.frames.pop()
        reader.frame.is_suspended = False


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a reading stood before it went into a module."""

    limit: int
    frames: int
    loops: int
    conditions: int
    counts: tuple[int, int, int]
    uncalled: bool
    record: dict[str, int]

    @classmethod
    def of(cls, reader: Reader) -> _Mark:
        counts = (reader.guards, reader.without_grad, reader.modules.depth)
        record = reader.record.lengths()
        depths = (len(reader.frames), len(reader.loops), len(reader.conditions))
        return cls(reader.limit, *depths, counts, reader.uncalled, record)

    def go_back(self, reader: Reader) -> None:
        del reader.frames[self.frames :]
        del reader.loops[self.loops :]
        del reader.conditions[self.conditions :]
        reader.guards, reader.without_grad, reader.modules.depth = self.counts
        reader.uncalled = self.uncalled
        reader.record.cut(self.record)
