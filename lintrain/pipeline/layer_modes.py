"""What a module does differently in train mode and in eval mode: dropout, batch normalization, and code that asks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from lintrain.knowledge.networks import READY_MADE, certainly_differs
from lintrain.pipeline.modules import CALM, MOST_PARTS, PARAMETERS, is_module, modules_in
from lintrain.pipeline.values.model import Model, ModelPart, Module
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Either,
    Instance,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
)
from lintrain.source.nodes import unparse, walk
from lintrain.startup.lazy_pattern import lazy_pattern

QUIET_WITHOUT_DROPOUT = frozenset({"RNN", "LSTM", "GRU", "MultiheadAttention"})
"""Classes that only differ between the modes when they are given a dropout."""


def ignores_mode(value: Value) -> bool:
    """Whether a module certainly does the same in train mode and in eval mode."""
    parts = list(modules_in(value))
    return is_module(value) and len(parts) < MOST_PARTS and all(_part_ignores_mode(part) for part in parts)


def _part_ignores_mode(part: Value) -> bool:
    match part:
        case Instance():
            return not part.cls.has_unknown_base and not any(
                _speaks_of_modes(owner.node, part) for owner in part.cls.lineage()
            )
        case Module():
            return _module_ignores_mode(part)
        case Sequence() | Mapping():
            return part.is_complete
        case LibraryObject():
            return part.path in PARAMETERS
        case Model() | ModelPart() | Unknown() | Either():
            return False
        case _:
            return True


def _speaks_of_modes(node: ast.ClassDef, made: Instance) -> bool:
    words = ("drop", "training", "norm", "bn")
    return any(word in name.lower() for name in _own_names(node, made) for word in words)


def _own_names(node: ast.ClassDef, made: Instance) -> Iterator[str]:
    """The names in a class that say something about one object of it: not those of layers that it does not have.

    Of `if norm == "batch": self.norm = nn.BatchNorm2d(8)`, an object that was made without has no such attribute.
    """
    stores = [each for each in walk(node) if isinstance(each, ast.Assign) and made.attributes]
    missing = [each for each in stores if _attributes(each) and made.attributes.keys().isdisjoint(_attributes(each))]
    unset = {name for each in missing for name in _attributes(each)}
    left_out = {id(part) for each in (*missing, *_never_run(node)) for part in walk(each)} | _asked_for(node)
    unset |= made.switched_off
    left_out |= _switched_off(node, made.switched_off)
    for part in walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) | ast.Name(id=name) if name in unset:
                pass
            case ast.Attribute(attr=name) | ast.Name(id=name) if id(part) not in left_out:
                yield name
            case _:
                pass


def _never_run(node: ast.ClassDef) -> list[ast.Assign]:
    """The assignments of layers that a class with a forward pass reads nowhere: left over from another version."""
    if not any(getattr(each, "name", "") == "forward" for each in node.body):
        return []
    nodes = list(walk(node))
    read = {each.attr for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load)}
    if read & GOES_THROUGH_LAYERS or any(isinstance(each, ast.Name) and each.id == "getattr" for each in nodes):
        return []
    stores = [each for each in nodes if isinstance(each, ast.Assign) and _attributes(each)]
    return [each for each in stores if read.isdisjoint(_attributes(each)) and isinstance(each.value, ast.Call)]


GOES_THROUGH_LAYERS = frozenset({"children", "modules", "named_children", "named_modules", "_modules", "apply"})


def _switched_off(node: ast.ClassDef, off: frozenset[str]) -> set[int]:
    """What a class does not build or run if parameters are 0 or False: `if rate > 0:`, and `nn.Dropout(rate)`."""
    found: list[ast.AST] = []
    for each in walk(node) if off else ():
        match each:
            case ast.If(test=test, body=body) if _name_in(test) in off:
                found += body
            case ast.IfExp(test=test, body=chosen) if _name_in(test) in off:
                found.append(chosen)
            case ast.Call(args=args, keywords=keywords):
                given = (*args, *(keyword.value for keyword in keywords))
                found += [each] if any(_name_in(value) in off for value in given) else []
            case _:
                pass
    return {id(part) for each in found for part in walk(each)}


def _name_in(node: ast.expr) -> str:
    """The name in `rate`, `self.rate`, `rate > 0` and `rate is not None`; empty for anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Compare(
            left=left, ops=[ast.Gt() | ast.NotEq() | ast.IsNot()], comparators=[ast.Constant(value=value)]
        ):
            return "" if value else _name_in(left)
        case _:
            return ""


def _asked_for(node: ast.ClassDef) -> frozenset[int]:
    """The classes in `isinstance(layer, nn.BatchNorm2d)`: who sets up all kinds of layers need not have this one."""
    tests = (each for each in walk(node) if isinstance(each, ast.Call) and len(each.args) == 2)
    asked = (each for each in tests if isinstance(each.func, ast.Name) and each.func.id == "isinstance")
    return frozenset(id(part) for each in asked for part in walk(each.args[1]))


def _attributes(node: ast.Assign) -> list[str]:
    """The attributes of `self` that a statement assigns, if it assigns nothing else."""
    found = [
        each.attr
        for each in node.targets
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
    ]
    return found if len(found) == len(node.targets) else []


def _module_ignores_mode(module: Module) -> bool:
    if not module.path.startswith("torch.nn."):
        return False
    dropout = module.arguments.get("dropout")
    if module.name in QUIET_WITHOUT_DROPOUT:
        return dropout is None or (isinstance(dropout, Constant) and dropout.value == 0)
    if module.name.startswith("InstanceNorm"):
        tracks = module.arguments.get("track_running_stats", module.arguments.get("4", Constant(False)))
        return isinstance(tracks, Constant) and not tracks.value
    if module.name.startswith("Dropout"):
        rate = module.arguments.get("p", module.arguments.get("0"))
        return isinstance(rate, Constant) and rate.value == 0  # what an option is by default counts
    return CALM.fullmatch(module.name) is not None


DIFFERS = lazy_pattern(r"drop_?(out|path|block)|batch_?norm|(^|_)(sync_?)?bn(_?\d*|_.*)$|^training$", re.IGNORECASE)
"""Names that a class uses if it has dropout or batch normalization, or asks for its own mode."""


@lru_cache(maxsize=4096)
def _differs(name: str) -> bool:
    return DIFFERS.search(name) is not None


def _names_in(node: ast.ClassDef) -> Iterator[str]:
    asked = _asked_for(node)
    for part in walk(node):
        if id(part) in asked:
            continue
        if isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Name):
            yield part.id


def differs_by_mode(value: Value) -> bool:
    """Whether a part of a module certainly differs between train and eval mode; what is unknown is no such part."""
    parts = list(modules_in(value))
    # `vgg19().features[:-1]`: what drops out there is in the classifier.
    taken_out = {id(inner) for part in parts if isinstance(part, Module) and not part.path for inner in part.parts}
    left = {id(inner) for part in parts if isinstance(part, Instance) for inner in _never_run_in(part)}
    return any(
        _part_differs(part) and not (id(part) in taken_out and _has_calm_features(part))
        for part in parts
        if id(part) not in left
    )


def _never_run_in(made: Instance) -> Iterator[Value]:
    """The layers of an object that its class reads nowhere."""
    stores = [each for owner in made.cls.lineage() for each in _never_run(owner.node)]
    for name in {name for each in stores for name in _attributes(each)}:
        yield from modules_in(made.attributes.get(name, UNKNOWN))


def sets_own_mode(value: Value) -> bool:
    """Whether the forward pass of a module of the script sets its mode itself, so that its caller need not."""
    owners = [owner.node for owner in value.cls.lineage()] if isinstance(value, Instance) else []
    passes = (each for node in owners for each in node.body if getattr(each, "name", "") == "forward")
    return any(
        isinstance(part, ast.Call) and unparse(part.func) in {"self.eval", "self.train"}
        for each in passes
        for part in walk(each)
    )


CALM_FEATURES = lazy_pattern(r"torchvision\.models\.(?:alexnet|vgg\d+)$")


def _has_calm_features(part: Value) -> bool:
    return isinstance(part, Module) and CALM_FEATURES.match(part.path) is not None


def _part_differs(part: Value) -> bool:
    match part:
        case Instance():
            nodes = [owner.node for owner in part.cls.lineage()]
            owners = [node for node in nodes if any(map(_differs, _names_in(node)))]
            return any(_differs(name) for owner in owners for name in _own_names(owner, part)) or any(
                _asks_for_dropout(node, part.switched_off) for node in nodes
            )
        case Module():
            if part.path.startswith("torch.nn."):
                return not _module_ignores_mode(part)
            return part.path.startswith(READY_MADE) and certainly_differs(part.path, part.arguments)
        case Model():
            return True
        case _:
            return False


def _asks_for_dropout(node: ast.ClassDef, off: frozenset[str]) -> bool:
    """Whether a class gives a rate to a layer of a library: `GATConv(8, 8, dropout=0.6)`; layers of torch are parts."""
    calls = (each for each in walk(node) if isinstance(each, ast.Call) and each.keywords)
    given = (each for call in calls if not unparse(call.func).startswith(("nn.", "torch.")) for each in call.keywords)
    rates = (each.value for each in given if each.arg == "dropout")
    return any(not _is_nothing(rate) and _name_in(rate) not in off for rate in rates)


def _is_nothing(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
