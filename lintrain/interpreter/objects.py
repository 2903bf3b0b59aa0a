"""Objects of the script's own classes: attributes, methods, construction."""

from __future__ import annotations

import ast
from typing import cast

from lintrain.interpreter import inherited, invocation, own_arguments
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import BASE_CALLS, INSTANCES_CALLED, attribute_of, callee
from lintrain.interpreter.functions import (
    ENVIRONMENT_CLASSES,
    class_transfer_of,
    fields_of,
    has_own_constructor,
    is_dataclass,
    is_plain_class,
    kinds_of,
    transfer_of,
)
from lintrain.model.location import Location
from lintrain.pipeline.modules import is_module, is_module_class, lineage_of
from lintrain.pipeline.values.certainty import UNCERTAIN
from lintrain.pipeline.values.model import Mode
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Function,
    Instance,
    LibraryObject,
    Literal,
    Mapping,
    Super,
    Unknown,
    Value,
)
from lintrain.source.nodes import walk
from lintrain.startup.lazy_pattern import lazy_pattern


@attribute_of(Class)
def _class_attribute(reader: Reader, value: Class, name: str, location: Location) -> Value:
    found = value.lookup(name)
    if found is None:
        return _library_classmethod(value, name) or UNKNOWN
    owner, member = found
    is_bound = isinstance(member, Function) and "classmethod" in kinds_of(member)
    return Bound(value, name, member, owner) if is_bound and isinstance(member, Function) else member


def _library_classmethod(value: Class, name: str) -> Value | None:
    """A method that the class has from a library class, and that is called on the class, rightly or not."""
    is_of_network = name in own_arguments.NEEDS and is_module_class(value) and is_plain_class(value)
    return Bound(value, name) if is_of_network or class_transfer_of(value, name) else None


def special(reader: Reader, value: Instance, name: str, given: list[Value], location: Location) -> Value | None:
    """What a special method of the script's class gives, such as `__getitem__`; None if it has none."""
    found = value.cls.lookup(name)
    if found is None or not isinstance(found[1], Function):
        return None
    return dispatch.call(reader, Bound(value, name, found[1], found[0]), given, location=location)


INSIDE_WRAPPER = frozenset({"module", "_orig_mod"})
"""What `DataParallel`, `DistributedDataParallel` and `torch.compile` call the module that they were given."""


@attribute_of(Instance)
def _instance_attribute(reader: Reader, value: Instance, name: str, location: Location) -> Value:
    # What was set on the object comes before its class, also before a property: the reader sets the
    # attribute only if the script does.
    if name in value.attributes:
        return value.attributes[name]
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        # What is stored there is stored in the object.
        return Mapping(cast("dict[Literal, Value]", value.attributes), False)
    found = value.cls.lookup(name)
    if name == "training" and found is None and is_module(value):
        return Mode(name="model.training", of=value, made_at=len(reader.record.events))
    if found is None and name in INSIDE_WRAPPER and is_module(value):
        return value  # a wrapper is taken for the module in it
    if found is None:
        held = _library_method(value, name) or inherited.attribute(reader, value, name, location)
        return held or dispatch.child(reader, value, name)
    owner, member = found
    return bind_member(reader, value, name, owner, member, location)


def bind_member(reader: Reader, value: Instance, name: str, owner: Class, member: Value, location: Location) -> Value:
    """A class's member as seen on an object: functions become methods, properties are read."""
    if not isinstance(member, Function):
        # None in a class that nothing uses here is the place of what a subclass or another method sets.
        return UNKNOWN if reader.uncalled and isinstance(member, Constant) and member.value is None else member
    kinds = kinds_of(member)
    if kinds & {"property", "cached_property"}:
        return dispatch.call(reader, Bound(value, name, member, owner), [], location=location)
    if "staticmethod" in kinds:
        return member
    return Bound(value.cls if "classmethod" in kinds else value, name, member, owner)


def _library_method(value: Instance, name: str) -> Value | None:
    """A method that the object has from a library class, where the reader knows what it does."""
    return Bound(value, name) if transfer_of(value, name) else None


@attribute_of(Super)
def _attribute_above(reader: Reader, value: Super, name: str, location: Location) -> Value:
    receiver = value.receiver
    cls = receiver.cls if isinstance(receiver, Instance) else value.below
    lineage = list(cls.lineage())
    # In the order of the object's own class, so that in a diamond `super()` finds the sibling, as Python
    # does.
    above = lineage[lineage.index(value.below) + 1 :] if value.below in lineage else []
    for owner in above:
        member = owner.attributes.get(name)
        if isinstance(member, Function):
            return Bound(receiver, name, member, owner)
    if isinstance(receiver, Instance):
        held = inherited.attribute(reader, receiver, name, location) if name != "__init__" else None
        return _library_method(receiver, name) or held or Bound(value, name)
    of_class = _library_classmethod(receiver, name) if isinstance(receiver, Class) else None
    return of_class or Bound(value, name)


@callee(Instance)
def _invoke_instance(call: Call, called: Instance) -> Value:
    call.receiver = called
    for path in lineage_of(called.cls.library_bases):
        if path in INSTANCES_CALLED:
            return dispatch.ask(call, INSTANCES_CALLED[path])
    found = called.cls.lookup("__call__")
    if found is not None and isinstance(found[1], Function):
        return invocation.run_function(call, found[1], called, found[0])
    if called.cls.has_unknown_base:
        return dispatch.invoke_other(call, Unknown())
    escape(call)
    return UNKNOWN


@callee(Class)
def instantiate(call: Call, cls: Class) -> Value:
    """What calling a class of the script gives."""
    call.receiver = cls
    if not has_own_constructor(cls):
        invocation.record_construction(call, cls)
    for path in lineage_of(cls.library_bases):
        # A class that derives from a library's class, such as Trainer, is made by what that library
        # registered for it.
        if path in BASE_CALLS:
            return BASE_CALLS[path](call)
    return make_instance(call, cls)


def make_instance(call: Call, cls: Class) -> Value:
    """An object of a class, its constructor read with the call's arguments."""
    reader = call.reader
    made = Instance(cls, origin=call.location)
    # The first object of a class stands for all others whose making is not seen: methods that nothing in
    # the file calls are read on it.
    reader.instances.setdefault(cls.node, made)
    if is_dataclass(cls):
        fill_fields(call, cls, made)
    else:
        found = cls.lookup("__init__")
        own = found if found is not None and isinstance(found[1], Function) else None
        inherited.begin(call, made, has_constructor=own is not None)
        if own is not None and isinstance(own[1], Function):
            made.switched_off = _switched_off(call, own[1].node)
            invocation.run_function(call, own[1], made, own[0])
    return made


SWITCHES = lazy_pattern(r"(?i)drop")
"""Names of parameters of constructors for rates of dropout."""


def _switched_off(call: Call, constructor: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """The parameters for dropout that a constructor gets 0, False or None for, by default too."""
    given = constructor.args
    names = [each.arg for each in given.args][1:]
    if call.is_open or not any(SWITCHES.search(name) for name in (*names, *(each.arg for each in given.kwonlyargs))):
        return frozenset()
    defaults = dict(zip(reversed(names), reversed(given.defaults), strict=False))
    defaults |= {
        each.arg: default for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default
    }
    written = {
        name: Constant(0) for name, node in defaults.items() if isinstance(node, ast.Constant) and not node.value
    }
    values = {**written, **call.values(*names)}
    off = {name for name, value in values.items() if isinstance(value, Constant) and not value.value}
    rebound = {each.id for each in walk(constructor) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return frozenset(name for name in off - rebound if SWITCHES.search(name))


def fill_fields(call: Call, cls: Class, made: Instance) -> None:
    """Set a dataclass's fields from the call, then from their defaults; unknown where the call may hold anything."""
    names = fields_of(cls)
    given = call.values(*names)
    may_differ = bool(ENVIRONMENT_CLASSES & set(cls.library_bases))
    for name in names:
        # Only fields that the call leaves out have their defaults. With `Config(**options)` none is
        # certain.
        default = UNKNOWN if call.is_open or name in given else field_default(call, cls, name)
        if may_differ and isinstance(default, Constant):
            default = Constant(default.value, UNCERTAIN)
        made.attributes[name] = given.get(name, default)
    found = cls.lookup("__post_init__")
    if found is not None and isinstance(found[1], Function):
        dispatch.call(call.reader, Bound(made, "__post_init__", found[1], found[0]), [], location=call.location)


FIELDS = ("field", "Field", "attr.ib", "attr.attrib")
"""What gives a field of a dataclass more than its default."""


def field_default(call: Call, cls: Class, name: str) -> Value:
    """The default of a dataclass's field; Unknown if it has none."""
    found = cls.lookup(name)
    if found is None:
        return UNKNOWN
    default = found[1]
    if not isinstance(default, LibraryObject):
        return default
    if default.path.endswith(".Factory"):  # of attrs
        made = default.arguments.get("factory", default.arguments.get("0", UNKNOWN))
        return dispatch.call(call.reader, made, [], location=call.location)
    if not default.path.endswith(FIELDS):
        return default
    value = default.arguments.get("default", default.arguments.get("0", ABSENT))
    if not isinstance(value, Absent):
        return value
    factory = default.arguments.get("default_factory", default.arguments.get("factory", ABSENT))
    return UNKNOWN if isinstance(factory, Absent) else dispatch.call(call.reader, factory, [], location=call.location)
