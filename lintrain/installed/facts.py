"""What is known about one name of an installed package: plain data, which came from another process or the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, Literal

from lintrain.startup.lazy_dataclass import dataclass

Kind = Literal["class", "function", "other", "missing", "unknown"]
KINDS = frozenset({"class", "function", "other", "missing", "unknown"})

RUNNING = "the interpreter that runs lintrain"
"""The source of a version that is only installed for lintrain: the script may run on another."""

LONGEST = 400
"""Characters of a name or of an item."""

MOST = 2_000
"""Entries of one list."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One name. `items` are its parameters in the notation of the tables, None if they are not known.

    For a class: `bases` are those of other packages, `is_closed` if no base is unknown. `forward` are the parameters of
    its `forward`, None if it has none or if it is not known. `handed` are the parameters that the constructor of the
    first base has, with the own ones that reach it unchanged; with `hands_rest` all others reach it by their names, and
    the `opaque` get something else; None if that is not known. `sets` are attributes that its methods set, `fields`
    those of a dataclass with their defaults, `has_hooks` if it has a constructor of its own.
    """

    kind: Kind
    defined_as: str = ""
    items: tuple[str, ...] | None = None
    positional: tuple[str, ...] | None = None
    bases: tuple[str, ...] = ()
    is_closed: bool = False
    methods: tuple[str, ...] = ()
    forward: tuple[str, ...] | None = None
    handed: Mapping[str, str] | None = None
    hands_rest: bool = False
    opaque: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    fields: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    has_hooks: bool = False

    @classmethod
    def of(cls, plain: Any) -> Facts:  # Any: what JSON holds
        """The facts in plain values; raises TypeError, ValueError, KeyError or AttributeError if they are none."""
        if plain["kind"] not in KINDS:
            raise ValueError(plain["kind"])
        return cls(
            plain["kind"],
            _text(plain["defined_as"]),
            _texts(plain["items"]),
            _texts(plain["positional"]),
            _texts(plain["bases"]) or (),
            plain["is_closed"] is True,
            _texts(plain["methods"]) or (),
            _texts(plain["forward"]),
            None if plain["handed"] is None else {_text(name): _text(own) for name, own in plain["handed"].items()},
            plain["hands_rest"] is True,
            _texts(plain["opaque"]) or (),
            _texts(plain["sets"]) or (),
            {_text(name): None if each is None else _text(each) for name, each in plain["fields"].items()},
            plain["has_hooks"] is True,
        )

    def as_plain(self) -> dict[str, Any]:  # Any: what JSON holds
        """The facts as JSON holds them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Version:
    """The installed version of a package, and the environment that it is installed in, as messages name it."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Installed:
    """What is known about the names that a script imports from installed packages without tables."""

    names: Mapping[str, Facts] = field(default_factory=dict[str, Facts])
    versions: Mapping[str, Version] = field(default_factory=dict[str, Version])

    def of(self, path: str) -> Facts | None:
        """What is known about a dotted name."""
        return self.names.get(path)

    def version(self, path: str) -> Version | None:
        """The version of the package that a dotted name belongs to, if it was read."""
        return self.versions.get(path.partition(".")[0])


def _text(plain: Any) -> str:
    if plain.__class__ is not str or len(plain) > LONGEST:
        raise ValueError(plain)
    return str(plain)


def _texts(plain: Any) -> tuple[str, ...] | None:
    if plain is None:
        return None
    if plain.__class__ is not list or len(plain) > MOST:
        raise ValueError(plain)
    return tuple(map(_text, plain))
