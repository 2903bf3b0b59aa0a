"""Names of installed packages without tables: calls are noted, objects are made by what their class derives from."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, callee, derived_transfer, method
from lintrain.interpreter.invocation import record_call
from lintrain.model.location import Location
from lintrain.pipeline.modules import MODULE, lineage_of
from lintrain.pipeline.values.installed import InstalledName, InstalledObject
from lintrain.pipeline.values.python import Unknown, Value


@attribute_of(InstalledName)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """A name in a module of the package; methods of a class are found by their names."""
    if not isinstance(value, InstalledName) or value.facts.kind == "class":
        return None
    path = f"{value.name}.{name}"
    facts = reader.record.targets.installed.of(path)
    return InstalledName(name=path, facts=facts, origin=location) if facts is not None else None


@callee(InstalledName)
def _invoke(call: Call, called: InstalledName) -> Value:
    """A call of a class or function: its arguments are noted for the rules."""
    call.path, call.receiver = called.name, called
    record_call(call)
    transfer = derived_transfer(called.facts)
    if transfer is not None:
        return dispatch.ask(call, transfer)
    made = dispatch.invoke_other(call, called)
    return _object_of(called, call) if is_model_class(called) else made


def is_model_class(called: InstalledName) -> bool:
    """Whether a class certainly makes modules of torch."""
    return called.facts.kind == "class" and MODULE in lineage_of(called.facts.bases)


@method(InstalledName, "from_pretrained", "from_config", "_from_config")
def _from_checkpoint(call: Call) -> Value:
    """A model with the weights of a checkpoint: an object of the class that is asked for it."""
    called = call.receiver
    if isinstance(called, InstalledName) and is_model_class(called):
        return _object_of(called, call)
    return dispatch.child(call.reader, called, "from_pretrained") if isinstance(called, Unknown) else called


def _object_of(called: InstalledName, call: Call) -> InstalledObject:
    return InstalledObject(name=called.name.rpartition(".")[2], facts=called.facts, origin=call.location)
