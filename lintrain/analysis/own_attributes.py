"""Attributes that methods read from their object, and that nothing gives it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.script_text import networks_of
from lintrain.knowledge import lightning_attributes
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.project_search import scripts_give
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ABSTRACT = frozenset({"ABC", "abc.ABC"})
PLAIN = frozenset({"object", "nn.Module", "torch.nn.Module"}) | ABSTRACT
ROWS = frozenset({"Dataset", "torch.utils.data.Dataset", "data.Dataset", "IterableDataset"})

LIGHTNING = frozenset(f"{module}LightningModule" for module in ("", "L.", "pl.", "lightning.", "pytorch_lightning."))

OF_LIGHTNING = lazy_pattern(r"\b(import|from) (pytorch_)?lightning\b")
OF_TORCH = lazy_pattern(r"\b(import torch\b|from torch\b)")
MODULE_OF_TORCH = lazy_pattern(r"from torch\.nn(\.modules)?(\.module)? import [^\n]*\bModule\b")
OTHER_MODULES = lazy_pattern(r"\b(flax|mindspore|paddle|oneflow|jittor|from datasets import [^\n]*\bDataset\b)")
"""Packages with a `nn.Module` or `Dataset` of their own."""

DYNAMIC = lazy_pattern(r"setattr\(|__dict__|vars\(|__getattr|exec\(|locals\(|__slots__|class_to_func|add_to_class")
"""Code that gives attributes by names that are not written."""

KEEPS_OBJECT = frozenset({"no_grad", "inference_mode", "typechecked", "beartype", "override", "overload"})
"""Decorators of constructors that give the object nothing."""

BY_NAME = frozenset({"add_module", "register_module", "register_buffer", "register_parameter"})

OF_MODULE = frozenset(
    {"add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile", "cpu", "cuda", "double"}
    | {"dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer", "get_extra_state", "get_parameter"}
    | {"get_submodule", "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children"}
    | {"named_modules", "named_parameters", "parameters", "register_backward_hook", "register_buffer"}
    | {"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"}
    | {"register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook"}
    | {"register_module", "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook"}
    | {"requires_grad_", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train"}
    | {"training", "type", "xpu", "zero_grad", "T_destination"}
)
"""The attributes of `nn.Module` in torch 2.13; those that begin with an underscore are its own affair."""


@dataclass(frozen=True, slots=True)
class Unset:
    """An attribute that a method reads and nothing sets: where, its name, the class, and a name that is nearly it."""

    location: Location
    name: str
    cls: ast.ClassDef
    near: str


def unset_attributes(source: Source) -> tuple[Unset, ...]:
    """The first read of each attribute that the text of a file gives no object of the class."""
    return source.cached(_unset_attributes)


def _unset_attributes(source: Source) -> tuple[Unset, ...]:
    if source.is_partial or not source.contains(OF_TORCH) or source.contains(OTHER_MODULES):
        return ()
    classes = {node.name: node for node in source.nodes_of(ast.ClassDef)}
    if not classes or len(classes) < len(source.nodes_of(ast.ClassDef)):
        return ()  # which of two classes of one name an object has is not in the text
    networks = {node.name for node in networks_of(source)}
    lightning = {node.name for node in classes.values() if _derives_from_lightning(source, node, classes)}
    texts = {node.value for node in source.nodes_of(ast.Constant) if isinstance(node.value, str)}
    given = texts | _given_by_others(source)
    of_modules = given | OF_MODULE
    known = dict.fromkeys(networks, of_modules)
    known |= dict.fromkeys(lightning, of_modules | lightning_attributes.OF_LIGHTNING_MODULE)
    return tuple(
        found for node in classes.values() for found in _unset_in(source, node, classes, known.get(node.name, given))
    )


def _derives_from_lightning(source: Source, cls: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    bases = [base for each in ancestry_of_class(cls, classes) for base in each.bases]
    return any(unparse(base) in LIGHTNING for base in bases) and source.contains(OF_LIGHTNING)


def without_givers(path: str, found: Unset) -> bool:
    """Whether no other script of the project derives from the class, or gives objects the attribute."""
    return not scripts_give(path, found.cls.name, found.name)


def _given_by_others(source: Source) -> set[str]:
    """The attributes that code outside of a class, or of another object than its own, stores under a name."""
    names = set[str]()
    inside = {id(each) for node in source.nodes_of(ast.ClassDef) for each in walk(node)}
    for node in source.nodes_of(ast.Attribute):
        is_own = isinstance(node.value, ast.Name) and node.value.id == "self" and id(node) in inside
        if not isinstance(node.ctx, ast.Load) and not is_own:
            names.add(node.attr)
    for function in source.nodes_of(ast.FunctionDef):
        # A function of an object outside of its class becomes a method of it later.
        if id(function) not in inside and [each.arg for each in function.args.args[:1]] == ["self"]:
            names.add(function.name)
    return names


def _unset_in(source: Source, cls: ast.ClassDef, classes: dict[str, ast.ClassDef], given: set[str]) -> Iterator[Unset]:
    above = ancestry_of_class(cls, classes)
    below = [each for each in classes.values() if cls in ancestry_of_class(each, classes)]
    family = [*above, *below]
    if not all(_is_plain(source, each, classes) for each in above) or any(map(_is_dynamic, family)):
        return
    if below == [cls] and any(unparse(base) in ABSTRACT for base in cls.bases):
        return  # the classes that derive from an abstract one, and have what it lacks, are elsewhere
    names = given | {name for each in family for name in _names_of(each)}
    if not any("__init__" in _names_of(each) for each in above):
        return  # a class without one may be mixed into another, which has what it lacks
    seen = set[str]()
    for method in _methods(cls):
        for node in _reads(method):
            if node.attr not in names and node.attr not in seen and not node.attr.startswith("_"):
                seen.add(node.attr)
                near = get_close_matches(node.attr, sorted(names - given), n=1, cutoff=0.75)
                yield Unset(source.location(node), node.attr, cls, near[0] if near else "")


def ancestry_of_class(cls: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """A class and the classes of its file that it derives from."""
    found, pending = list[ast.ClassDef](), [cls]
    while pending:
        node = pending.pop()
        if node not in found:
            found.append(node)
            pending.extend(classes[name] for base in node.bases if (name := unparse(base)) in classes)
    return found


def _is_plain(source: Source, cls: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether all that a class has is in its file: no base of another one, no decorator, no metaclass."""
    bases = {unparse(base) for base in cls.bases} - classes.keys()
    is_known = all(
        base in PLAIN
        or (base in ROWS and source.contains(r"torch\.utils"))
        or (base in LIGHTNING and source.contains(OF_LIGHTNING))
        or (base == "Module" and source.contains(MODULE_OF_TORCH))
        for base in bases
    )
    return is_known and not cls.decorator_list and not cls.keywords and not _is_wrapped(cls)


def _is_wrapped(cls: ast.ClassDef) -> bool:
    """Whether a decorator that is not known may give the object more before its constructor runs, or after it."""
    made = (each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    marks = (
        last_name(each.func if isinstance(each, ast.Call) else each) for part in made for each in part.decorator_list
    )
    return not KEEPS_OBJECT.issuperset(marks)


def _is_dynamic(cls: ast.ClassDef) -> bool:
    """Whether a class gives its objects attributes by names that the text does not hold."""
    named = (node for node in walk(cls) if isinstance(node, ast.Call) and last_name(node.func) in BY_NAME)
    is_computed = any(not (call.args and isinstance(call.args[0], ast.Constant)) for call in named)
    return is_computed or DYNAMIC.search(unparse(cls)) is not None


def _methods(cls: ast.ClassDef) -> list[ast.FunctionDef]:
    functions = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    return [
        node
        for node in functions
        if [each.arg for each in node.args.args[:1]] == ["self"]
        and not {"staticmethod", "classmethod"} & {*map(last_name, node.decorator_list)}
    ]


def _names_of(cls: ast.ClassDef) -> Iterator[str]:
    """What a class gives its objects: what its body binds, and what its methods set."""
    for node in walk(cls):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]
            case _:
                pass


def _reads(method: ast.FunctionDef) -> Iterator[ast.Attribute]:
    """The attributes of its object that a method reads, but for those that it is ready to miss."""
    ready = {
        id(each)
        for node in walk(method)
        if isinstance(node, ast.Try) and any(map(_catches, node.handlers))
        for part in node.body
        for each in walk(part)
    }
    # A class in a method has objects of its own, which its methods call `self` as well.
    inner = {id(part) for node in walk(method) if isinstance(node, ast.ClassDef) for part in walk(node)}
    lambdas = (node for node in walk(method) if isinstance(node, ast.Lambda))
    if any(each.arg == "self" for node in lambdas for each in node.args.args):
        return
    known = ready | inner
    for node in walk(method):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Load()) if id(node) not in known:
                yield node
            case _:
                pass


def _catches(handler: ast.ExceptHandler) -> bool:
    caught = unparse(handler.type) if handler.type is not None else "Exception"
    return any(name in caught for name in ("AttributeError", "Exception"))
