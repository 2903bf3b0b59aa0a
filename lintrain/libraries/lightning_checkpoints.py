"""Lightning: `Net.load_from_checkpoint(path)`, which passes saved arguments and its own to the constructor of `Net`."""

from __future__ import annotations

import ast

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import class_method
from lintrain.interpreter.functions import is_plain_class
from lintrain.libraries.lightning import MODULE
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.python import UNKNOWN, Class, Function, Value
from lintrain.source.nodes import unparse, walk

NOT_SAVED = "arguments that no checkpoint holds"
"""The use of a call that raises TypeError; `value` is the constructor, `text` has the names of the arguments."""

LOADING = "load_from_checkpoint"

KEEP_OTHERS = frozenset({"_set_hparams", "on_save_checkpoint", "on_load_checkpoint", LOADING, "__new__", "_hparams"})
"""Names in a class that keeps its arguments in another way, or is made in another way."""


@class_method(MODULE, LOADING)
def _load(call: Call) -> Value:
    """Note a call that leaves out arguments which nothing saves; what it gives is not followed."""
    cls = call.receiver
    made = _constructor(cls) if isinstance(cls, Class) and not call.reader.guards else None
    kept = _kept(cls, made) if isinstance(cls, Class) and made is not None else None
    if made is not None and kept is not None and not {"hparams_file", "**"} & call.keywords.keys():
        missing = [name for name in _needed(made) if name not in kept and name not in call.keywords]
        if missing:
            call.reader.record.misuses.append(Misuse(call.location, made, NOT_SAVED, " ".join(missing)))
    escape(call)
    return UNKNOWN


def _constructor(cls: Class) -> Function | None:
    """The `__init__` of a class that derives from Lightning's module alone, if nothing changes it."""
    found = cls.lookup("__init__")
    is_plain = is_plain_class(cls) and all(MODULE in lineage_of((base,)) for base in cls.library_bases)
    if not is_plain or found is None or not isinstance(found[1], Function) or found[1].decorators:
        return None
    return found[1]


def _needed(function: Function) -> list[str]:
    """The parameters of a constructor that have no default."""
    given = function.node.args
    named = [*given.posonlyargs, *given.args]
    plain = named[1 : len(named) - len(given.defaults)]
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return [each.arg for each in (*plain, *(each for each, default in pairs if default is None))]


def _kept(cls: Class, constructor: Function) -> set[str] | None:
    """The arguments of the constructor that checkpoints of a class hold; None if that is not certain."""
    nodes = [node for owner in cls.lineage() for node in walk(owner.node)]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    if names & KEEP_OTHERS:
        return None
    saves = [node for node in nodes if isinstance(node, ast.Call) and unparse(node.func) == "self.save_hyperparameters"]
    if not saves:
        # `self.hparams = arguments` was how versions before 1.0 kept them, and `self.hparams.update(…)` may do so.
        return None if {"save_hyperparameters", "hparams"} & names else set[str]()
    return _saved(saves[0], constructor) if len(saves) == 1 else None


def _saved(save: ast.Call, constructor: Function) -> set[str] | None:
    """The arguments that one `save_hyperparameters` keeps, or may keep: those that it names, or all but `ignore`."""
    texts = [each.value for each in save.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    ignored = _texts(next((each.value for each in save.keywords if each.arg == "ignore"), None))
    given = constructor.node.args
    every = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    kept = set(texts) if texts and len(texts) == len(save.args) else every
    return None if ignored is None else kept - ignored


def _texts(node: ast.expr | None) -> set[str] | None:
    """The texts of an expression such as `["net"]`; None for other expressions."""
    if node is None:
        return set[str]()
    items = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    texts = {each.value for each in items if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return texts if len(texts) == len(items) else None
