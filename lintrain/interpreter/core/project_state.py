"""The modules of the script's project that a reading knows, and what they have cost so far."""

# ruff: noqa: PTH100, PTH119, PTH122 - asked for every script, and a `Path` costs ten times a string

from __future__ import annotations

import os
from dataclasses import field

from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.python import Value
from lintrain.source.project import ModuleFile, Project
from lintrain.startup.lazy_dataclass import dataclass

STEP_BUDGET = 60_000
"""Nodes that may be evaluated outside the script's own file: past them its modules are not followed any further."""

DEFINING_BUDGET = 20_000
"""Those of a file that only defines things: the scripts that use it show what its own modules do with them."""

UNCALLED_BUDGET = 20_000
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

    @property
    def most_of_the_rest(self) -> int:
        """What one call may cost: a network of thirty kinds leaves something for the loaders after it."""
        return (self.most_steps - self.steps) * 5 // 6

    def add_script(self, path: str, names: Scope) -> None:
        """The script itself, for modules that import from it."""
        # Under its absolute path, so that `import train` in a helper finds the script that is being read,
        # not a second copy.
        file = os.path.abspath(path)
        name = os.path.splitext(os.path.basename(path))[0]
        self.known[file] = ProjectModule(ModuleFile(name, file), Circumstances(), names)

    def leave(self, steps: int) -> None:
        """Leave so many steps for what is still to be read."""
        # Never more than before: a later stage may leave less for the modules, but must not revive a budget
        # that is spent.
        self.most_steps = min(self.most_steps, self.steps + steps)
