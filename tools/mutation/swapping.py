"""Code that runs changed: functions keep their identity, so whoever holds one runs the changed one."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import cast

from lintrain.rulebook import RuleFile
from tools.mutation.operators import Mutant

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file whose code is loaded: its path, and what its module has by name."""

    path: Path
    names: Mapping[str, object]


def loaded_rule(rule: RuleFile) -> Loaded:
    """The code of a rule."""
    # Not the module that has the rule's name now: who loads the rules again puts another in its place.
    methods = [each for each in vars(type(rule.rule)).values() if isinstance(each, FunctionType)]
    return Loaded(rule.path, cast("dict[str, object]", methods[0].__globals__))


def loaded_module(name: str) -> Loaded:
    """The code of a module of lintrain, by its dotted name."""
    return Loaded(ROOT.joinpath(*name.split(".")).with_suffix(".py"), vars(importlib.import_module(name)))


@contextmanager
def swapped(code: Loaded, mutant: Mutant) -> Generator[None]:
    """The code with one mutant in force."""
    with replaced(code, mutant.tree, [mutant.function]):
        yield


@contextmanager
def replaced(code: Loaded, tree: ast.Module, names: list[str]) -> Generator[None]:
    """The code with the functions of these names as a changed tree has them."""
    compiled = {each.co_qualname: each for each in _codes(compile(tree, str(code.path), "exec", dont_inherit=True))}
    functions = {name: _function(code, name) for name in names}
    originals = {name: function.__code__ for name, function in functions.items()}
    for name, function in functions.items():
        function.__code__ = compiled[name]
    try:
        yield
    finally:
        for name, function in functions.items():
            function.__code__ = originals[name]


def can_swap(code: Loaded, name: str) -> bool:
    """Whether a function is one of Python's own: what a cache wraps would give remembered answers."""
    try:
        _function(code, name)
    except TypeError:
        return False
    return True


def _function(code: Loaded, name: str) -> FunctionType:
    owner, _, own = name.rpartition(".")
    wrapped = (vars(code.names[owner]) if owner else code.names)[own]
    found = getattr(wrapped, "fget", None) or getattr(wrapped, "__func__", wrapped)
    if isinstance(found, FunctionType):
        found = inspect.unwrap(found)  # what manages a context is wrapped in a function of `contextlib`
    if not isinstance(found, FunctionType):
        raise TypeError(f"{name} is no plain function")
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
