"""Packages that a script imports and that are not installed: they are missing only when the script uses them.

A script imports all of its tokenizers to choose one, a package for another mode, or one that only its types name. With
an error at the import nothing of it would be seen; what uses the package still ends with that error.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, MutableSequence, Sequence, Set
from types import FunctionType, ModuleType
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.stand_ins.expressions import callers_of

RAISES = compile("raise ModuleNotFoundError(f'No module named {name!r}', name=name)", "<missing package>", "exec")


def missing_package(error: BaseException) -> str | None:
    """The package that an import of the script itself does not find; None for other errors."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    file = next(callers_of(error), "")
    name = error.name.partition(".")[0]
    # A module that is installed lacks a part: another version has it.
    is_installed = name in sys.modules or name in sys.stdlib_module_names
    return name if is_users(file) and not is_installed else None


class UnusedPackages:
    """A finder of the packages that errors have shown to be missing; for libraries they are not there."""

    def __init__(self, names: Set[str], is_asked_by_script: Callable[[], bool]) -> None:
        self._names, self._is_asked_by_script = names, is_asked_by_script

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that has every name; None for packages that no error was about."""
        package = name.partition(".")[0]
        if package not in self._names or not (
            isinstance(sys.modules.get(package), Missing) or self._is_asked_by_script()
        ):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """A module without anything of its own."""
        return Missing(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs."""


class Missing(ModuleType):
    """A module whose names may be imported, inherited from and written in types."""

    __path__: MutableSequence[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _MissingName(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class _MissingName(type):
    """A name of a missing package; one that is called, as no decorator, is used."""

    def __call__(cls, *args: Any, **given: Any) -> Any:
        is_decorating = len(args) == 1 and not given and isinstance(args[0], FunctionType | type)
        if is_decorating:
            return args[0]
        # Within no file of lintrain: it is the script's error, not one of the probe.
        exec(RAISES, {"name": _package_of(cls)})
        return None

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _MissingName(name, (), {"__module__": cls.__module__})

    # Types of the package, as annotations join them: `Thing[int] | None`.
    def __getitem__(cls, _: Any) -> Any:
        return cls

    def __or__(cls, _: Any) -> Any:
        return cls

    def __ror__(cls, _: Any) -> Any:
        return cls


def _package_of(kind: type) -> str:
    """The missing package that a class comes from: its own, or that of the class it inherits from."""
    base = next(each for each in reversed(kind.__mro__) if isinstance(each, _MissingName))
    return base.__module__.partition(".")[0]
