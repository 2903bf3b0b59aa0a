"""Parts of modules that a script puts in the place of others, and which modules have parameters at all."""

from __future__ import annotations

import ast

from lintrain.interpreter.core.reader import Reader
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import has_parameters, is_module, is_module_class, overlap
from lintrain.pipeline.record import KeptModules
from lintrain.pipeline.values.model import ModelPart, Module
from lintrain.pipeline.values.python import Instance, Mapping, Sequence, Value, options_of
from lintrain.source.source import Source


def runs_inside_a_forward(reader: Reader) -> bool:
    """Whether the code being read belongs to a module's own forward pass."""
    return any(
        frame.name == "forward" and isinstance(frame.receiver, Instance) and is_module_class(frame.receiver.cls)
        for frame in reader.frames
    )


def note_part(reader: Reader, owner: Value, value: Value, location: Location) -> None:
    """Record that a module gets a part with fresh parameters from outside its own constructor."""
    whole = owner.model if isinstance(owner, ModelPart) else owner
    if isinstance(value, Module) and not value.path and value.parts:
        return  # a part of another one, shared: `decoder.weight = embedding.weight`
    is_being_made = reader.frame.receiver is owner and reader.frame.name == "__init__"
    if is_being_made or not is_module(whole) or not has_parameters(value):
        return
    if not _is_new(value, location) and overlap(value, whole):
        return
    reader.act(Act.NEW_PART, location, _outermost(whole), part=value)


def note_some_part(reader: Reader, owner: Value, name: Value, value: Value, location: Location) -> None:
    """Record that a module gets a part under a name that is not known: `setattr(model, name, Adapted(layer))`."""
    for option in options_of(owner):
        if is_module(option) and is_module(value):
            reader.act(Act.REPLACE, location, option, name=name, value=value)


def _is_new(value: Value, location: Location) -> bool:
    """Whether a layer was made on the line of its assignment, to the right of the target: nothing else has it yet.

    This spares looking through a whole that may have many parts.
    """
    if not isinstance(value, Module) or value.parts or value.attributes or value.origin is None:
        return False
    made = value.origin
    return made.path == location.path and location.line == made.line and location.column < made.column


def note_kept(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """Record a plain list or dictionary that an object of a module class keeps."""
    if isinstance(owner, Instance) and isinstance(value, Sequence | Mapping) and is_module(owner):
        reader.record.kept_modules.append(KeptModules(owner, name, value, location))


def _outermost(module: Value) -> Value:
    """The module that an inner part, which is not known more closely, was taken out of."""
    while isinstance(module, Module) and not module.path and len(module.parts) == 1:
        module = module.parts[0]
    return module


def is_used_as_list(reader: Reader, made: Location) -> bool:
    """Whether a container is kept under a name whose parts are called one by one: `self.heads[i](x)`."""
    return made.path == reader.source.path and made in reader.source.cached(_lists)


def _lists(source: Source) -> frozenset[Location]:
    """Where a file makes what it keeps under a name that it takes parts of and calls them, and never calls itself."""
    called = {_last_name(call.func) for call in source.nodes_of(ast.Call)}
    # An order of calls that follows the list, as in `for layer in self.layers`, is that of the container.
    called |= {_last_name(loop.iter) for loop in source.nodes_of(ast.For)}
    taken = {
        _last_name(call.func.value)
        for call in source.nodes_of(ast.Call)
        if isinstance(call.func, ast.Subscript) and not isinstance(call.func.slice, ast.Slice)
    }
    names = taken - called - {""}
    return frozenset(
        source.location(node.value)
        for node in (source.nodes_of(ast.Assign) if names else ())
        if isinstance(node.value, ast.Call) and any(_last_name(target) in names for target in node.targets)
    )


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
