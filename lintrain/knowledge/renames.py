"""Replacements of removed arguments and names, from the libraries' own sources and release notes.

    rename = argument_rename("transformers.TrainingArguments", "warmup_ratio", targets)
    rename.mended("0.1")                                    Mended(name="warmup_steps", value="0.1", is_safe=True)

A rename is only given where the target versions have the new argument. A caller still looks whether the call names the
new argument already: then there is nothing to rename to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Mended:
    """What a call says instead: `name=value`; no `name` means that the argument is taken out.

    `is_safe`: every run that worked before the change of version comes out the same.
    """

    name: str | None
    value: str | None
    is_safe: bool


@dataclass(frozen=True, slots=True)
class ArgumentRename:
    """The successor of a removed argument.

    `new` is its name on the same call, None where it has none. `moved_to` names the call that takes it now
    (`trl.SFTConfig`), under the name `new`. `value` is the new value, `{value}` standing for the old one; where
    `fitting` does not match the old value, there is no edit. `by_literal` gives for some literal values what is
    written instead (`{"True": "'adafactor'"}`), None for taking the argument out, and no edit for any other
    value. `brings` is what the new value needs imported. `advice` says in a few words what to write.
    """

    new: str | None
    advice: str
    value: str = "{value}"
    is_safe: bool = True
    moved_to: str | None = None
    by_literal: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    fitting: str = r".+"
    brings: str | None = None

    def mended(self, value: str) -> Mended | None:
        """The edit for an argument with this value in the script; None if a person has to decide."""
        if self.moved_to is not None:
            return None
        if self.by_literal:
            if value not in self.by_literal:
                return None
            literal = self.by_literal[value]
            return Mended(self.new if literal is not None else None, literal, self.is_safe)
        if re.fullmatch(self.fitting, value, re.DOTALL) is None:
            return None
        return Mended(self.new, self.value.replace("{value}", value) if self.new else None, self.is_safe)


@dataclass(frozen=True, slots=True)
class NameRename:
    """The successor of a removed name: `new_module` and `new_name` for the import, None where there is none.

    `is_safe`: code that used the old name runs the same with the new one. `advice` says what else changes.
    """

    new_module: str | None
    new_name: str | None
    advice: str
    is_safe: bool = False
