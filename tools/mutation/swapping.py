"""A rule that runs with changed code: functions keep their identity, so whoever holds one runs the changed one."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import cast

from lintrain.rulebook import RuleFile
from tools.mutation.operators import Mutant


@contextmanager
def swapped(rule: RuleFile, mutant: Mutant) -> Generator[None]:
    """The rule with one mutant in force."""
    function = _function(rule, mutant.function)
    code = next(each for each in _codes(_compiled(mutant.tree, rule)) if each.co_qualname == mutant.function)
    original = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original


def can_swap(rule: RuleFile, name: str) -> bool:
    """Whether a function is one of Python's own: what a cache wraps would give remembered answers."""
    try:
        _function(rule, name)
    except TypeError:
        return False
    return True


def _function(rule: RuleFile, name: str) -> FunctionType:
    owner, _, own = name.rpartition(".")
    wrapped = _members(rule, owner)[own]
    found = getattr(wrapped, "fget", None) or getattr(wrapped, "__func__", wrapped)
    if not isinstance(found, FunctionType):
        raise TypeError(f"{name} is no plain function")
    return found


def _members(rule: RuleFile, owner: str) -> Mapping[str, object]:
    """What the rule's module, or a class of it, has by name."""
    # Not the module that has the rule's name now: who loads the rules again puts another in its place.
    methods = [each for each in vars(type(rule.rule)).values() if isinstance(each, FunctionType)]
    names = cast("dict[str, object]", methods[0].__globals__)
    return vars(names[owner]) if owner else names


def _compiled(tree: ast.Module, rule: RuleFile) -> CodeType:
    return compile(tree, str(rule.path), "exec", dont_inherit=True)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
