"""Lists and dictionaries that note who looks into them, while the reading of one function is to be kept.

Adding to a list and asking for its length is no look: what is added is what the reading recorded. Everything else may
depend on what was recorded before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from lintrain.pipeline.values.python import Value
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class Watch:
    """What a reading looked at: `is_apart` if it neither saw nor changed what is not its own."""

    is_apart: bool = True
    names: set[str] = field(default_factory=set[str])
    """The names of its file that it asked for."""


class WatchedList(list[Any]):  # Any: each list of the record holds another kind
    """A list of the record."""

    __slots__ = ("watch",)

    def __init__(self, items: list[Any], watch: Watch) -> None:
        super().__init__(items)
        self.watch = watch

    def since(self, length: int) -> list[Any]:
        """What was added since it had this length."""
        return super().__getitem__(slice(length, None))


class WatchedDict(dict[Any, Any]):  # Any: what a reader keeps by identities, paths and names
    """A dictionary that all code of a file shares."""

    __slots__ = ("watch",)

    def __init__(self, items: dict[Any, Any], watch: Watch) -> None:
        super().__init__(items)
        self.watch = watch


class SeenNames(dict[str, Value]):
    """The names of a file: those that a reading asks for are noted."""

    __slots__ = ("watch",)

    def __init__(self, items: dict[str, Value], watch: Watch) -> None:
        super().__init__(items)
        self.watch = watch

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str):
            self.watch.names.add(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Value:
        self.watch.names.add(name)
        return super().__getitem__(name)

    def bound(self, name: str) -> Value | None:
        """What a name stands for, without a note; None if it is not bound."""
        return super().get(name)

    def plain(self) -> dict[str, Value]:
        """The names as they are."""
        return super().copy()


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that notes its use as a look."""

    def noting(self: WatchedList | WatchedDict | SeenNames, *given: Any) -> Any:
        self.watch.is_apart = False
        return method(self, *given)

    return noting


_OF_LISTS = (
    *("__contains__", "__delitem__", "__eq__", "__getitem__", "__iter__", "__reversed__", "__setitem__", "__add__"),
    *("clear", "copy", "count", "index", "insert", "pop", "remove", "reverse", "sort"),
)
_OF_DICTS = (
    *("__contains__", "__delitem__", "__eq__", "__getitem__", "__iter__", "__reversed__", "__setitem__", "__or__"),
    *("clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"),
)

for _name in _OF_LISTS:
    setattr(WatchedList, _name, _watched(getattr(list, _name)))
for _name in _OF_DICTS:
    if _name != "values":  # read to know whether something is one of them, which nothing is that came otherwise
        setattr(WatchedDict, _name, _watched(getattr(dict, _name)))
    if _name not in {"__contains__", "__getitem__"}:
        setattr(SeenNames, _name, _watched(getattr(dict, _name)))


def _is_filled(self: WatchedList | WatchedDict) -> bool:
    self.watch.is_apart = False
    return len(self) > 0


for _kind in (WatchedList, WatchedDict):
    setattr(_kind, "__bool__", _is_filled)  # noqa: B010 - else `if runs` would ask for the length alone
