"""Objects of a script as code that makes them again: values, modules, configurations, tokenizers, collators.

How modules were made: the arguments of their constructors, kept while the script builds its model.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import math
import os
import weakref
from collections.abc import Mapping
from types import FrameType
from typing import Any, cast

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.startup.lazy_dataclass import dataclass

PLAIN = (bool, int, str, type(None))
NUMBERS = (*PLAIN, float)
HOMES = ("torch.nn", "torch.nn.functional", "torch.utils.data", "torch", "transformers")
"""Where people import names of libraries from."""


class CannotWriteError(Exception):
    """Something cannot be made again from code; the text says what."""


class Expressions:
    """Code for objects, and what that code needs.

    `imports` are lines, `names` are wanted from the script itself, `modules` are other files of the user, `lines` come
    before the code, and files that it reads are written to `folder`.
    """

    def __init__(self, folder: str, makers: Makers) -> None:
        self.imports: set[str] = set()
        self.names: set[str] = set()
        self.modules: set[str] = set()
        self.lines: list[str] = []
        self._folder, self._makers = folder, makers

    def of(self, value: Any) -> str:
        """An expression that gives an equal object; raises CannotWriteError."""
        # Before plain values: an enumeration of strings is a string, too.
        if isinstance(value, enum.Enum):
            return self.of(value.value)
        if isinstance(value, PLAIN):
            return repr(value)
        # `repr` of infinity is `inf`, which is no name in Python.
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, set | frozenset):
            return self._set(cast("set[Any]", value))
        if is_row(value):
            return self._row(value)
        if type(value) is dict:
            return self._dictionary(value)  # pyright: ignore[reportUnknownArgumentType] - of whatever a batch holds
        torch: Any = loaded("torch")
        if torch is not None and isinstance(value, torch.dtype | torch.device):
            self.imports.add("import torch")
            return str(value) if isinstance(value, torch.dtype) else f"torch.{value!r}"
        if torch is not None and isinstance(value, torch.nn.Module):
            return self._module(value)
        if inspect.isclass(value) or inspect.isroutine(value):
            return self.named(value)
        return self._of_transformers(value)

    def _row(self, value: list[Any] | tuple[Any, ...]) -> str:
        if type(value) not in (list, tuple):
            raise CannotWriteError(f"a `{type(value).__name__}`")
        inside = ", ".join(self.of(each) for each in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"

    def _set(self, value: set[Any]) -> str:
        # Sorted, since the order of a set of texts differs from process to process.
        return "{" + ", ".join(sorted(self.of(each) for each in value)) + "}" if value else "set()"

    def _dictionary(self, value: dict[Any, Any]) -> str:
        return "{" + ", ".join(f"{self.of(key)}: {self.of(each)}" for key, each in value.items()) + "}"

    def named(self, thing: Any) -> str:
        """A class or a function by its name, from a library, from another file of the user, or from the script."""
        module: str | None = attribute(thing, "__module__", None)
        name: str = attribute(thing, "__qualname__", "")
        if not module or not name.isidentifier():
            raise CannotWriteError(f"`{name or thing!r}`, which has no importable name")
        if module == "__main__":
            self.names.add(name)
            return name
        # `torch.nn.modules.linear.Linear` is written as people write it, `nn.Linear`.
        for public in HOMES:
            if module.startswith(public.partition(".")[0]) and _holds(public, name, thing):
                return self._public(public, name)
        if not _holds(module, name, thing):
            raise CannotWriteError(f"`{name}` of `{module}`")
        if is_users(attribute(loaded(module), "__file__", None) or "<>"):
            self.modules.add(module)
        self.imports.add(f"from {module} import {name}")
        return name

    def _public(self, module: str, name: str) -> str:
        if module == "torch.nn":
            self.imports.add("from torch import nn")
            return f"nn.{name}"
        self.imports.add(f"from {module} import {name}")
        return name

    def _module(self, module: Any) -> str:
        base = loaded("transformers.modeling_utils")
        if base is not None and isinstance(module, base.PreTrainedModel) and not _is_of_script(module):
            return f"{self.named(type(module))}({self._configuration(module.config)})"
        making = self._makers.of(module)
        if making is None:
            raise CannotWriteError(f"`{type(module).__name__}`, whose construction was not recorded")
        return self.call(type(module), making.args, making.kwargs)

    def call(self, kind: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """A class called with arguments, those with their default values left out; raises CannotWriteError."""
        defaults = _defaults(kind)
        written = [self.of(each) for each in args]
        for name, value in kwargs.items():
            default = defaults.get(name, inspect.Parameter.empty)
            if (
                not args
                and default is inspect.Parameter.empty
                and name in defaults
                and len(written) == _location(defaults, name)
            ):
                written.append(self.of(value))
            elif not _is_same(value, default):
                written.append(f"{name}={self.of(value)}")
        return f"{self.named(kind)}({', '.join(written)})"

    def _of_transformers(self, value: Any) -> str:
        configurations, tokenizers = (
            loaded("transformers.configuration_utils"),
            loaded("transformers.tokenization_utils_base"),
        )
        if configurations is not None and isinstance(value, configurations.PretrainedConfig):
            return self._configuration(value)
        if tokenizers is not None and isinstance(value, tokenizers.PreTrainedTokenizerBase):
            return self._tokenizer(value)
        if dataclasses.is_dataclass(value):
            fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.init}
            return self.call(type(value), (), fields)
        holds: dict[str, Any] | None = attribute(value, "__dict__", None)
        if _is_of_script(value) and holds is not None:
            return self._filled(value, holds)
        raise CannotWriteError(f"a `{type(value).__name__}`")

    def _filled(self, value: Any, holds: dict[str, Any]) -> str:
        """An object of the script's own class: how it was made is not known, what it holds is."""
        kind, name = self.named(type(value)), f"own_{type(value).__name__.lower()}"
        # Past the constructor, which may read files or download: attributes are all that the failing call can see.
        entries = [f"{name}.{each} = {self.of(held)}" for each, held in holds.items()]
        self.lines += [f"{name} = {kind}.__new__({kind})", *entries]
        return name

    def _configuration(self, config: Any) -> str:
        name = self._free("config.json")
        with open(os.path.join(self._folder, name), "w", encoding="utf-8") as opened:
            # Only what differs from the defaults, so that a reader sees what the script chose.
            opened.write(config.to_json_string(use_diff=True))
        kind = self.named(type(config))
        return f"{kind}.from_json_file(HERE / {json.dumps(name)})"

    def _tokenizer(self, tokenizer: Any) -> str:
        name = self._free("tokenizer")
        tokenizer.save_pretrained(os.path.join(self._folder, name))
        self.imports.add("from transformers import AutoTokenizer")
        return f"AutoTokenizer.from_pretrained(HERE / {json.dumps(name)})"

    def _free(self, name: str) -> str:
        """A name that no file of the reproduction has yet."""
        stem, dot, ending = name.partition(".")
        number, found = 1, name
        while os.path.exists(os.path.join(self._folder, found)):
            number += 1
            found = f"{stem}_{number}{dot}{ending}"
        return found


def _holds(module: str, name: str, thing: Any) -> bool:
    try:
        return attribute(library(module), name, None) is thing
    except ImportError:
        return False


def _is_of_script(value: Any) -> bool:
    return (
        is_users(attribute(loaded(type(value).__module__), "__file__", None) or "<>")
        or type(value).__module__ == "__main__"
    )


def _defaults(kind: Any) -> dict[str, Any]:
    """The parameters of a class with their default values, `empty` for those that have none."""
    try:
        return {name: one.default for name, one in inspect.signature(kind).parameters.items()}
    except (TypeError, ValueError):
        return {}


def _location(defaults: Mapping[str, Any], name: str) -> int:
    return [*defaults].index(name)


def _is_same(value: Any, default: Any) -> bool:
    # `1 == 1.0 == True`: the type counts too, or `dropout=0` would be left out where the default is 0.0.
    if isinstance(value, NUMBERS):
        return type(value) is type(default) and value == default
    return value is default


def plain_tensors(value: Any) -> Any:
    """A batch as `torch.load(weights_only=True)` reads it: tensors, numbers, texts in plain containers."""
    if has(value, "untyped_storage"):
        return value.detach().cpu().clone()
    if isinstance(value, NUMBERS):
        return value
    if is_mapping(value):
        return {str(name): plain_tensors(each) for name, each in value.items()}
    if is_row(value) and type(value) in (list, tuple):
        inside = [plain_tensors(each) for each in value]
        return inside if isinstance(value, list) else tuple(inside)
    raise CannotWriteError(f"a batch with a `{type(value).__name__}` in it")


MOST_MODULES = 20_000


@dataclass(frozen=True, slots=True)
class Making:
    """The arguments that a module was constructed with: those by position, and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Makers:
    """The making of every module that is still alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, Making] = weakref.WeakKeyDictionary()

    def install(self, hooks: AfterImport) -> None:
        """Follow the constructors of modules."""
        hooks.add("torch.nn.modules.module", lambda module: self._follow(module.Module))

    def of(self, module: Any) -> Making | None:
        """How a module was made; None if that was not seen, as for copies."""
        return self._known.get(module)

    def _follow(self, module_class: Any) -> None:
        build = module_class.__init__

        @functools.wraps(build)
        def init(module: Any, *args: Any, **kwargs: Any) -> None:
            frame = _constructor(module)
            # A copy by `deepcopy` runs no constructor, so it has no entry; entries of modules that are
            # gone are gone with them.
            if len(self._known) < MOST_MODULES:
                self._known[module] = _making(frame) if frame is not None else Making((), {})
            build(module, *args, **kwargs)

        module_class.__init__ = init


def _constructor(module: Any) -> FrameType | None:
    """The outermost `__init__` of a module that is being made: that of its own class."""
    frame, found = inspect.currentframe(), None
    frame = frame.f_back.f_back if frame and frame.f_back else None
    # Other watchers of the constructor stand between: their functions are called `init`.
    while frame is not None and frame.f_code.co_name in ("__init__", "init") and _first(frame) is module:
        found = frame if frame.f_code.co_name == "__init__" else found
        frame = frame.f_back
    return found


def _first(frame: FrameType) -> Any:
    names = frame.f_code.co_varnames[:1]
    return frame.f_locals.get(names[0]) if names else None


def _making(frame: FrameType) -> Making:
    given = inspect.getargvalues(frame)
    names = frame.f_code.co_varnames
    positional = names[1 : frame.f_code.co_argcount]
    by_name = names[frame.f_code.co_argcount : frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    values = given.locals
    several = tuple(values[given.varargs]) if given.varargs else ()
    if several:  # what stands before them can only be given by position
        args, named = (*(values[name] for name in positional), *several), by_name
    else:
        args, named = (), (*positional, *by_name)
    kwargs = {name: values[name] for name in named if name in values}
    return Making(args, {**kwargs, **(values[given.keywords] if given.keywords else {})})
