"""`dataclass` of the standard library, whose methods are written when a class makes its first instance.

A check loads some 260 dataclasses and uses a third of them. The standard library writes and compiles methods for each,
which took longer than reading a script; here a class costs little more than without them.
"""

from __future__ import annotations

from _thread import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_ASKED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__init__", "__setstate__")
"""What is asked of a class, and what makes an instance, which is before anything can be compared, shown or changed."""
_OF_ITS_OWN = frozenset({"__dict__", "__doc__", "__module__", "__slots__", "__weakref__", "_abc_impl"})


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
        self._options = options
        self._is_written = False
        self._slots = frozenset(self._fields if options.get("slots") else ())
        self.made = self._slotted(cls) if options.get("slots") else cls
        for name in _ASKED:
            setattr(self.made, name, _StandIn(self, name))

    def _slotted(self, cls: type) -> type:
        """The class with a slot for each field that none of its bases has one for, and without the fields' defaults."""
        inherited = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
        namespace = {name: value for name, value in self._namespace.items() if name not in self._fields}
        namespace["__slots__"] = tuple(name for name in self._fields if name not in inherited)
        made = type(cls)(cls.__name__, cls.__bases__, namespace)
        made.__qualname__ = cls.__qualname__
        return made

    def write(self) -> None:
        """Give the class what the standard library writes for it, once; last of all what others wait for."""
        with _WRITING:
            if self._is_written:
                return
            had = self._namespace
            copied = vars(self._copied())
            added = {name for name, value in copied.items() if value is not had.get(name, self)} - _OF_ITS_OWN
            for name in sorted(added - self._slots, key=_ASKED.count):
                setattr(self.made, name, copied[name])
            for name, value in tuple(vars(self.made).items()):
                if isinstance(value, _StandIn) or (name in had and name not in copied):
                    delattr(self.made, name)
            self._is_written = True

    def _copied(self) -> type:
        """A copy of the class as `dataclasses.dataclass` makes it: to one that has its slots it can add no more."""
        import dataclasses

        # Of a class without a docstring it would write the signature, which takes as long as all of its methods.
        namespace = {**self._namespace, "__doc__": self.made.__doc__ or "-"}
        copied = type(self.made)(self.made.__name__, self.made.__bases__, namespace)
        copied.__qualname__ = self.made.__qualname__
        return dataclasses.dataclass(**self._options)(copied)


class _StandIn:
    """What stands for an attribute of a class until it is asked for."""

    def __init__(self, unwritten: _Unwritten, name: str) -> None:
        self._unwritten = unwritten
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        self._unwritten.write()
        line = owner.__mro__
        for cls in line[line.index(self._unwritten.made) :]:
            if self._name in vars(cls):
                value: Any = vars(cls)[self._name]
                return value.__get__(instance, owner) if hasattr(value, "__get__") else value
        raise AttributeError(self._name)
