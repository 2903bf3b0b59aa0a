"""Decorators: those of the script are called, those that change nothing are known, and any other hides the result."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import DECORATORS
from lintrain.pipeline.values.python import Bound, Class, Function, Instance, Library, LibraryObject, Partial, Value

PLAIN = frozenset(
    {
        "builtins.classmethod",
        "builtins.property",
        "builtins.staticmethod",
        "contextlib.contextmanager",
        "functools.cache",
        "functools.cached_property",
        "functools.lru_cache",
        "functools.wraps",
        "tensorflow.function",
    }
)
"""Decorators whose function gives what it gave before, or whose meaning is known where the function is used."""

PLAIN_PACKAGES = ("abc.", "torch.", "typing.", "typing_extensions.", "numba.")
"""Packages whose decorators leave what a function gives as it is: `torch.no_grad`, `torch.compile`."""

CONTEXT = "contextlib.contextmanager"


def path_of(decorator: Value) -> str:
    """The dotted name of a library's decorator, with or without its brackets; empty for any other."""
    return decorator.path if isinstance(decorator, Library | LibraryObject) else ""


def is_plain(decorator: Value) -> bool:
    """Whether the decorated function still gives what its body returns."""
    path = path_of(decorator)
    if path in PLAIN or path.startswith(PLAIN_PACKAGES):
        return True
    return isinstance(decorator, Bound) and isinstance(decorator.receiver, Function)  # `@value.setter`


def makes_context(function: Function) -> bool:
    """Whether a generator function is used with `with`."""
    return any(path_of(decorator) == CONTEXT for decorator in function.decorators)


def decorated(reader: Reader, made: Function | Class) -> Value:
    """What the name of a decorated function or class stands for."""
    value: Value = made
    # The one next to the function is applied first: `@a` over `@b` is `a(b(f))`.
    for decorator in reversed(made.decorators):
        change = DECORATORS.get(path_of(decorator))
        if change and isinstance(made, Function) and isinstance(decorator, LibraryObject):
            change(reader, made, decorator)
        if isinstance(decorator, Function | Class | Instance | Partial) or _is_own_method(decorator):
            location = made.origin or reader.source.location(made.node)
            given = dispatch.call(reader, decorator, [value], location=location)
            # The script's own decorator is run. If what it returns is understood, calls go there, else to
            # the function itself with an unknown result: its effects are those of the body in most cases,
            # its value may be wrapped.
            value = given if isinstance(given, Function | Class | Instance | Partial | Bound) else _hidden(value)
        elif not is_plain(decorator):
            value = _hidden(value)
    return value


def _is_own_method(decorator: Value) -> bool:
    return isinstance(decorator, Bound) and decorator.function is not None


def _hidden(value: Value) -> Value:
    """A function whose result is not known, since something that is not understood stands around it."""
    if isinstance(value, Function):
        value.is_wrapped = True
    return value
