"""Act on a library module right after the script imports it, and put something else in place of an attribute for a
while.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.library import is_mapping
from lintrain.startup.lazy_dataclass import dataclass

Action = Callable[[Any], None]


class AfterImport:
    """A finder that finds nothing by itself: it lets the others find, and adds actions to what they found."""

    def __init__(self, failed: Callable[[str, Exception], None]) -> None:
        self._actions: dict[str, list[Action]] = {}
        self._failed = failed

    def install(self) -> None:
        """Stand first among the finders; modules that are there already are acted on at once."""
        # First, or another finder that returns a spec itself, such as that of an editable install, would
        # hide the module from us.
        sys.meta_path.insert(0, self)
        self.act_on_loaded()

    def act_on_loaded(self) -> None:
        """Run the actions of the modules that are there already."""
        # Listed first: an action may import modules, whose actions may add others, and a dictionary
        # must not grow in a walk.
        for name in [name for name in self._actions if name in sys.modules]:
            for action in self._actions[name]:
                self._act(action, sys.modules[name])

    def loaded(self) -> list[ModuleType]:
        """The modules with actions that are there already."""
        return [sys.modules[name] for name in self._actions if name in sys.modules]

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
            # No recursion through `importlib`: it would ask this finder again for the same name.
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
            # After the module's own code, so the classes exist, and before the importer gets them: `from transformers
            # import Trainer` then binds what the actions put there.
            for action in self._actions[spec.name]:
                self._act(action, module)

        # On the one loader object, not on its class: every other module of the program has a loader of the same class.
        loader.exec_module = exec_module

    def _act(self, action: Action, module: ModuleType) -> None:
        try:
            action(module)
        except Exception as error:  # noqa: BLE001 - a library version that we do not know must not stop the user's script
            self._failed(module.__name__, error)


@contextmanager
def replaced(owner: Any, **values: Any) -> Generator[None]:
    """Set attributes on one object and give it back as it was: its own values restored, borrowed ones uncovered."""
    # `vars` and not `getattr`: a class attribute or a bound method is borrowed, and written back it would
    # become the object's own.
    before: dict[str, Any] = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        # What the object had only from its class is deleted again: set on the object, it would hide a later patch of
        # the class.
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)


@dataclass(frozen=True)
class Given:
    """One dataset as the trainer has it; `key` where it is one of a dictionary, `place` where a later call gives it."""

    argument: str
    dataset: Any
    key: str | None = None
    location: Location | None = None

    def is_of(self, owned: Any) -> bool:
        """Whether this is what an attribute of the trainer holds: the dataset, or the one under its key."""
        return self.dataset is (owned.get(self.key) if self.key is not None and is_mapping(owned) else owned)

    @property
    def name(self) -> str:
        """The argument, with the key in a dictionary of datasets."""
        return f"{self.argument}[{self.key!r}]" if self.key else self.argument
