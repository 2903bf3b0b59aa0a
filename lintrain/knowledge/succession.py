"""Whether a callable can be called like the one that it replaces."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from lintrain.knowledge import api
from lintrain.knowledge.api import Signature
from lintrain.knowledge.target import Targets
from lintrain.knowledge.versions import exactly


def takes_calls(old: str, new: str, calls: Iterable[ast.Call], targets: Targets) -> bool:
    """Whether `new` accepts what these calls pass to `old`; what the tables do not contain is no objection."""
    return all(_takes_keywords(new, call, targets) and _takes_positions(old, new, call, targets) for call in calls)


def _takes_keywords(new: str, call: ast.Call, targets: Targets) -> bool:
    states = (api.keyword_state(new, given.arg, targets).state for given in call.keywords if given.arg)
    return not any(state in ("gone", "never", "not_yet") for state in states)


def _takes_positions(old: str, new: str, call: ast.Call, targets: Targets) -> bool:
    """Whether each value that is given by its position means the same, and none is left out that has to be given."""
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
