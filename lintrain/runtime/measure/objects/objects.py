"""What is known of a script's objects: each kind comes from the hooks that watch it; and where each was made."""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from lintrain.evidence.run import ObjectEvidence
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_users, shown, users_frame
from lintrain.runtime.child.library import attribute

MOST = 64
"""Objects of each kind that are reported."""
Read = Callable[[bool], list[Any]]


class Objects:
    """Whoever watches a kind of object registers here, and is read once, at the end."""

    def __init__(self) -> None:
        self._readers: dict[str, Read] = {}
        self._forget: dict[str, Callable[[], None]] = {}
        self._earlier: dict[str, int] = {}

    def add(self, kind: str, read: Read, forget: Callable[[], None] | None = None) -> None:
        """Read a field of `ObjectEvidence` by `read`; its argument says whether a training was measured to its end.

        `forget` is called when the script runs again; a list without it only grows.
        """
        self._readers[kind] = read
        if forget is not None:
            self._forget[kind] = forget

    def start_over(self) -> None:
        """The script runs again: what it made until now belongs to its earlier run, and comes first in each list."""
        for kind, read in self._readers.items():
            with contextlib.suppress(Exception):  # the objects of a script may raise anything
                self._forget.get(kind, lambda: None)()
                self._earlier[kind] = len(read(False))

    def evidence(self, note: Callable[[str], None], *, is_measured: bool) -> ObjectEvidence:
        """Everything that is known by now."""
        found: dict[str, Any] = {}
        for kind, read in self._readers.items():
            try:
                found[kind] = tuple(read(is_measured)[self._earlier.get(kind, 0) :][:MOST])
            except Exception as error:  # noqa: BLE001 - the final event is sent whatever the script's objects raise
                note(f"the script's {kind} could not be measured: {type(error).__name__}: {error}")
        return ObjectEvidence(**found)


class Origins:
    """The location of each object, by its identity, as long as it lives.

    `encodings` counts the calls of each tokenizer by their location, `silent` is the last line of the first `forward`
    of the script that returned nothing, `adapter` the last configuration of one.
    """

    def __init__(self) -> None:
        self._locations: dict[int, tuple[weakref.ref[Any], Location]] = {}
        self.encodings: Counter[tuple[int, Location]] = Counter()
        self.texts: Any = None  # some of those that were encoded: `measure.encodings`
        self.silent: Location | None = None
        self.adapter: Location | None = None

    def start_over(self) -> None:
        """The script runs again: nothing is known of its objects yet."""
        self._locations.clear()
        self.encodings.clear()
        if self.texts is not None:
            self.texts.__init__()
        self.silent = None

    def note(self, made: Any) -> None:
        """An object is made now: by the user's line that called its class, or the library that makes it."""
        location = frame_location(users_frame(skip=made))
        if location is not None:
            self._locations[id(made)] = weakref.ref(made), location

    def location_of(self, thing: object) -> Location | None:
        """Where an object was made, or None if that is not known."""
        reference, location = self._locations.get(id(thing), (None, None))
        return location if reference is not None and reference() is thing else None

    def locations(self, **things: object) -> dict[str, Location]:
        """The locations of several objects, those that are known."""
        return {name: location for name, thing in things.items() if (location := self.location_of(thing)) is not None}

    def encoding_of(self, tokenizer: object) -> dict[str, Location]:
        """Where most texts are encoded with a tokenizer, as `encoding`; nothing for one that encoded none."""
        own = {location: times for (number, location), times in self.encodings.items() if number == id(tokenizer)}
        return {"encoding": max(own, key=lambda location: own[location])} if own else {}

    def note_silent(self, module: Any) -> None:
        """A module that the script calls returns nothing."""
        code = attribute(module.__class__.forward, "__code__", None)
        if self.silent is None and code is not None and is_users(code.co_filename):
            line = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)
            self.silent = Location(shown(code.co_filename), line, 1, line, 1)


def can_be_judged_alone(objects: ObjectEvidence) -> bool:
    """Whether there is something to judge although nothing was trained."""
    gives_nothing = any(each.batches == 0 for each in objects.loaders)
    return gives_nothing or any((objects.chats, objects.splits, objects.moved))
