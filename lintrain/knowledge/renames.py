"""Replacements of removed arguments and names, from the libraries' own sources and release notes.

    rename = argument_rename("transformers.TrainingArguments", "warmup_ratio", targets)
    rename.replacement("0.1")                    Replacement(name="warmup_steps", value="0.1", is_safe=True)

A rename is returned only if the target versions have the new argument. The caller checks that the call does not pass
the new argument already.

Whether a callable can be called like the one that it replaces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from lintrain.knowledge import api
from lintrain.knowledge.notation import Signature
from lintrain.knowledge.target import Targets
from lintrain.knowledge.versions import exactly
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """The argument that replaces a removed one: `name=value`; no `name` means that the argument is removed.

    `is_safe`: every run that worked with the old version has the same result.
    """

    name: str | None
    value: str | None
    is_safe: bool


@dataclass(frozen=True, slots=True)
class ArgumentRename:
    """The successor of a removed argument.

    `new` is its name in the same call, None if it has none. `moved_to` is the call that accepts it now
    (`trl.SFTConfig`), under the name `new`. `value` is the new value, with `{value}` for the old one; if `fitting` does
    not match the old value, there is no edit. `by_literal` maps literal values to new ones
    (`{"True": "'adafactor'"}`), or to None if the argument is removed; other values get no edit. `brings` is the import
    that the new value needs. `advice` says in a few words what to write.
    """

    new: str | None
    advice: str
    value: str = "{value}"
    is_safe: bool = True
    moved_to: str | None = None
    by_literal: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    fitting: str = r".+"
    brings: str | None = None

    def replacement(self, value: str) -> Replacement | None:
        """The edit for an argument with this value in the script; None if the user has to decide."""
        if self.moved_to is not None:
            return None
        if self.by_literal:
            if value not in self.by_literal:
                return None
            literal = self.by_literal[value]
            return Replacement(self.new if literal is not None else None, literal, self.is_safe)
        if re.fullmatch(self.fitting, value, re.DOTALL) is None:
            return None
        return Replacement(self.new, self.value.replace("{value}", value) if self.new else None, self.is_safe)


@dataclass(frozen=True, slots=True)
class NameRename:
    """The successor of a removed name: `new_module` and `new_name` for the import, None if there is none.

    `is_safe`: code that used the old name runs the same with the new one. `advice` says what else changes.
    """

    new_module: str | None
    new_name: str | None
    advice: str
    is_safe: bool = False


def takes_calls(old: str, new: str, calls: Iterable[ast.Call], targets: Targets) -> bool:
    """Whether `new` accepts what these calls pass to `old`; parameters that the tables do not contain are ignored."""
    return all(_takes_keywords(new, call, targets) and _takes_positions(old, new, call, targets) for call in calls)


def _takes_keywords(new: str, call: ast.Call, targets: Targets) -> bool:
    states = (api.keyword_state(new, given.arg, targets).state for given in call.keywords if given.arg)
    return not any(state in ("gone", "never", "not_yet") for state in states)


def _takes_positions(old: str, new: str, call: ast.Call, targets: Targets) -> bool:
    """Whether each positional value has the same meaning, and no required one is missing."""
    taken = api.signature(new, targets)
    if taken is None or any(isinstance(given, ast.Starred) for given in call.args):
        return True
    number = len(call.args)
    if number > len(taken.positional) and not taken.accepts_any_position:
        return False
    before = _before(old, targets)
    meant = before.positional[:number] if before else ()
    if any(was != now for was, now in zip(meant, taken.positional, strict=False)):
        return False
    named = {given.arg for given in call.keywords}
    needed = (each.name for each in taken.parameters if each.default is None)
    return None in named or {*taken.positional[:number], *named}.issuperset(needed)


def _before(old: str, targets: Targets) -> Signature | None:
    """The last signature of a removed callable."""
    module, _, name = old.rpartition(".")
    known = api.name_state(module, name, targets)
    return api.signature(old, exactly(**{known.package: known.last_with})) if known.last_with else None
