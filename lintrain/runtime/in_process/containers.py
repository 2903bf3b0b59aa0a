"""Dictionaries, lists, sets and queues, also of classes of their own, copied and filled again."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from lintrain.runtime.child.kinds import is_mapping

KINDS: tuple[Any, ...] = (OrderedDict, dict, list, set, deque)
"""The methods of these are called, not those of a subclass, which may do more than hold its entries."""


def is_container(value: object) -> bool:
    """Whether a value holds entries that can be taken out and put in again."""
    return isinstance(value, KINDS)


def entries_of(container: Any) -> Any:
    """A plain copy: a dictionary of a dictionary, else a list."""
    kind = _kind_of(container)
    return dict(kind.items(container)) if _has_keys(kind) else list(kind.__iter__(container))


def refill(container: Any, before: Any) -> None:
    """Put the entries of a copy back, where something changed."""
    if _is_same(entries_of(container), before):
        return
    kind = _kind_of(container)
    kind.clear(container)
    put = kind.extend if hasattr(kind, "extend") else kind.update
    put(container, before)


def _kind_of(container: Any) -> Any:
    return next(kind for kind in KINDS if isinstance(container, kind))


def _has_keys(kind: Any) -> bool:
    return kind in (OrderedDict, dict)


def _is_same(now: Any, before: Any) -> bool:
    """The same objects in the same order, keys and values."""
    if len(now) != len(before):
        return False
    if not is_mapping(now):
        return all(one is other for one, other in zip(now, before, strict=True))
    pairs = zip(now.items(), before.items(), strict=True)
    return all(key is other and value is held for (key, value), (other, held) in pairs)
