"""Classes of attrs without generated methods to compare and to show them: a server that starts does neither.

lsprotocol defines 550 classes, and attrs compiles both methods for each: 95 ms of the 290 that a server takes for its
imports. Two functions do the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def light_attrs() -> Generator[None]:
    """Classes that `attrs.define` makes inside are compared and shown by the functions below."""
    try:
        import attrs
    except ModuleNotFoundError:  # lsprotocol brings it; what is missing is said where that is imported
        yield
        return
    plain: Callable[..., Any] = attrs.define  # Any: a class, or what makes one

    def define(cls: type | None = None, **options: Any) -> Any:
        if cls is None:
            return partial(define, **options)
        own = vars(cls)
        made = plain(cls, **{"eq": False, "repr": False, **options})
        if "__eq__" not in own and "eq" not in options:
            made.__eq__, made.__hash__ = _equals, None
        if "__repr__" not in own and "repr" not in options:
            made.__repr__ = _shown
        return made

    attrs.define = define  # type: ignore[assignment] # one of its two forms at a time
    try:
        yield
    finally:
        attrs.define = plain


def _values(one: Any) -> dict[str, Any]:  # Any: an object of such a class
    names: list[str] = [field.name for field in one.__attrs_attrs__]
    return {name: getattr(one, name) for name in names}


def _equals(self: object, other: object) -> bool:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _shown(self: object) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in _values(self).items())})"
