"""Act on a library module right after the script imports it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[Any], None]


class AfterImport:
    """A finder that finds nothing by itself: it lets the others find, and adds actions to what they found."""

    def __init__(self, failed: Callable[[str, Exception], None]) -> None:
        self._actions: dict[str, list[Action]] = {}
        self._failed = failed

    def install(self) -> None:
        """Stand first among the finders; modules that are there already are acted on at once."""
        sys.meta_path.insert(0, self)
        self.act_on_loaded()

    def act_on_loaded(self) -> None:
        """Run the actions of the modules that are there already."""
        for name in [name for name in self._actions if name in sys.modules]:
            for action in self._actions[name]:
                self._act(action, sys.modules[name])

    def add(self, module: str, action: Action) -> None:
        """Run an action with the module as soon as the script has imported it."""
        self._actions.setdefault(module, []).append(action)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders return, with a loader that runs our actions after the module's own code."""
        if name not in self._actions:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                self._follow(spec)
                return spec
        return None

    def _follow(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader  # Any: `exec_module` is replaced on this one loader object
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for action in self._actions[spec.name]:
                self._act(action, module)

        loader.exec_module = exec_module

    def _act(self, action: Action, module: ModuleType) -> None:
        try:
            action(module)
        except Exception as error:  # noqa: BLE001 - a library version that we do not know must not stop the user's script
            self._failed(module.__name__, error)
