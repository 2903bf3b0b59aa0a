"""The script's own functions: made and decorated where they are defined, parameters bound where they are called.

Questions about classes of the script: where their attributes, fields and constructors come from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    CLASS_METHODS,
    DECORATORS,
    INSTANCE_METHODS,
    METHODS,
    Transfer,
    expression,
)
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.values.certainty import OF_PARAMETER, UNCERTAIN
from lintrain.pipeline.values.python import (
    Bound,
    Class,
    Constant,
    Function,
    Instance,
    Library,
    LibraryObject,
    Partial,
    Sequence,
    Unknown,
    Value,
    constant,
    mapping_of,
)
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@expression(ast.Lambda)
def make_function(reader: Reader, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> Function:
    """A function's value: its defaults and decorators are evaluated where it is defined."""
    reader.record.circles.add(scope)
    arguments = node.args
    defaults: dict[str, Value] = {}
    ordered = [*arguments.posonlyargs, *arguments.args]
    # Defaults belong to the last parameters: both lists are paired from their ends.
    for parameter, default in zip(reversed(ordered), reversed(arguments.defaults), strict=False):
        defaults[parameter.arg] = dispatch.evaluate(reader, default, scope)
    for parameter, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if given is not None:
            defaults[parameter.arg] = dispatch.evaluate(reader, given, scope)
    marks = [] if isinstance(node, ast.Lambda) else node.decorator_list
    decorators = tuple(dispatch.evaluate(reader, mark, scope) for mark in marks)
    return Function(node, scope, defaults, decorators, reader.frame.source, origin=reader.source.location(node))


def bind_parameters(call: Call, function: Function, receiver: Value | None, scope: Scope) -> None:
    """Bind a call's arguments to a function's parameters; defaults fill what the call leaves out."""
    arguments = function.node.args
    names = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    given = [argument.value for argument in call.positional]
    if receiver is not None:
        given.insert(0, receiver)
    keywords = {name: argument.value for name, argument in call.keywords.items() if name != "**"}
    bound = dict(zip(names, given, strict=False))
    for name in [*names, *(parameter.arg for parameter in arguments.kwonlyargs)]:
        if name in keywords:
            bound[name] = keywords.pop(name)
        elif name not in bound:
            # A value of its own for each parameter, so that one unknown thing can be followed through the
            # function by its identity.
            bound[name] = Unknown(name=name) if call.is_open else function.defaults.get(name, Unknown(name=name))
    if arguments.vararg is not None:
        bound[arguments.vararg.arg] = Sequence(given[len(names) :], "tuple", not call.is_open)
    if arguments.kwarg is not None:
        # What no parameter took. Their locations come along only if the function passes them on untouched:
        # then a wrong keyword at the outermost call is still the cause of an error at the innermost one.
        rest = mapping_of(keywords, is_complete=not call.is_open)
        if call.reader.once(hands_all_on, function.node):
            locations = {name: call.keywords[name].keyword or call.keywords[name].named_at for name in keywords}
            rest.written.update({name: location for name, location in locations.items() if location is not None})
        bound[arguments.kwarg.arg] = rest
    scope.names.update(bound)


def refuses(call: Call, called: Value) -> bool:
    """Whether a call certainly has too few or too many arguments for a function, or for the `forward` of a module."""
    is_module = isinstance(called, Instance) and called.cls.lookup("__call__") is None
    found = called.cls.lookup("forward") if isinstance(called, Instance) and is_module else None
    function = found[1] if found is not None else called
    if not isinstance(function, Function) or call.is_open or function.is_wrapped:
        return False
    arguments = function.node.args
    names = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)][int(found is not None) :]
    taken = {*names[: len(call.positional)], *call.keywords, *function.defaults}
    is_too_long = len(call.positional) > len(names) and arguments.vararg is None
    return is_too_long or not taken.issuperset(names)


def hands_all_on(node: ast.AST) -> bool:
    """Whether a function does nothing with its `**kwargs` but give them to calls as they came."""
    arguments = node.args if isinstance(node, FUNCTIONS) else None
    name = arguments.kwarg.arg if arguments is not None and arguments.kwarg is not None else ""
    nodes = walk(node)
    names = [each for each in nodes if isinstance(each, ast.Name)]
    keywords = [each for each in nodes if isinstance(each, ast.keyword)]
    return all(used.id != name for used in _other_names(names, keywords))


def dictionaries_of(source: Source) -> dict[str, ast.Dict]:
    """The dictionaries that all of a file binds once to a name and reads only as `**name`."""
    made = {
        node.targets[0].id: node.value
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Dict) and isinstance(node.targets[0], ast.Name)
    }
    uses: dict[str, int] = {}
    for node in _other_names(source.nodes_of(ast.Name), source.nodes_of(ast.keyword)) if made else ():
        uses[node.id] = uses.get(node.id, 0) + 1
    return {name: dictionary for name, dictionary in made.items() if uses.get(name) == 1}


def _other_names(names: Iterable[ast.Name], keywords: Iterable[ast.keyword]) -> list[ast.Name]:
    """The names of some code, but for `**name` in a call."""
    expanded = {id(node.value) for node in keywords if node.arg is None}
    return [node for node in names if id(node) not in expanded]


def is_generator(node: ast.FunctionDef) -> bool:
    """Whether a function yields."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(children(part))
    return False


def parameter_default(name: str, value: Value) -> Value:
    """The default of a parameter of a function that nothing in the script calls."""
    if isinstance(value, Constant) and value.default is not None and value.default.option == OF_PARAMETER:
        option = replace(value.default, option=f"--{name.replace('_', '-')}")
        return constant(value.value, option, value.origin)
    return attribute_default(value)


def attribute_default(value: Value) -> Value:
    """A literal as a default: what it is unless the user gives another."""
    return constant(value.value, value.default or UNCERTAIN) if isinstance(value, Constant) else value


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

KEEPS_RESULTS = lazy_pattern(r"cache|memo(ize|ry)")
"""Code of decorators that give what the function gave before: `@cache.memoize(typed=True)`."""

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
    marks = [*reversed(made.node.decorator_list)] if not isinstance(made.node, ast.Lambda) else []
    for decorator, mark in zip(reversed(made.decorators), marks, strict=False):
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
        elif not is_plain(decorator) and not KEEPS_RESULTS.search(unparse(mark)):
            value = _hidden(value)
    return value


def _is_own_method(decorator: Value) -> bool:
    return isinstance(decorator, Bound) and decorator.function is not None


def _hidden(value: Value) -> Value:
    """A function whose result is not known, since a decorator that is not understood wraps it."""
    if isinstance(value, Function):
        value.is_wrapped = True
    return value


ENVIRONMENT_CLASSES = {"pydantic.BaseSettings", "pydantic_settings.BaseSettings"}
"""Classes whose fields the environment may give: their defaults are no certainties."""

FIELD_CLASSES = {
    *("dataclasses.dataclass", "typing.NamedTuple", "attr.s", "attr.attrs", "attr.define", "attr.dataclass"),
    *(
        "attr.frozen",
        "attrs.define",
        "attrs.frozen",
        "pydantic.BaseModel",
        "pydantic.dataclasses.dataclass",
        *ENVIRONMENT_CLASSES,
    ),
}
"""Decorators and bases that make a class's constructor from its annotations."""


def kinds_of(member: Function) -> set[str]:
    """The names of the library's decorators of a method: `property`, `classmethod`."""
    return {decorator.name for decorator in member.decorators if isinstance(decorator, Library)}


def lacks(value: Instance, name: str) -> bool:
    """Whether an object certainly has no attribute of this name."""
    if name in value.attributes or value.cls.lookup(name) is not None or value.cls.lookup("__getattr__") is not None:
        return False
    return not value.cls.has_unknown_base and not value.cls.library_bases


def transfer_of(value: Instance, name: str) -> Transfer | None:
    """What a method does that an object has from a library class, or from a base that was not understood."""
    for path in lineage_of(value.cls.library_bases):
        if (path, name) in INSTANCE_METHODS:
            return INSTANCE_METHODS[path, name]
    # A base that was not understood may be a module: `model.train()` on such an object is taken for the
    # mode switch that it is on any unknown model.
    return METHODS.get((Unknown, name)) if value.cls.has_unknown_base else None


def class_transfer_of(value: Class, name: str) -> Transfer | None:
    """What a class method does that a class has from a library class."""
    known = (CLASS_METHODS.get((path, name)) for path in lineage_of(value.library_bases))
    return next((transfer for transfer in known if transfer), None)


def has_own_constructor(cls: Class) -> bool:
    """Whether something in the script decides what a call of the class takes: fields and decorators do, too."""
    # Any annotation counts, without asking for the decorator: taking a plain class for a dataclass only
    # keeps rules silent.
    fields = any(isinstance(statement, ast.AnnAssign) for owner in cls.lineage() for statement in owner.node.body)
    return fields or any(cls.lookup(name) is not None for name in ("__init__", "__new__"))


def sole_base(cls: Class) -> str | None:
    """The one library class that a class of the script derives from; None if another may come before it."""
    bases = set(cls.library_bases)
    return bases.pop() if is_plain_class(cls) and len(bases) == 1 else None


def is_plain_class(cls: Class) -> bool:
    """Whether all that a class and its bases have is known: no decorator, metaclass or unknown base adds to it."""
    return not any(owner.decorators or owner.node.keywords for owner in cls.lineage()) and not cls.has_unknown_base


def is_dataclass(cls: Class) -> bool:
    """Whether a class gets its constructor from its annotations."""
    decorated = any(_path(decorator) in FIELD_CLASSES for owner in cls.lineage() for decorator in owner.decorators)
    return decorated or bool(set(cls.library_bases) & FIELD_CLASSES)


def _path(decorator: Value) -> str:
    return decorator.path if isinstance(decorator, Library | LibraryObject) else ""


def field_statements(cls: Class) -> Iterator[tuple[Class, str, ast.AnnAssign]]:
    """The class, the name and the statement of each field of a dataclass, those of its bases first."""
    for owner in reversed(list(cls.lineage())):
        for statement in owner.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield owner, statement.target.id, statement


def fields_of(cls: Class) -> list[str]:
    """The names of a dataclass's fields, those of its bases first."""
    # From the furthest base to the class itself: a dataclass orders its fields so. A dictionary keeps the
    # first place of a field that a subclass annotates again.
    names = [name for _, name, _ in field_statements(cls)]
    # `rate = attr.ib(default=0.1)`: the older form has no annotations.
    unannotated = (
        name for owner in reversed(cls.lineage()) for name, held in owner.attributes.items() if _is_field(held)
    )
    return list(dict.fromkeys((*names, *unannotated)))


ATTRS_FIELDS = ("attr.ib", "attr.attrib", "attr.field", "attrs.field")


def _is_field(value: Value) -> bool:
    return isinstance(value, LibraryObject) and value.path in ATTRS_FIELDS
