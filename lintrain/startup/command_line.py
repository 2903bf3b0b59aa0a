"""A command line read without click, whose import takes as long as the check of a small file.

The options are the fields of a dataclass, so they are listed once. Everything else (`--help`, an unknown option, a
value of the wrong type) is left to click, which has the error messages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

Options = TypeVar("Options")

LEFT_TO_CLICK = object()
"""The value of an argument that only click can read."""


class PlainReader(Generic[Options]):
    """Reads command lines into `options`, a dataclass in which every field has a default.

    `positional` is the field for arguments without an option, `singular` has the names of options that are repeated
    (field `targets`, option `--target`), `short` the options of one letter.
    """

    def __init__(
        self, options: type[Options], positional: str, singular: Mapping[str, str], short: Mapping[str, str]
    ) -> None:
        self._class = options
        self._positional = positional
        self._short = short
        self.options = dict[str, tuple[str, object]]()
        """The field that each option sets, and the value that it sets, or the type of the argument that follows."""
        self._repeated = set[str]()
        for field in dataclasses.fields(options):  # type: ignore[arg-type] # a dataclass, which Python cannot type
            if str(field.type).startswith("tuple"):
                self._repeated.add(field.name)
            if field.name != positional:
                self._add(field.name, singular.get(field.name, field.name).replace("_", "-"), str(field.type))

    def _add(self, field: str, name: str, kind: str) -> None:
        match kind:
            case "bool":
                self.options[f"--{name}"] = field, True
            case "bool | None":
                self.options[f"--{name}"] = field, True
                self.options[f"--no-{name}"] = field, False
            case "Path | None":
                self.options[f"--{name}"] = field, Path
            case "int | None":
                self.options[f"--{name}"] = field, int
            case _:
                self.options[f"--{name}"] = field, str

    def read(self, arguments: Sequence[str], accepts: Callable[[Mapping[str, Any]], bool]) -> Options | None:
        """The options, or None if click has to read the arguments; `accepts` tells whether click takes the values."""
        given: dict[str, Any] = {}  # Any: bools, texts, paths and tuples, as the fields have them
        waiting = iter(arguments)
        for argument in waiting:
            is_option = argument.startswith("-") and argument != "-"
            name, value = self._option(argument, waiting) if is_option else (self._positional, argument)
            if value is LEFT_TO_CLICK:
                return None
            given[name] = (*given.get(name, ()), value) if name in self._repeated else value
        return self._class(**given) if accepts(given) else None

    def _option(self, argument: str, waiting: Iterator[str]) -> tuple[str, object]:
        option, equals, value = self._short.get(argument, argument).partition("=")
        field, given = self.options.get(option, ("", LEFT_TO_CLICK))
        if not isinstance(given, type):
            return field, LEFT_TO_CLICK if equals else given
        text = value if equals else next(waiting, None)
        if text is None or (given is int and not _is_count(text)):
            return field, LEFT_TO_CLICK
        return field, given(text)


def _is_count(text: str) -> bool:
    """Whether a text is a positive number in plain digits."""
    return text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0
