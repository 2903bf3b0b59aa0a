"""Regular expressions that are compiled when they are first used; a check uses few of those that it imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import compile as lazy_pattern
else:

    class lazy_pattern:  # noqa: N801 - used like a function
        """Like `re.compile` with the same text and flags."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self.pattern = text
            self.flags = flags

        def __getattr__(self, name: str) -> object:
            import re

            if name.startswith("__"):
                raise AttributeError(name)
            compiled = re.compile(self.pattern, self.flags)
            for method in ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"):
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)


__all__ = ["lazy_pattern"]
