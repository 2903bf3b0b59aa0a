"""How modules were made: the arguments of their constructors, kept while the script builds its model."""

from __future__ import annotations

import functools
import inspect
import weakref
from types import FrameType
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.startup.lazy_dataclass import dataclass

MOST_MODULES = 20_000


@dataclass(frozen=True, slots=True)
class Making:
    """The arguments that a module was constructed with: those by position, and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Makers:
    """The making of every module that is still alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, Making] = weakref.WeakKeyDictionary()

    def install(self, hooks: AfterImport) -> None:
        """Follow the constructors of modules."""
        hooks.add("torch.nn.modules.module", lambda module: self._follow(module.Module))

    def of(self, module: Any) -> Making | None:
        """How a module was made; None if that was not seen, as for copies."""
        return self._known.get(module)

    def _follow(self, module_class: Any) -> None:
        build = module_class.__init__

        @functools.wraps(build)
        def init(module: Any, *args: Any, **kwargs: Any) -> None:
            frame = _constructor(module)
            if len(self._known) < MOST_MODULES:
                self._known[module] = _making(frame) if frame is not None else Making((), {})
            build(module, *args, **kwargs)

        module_class.__init__ = init


def _constructor(module: Any) -> FrameType | None:
    """The outermost `__init__` of a module that is being made: that of its own class."""
    frame, found = inspect.currentframe(), None
    frame = frame.f_back.f_back if frame and frame.f_back else None
    while frame is not None and frame.f_code.co_name == "__init__" and _first(frame) is module:
        found, frame = frame, frame.f_back
    return found


def _first(frame: FrameType) -> Any:
    names = frame.f_code.co_varnames[:1]
    return frame.f_locals.get(names[0]) if names else None


def _making(frame: FrameType) -> Making:
    given = inspect.getargvalues(frame)
    names = frame.f_code.co_varnames
    positional = names[1 : frame.f_code.co_argcount]
    by_name = names[frame.f_code.co_argcount : frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    values = given.locals
    several = tuple(values[given.varargs]) if given.varargs else ()
    if several:  # what stands before them can only be given by position
        args, named = (*(values[name] for name in positional), *several), by_name
    else:
        args, named = (), (*positional, *by_name)
    kwargs = {name: values[name] for name in named if name in values}
    return Making(args, {**kwargs, **(values[given.keywords] if given.keywords else {})})
