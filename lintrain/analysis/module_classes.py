"""Classes of networks and data sets that lack what their library calls.

Methods under a misspelled name, methods of `nn.Module` behind an attribute of the same name, and layers that are set
before `nn.Module` is ready to hold them. Also what a class of rows or transforms says about their order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.script_text import networks_of
from lintrain.model.location import Location
from lintrain.pipeline.values.python import Class
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LIGHTNING = frozenset({"LightningModule"})
ROWS = frozenset({"Dataset", "IterableDataset"})
OF_NETWORKS = frozenset({"__init__", "forward"})
OF_ROWS = frozenset({"__init__", "__len__", "__getitem__", "__iter__"})

METHODS = frozenset(
    {"apply", "buffers", "children", "eval", "load_state_dict", "modules", "named_children", "named_modules"}
    | {"named_parameters", "parameters", "state_dict", "to", "train", "zero_grad"}
)
"""Methods of `nn.Module` that training calls, or that others of them call."""

HELD = frozenset({"Parameter", "ModuleList", "ModuleDict", "Sequential"})


@dataclass(frozen=True, slots=True)
class Misspelled:
    """A method that nothing calls: where, its name, the one that was meant, and the class."""

    location: Location
    name: str
    meant: str
    cls: str


def module_classes(source: Source) -> list[ast.ClassDef]:
    """The networks of a file, those of Lightning included."""
    of_lightning = (node for node in source.nodes_of(ast.ClassDef) if _bases(node) & LIGHTNING)
    return [*networks_of(source), *of_lightning]


def misspelled(source: Source) -> Iterator[Misspelled]:
    """The methods whose name is nearly one that the library calls, in classes that lack the right one."""
    for cls in source.nodes_of(ast.ClassDef):
        if _bases(cls) & LIGHTNING and len(cls.bases) == 1:
            yield from _abbreviated(source, cls)
    rows = [node for node in source.nodes_of(ast.ClassDef) if _bases(node) & ROWS]
    for cls, wanted in [*((each, OF_NETWORKS) for each in module_classes(source)), *((each, OF_ROWS) for each in rows)]:
        methods = _methods(cls)
        names = {each.name for each in methods}
        for method in methods:
            meant = next((name for name in sorted(wanted - names) if _is_nearly(method, name)), None)
            if meant is not None and method.args.args and not _is_called(source, method.name):
                yield Misspelled(source.location(method.args.args[0]), method.name, meant, cls.name)


def _abbreviated(source: Source, cls: ast.ClassDef) -> Iterator[Misspelled]:
    """Steps and hooks of Lightning under another name, in a module that lacks the right one."""
    methods = _methods(cls)
    names = {each.name for each in methods}
    for method in methods:
        meant = OF_LIGHTNING.get(method.name)
        if meant is not None and meant not in names and method.args.args and not _is_called(source, method.name):
            yield Misspelled(source.location(method.args.args[0]), method.name, meant, cls.name)


OF_LIGHTNING = {
    "train_step": "training_step",
    "trainning_step": "training_step",
    "val_step": "validation_step",
    "valid_step": "validation_step",
    "validate_step": "validation_step",
    "validating_step": "validation_step",
    "testing_step": "test_step",
    "prediction_step": "predict_step",
    "configure_optimizer": "configure_optimizers",
    "configure_optimisers": "configure_optimizers",
    "on_train_epoch_ends": "on_train_epoch_end",
    "on_val_epoch_end": "on_validation_epoch_end",
}
"""Names that Lightning does not call, by the ones that it does."""


def misspellings_of(method: str) -> list[str]:
    """The names that are reported as a method of Lightning under another name."""
    return [name for name, meant in OF_LIGHTNING.items() if meant == method]


def hidden_methods(source: Source) -> Iterator[tuple[Location, str]]:
    """The attributes that are set in place of a method of `nn.Module`: where, and the name."""
    for cls in module_classes(source):
        for node in walk(cls):
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                    if name in METHODS and _is_no_function(source, value):
                        yield source.location(node.targets[0]), name
                case _:
                    pass


def set_too_early(source: Source) -> Iterator[tuple[Location, str, bool]]:
    """The first layer that a network sets before `nn.Module.__init__` ran: where, its name, and whether that runs."""
    for cls in module_classes(source):
        start = next((each for each in _methods(cls) if each.name == "__init__"), None)
        if start is None or cls.decorator_list:
            continue
        lines = [node.lineno for node in walk(start) if isinstance(node, ast.Call) and _starts(node)]
        ready = min(lines, default=None)
        layers = ((node, name) for node in start.body for name in _layer_set(source, node))
        for node, name in layers:
            if ready is None or node.lineno < ready:
                yield source.location(node), name, ready is not None
                break


def _bases(cls: ast.ClassDef) -> frozenset[str]:
    return frozenset(map(last_name, cls.bases))


def _methods(cls: ast.ClassDef) -> list[ast.FunctionDef]:
    return [node for node in cls.body if isinstance(node, ast.FunctionDef)]


def _is_nearly(method: ast.FunctionDef, meant: str) -> bool:
    name, bare = method.name, meant.strip("_")
    if name.startswith("_") and name.endswith("_"):
        return name.strip("_").lower() == bare or (name == "__int__" and meant == "__init__" and _sets_up(method))
    return meant == "forward" and name != "forwards" and _is_one_slip(name, meant)


def _is_one_slip(name: str, meant: str) -> bool:
    """Whether one letter is missing, doubled or wrong, or two are swapped."""
    if name == meant or abs(len(name) - len(meant)) > 1:
        return False
    if len(name) == len(meant):
        wrong = [at for at, (one, other) in enumerate(zip(name, meant, strict=True)) if one != other]
        return len(wrong) == 1 or (len(wrong) == 2 and sorted(name) == sorted(meant) and wrong[1] - wrong[0] == 1)
    shorter, longer = sorted((name, meant), key=len)
    return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))


def _sets_up(method: ast.FunctionDef) -> bool:
    stores = (node for node in walk(method) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return any(isinstance(node.value, ast.Name) and node.value.id == "self" for node in stores)


def _is_called(source: Source, name: str) -> bool:
    """Whether anything but its own class's `super()` names a method."""
    named = (node for node in source.nodes_of(ast.Attribute) if node.attr == name)
    return any(not (isinstance(node.value, ast.Call) and last_name(node.value.func) == "super") for node in named)


def _is_no_function(source: Source, value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.List() | ast.Dict() | ast.Tuple() | ast.ListComp() | ast.DictComp():
            return True
        case ast.Call():
            return _is_layer(source, value)
        case _:
            return False


def _starts(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def _layer_set(source: Source, node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
            if _is_layer(source, value):
                yield name
        case _:
            pass


def _is_layer(source: Source, value: ast.expr) -> bool:
    """Whether a value is a layer or a parameter: of `torch.nn`, or an object of a network of the file."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name[:1].isupper() and unparse(owner) in {"nn", "torch.nn"}
        case ast.Call(func=ast.Name(id=name)):
            return name in HELD or any(each.name == name for each in networks_of(source))
        case _:
            return False


def names_about(cls: Class, source: Source, attribute: str, *, but_of: frozenset[str]) -> frozenset[str]:
    """The names in a class, and in what else a file does with an attribute of its objects, such as an optimizer.

    Without these of the object and its other attributes: `self.encoder.parameters()` does not concern the attribute.
    """
    statements = (node for node in source.nodes if isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef))
    about = [node for node in statements if any(_is_attribute(each, attribute) for each in walk(node))]
    return frozenset(name for node in (cls.node, *about) for name in _names_without(node, attribute, but_of))


def _is_attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _names_without(code: ast.AST, attribute: str, but_of: frozenset[str]) -> Iterator[str]:
    nodes = walk(code)
    parts = {
        node.targets[0].id: _part_of_self(node.value, {})
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in nodes:
        match node:
            case ast.Attribute(value=owner, attr=name) if name in but_of:
                if _part_of_self(owner, parts) in {None, attribute}:
                    yield name
            case ast.Attribute(attr=name) | ast.Name(id=name):
                yield name
            case _:
                pass


def _part_of_self(node: ast.expr, parts: Mapping[str, str | None]) -> str | None:
    """The attribute of its own object that an expression is taken out of; empty for the object, None for others."""
    match node:
        case ast.Name(id="self"):
            return ""
        case ast.Name(id=name):
            return parts.get(name)
        case ast.Attribute(value=inner, attr=name):
            return _part_of_self(inner, parts) or (name if _part_of_self(inner, parts) == "" else None)
        case ast.Subscript(value=inner):
            return _part_of_self(inner, parts) or None
        case _:
            return None


def changes_one_row(node: ast.ClassDef) -> bool:
    """Whether a class is a transform or collator: it is called with rows, and has none."""
    names = {each.name for each in _methods(node)}
    return not names.isdisjoint({"__call__", "forward"}) and names.isdisjoint({"__getitem__", "__iter__", "__len__"})


def row_methods(node: ast.ClassDef) -> frozenset[str]:
    """`__getitem__` and what only it calls, if the row depends on its index: an augmentation leaves the order alone."""
    methods = {each.name: each for each in _methods(node)}
    first = methods.get("__getitem__")
    if first is None or len(first.args.args) < 2 or not _gives_row_of(first, first.args.args[1].arg):
        return frozenset()
    index = first.args.args[1].arg
    # A method that gets the index may choose another row.
    choosing = {
        last_name(each.func)
        for each in walk(first)
        if isinstance(each, ast.Call) and any(isinstance(given, ast.Name) and given.id == index for given in each.args)
    }
    inside = _used(methods, {"__getitem__"})
    others = _used(methods, (methods.keys() - inside) | {"__init__", "__len__", "__iter__"} | choosing)
    return frozenset(inside - others)


def _gives_row_of(method: ast.FunctionDef, index: str) -> bool:
    """Whether each result of a method has a part that is made of its index, whichever branch runs."""
    stores: dict[str, list[ast.expr]] = {index: []}
    for node in walk(method):
        for target, value in _stores(node):
            stores.setdefault(target, []).append(value)
    known, removed = set(stores), {""}
    while removed:
        removed = {name for name in known if not _is_made_of(known, stores[name], index, is_given=name == index)}
        known -= removed
    returned = [each.value for each in walk(method) if isinstance(each, ast.Return)]
    if any(_is_drawn(part, stores) for value in returned for part in _parts(value)):
        return False
    return bool(returned) and all(value is not None and known & _names_in(value, index) for value in returned)


DRAWS = lazy_pattern(r"rand(?:n|int|om)?$|random_sample$|normal$|uniform$")


def _parts(value: ast.expr | None) -> list[ast.expr]:
    """The parts of a row: those of a tuple or dictionary, or the one value."""
    match value:
        case None:
            return []
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return parts
        case _:
            return [value]


def _is_drawn(part: ast.expr, stores: dict[str, list[ast.expr]]) -> bool:
    """Whether a part of a row is nothing but random numbers: such rows are in no order, whatever is next to them."""
    values = stores.get(part.id, []) if isinstance(part, ast.Name) else [part]
    return any(isinstance(value, ast.Call) and DRAWS.search(last_name(value.func)) is not None for value in values)


def _is_made_of(known: set[str], values: list[ast.expr], index: str, *, is_given: bool) -> bool:
    """Whether all that a name is bound to is made of other names; an empty list and zeros are filled later."""
    made = [value for value in values if not EMPTY.match(unparse(value))]
    return (is_given or bool(made)) and all(known & _names_in(value, index) for value in made)


EMPTY = lazy_pattern(r"\[\]$|\{\}$|None$|\w+\(\)$|(?:\w+\.)*(?:zeros|ones|empty)(?:_like)?\(")


def _names_in(value: ast.AST, index: str = "") -> set[str]:
    """The names in code, without an index that only stands next to a row: `return image, index`."""
    parts = [part for each in walk(value) if isinstance(each, ast.Tuple | ast.List) for part in each.elts]
    parts += [part for each in walk(value) if isinstance(each, ast.Dict) for part in each.values]
    alone = [part for part in parts if isinstance(part, ast.Name) and part.id == index]
    return {each.id for each in walk(value) if isinstance(each, ast.Name) and each not in alone}


def _stores(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a node binds or fills, with the code that they are made of."""
    match node:
        case ast.Assign(targets=targets, value=value):
            pass
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
            targets = [target]
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            targets = [target]
        case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
            targets = [target]
        case ast.Call(func=ast.Attribute(value=ast.Name() as target, attr="append"), args=[value]):
            targets = [target]
        case _:
            return
    for target in targets:
        yield from ((name, value) for name in _names_in(target))


def _used(methods: dict[str, ast.FunctionDef], names: set[str]) -> set[str]:
    """The methods of these names, and those that they use."""
    found, pending = set[str](), [*names]
    while pending:
        name = pending.pop()
        if name in methods and name not in found:
            found.add(name)
            pending.extend(each.attr for each in walk(methods[name]) if isinstance(each, ast.Attribute))
    return found
