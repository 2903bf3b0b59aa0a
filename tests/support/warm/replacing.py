"""Lets stand-ins replace functions that libraries, imported before, have taken over from their modules.

In a cold start, `datasets` takes `load_dataset` from its module after the hook of that has replaced it.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Any

from lintrain.runtime.child.hooks import Action, AfterImport

STAND_INS = "lintrain.runtime.stand_ins.install"
"""Imported only for a probe with stand-ins; the other hooks replace names wherever they are used."""

Holders = dict[int, list[tuple[ModuleType, str]]]

act_on_loaded = AfterImport.act_on_loaded
act: Any = vars(AfterImport)["_act"]


def let_packages_follow() -> None:
    """Have the hooks of this process work on loaded modules as they do in a cold start."""
    hooks: Any = AfterImport  # Any: a method is replaced
    hooks.act_on_loaded = _act_on_loaded


def _act_on_loaded(hooks: AfterImport) -> None:
    if STAND_INS not in sys.modules:
        act_on_loaded(hooks)
        return
    loaded = hooks.loaded()
    holders = _holders({_package(module.__name__) for module in loaded})
    # A package is ready after its modules: its own hook finds what theirs have replaced.
    for module in sorted(loaded, key=lambda module: -module.__name__.count(".")):
        for action in vars(hooks)["_actions"][module.__name__]:
            _act_everywhere(hooks, action, module, holders)


def _act_everywhere(hooks: AfterImport, action: Action, module: ModuleType, holders: Holders) -> None:
    before = dict(vars(module))
    act(hooks, action, module)
    for name, old in before.items():
        new = vars(module).get(name, old)
        if new is not old and isinstance(old, FunctionType | type):
            for holder, alias in holders.pop(id(old), []):
                if vars(holder).get(alias) is old:
                    setattr(holder, alias, new)
                holders.setdefault(id(new), []).append((holder, alias))


def _holders(packages: set[str]) -> Holders:
    """The names under which modules of some packages hold each function and class."""
    found: Holders = {}
    for module_name, module in [*sys.modules.items()]:
        if _package(module_name) in packages:
            for name, value in [*vars(module).items()]:
                if isinstance(value, FunctionType | type):
                    found.setdefault(id(value), []).append((module, name))
    return found


def _package(module: str) -> str:
    return module.partition(".")[0]
