"""Classes of attrs that are made when something uses them: a server uses few of those that lsprotocol defines.

lsprotocol defines 550 classes, for each of which attrs compiles methods: 200 ms of the 700 of CPU that a server takes
until its first diagnostics. Here each one waits until it makes an object or something asks for its fields, and two
functions compare and show the objects of all of them.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

REQUESTED = ("__attrs_attrs__", "__init__")
"""What a class is asked for first. attrs replaces both placeholders, so that another thread that comes then waits."""

_MAKING = RLock()


@contextmanager
def light_attrs() -> Generator[None]:
    """Classes that `attrs.define` makes inside wait, and are compared and shown by the functions below."""
    try:
        import attrs
    except ModuleNotFoundError:  # lsprotocol brings it; what is missing is said where that is imported
        yield
        return
    plain: Callable[..., Any] = attrs.define  # Any: a class, or what makes one

    def define(cls: type | None = None, **options: Any) -> Any:
        if cls is None:
            return partial(define, **options)
        if vars(cls).keys() & {*REQUESTED, "__slots__"} or options.get("slots") or options.get("frozen"):
            return _light(plain, cls, options)
        waiting = _Waiting(cls, partial(_light, plain, cls, {"init": True, **options, "slots": False}))
        for name in REQUESTED:
            setattr(cls, name, _Placeholder(name, waiting))
        return cls

    attrs.define = define  # type: ignore[assignment] # one of its two forms at a time
    try:
        yield
    finally:
        attrs.define = plain


def _light(plain: Callable[..., Any], cls: type, options: dict[str, Any]) -> Any:
    """The class as `attrs.define` makes it, without compiled methods to compare and to show its objects."""
    own = set(vars(cls))
    made = plain(cls, **{"eq": False, "repr": False, **options})
    if "__eq__" not in own and "eq" not in options:
        made.__eq__, made.__hash__ = _equals, None
    if "__repr__" not in own and "repr" not in options:
        made.__repr__ = _shown
    return made


class _Waiting:
    """A class that attrs has not processed yet; it has no slots, since those cannot be added to a class."""

    def __init__(self, cls: type, make: Callable[[], Any]) -> None:
        self.cls = cls
        self._make = make
        self._is_made = False

    def make(self) -> None:
        """Let attrs process the class, and resolve the names in its annotations, which all exist by now."""
        from attrs import resolve_types

        with _MAKING:
            if self._is_made:
                return
            self._is_made = True
            self._make()
            with suppress(NameError):  # as without this: cattrs says which name is missing
                resolve_types(self.cls)


class _Placeholder:
    """An attribute of a class that waits, and of those that derive from it."""

    def __init__(self, name: str, waiting: _Waiting) -> None:
        self._name = name
        self._waiting = waiting

    def __get__(self, instance: object, owner: type) -> Any:
        self._waiting.make()
        line = owner.__mro__
        for cls in line[line.index(self._waiting.cls) :]:
            if (value := vars(cls).get(self._name, self)) is not self:
                return value.__get__(instance, owner) if hasattr(value, "__get__") else value
        raise AttributeError(self._name)


def _values(one: Any) -> dict[str, Any]:  # Any: an object of such a class
    names: list[str] = [field.name for field in one.__attrs_attrs__]
    return {name: getattr(one, name) for name in names}


def _equals(self: object, other: object) -> bool:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _shown(self: object) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in _values(self).items())})"
