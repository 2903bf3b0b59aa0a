"""The project's own modules: read when a name in them is first used, each once for one script."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.project_state import Circumstances, ModuleBudgetSpentError, ProjectModule
from lintrain.interpreter.core.reader import Frame, Reader
from lintrain.interpreter.core.registry import attribute_of
from lintrain.interpreter.core.scope import Deferred, Scope, settled
from lintrain.model.location import Location
from lintrain.pipeline.values.python import UNKNOWN, Constant, Unknown, Value, mapping_of
from lintrain.source.project import ModuleFile
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

MOST_FILES = 40
"""Modules that are read for one script."""

MOST_CODE = 600_000
"""Characters of modules that are read for one script."""

DEEPEST = 12
"""How many modules may be waiting for each other."""


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
    # Not read yet: most scripts import more than the part that trains uses, and reading a module costs as
    # much as a script.
    return Deferred(lambda: member(reader, module, name))


@attribute_of(ProjectModule)
def _attribute(reader: Reader, value: ProjectModule, name: str, location: Location) -> Value:
    if name == "__dict__":
        held = {each: settled(held) for each, held in _names(reader, value).names.items()}
        return mapping_of(held, is_complete=True)
    return member(reader, value, name)


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
        # A search in the text costs a thousandth of reading it, and `import *` is often used for names of
        # something else.
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
    # Set before reading, so that two modules that import each other find the names that exist so far, as in
    # Python.
    module.names = Scope(names={"__name__": Constant(module.name), "__file__": UNKNOWN})
    reader.record.circles.add(module.names)
    source = _source(reader, module)
    if module.file.file is not None:
        module.names.names["__file__"] = Constant(module.file.file)
    if source is not None and reader.modules.depth < DEEPEST:
        reader.record.sources[source.path] = source
        reader.modules.depth += 1
        with _imported_there(reader, module.imported), outside(reader):
            _read_module(reader, source, module.names)
        reader.modules.depth -= 1
    return module.names


def _read_module(reader: Reader, source: Source, names: Scope) -> None:
    """Read the top level of a module."""
    reader.enter(Frame(None, names, source=source))
    dispatch.execute_block(reader, source.tree.body, names)
    reader.leave()


@contextmanager
def _imported_there(reader: Reader, around: Circumstances) -> Generator[None]:
    """The loops and conditions around the code are those of its import, not those of its first use."""
    before = (reader.loops, reader.conditions, reader.guards, reader.without_grad, reader.uncalled)
    switches, reader.grad_switches = reader.grad_switches, []
    reader.loops, reader.conditions = [], list(around.conditions)
    reader.guards, reader.without_grad, reader.uncalled = around.guards, 0, around.uncalled
    try:
        yield
    finally:
        reader.loops, reader.conditions, reader.guards, reader.without_grad, reader.uncalled = before
        reader.grad_switches = switches


@contextmanager
def outside(reader: Reader) -> Generator[None]:
    """Code outside the script's own file: where its steps run out, reading goes on after it as if it were not known.

    What it recorded until then is taken back, since only the whole of it is true.
    """
    modules = reader.modules
    if modules.entered_at is not None:
        yield
        return
    # The mark is for the case that the budget ends in the middle: half of what a function does can be worse
    # than nothing. For instance, it freezes a model and would unfreeze one part later.
    before = _Mark.of(reader)
    modules.entered_at, modules.limit_before = reader.steps, reader.limit
    # The reader compares with one limit only. Outside the script it is the nearer of both budgets.
    reader.limit = min(reader.limit, reader.steps + modules.most_of_the_rest)
    try:
        yield
    except ModuleBudgetSpentError:
        # What was recorded is cut to its lengths of before. Names that were bound stay bound.
        before.go_back(reader)
    finally:
        modules.steps += reader.steps - modules.entered_at
        modules.entered_at = None
        reader.limit = before.limit


@dataclass(eq=False, slots=True)
class Inside:
    """For the body of a `with`: back in the function that contains it, from within that of its context manager."""

    reader: Reader
    frame: Frame
    was_outside: bool = False

    def __enter__(self) -> None:
        reader, modules = self.reader, self.reader.modules
        # The body of the `with` may call the manager's function again, and that is no recursion.
        reader.frame.is_suspended = True
        reader.enter(self.frame)
        # The manager may come from a module and the body from the script: steps in the body are the
        # script's own, so that budget is put down here and taken up again on the way out.
        self.was_outside = modules.entered_at is not None and self.frame.source is None
        if modules.entered_at is not None and self.was_outside:
            modules.steps += reader.steps - modules.entered_at
            modules.entered_at, reader.limit = None, modules.limit_before

    def __exit__(self, *_: object) -> None:
        reader, modules = self.reader, self.reader.modules
        if self.was_outside:
            modules.entered_at = reader.steps
            reader.limit = min(modules.limit_before, reader.steps + modules.most_of_the_rest)
        reader.leave()
        reader.frame.is_suspended = False


@dataclass(frozen=True, slots=True)
class _Mark:
    """Where a reading stood before it went into a module."""

    limit: int
    frames: int
    loops: int
    conditions: int
    switches: int
    counts: tuple[int, int, int]
    uncalled: bool
    record: dict[str, int]

    @classmethod
    def of(cls, reader: Reader) -> _Mark:
        counts = (reader.guards, reader.without_grad, reader.modules.depth)
        record = reader.record.lengths()
        depths = (len(reader.frames), len(reader.loops), len(reader.conditions), len(reader.grad_switches))
        return cls(reader.limit, *depths, counts, reader.uncalled, record)

    def go_back(self, reader: Reader) -> None:
        reader.leave(self.frames)
        del reader.loops[self.loops :]
        del reader.conditions[self.conditions :]
        del reader.grad_switches[self.switches :]
        reader.guards, reader.without_grad, reader.modules.depth = self.counts
        reader.uncalled = self.uncalled
        reader.record.cut(self.record)
