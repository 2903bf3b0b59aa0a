"""Searches in the text and the names of a script and its modules, for questions that need no interpreter.

Names and attributes as a file, a class or a function writes them, whatever value they have.

Calls found by how they are written: by the code of what is called, in a method, and in a piece of code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator, Sequence

from lintrain.analysis import trainer_methods
from lintrain.analysis.expressions import Expression, calls_in_file
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Function
from lintrain.source import fragments
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Node, Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

NETWORKS = frozenset({"nn.Module", "torch.nn.Module", "Module"})
LAUNCHERS = frozenset({"accelerate.Accelerator", "lightning.Fabric", "lightning_fabric.Fabric"})


def mentions(pipeline: Pipeline, pattern: str | re.Pattern[str]) -> bool:
    """Whether a regular expression matches in the script, or in a module that was read for it."""
    return any(source.contains(pattern) for source in pipeline.sources.values())


def is_free(pipeline: Pipeline, name: str) -> bool:
    """Whether a part of a script takes a name from the rest of it: nothing in the text binds it."""
    return pipeline.source.is_partial and name in pipeline.source.cached(fragments.free_names)


def mentions_name(pipeline: Pipeline, pattern: str) -> bool:
    """Whether a regular expression matches a name in the code of the script or its modules, ignoring case."""
    wanted = re.compile(pattern, re.IGNORECASE)
    return any(wanted.search(name) for source in pipeline.sources.values() for name in source.cached(_names))


def _names(source: Source) -> frozenset[str]:
    return frozenset[str]().union(*(source.once(_names_in, statement) for statement in source.tree.body))


def _names_in(statement: ast.stmt) -> frozenset[str]:
    found = {getattr(node, NAMED_BY[type(node)]) for node in walk(statement) if type(node) in NAMED_BY}
    return frozenset(name for name in found if name is not None)


NAMED_BY: dict[type, str] = {
    **dict.fromkeys((ast.alias, ast.FunctionDef, ast.ClassDef), "name"),
    **dict.fromkeys((ast.arg, ast.keyword), "arg"),
    **dict(zip((ast.Name, ast.Attribute, ast.ImportFrom), ("id", "attr", "module"), strict=True)),
}


def every_node(pipeline: Pipeline) -> Iterator[ast.AST]:
    """All nodes of the script and of the modules that were read for it."""
    for source in pipeline.sources.values():
        yield from source.nodes


def nodes_of_kind(pipeline: Pipeline, kind: type[Node]) -> Iterator[Node]:
    """The nodes of one kind of the script and of the modules that were read for it."""
    for source in pipeline.sources.values():
        yield from source.nodes_of(kind)


def runs_by_launcher(pipeline: Pipeline) -> bool:
    """Whether Accelerate or Fabric prepares the script's objects."""
    return any(call.path in LAUNCHERS or call.path.endswith(".Fabric") for call in pipeline.calls)


@dataclass(frozen=True, slots=True)
class Import:
    """One name of an import statement: `from module import name as alias`, or `import module as alias`."""

    module: str
    name: str | None
    alias: str | None
    is_top_level: bool
    """Whether it is a statement of the module itself, outside of functions, branches and classes."""


def imports_of(source: Source) -> tuple[Import, ...]:
    """What a file imports, one by one; the module of `from . import x` is empty."""
    return source.cached(_imports)


def _imports(source: Source) -> tuple[Import, ...]:
    top = set(source.tree.body)
    whole = [
        Import(each.name, None, each.asname, node in top) for node in source.nodes_of(ast.Import) for each in node.names
    ]
    parts = [
        Import(node.module or "", each.name, each.asname, node in top)
        for node in source.nodes_of(ast.ImportFrom)
        for each in node.names
    ]
    return (*whole, *parts)


def imported_names(source: Source) -> frozenset[str]:
    """The names that the imports of a file bind."""
    return frozenset((each.alias or each.name or each.module).partition(".")[0] for each in imports_of(source))


def declared_names(source: Source) -> frozenset[str]:
    """The names of a file's functions, classes, parameters and imports."""
    found = {node.name for node in source.nodes_of(ast.FunctionDef)}
    found.update(node.name for node in source.nodes_of(ast.ClassDef))
    found.update(node.arg for node in source.nodes_of(ast.arg))
    found.update(node.asname or node.name for node in source.nodes_of(ast.alias))
    return frozenset(found)


def attribute_names(source: Source) -> frozenset[str]:
    """The attributes that a file reads or sets, of any object."""
    return source.cached(_attribute_names)


def _attribute_names(source: Source) -> frozenset[str]:
    return frozenset(node.attr for node in source.nodes_of(ast.Attribute))


def bindings_of(source: Source, name: str) -> list[Location]:
    """Where a file binds a name: as a variable or as a parameter."""
    names = [node for node in source.nodes_of(ast.Name) if node.id == name and isinstance(node.ctx, ast.Store)]
    return [*map(source.location, names), *(source.location(n) for n in source.nodes_of(ast.arg) if n.arg == name)]


def attribute_uses(source: Source, owner: str, attribute: str) -> list[Location]:
    """Where a file uses `owner.attribute`."""
    return [
        source.location(node)
        for node in source.nodes_of(ast.Attribute)
        if node.attr == attribute and isinstance(node.value, ast.Name) and node.value.id == owner
    ]


@dataclass(frozen=True, slots=True)
class NameUse:
    """One use of a name; `is_read` is False where it is assigned or deleted."""

    location: Location
    is_read: bool


def uses_of(source: Source, name: str) -> Sequence[NameUse]:
    """The uses of a plain name in all scopes of a file, where it may mean several things."""
    return source.cached(_uses).get(name, ())


def _uses(source: Source) -> dict[str, list[NameUse]]:
    found = dict[str, list[NameUse]]()
    for node in source.nodes_of(ast.Name):
        found.setdefault(node.id, []).append(NameUse(source.location(node), isinstance(node.ctx, ast.Load)))
    return found


def variables(source: Source) -> frozenset[str]:
    """The names of a file, without attributes, keywords and definitions."""
    return source.cached(_variables)


def _variables(source: Source) -> frozenset[str]:
    return frozenset(node.id for node in source.nodes_of(ast.Name))


def may_be_taken(source: Source, name: str) -> bool:
    """Whether a variable of a file, or the code of a function, contains a name that a fix would define."""
    if any(name in variable for variable in variables(source)):
        return True
    return any(name in unparse(node) for node in source.nodes_of(ast.FunctionDef))


def is_used_after_init(cls: Class, attribute: str) -> bool:
    """Whether a method of a class mentions an attribute, other than `__init__` and those that only it calls."""
    methods = [node for node in cls.node.body if isinstance(node, ast.FunctionDef)]
    setup = {called for node in methods if node.name == "__init__" for called in _own_calls(node)}
    later = {called for node in methods if node.name not in {"__init__", *setup} for called in _own_calls(node)}
    after = (node for node in methods if node.name != "__init__" and (node.name not in setup or node.name in later))
    return any(_mentions(node, attribute) for node in after)


def _own_calls(method: ast.FunctionDef) -> Iterator[str]:
    """The names of the methods of its own object that a method calls."""
    for node in walk(method):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                yield name
            case _:
                pass


def _mentions(node: ast.AST, attribute: str) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == attribute for each in walk(node))


def at_top_level(source: Source, cls: Class) -> Location | None:
    """The location of a class that a file defines at its top level; None for other classes."""
    return source.location(cls.node) if cls.node in source.tree.body else None


def attributes_used(function: Function) -> Sequence[str]:
    """The names of the attributes in a function's body, in the order of its nodes."""
    return [node.attr for node in trainer_methods.nodes_of(function) if isinstance(node, ast.Attribute)]


def attributes_assigned(function: Function) -> frozenset[str]:
    """The names of the attributes that a function assigns."""
    used = (node for node in trainer_methods.nodes_of(function) if isinstance(node, ast.Attribute))
    return frozenset(node.attr for node in used if isinstance(node.ctx, ast.Store))


def keys_always_read(pipeline: Pipeline, function: Function, name: str) -> Iterator[tuple[str, Location]]:
    """The keys that `name["key"]` and `name.pop("key")` read in assignments that every call of a function executes."""
    source = pipeline.source_of(function.origin) if function.origin else pipeline.source
    body = function.node.body
    for statement in body if isinstance(body, list) else ():
        for node in walk(statement) if isinstance(statement, ast.Assign) else ():
            key = _key(node, name)
            if key is not None and isinstance(node, ast.expr):
                yield key, source.location(node)


def _key(node: ast.AST, owner: str) -> str | None:
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            return key if name == owner else None
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[ast.Constant(value=str(key))], keywords=[]
        ):
            return key if name == owner else None
        case _:
            return None


def code_of_functions(pipeline: Pipeline, names: Container[str]) -> Iterator[str]:
    """The code of the functions and methods of these names, in the script and the modules that were read for it."""
    for source in pipeline.sources.values():
        yield from (
            source.code(source.location(node)) for node in source.nodes_of(ast.FunctionDef) if node.name in names
        )


def calls_of(source: Source, pattern: str) -> Sequence[Expression]:
    """The calls of a file in whose callee's code a regular expression matches, outer ones first."""
    return [call for callee, call in source.cached(_calls_by_callee) if re.search(pattern, callee)]


def _calls_by_callee(source: Source) -> list[tuple[str, Expression]]:
    """The calls of a file with the code of what they call, which takes long to write."""
    return [(call.callee.code, call) for call in calls_in_file(source) if call.callee]


@dataclass(frozen=True, slots=True)
class DataIndex:
    """A read of the first item of a tensor's data: `loss.data[0]`, where the tensor's code is `loss`."""

    location: Location
    tensor: str


def first_items_of_data(source: Source) -> Iterator[DataIndex]:
    """The reads of `tensor.data[0]` in a file, without tensors that the file makes with an axis of their own."""
    for node in source.nodes_of(ast.Subscript):
        match node:
            case ast.Subscript(value=ast.Attribute(value=owner, attr="data"), slice=ast.Constant(value=0)):
                if isinstance(node.ctx, ast.Load) and (code := unparse(owner)) not in source.cached(_made_with_axis):
                    yield DataIndex(source.location(node), code)
            case _:
                pass


def reduced_items_of_data(source: Source) -> Iterator[DataIndex]:
    """The reads of `.data[0]` of what is surely one number: of `x.sum()`, or of a name that a function gives it."""
    return (read for read in first_items_of_data(source) if _is_reduced(source, read))


REDUCED = re.compile(r"\.(sum|mean|norm|prod|std|var)\(\)(\.(float|double|long|int|cpu|detach|sqrt|neg)\(\))*\Z")
"""The end of code that makes one number of a tensor."""


def _is_reduced(source: Source, read: DataIndex) -> bool:
    if REDUCED.search(read.tensor):
        return True
    around = [node for node in source.nodes_of(ast.FunctionDef) if source.location(node).holds(read.location)]
    inner = max(around, key=lambda node: node.lineno) if around else None
    made = [
        unparse(node.value)
        for node in (walk(inner) if inner is not None else ())
        if isinstance(node, ast.Assign) and any(unparse(target) == read.tensor for target in node.targets)
    ]
    return bool(made) and all(REDUCED.search(each) for each in made)


MAKES_AXIS = re.compile(r"(zeros|ones|empty|full|tensor|Tensor|Variable|new\w*|unsqueeze|view|reshape|stack|cat)\Z")
"""Functions whose result may have one axis with one item, of which `data[0]` is the number."""


def _made_with_axis(source: Source) -> frozenset[str]:
    """The code of what a file assigns from a function that makes an axis."""
    return frozenset(
        unparse(target)
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and MAKES_AXIS.search(unparse(node.value.func))
        for target in node.targets
    )


def called_names(source: Source) -> frozenset[str]:
    """The last part of each name that a file calls: `save` of `torch.save(…)`."""
    callees = (node.func for node in source.nodes_of(ast.Call))
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in callees
        if isinstance(node, ast.Name | ast.Attribute)
    )


def methods_called_as_statements(source: Source) -> frozenset[str]:
    """The methods that a file calls in statements of their own, so that their results are discarded."""
    values = (node.value for node in source.nodes_of(ast.Expr))
    callees = (value.func for value in values if isinstance(value, ast.Call))
    return frozenset(callee.attr for callee in callees if isinstance(callee, ast.Attribute))


def calls_in_method(pipeline: Pipeline, cls: Class, method: str) -> Iterator[Expression]:
    """The calls in a method of a class, except in statements of its body that are an `if` or a `try`."""
    body = next(
        (node.body for node in cls.node.body if isinstance(node, ast.FunctionDef) and node.name == method),
        list[ast.stmt](),
    )
    source = pipeline.source_of(cls.origin) if cls.origin else pipeline.source
    for statement in body:
        for node in walk(statement) if not isinstance(statement, ast.If | ast.Try) else ():
            if isinstance(node, ast.Call):
                yield Expression(source, node)


def named_results(source: Source) -> Iterator[tuple[Expression, str]]:
    """The calls of a file whose result is assigned to one name, with that name."""
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                yield Expression(source, call), name
            case _:
                pass


def networks_of(source: Source) -> list[ast.ClassDef]:
    """The classes of a file that are networks of torch, by their bases, or by how they begin and what they define."""
    return source.cached(_networks_of)


def _networks_of(source: Source) -> list[ast.ClassDef]:
    names = set(NETWORKS)
    networks: list[ast.ClassDef] = []
    for node in source.nodes_of(ast.ClassDef):
        bases = [*map(unparse, node.bases)]
        is_network = any(name in names or name.endswith(".nn.Module") for name in bases)
        if is_network or _is_written_as_network(node):
            names.add(node.name)
            networks.append(node)
    return networks


def _is_written_as_network(node: ast.ClassDef) -> bool:
    """Whether a class of an unknown base, such as `BaseModel`, begins like a network and defines `forward`."""
    methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
    if not node.bases or "forward" not in methods or "__init__" not in methods:
        return False
    is_method = [each.arg for each in methods["forward"].args.args[:1]] == ["self"]
    begins = any(BEGINS.search(unparse(each)) for each in methods["__init__"].body[:3])
    return is_method and begins and OF_NETWORKS.search(" ".join(map(unparse, node.bases))) is not None


BEGINS = lazy_pattern(r"^super\([^)]*\)\.__init__\(")
OF_NETWORKS = lazy_pattern(r"(Model|Module|Net|Network|Encoder|Decoder|Layer|Block|Backbone)$")
"""The names of base classes that are networks, in some other file."""
