"""The notation of signatures in the tables: `("<transformers.Trainer", "alpha=0.5", "~old=new", "*", "**kwargs")`.

`<` names the callable whose parameters come first, `~` an old keyword that is still translated.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import NamedTuple

Literals = str | int | float | bool | None | tuple["Literals", ...] | list["Literals"] | dict[str, "Literals"]


class Parameter(NamedTuple):
    """One parameter. `default` is the text of a literal default, `?` for one that is not a literal, None for no
    default. `stands_for` is the new name of an old keyword that the library still translates, or `""` for one that it
    ignores.
    """

    name: str
    default: str | None = None
    stands_for: str | None = None

    @property
    def value(self) -> Literals:
        """The value of the default; also None if it is not known, see `default`."""
        return None if self.default in (None, "?") else ast.literal_eval(self.default or "")


class Signature(NamedTuple):
    """The parameters of a class or function. `positional` are the names by position (without `self`)."""

    name: str
    parameters: tuple[Parameter, ...]
    positional: tuple[str, ...]
    accepts_any_keyword: bool
    accepts_any_position: bool

    def takes(self, keyword: str) -> bool:
        """Whether a call may pass this keyword."""
        return self.accepts_any_keyword or any(each.name == keyword for each in self.parameters)

    def parameter(self, name: str) -> Parameter | None:
        """The parameter with that name."""
        return next((each for each in self.parameters if each.name == name), None)


def taking(items: tuple[str, ...], keyword: str) -> str | None:
    """The item of a signature that accepts a keyword: its own parameter, an old name, or `**kwargs`."""
    named = by_keyword(items)
    return named.get(keyword) or named.get("**")


@cache
def by_keyword(items: tuple[str, ...]) -> dict[str, str]:
    """The items of a signature by the keyword that they accept; `**kwargs` is listed as `**`."""
    named = {item.partition("=")[0].removeprefix("~"): item for item in reversed(items)}
    catch_all = next((item for item in items if item.startswith("**")), None)
    return {**named, "**": catch_all} if catch_all else named


def merged(base: tuple[str, ...], items: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters of a base with those of a subclass: one with the same name keeps its position, others follow."""
    if not items or not items[0].startswith("<"):
        return items
    fields = {item.partition("=")[0]: item for item in base}
    fields.update((item.partition("=")[0], item) for item in items[1:])
    return tuple(fields.values())


@cache
def parsed(name: str, items: tuple[str, ...]) -> Signature:
    """The signature that is written in items."""
    parameters: list[Parameter] = []
    positional: list[str] = []
    by_position = True
    for item in items:
        plain, has_default, default = item.partition("=")
        if item.startswith("~"):
            parameters.append(Parameter(plain[1:], "?", default))
        elif item.startswith("*"):
            by_position = False
        elif item == "/":
            parameters = []
        elif not item.startswith("<"):
            parameters.append(Parameter(plain, default if has_default else None))
            positional += [plain] if by_position else []
    keywords = any(item.startswith("**") for item in items)
    return Signature(
        name,
        tuple(parameters),
        tuple(positional),
        keywords,
        any(item[0] == "*" and item[1:2] not in ("*", "") for item in items),
    )
