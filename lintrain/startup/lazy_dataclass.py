"""`dataclass` of the standard library, whose methods are written when a class makes its first instance.

A check loads some 260 dataclasses and uses a third of them. The standard library writes and compiles methods for each,
which took longer than reading a script; here a class costs little more than without them.
"""

from __future__ import annotations

from _thread import RLock
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass` with the same options; its methods come with the class's first instance."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if _can_wait(vars(cls), options):
            return _Unwritten(cls, options).made
        import dataclasses

        return dataclasses.dataclass(**options)(cls)


_WRITING = RLock()
_FIRST = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__delattr__", "__setattr__", "__init__")
"""What a class says of its fields, and what an instance is made with; `__init__` last, for others wait for it."""
_LATER = {
    "repr": ("__repr__",),
    "eq": ("__eq__", "__hash__"),
    "order": ("__lt__", "__le__", "__gt__", "__ge__"),
    "unsafe_hash": ("__hash__",),
    "slots": ("__getstate__", "__setstate__"),
}
"""What few classes are ever asked for, by the option that asks for it."""
_UNLESS_SAID = {"repr": True, "eq": True}


def _can_wait(namespace: Any, options: dict[str, bool]) -> bool:
    """Whether all that is asked for can be added later: a frozen class without slots has a guard of its own."""
    return (
        not {"init", "weakref_slot"} & options.keys()
        and not {"__init__", "__setstate__", "__slots__"} & namespace.keys()
        and (options.get("slots", False) or not options.get("frozen", False))
        and not any(word in str(said) for said in _annotations(namespace).values() for word in ("InitVar", "KW_ONLY"))
    )


def _annotations(namespace: Any) -> dict[str, object]:
    annotations: dict[str, object] = namespace.get("__annotations__", {})
    return annotations


class _Unwritten:
    """A class without the methods of a dataclass, and all that the standard library needs to write them."""

    def __init__(self, cls: type, options: dict[str, bool]) -> None:
        self._namespace = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        self._fields = [name for name, said in _annotations(self._namespace).items() if "ClassVar" not in str(said)]
        self._options = _UNLESS_SAID | options
        self.made: Any = self._slotted(cls) if options.get("slots") else cls
        asked = (name for option, names in _LATER.items() if self._options.get(option) for name in names)
        self._waiting = {name for name in (*_FIRST, *asked) if name not in self._namespace}
        for name in self._waiting - {"__delattr__", "__setattr__"}:
            setattr(self.made, name, _StandIn(self, name))

    def _slotted(self, cls: type) -> type:
        """The class with a slot for each field that none of its bases has one for, and without the fields' defaults."""
        inherited = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
        namespace = {name: value for name, value in self._namespace.items() if name not in self._fields}
        namespace["__slots__"] = tuple(name for name in self._fields if name not in inherited)
        made = type(cls)(cls.__name__, cls.__bases__, namespace)
        made.__qualname__ = cls.__qualname__
        return made

    def write(self, name: str) -> None:
        """Give the class what the standard library writes for it: what makes instances, or all that is left."""
        with _WRITING:
            if name not in self._waiting:
                return
            if name in _FIRST:
                self._take(_FIRST, self._copied(self._options | dict.fromkeys(_LATER, False)))
                self._tell_options()
            else:
                self._take(tuple(self._waiting), self._copied(self._options))

    def _copied(self, options: dict[str, bool]) -> dict[str, Any]:
        """A copy of the class as `dataclasses.dataclass` makes it: to one that has its slots it can add no more."""
        import dataclasses

        # Of a class without a docstring it would write the signature, which takes as long as all of its methods.
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

    def _tell_options(self) -> None:
        told = self.made.__dataclass_params__
        for option, is_asked in self._options.items():
            if hasattr(told, option):
                setattr(told, option, is_asked)


class _StandIn:
    """What stands for an attribute of a class until it is asked for."""

    def __init__(self, unwritten: _Unwritten, name: str) -> None:
        self._unwritten = unwritten
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        self._unwritten.write(self._name)
        line = owner.__mro__
        for cls in line[line.index(self._unwritten.made) :]:
            if self._name in vars(cls):
                value: Any = vars(cls)[self._name]
                return value.__get__(instance, owner) if hasattr(value, "__get__") else value
        raise AttributeError(self._name)
