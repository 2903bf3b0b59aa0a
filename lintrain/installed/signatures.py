"""What a class or function of an installed package accepts, in the notation of the tables (`alpha=0.5`, `**kwargs`).

A constructor that does nothing with its `**kwargs` but give them to the one of its base accepts what that accepts.
What a constructor gives to that of its base, parameter by parameter, as far as it gives it unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from astroid import nodes

HARMLESS = (
    *("add_code_sample_docstrings", "add_end_docstrings", "add_start_docstrings", "auto_docstring", "autocast"),
    *(
        "can_return_tuple",
        "capture_outputs",
        "check_model_inputs",
        "classmethod",
        "final",
        "merge_with_config_defaults",
    ),
    *("no_grad", "override", "replace_return_docstrings", "requires", "runtime_checkable", "staticmethod"),
)
"""Decorators that leave alone what a class or function accepts, by the last part of their names."""

KEEPS_FORWARD = (*HARMLESS, "deprecate_kwarg", "wraps")
"""Decorators behind which `inspect.signature` sees the parameters of the function itself."""


LARGEST_NUMBER = 1e30
LONGEST_TEXT = 200
"""Characters of a default; a longer one is not known."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function, without `self`: `items` in the notation of the tables, `positional` by position."""

    items: tuple[str, ...]
    positional: tuple[str, ...]
    rest: str = ""
    """The name of `**kwargs`."""
    rest_by_position: str = ""
    """The name of `*args`."""

    @property
    def taken(self) -> set[str]:
        """The parameters that take one argument each."""
        return {item.partition("=")[0] for item in self.items if not item.startswith("*") and item != "/"}

    @property
    def names(self) -> list[str]:
        """All parameters, as `inspect.signature` lists them."""
        return [item.partition("=")[0].lstrip("*") for item in self.items if item not in ("*", "/")]


def parameters_of(function: nodes.FunctionDef, *, has_receiver: bool = False) -> Parameters:
    """The parameters of a function; a method's first one is left out."""
    arguments = function.args
    ordered = [*(arguments.posonlyargs or []), *(arguments.args or [])]
    defaults = [None] * (len(ordered) - len(arguments.defaults or [])) + list(arguments.defaults or [])
    items = [_item(each.name, default) for each, default in zip(ordered, defaults, strict=False)]
    if count := len(arguments.posonlyargs or []):
        items.insert(count, "/")
    if has_receiver:
        items = [item for item in items[1:] if item != "/"] if ordered else items
    positional = tuple(item.partition("=")[0] for item in items if item != "/")
    keywords = zip(arguments.kwonlyargs or [], arguments.kw_defaults or [], strict=False)
    named = [_item(each.name, default) for each, default in keywords]
    if arguments.vararg:
        items.append(f"*{arguments.vararg}")
    elif named:
        items.append("*")
    items += named
    if arguments.kwarg:
        items.append(f"**{arguments.kwarg}")
    return Parameters(tuple(items), positional, arguments.kwarg or "", arguments.vararg or "")


def _item(name: str, default: nodes.NodeNG | None) -> str:
    return name if default is None else f"{name}={literal_text(default)}"


def literal_text(node: nodes.NodeNG) -> str:
    """The code of a literal; `?` for anything else, and for one that is too long."""
    is_negative = isinstance(node, nodes.UnaryOp) and node.op == "-"
    inner = node.operand if isinstance(node, nodes.UnaryOp) and is_negative else node
    value = inner.value if isinstance(inner, nodes.Const) else ...
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "-" * is_negative + repr(value) if -LARGEST_NUMBER < value < LARGEST_NUMBER else "?"
    if is_negative or not (value is None or isinstance(value, str | bool)) or len(repr(value)) > LONGEST_TEXT:
        return "?"
    return repr(value)


def is_harmless(node: nodes.ClassDef | nodes.FunctionDef, known: tuple[str, ...] = HARMLESS) -> bool:
    """Whether every decorator leaves the parameters alone."""
    marks = node.decorators.nodes if node.decorators is not None else []
    return all(_name_of(mark) in known for mark in marks)


def _name_of(mark: nodes.NodeNG) -> str:
    called = mark.func if isinstance(mark, nodes.Call) else mark
    return str(called.as_string()).rpartition(".")[2]


def is_dataclass(node: nodes.ClassDef) -> bool:
    """Whether a decorator makes the constructor from the annotations."""
    marks = node.decorators.nodes if node.decorators is not None else []
    return any(_name_of(mark) == "dataclass" for mark in marks)


def other_decorators_are_harmless(node: nodes.ClassDef) -> bool:
    """Whether a class has no decorator that may change its constructor, but perhaps `dataclass`."""
    return is_harmless(node, (*HARMLESS, "dataclass"))


def fields_of(node: nodes.ClassDef) -> dict[str, str | None]:
    """The annotated fields of a class that its constructor takes, with their defaults: literals, `?`, or None."""
    found: dict[str, str | None] = {}
    for statement in node.body:
        if isinstance(statement, nodes.AnnAssign) and isinstance(statement.target, nodes.AssignName):
            annotation = statement.annotation.as_string()
            is_taken = not any(word in annotation for word in ("ClassVar", "KW_ONLY"))
            if is_taken and not _is_set_later(statement.value):
                found[statement.target.name] = _default_of(statement.value)
    return found


def _is_set_later(value: nodes.NodeNG | None) -> bool:
    """Whether a field is no argument: `field(init=False)`, which `__post_init__` sets."""
    if not isinstance(value, nodes.Call) or _name_of(value) != "field":
        return False
    return any(keyword.arg == "init" and literal_text(keyword.value) == "False" for keyword in value.keywords)


def _default_of(value: nodes.NodeNG | None) -> str | None:
    """The default of a field: `field(default=…)` has one, `field(metadata=…)` has none."""
    if value is None:
        return None
    if isinstance(value, nodes.Call) and _name_of(value) == "field":
        given = {keyword.arg: keyword.value for keyword in value.keywords}
        if "default" in given:
            return literal_text(given["default"])
        return "?" if "default_factory" in given else None
    return literal_text(value)


@dataclass(frozen=True)
class Handed:
    """What a constructor gives to that of its base.

    `named` are the base's parameters with the own ones that they get unchanged; `rest` if `**kwargs` is handed on,
    `by_position` if `*args` is. `opaque` are parameters of the base that get something else.
    """

    named: dict[str, str] = field(default_factory=dict[str, str])
    rest: bool = False
    by_position: bool = False
    opaque: frozenset[str] = frozenset()


def handed_on(constructor: nodes.FunctionDef, positional: tuple[str, ...] | None) -> Handed | None:
    """What a constructor gives to its base, whose parameters are `positional`; None if it is not certain.

    Where these are not known, as those of a base in another package, parameters have their numbers as names.
    """
    calls = [call for call in constructor.nodes_of_class(nodes.Call) if _is_of_base(call)]
    if len(calls) != 1 or not isinstance(calls[0].parent, nodes.Expr) or calls[0].parent.parent is not constructor:
        return None
    call, own = calls[0], parameters_of(constructor, has_receiver=True)
    touched = set(_touched(constructor, call))
    given = dict[str, nodes.NodeNG]()
    args = call.args if _is_super(call) else call.args[1:]
    plain = [each for each in args if not isinstance(each, nodes.Starred)]
    names = [str(number) for number in range(len(plain))] if positional is None else positional
    if args[: len(plain)] != plain or len(plain) > len(names):
        return None
    given.update(zip(names, plain, strict=False))
    given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    unchanged = {
        name: value.name
        for name, value in given.items()
        if isinstance(value, nodes.Name) and value.name in own.taken and value.name not in touched
    }
    starred = [each.value for each in args if isinstance(each, nodes.Starred)]
    spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
    is_known = all(_is_name(each, own.rest_by_position) for each in starred) and all(
        _is_name(each, own.rest) for each in spread
    )
    if not is_known or {own.rest, own.rest_by_position} & touched:
        return None
    return Handed(unchanged, bool(spread), bool(starred), frozenset(given.keys() - unchanged.keys()))


def _is_of_base(call: nodes.Call) -> bool:
    return isinstance(call.func, nodes.Attribute) and call.func.attrname == "__init__"


def _is_super(call: nodes.Call) -> bool:
    return isinstance(call.func, nodes.Attribute) and isinstance(call.func.expr, nodes.Call)


def _is_name(node: nodes.NodeNG, name: str) -> bool:
    return isinstance(node, nodes.Name) and bool(name) and node.name == name


def _touched(constructor: nodes.FunctionDef, call: nodes.Call) -> Iterator[str]:
    """The names that a constructor may change before or after it hands them on: rebound, stored to, given to calls."""
    for node in constructor.nodes_of_class((nodes.AssignName, nodes.DelName)):
        if node.parent is not constructor.args:
            yield node.name
    for name in constructor.nodes_of_class(nodes.Name):
        if not _only_looks(name, call):
            yield name.name


def _only_looks(name: nodes.Name, call: nodes.Call) -> bool:
    """Whether a use of a name changes nothing: it is compared, read from, handed to the base, or kept on `self`."""
    around = name.parent
    if isinstance(around, nodes.Starred | nodes.Keyword):
        return around.parent is call
    match around:
        case nodes.Call():
            return around is call
        case nodes.Attribute():
            return not isinstance(around.parent, nodes.Call) or around.parent.func is not around
        case nodes.Compare() | nodes.BoolOp() | nodes.UnaryOp() | nodes.If() | nodes.IfExp() | nodes.FormattedValue():
            return True
        case nodes.Assign():
            return all(isinstance(target, nodes.AssignAttr) for target in around.targets)
        case _:
            return False
