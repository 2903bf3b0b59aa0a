"""Classes, functions and objects of installed packages without tables: unknown, but for what their source says."""

from __future__ import annotations

from lintrain.installed.facts import Facts
from lintrain.pipeline.values.python import Unknown
from lintrain.startup.lazy_dataclass import dataclass

NOTHING = Facts("unknown")


@dataclass(eq=False, slots=True)
class InstalledName(Unknown):
    """A class or function, or a module, of an installed package, by its dotted name."""

    facts: Facts = NOTHING


@dataclass(eq=False, slots=True)
class InstalledObject(Unknown):
    """An object of an installed class that derives from a module of torch."""

    facts: Facts = NOTHING
