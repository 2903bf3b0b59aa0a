"""Lightning: what the training steps of modules give back, forget or keep."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.lightning_modules import MODULES, is_lightning_module, steps
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Function
from lintrain.source.nodes import unparse, walk
from lintrain.source.project_search import scripts_give
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A `training_step` that computes a loss and returns nothing: where the loss is given a name, and the name."""

    location: Location
    name: str


def without_result(pipeline: Pipeline) -> Iterator[Forgotten]:
    """The steps of modules that compute a loss under a name and return nothing."""
    for source, method, cls in own_steps(pipeline):
        nodes = list(walk(method))
        ends = any(isinstance(node, ast.Return | ast.Raise | ast.Yield) for node in nodes)
        calls = {
            node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        if ends or calls & {"manual_backward", "backward", "optimizers"}:
            continue
        losses = [node for node in nodes if isinstance(node, ast.Assign) and _is_loss(node, cls)]
        if losses:
            yield Forgotten(source.location(losses[-1]), _name_of_loss(losses[-1].targets[0]))
        elif _computes(method) and _gives_optimizer(cls) and not cls.has_unknown_base:
            yield Forgotten(source.location(method.args.args[0] if method.args.args else method), "")


def _computes(method: ast.FunctionDef) -> bool:
    """Whether a method does more than a docstring and `pass`, which leave it to a class that derives from it."""
    return any(not isinstance(each, ast.Pass) and not _is_constant(each) for each in method.body)


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _gives_optimizer(cls: Class) -> bool:
    """Whether a module gives Lightning an optimizer, so that it has something to train."""
    found = cls.lookup("configure_optimizers")
    method = found[1] if found else None
    nodes = walk(method.node) if isinstance(method, Function) else ()
    returns = [node.value for node in nodes if isinstance(node, ast.Return)]
    return bool(returns) and all(value is not None and not _is_none(value) for value in returns)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _names_loss(targets: list[ast.expr]) -> bool:
    return len(targets) == 1 and "loss" in _name_of_loss(targets[0]).lower()


def _name_of_loss(target: ast.expr) -> str:
    """The name that an assignment gives a loss: the target itself, or the one of several that is called so."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return next((name for name in names if "loss" in name.lower()), names[0] if len(names) == 1 else "")


def _is_loss(node: ast.Assign, cls: Class) -> bool:
    """Whether a name gets a loss: by the name, or from a method that returns it in a dictionary."""
    match node:
        case ast.Assign(
            targets=[ast.Name()], value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))
        ) if not _names_loss(node.targets):
            found = cls.lookup(name)
            method = found[1] if found else None
            nodes = walk(method.node) if isinstance(method, Function) else ()
            returns = [each for each in nodes if isinstance(each, ast.Return)]
            return bool(returns) and all(_has_loss(each.value) for each in returns)
        case _:
            return _names_loss(node.targets)


def _has_loss(value: ast.expr | None) -> bool:
    keys = value.keys if isinstance(value, ast.Dict) else []
    return any(isinstance(key, ast.Constant) and key.value == "loss" for key in keys)


def own_steps(pipeline: Pipeline) -> Iterator[tuple[Source, ast.FunctionDef, Class]]:
    """The `training_step` methods of automatic modules, each with its file and class."""
    seen = set[int]()
    for returned in steps(pipeline):
        node, origin = returned.method.node, returned.method.origin
        if isinstance(node, ast.FunctionDef) and id(node) not in seen:
            seen.add(id(node))
            yield (pipeline.source_of(origin) if origin else pipeline.source), node, returned.cls


@dataclass(frozen=True, slots=True)
class KeptLoss:
    """A loss that a `training_step` returns and adds to an attribute as well: where, its code, the attribute's."""

    location: Location
    loss: str
    target: str
    returned: Location


def kept_losses(pipeline: Pipeline) -> Iterator[KeptLoss]:
    """The losses with a graph that steps add to an attribute, which keeps them from batch to batch."""
    for source, method, _ in own_steps(pipeline):
        returns = [node for node in walk(method) if isinstance(node, ast.Return) and node.value is not None]
        given = {name for node in returns for name in _losses_in(node.value)}
        for node in walk(method):
            match node:
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=target, attr="append"), args=[ast.Name(id=loss) as added])
                ):
                    is_freed = f"{unparse(target)}.clear(" in source.text or _is_reset(source, target)
                case ast.AugAssign(target=ast.Attribute() as target, op=ast.Add(), value=ast.Name(id=loss) as added):
                    is_freed = False
                case _:
                    continue
            if loss in given and unparse(target).startswith("self.") and not is_freed:
                yield KeptLoss(source.location(added), loss, unparse(target), source.location(returns[-1]))


def _losses_in(value: ast.expr | None) -> list[str]:
    match value:
        case ast.Name(id=name):
            return [name]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            under = [each for key, each in pairs if isinstance(key, ast.Constant) and key.value == "loss"]
            return [each.id for each in under if isinstance(each, ast.Name)]
        case _:
            return []


def _is_reset(source: Source, target: ast.expr) -> bool:
    """Whether an attribute is emptied or set again outside of `__init__`."""
    text = unparse(target)
    set_in = [
        function.name
        for function in source.nodes_of(ast.FunctionDef)
        for node in walk(function)
        if isinstance(node, ast.Assign) and any(unparse(each) == text for each in node.targets)
    ]
    return any(name != "__init__" for name in set_in)


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The first read of a setting of a module that saves none: where, its name, and the class."""

    location: Location
    name: str
    cls: Class


def unsaved_settings(pipeline: Pipeline) -> Iterator[Unsaved]:
    """The modules that read `self.hparams`, while neither they nor classes that derive from them fill it."""
    classes = {id(each.cls): each.cls for each in pipeline.returned if is_lightning_module(each.cls)}
    inner = {id(owner) for cls in classes.values() for owner in cls.lineage()[1:]}
    for cls in classes.values():
        if id(cls) in inner or cls.has_unknown_base or not MODULES.issuperset(cls.library_bases):
            continue
        nodes = [node for owner in cls.lineage() for node in walk(owner.node)]
        read = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "hparams"]
        settings = [node for node in nodes if isinstance(node, ast.Attribute) and node.value in read]
        is_only_read = all(isinstance(node.ctx, ast.Load) for node in (*read, *settings)) and len(settings) == len(read)
        is_filled = any(node.attr in FILL_SETTINGS for node in settings) or any(map(_fills, nodes))
        if settings and is_only_read and not is_filled and cls.origin is not None:
            source = pipeline.source_of(cls.origin)
            own = [node for node in settings if any(node is each for each in walk(cls.node))]
            if own and not scripts_give(cls.origin.path, cls.node.name, "hparams"):
                first = min(own, key=lambda node: node.lineno)
                yield Unsaved(source.location(first), first.attr, cls)


FILL_SETTINGS = frozenset({"update", "__dict__", "setdefault"})
"""Attributes of `self.hparams` by which the settings of a module may be filled."""


def _fills(node: ast.AST) -> bool:
    """Whether code may fill the settings of a module, or any attribute of it: `self.__dict__`, `vars(self)`."""
    match node:
        case ast.Attribute(attr="save_hyperparameters" | "_set_hparams"):
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr="__dict__") | ast.Call(func=ast.Name(id="setattr" | "vars")):
            return True
        case _:
            return False
