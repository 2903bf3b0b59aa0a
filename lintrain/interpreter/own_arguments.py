"""Calls of the script's own functions, classes and networks: what they give that their callee does not take."""

from __future__ import annotations

import ast
from itertools import takewhile

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.certainty import is_certain
from lintrain.interpreter.functions import is_dataclass, is_plain, kinds_of
from lintrain.model.location import Location
from lintrain.pipeline.modules import MODULE, is_module, lineage_of
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.python import Bound, Class, Function, Instance, Library, Value
from lintrain.source import name_orders
from lintrain.source.nodes import unparse

OF_OWN_FUNCTION = "arguments of an own function"
"""The use of the misuses that are recorded here."""

OTHER_ORDER = "arguments in another order"
"""The use of a call that runs, and passes values where parameters of other names are; `text` has both, in words."""

ON_CLASS = "method of an object on its class"
"""The use of a call `Net.state_dict()`, in which no object is; `value` is the class, `text` the code of the method."""

NEEDS = {
    **dict.fromkeys(("children", "cpu", "cuda", "double", "eval", "float", "half", "modules", "named_modules"), 1),
    **dict.fromkeys(("named_parameters", "parameters", "requires_grad_", "state_dict", "train", "zero_grad"), 1),
    "load_state_dict": 2,
}
"""How many arguments methods of `torch.nn.Module` need when they are called on a class, the object among them."""

OTHER_SIGNATURES = ("numba.", "torch.library.", "torch.amp.", "torch.cuda.amp.")
"""Packages whose decorators leave the value of a function as it is, and not always its parameters."""


def note_misfit(call: Call, called: Value) -> None:
    """Record a call that raises TypeError whenever it runs, because its callee has other parameters."""
    reader, node = call.reader, call.node
    # One of several callees may be the one that fits, and what is in a `try` may be there to fail.
    if node is None or call.is_open or reader.alternatives or reader.guards:
        return
    if (cls := _class_without_object(call, called)) is not None:
        written = reader.code(reader.source.location(node.func))
        reader.record.misuses.append(Misuse(call.location, cls, ON_CLASS, written))
        return
    function, passed = _signature(called)
    if function is None or not _is_as_written(function) or not _is_the_one_called(call, node, called):
        return
    fault = _fault(call, function, passed)
    if fault:
        written = reader.code(reader.source.location(node.func))
        reader.record.misuses.append(Misuse(_located(call, fault), function, OF_OWN_FUNCTION, f"`{written}` {fault}"))
        return
    parameters = [each.arg for each in (*function.node.args.posonlyargs, *function.node.args.args)][passed:]
    # How many arguments `*sizes` stands for is not known, and so neither is which parameters get those after it.
    counted = takewhile(lambda each: not isinstance(each, ast.Starred), node.args)
    given = [name_orders.name_given(each) for each in counted]
    if name_orders.are_moved(given, parameters):
        text = f"{', '.join(filter(None, given))} for {', '.join(parameters[: len(given)])}"
        reader.record.misuses.append(Misuse(call.location, function, OTHER_ORDER, text))


def _class_without_object(call: Call, called: Value) -> Value | None:
    """The class of a network whose method is called on the class itself, without an object; None for other calls."""
    cls: Value
    match called:
        case Bound(receiver=Class() as cls, function=None, name=name):
            bases = cls.library_bases
        case Library(path=path):
            cls, (owner, _, name) = called, path.rpartition(".")
            bases = (owner,)
        case _:
            return None
    given = len(call.positional) + len(call.keywords.keys() & {"self", "state_dict"})
    return cls if given < NEEDS.get(name, 0) and MODULE in lineage_of(bases) else None


def _signature(called: Value) -> tuple[Function | None, int]:
    """The function that takes the arguments of a call, and whether it gets the object before them: 1 or 0."""
    match called:
        case Function():
            return called, 0
        case Bound(function=Function() as function):
            # `super().load(…)` is bound here even if `load` is a static method, or `super()` that of a class.
            kinds = kinds_of(function)
            is_of_class = isinstance(called.receiver, Class) and "classmethod" not in kinds
            return function, int("staticmethod" not in kinds and not is_of_class)
        case Class():
            return _constructor(called), 1
        case Instance() if "forward" not in called.attributes:
            found = called.cls.lookup("__call__") or (called.cls.lookup("forward") if is_module(called) else None)
            return (found[1], 1) if found is not None and isinstance(found[1], Function) else (None, 0)
        case _:
            return None, 0


def _constructor(cls: Class) -> Function | None:
    """The `__init__` that a call of a class certainly runs: no decorator, metaclass or `__new__` comes before it."""
    found = cls.lookup("__init__")
    if found is None or not isinstance(found[1], Function) or cls.lookup("__new__") is not None or is_dataclass(cls):
        return None
    # `Color(1)` of an `Enum` looks a member up, and does not construct one.
    is_enum = any(base.startswith("enum.") for base in cls.library_bases)
    is_changed = is_enum or any(owner.decorators or owner.node.keywords for owner in cls.lineage())
    is_hidden = cls.has_unknown_base and found[0] is not cls
    return None if is_changed or is_hidden else found[1]


def _is_as_written(function: Function) -> bool:
    """Whether no decorator changes what a function takes."""
    marks = [each.path for each in function.decorators if isinstance(each, Library)]
    is_known = not function.is_wrapped and all(map(is_plain, function.decorators))
    return is_known and not any(mark.startswith(OTHER_SIGNATURES) for mark in marks)


def _is_the_one_called(call: Call, node: ast.Call, called: Value) -> bool:
    """Whether the call certainly reaches this callee, with these arguments."""
    reader, frame = call.reader, call.reader.frame
    if any(called is assumed for assumed in reader.free.values()):
        return False  # `CNN` of a fragment that defines another network is taken for that one by its name alone
    if _is_unclear_super(node, frame.owner):
        return False
    # `**options` of a function that nothing calls may hold anything, though the reader passes nothing.
    is_spread = any(isinstance(each, ast.Starred) for each in node.args) or any(
        each.arg is None for each in node.keywords
    )
    if is_spread and reader.uncalled:
        return False
    if isinstance(called, Class | Function):
        return True
    if not isinstance(called, Bound) or called.receiver is not frame.receiver:
        # One setting may choose both the object and the branch: `if "mask" in name: model(x, mask=mask)`.
        return is_certain(reader)
    if not reader.uncalled or frame.owner is None:
        return True
    # A method that nothing calls is read for one class. The methods that it calls may be those of another one: of
    # a subclass where they are empty here, and of this one only where a subclass calls none of its base.
    is_of_subclass = called.owner is not frame.owner and called.owner in _below(frame.owner, called.receiver)
    return not is_of_subclass and not (called.function is not None and _is_empty(called.function))


def _is_unclear_super(node: ast.Call, owner: Class | None) -> bool:
    """Whether another class than the one base may come first: `nn.Module` in `class Linear(nn.Module, Layer)`."""
    match node.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=args)):
            if owner is None or len(owner.node.bases) != 1:
                return True
            # `super(Net, self)` in `Net` is `super()`; another class there comes of copied code.
            return bool(args) and not (len(args) == 2 and unparse(args[0]) == owner.node.name)
        case _:
            return False


def _below(owner: Class, receiver: Value) -> tuple[Class, ...]:
    """The classes of an object that come before one of them."""
    lineage = receiver.cls.lineage() if isinstance(receiver, Instance) else ()
    return lineage[: lineage.index(owner)] if owner in lineage else lineage


def _is_empty(function: Function) -> bool:
    """Whether a method is only there for subclasses to replace it."""
    body = [] if isinstance(function.node, ast.Lambda) else function.node.body
    return all(isinstance(each, ast.Pass | ast.Raise | ast.Expr) for each in body)


def _fault(call: Call, function: Function, passed: int) -> str:
    """What is wrong with the arguments, in words; empty if they fit."""
    arguments = function.node.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    by_name = [*names, *(each.arg for each in arguments.kwonlyargs)]
    given = passed + len(call.positional)
    if given > len(names) and arguments.vararg is None:
        if passed > len(names):
            return "is a method without a parameter for its object"
        taken = len(names) - passed
        return (
            f"accepts {taken or 'no'} positional argument{'' if taken == 1 else 's'}, and gets {len(call.positional)}"
        )
    for name in call.keywords:
        if name in names[:given]:
            return f"gets `{name}` twice"
        if name not in by_name and arguments.kwarg is None:
            return f"has no argument `{name}`"
    passed_names = {*names[:given], *call.keywords, *function.defaults}
    left_out = [name for name in by_name if name not in passed_names]
    return f"is called without {_listed(left_out)}" if left_out and not _hands_on(call) else ""


def _hands_on(call: Call) -> bool:
    """Whether a call hands on the `**kwargs` of the function around it, which callers fill for the branch they mean."""
    around = call.reader.frame.function
    kwarg = around.node.args.kwarg if around is not None else None
    if call.node is None or kwarg is None:
        return False
    spread = (each.value for each in call.node.keywords if each.arg is None)
    return any(isinstance(each, ast.Name) and each.id == kwarg.arg for each in spread)


MOST_NAMED = 3


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED or len(quoted) == 1:
        return ", ".join(quoted) + (" …" if len(names) > MOST_NAMED else "")
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _located(call: Call, fault: str) -> Location:
    """The keyword that a fault names, or the whole call."""
    named = [each.keyword for name, each in call.keywords.items() if f"`{name}`" in fault and each.keyword is not None]
    return named[0] if named else call.location
