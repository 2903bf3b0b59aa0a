"""What is known about a kind of configuration file: how it is recognised, and what its tool runs for it."""

from __future__ import annotations

from collections.abc import Callable

from lintrain.configurations.document import Section
from lintrain.configurations.program import Program
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of configuration.

    `shows` decides by the keys of a section whether it is one; `write` adds what the tool runs for it. `package` is
    what starts it, with the command in `start`. `has_own_names` if its keys are not the names of the library's
    arguments: then a fix that names an argument does not fit the file.
    """

    name: str
    title: str
    package: str
    start: str
    shows: Callable[[Section], bool]
    write: Callable[[Program, Section], None]
    module: tuple[str, ...] = ()
    """What `python -m` starts, with the words before the name of the file; empty where a script has to be named."""
    has_own_names: bool = False
    may_be_nested: bool = False
