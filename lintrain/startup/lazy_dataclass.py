"""`dataclass` of the standard library, whose methods are generated when a class makes its first instance.

A check imports some 260 dataclasses and uses a third of them. The standard library generates and compiles methods for
each when it is imported, which takes longer than reading a script.
"""

from __future__ import annotations

from _thread import RLock
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Like `dataclasses.dataclass` with the same options; methods are generated with the first instance."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if _can_wait(vars(cls), options):
            return _PendingClass(cls, options).made
        import dataclasses

        return dataclasses.dataclass(**options)(cls)


_WRITING = RLock()
_FIRST = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__delattr__", "__setattr__", "__init__")
"""What describes the fields and makes instances; `__init__` is last, since other threads wait for it."""
_LATER = {
    "repr": ("__repr__",),
    "eq": ("__eq__", "__hash__"),
    "order": ("__lt__", "__le__", "__gt__", "__ge__"),
    "unsafe_hash": ("__hash__",),
    "slots": ("__getstate__", "__setstate__"),
}
"""Methods that few classes need, by the option that requests them."""
_DEFAULTS = {"repr": True, "eq": True}


def _can_wait(namespace: Any, options: dict[str, bool]) -> bool:
    """Whether all methods can be added later; a frozen class without slots would forbid it."""
    return (
        not {"init", "weakref_slot"} & options.keys()
        and not {"__init__", "__setstate__", "__slots__"} & namespace.keys()
        and (options.get("slots", False) or not options.get("frozen", False))
        and not any(
            word in str(annotation)
            for annotation in _annotations(namespace).values()
            for word in ("InitVar", "KW_ONLY")
        )
    )


def _annotations(namespace: Any) -> dict[str, object]:
    annotations: dict[str, object] = namespace.get("__annotations__", {})
    return annotations


class _PendingClass:
    """A class whose methods are not generated yet, and what the standard library needs to generate them."""

    def __init__(self, cls: type, options: dict[str, bool]) -> None:
        self._namespace = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        self._fields = [
            name for name, annotation in _annotations(self._namespace).items() if "ClassVar" not in str(annotation)
        ]
        self._options = _DEFAULTS | options
        self.made: Any = self._slotted(cls) if options.get("slots") else cls
        requested = (name for option, names in _LATER.items() if self._options.get(option) for name in names)
        self._waiting = {name for name in (*_FIRST, *requested) if name not in self._namespace}
        for name in self._waiting - {"__delattr__", "__setattr__"}:
            setattr(self.made, name, _Placeholder(self, name))

    def _slotted(self, cls: type) -> type:
        """The class with a slot for each field that no base has a slot for, and without the defaults."""
        inherited = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
        namespace = {name: value for name, value in self._namespace.items() if name not in self._fields}
        namespace["__slots__"] = tuple(name for name in self._fields if name not in inherited)
        made = type(cls)(cls.__name__, cls.__bases__, namespace)
        made.__qualname__ = cls.__qualname__
        return made

    def write(self, name: str) -> None:
        """Add the generated methods to the class: those that make instances, or all the others."""
        with _WRITING:
            if name not in self._waiting:
                return
            if name in _FIRST:
                self._take(_FIRST, self._copied(self._options | dict.fromkeys(_LATER, False)))
                self._set_params()
            else:
                self._take(tuple(self._waiting), self._copied(self._options))

    def _copied(self, options: dict[str, bool]) -> dict[str, Any]:
        """A copy of the class processed by `dataclasses.dataclass`, which cannot add to a class that has slots."""
        import dataclasses

        # Without a docstring it would generate one from the signature, which takes as long as all methods.
        namespace = {**self._namespace, "__doc__": self.made.__doc__ or "-"}
        copied = type(self.made)(self.made.__name__, self.made.__bases__, namespace)
        copied.__qualname__ = self.made.__qualname__
        decorate = cast("Callable[[type], type]", dataclasses.dataclass(**options))
        return dict(vars(decorate(copied)))

    def _take(self, names: tuple[str, ...], copied: dict[str, Any]) -> None:
        defaults = () if self._options.get("slots") else self._fields
        for name in (*defaults, *(name for name in names if name in self._waiting)):
            if name in copied:
                setattr(self.made, name, copied[name])
            elif name in vars(self.made):
                delattr(self.made, name)
            self._waiting.discard(name)

    def _set_params(self) -> None:
        params = self.made.__dataclass_params__
        for option, is_set in self._options.items():
            if hasattr(params, option):
                setattr(params, option, is_set)


class _Placeholder:
    """A placeholder for an attribute of a class until it is used."""

    def __init__(self, pending: _PendingClass, name: str) -> None:
        self._pending = pending
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        self._pending.write(self._name)
        line = owner.__mro__
        for cls in line[line.index(self._pending.made) :]:
            if self._name in vars(cls):
                value: Any = vars(cls)[self._name]
                return value.__get__(instance, owner) if hasattr(value, "__get__") else value
        raise AttributeError(self._name)
