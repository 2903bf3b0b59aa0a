"""How scripts read checkpoints: which expressions hold the content of a file, which entries are read, and when."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from lintrain.analysis.expressions import Expression
from lintrain.analysis.lightning_modules import is_lightning_module
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Binding, Pipeline
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Class, Instance, Value
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

READERS = frozenset({"torch.load", "load_file", "safetensors.torch.load_file"})


@dataclass(frozen=True, slots=True)
class UncheckedLoad:
    """`model.load_state_dict(content, strict=False)` as a statement, and the call that reads the content."""

    call: Expression
    read: Expression | None


def is_read(node: ast.expr) -> bool:
    """Whether an expression reads a file of weights: `torch.load(…)`."""
    return isinstance(node, ast.Call) and unparse(node.func) in READERS


def loaded_from_file(source: Source, node: ast.expr) -> ast.expr | None:
    """The call that reads a file, if an expression is the unchanged content or an entry of it; None otherwise."""
    for _ in range(4):
        while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            node = node.value
        if is_read(node):
            return node
        made = source.cached(_only_values).get(node) if isinstance(node, ast.Name) else None
        if made is None:
            return None
        node = made
    return None


def is_entry_of_file(source: Source, node: ast.expr) -> bool:
    """Whether a name holds an entry of a file's content, and not all of it."""
    made = source.cached(_only_values).get(node) if isinstance(node, ast.Name) else None
    return isinstance(made, ast.Subscript) or (made is not None and is_entry_of_file(source, made))


def _only_values(source: Source) -> dict[ast.Name, ast.expr]:
    """The value of each name that its function, or the file, assigns once and does not change afterwards."""
    of_file, found = _values_in(walk(source.tree)), dict[ast.Name, ast.expr]()
    for name in source.nodes_of(ast.Name):
        if name.id in of_file:
            found[name] = of_file[name.id]
    for function in source.nodes_of(ast.FunctionDef, ast.AsyncFunctionDef):
        nodes = walk(function)
        # What an inner function binds is another thing, so such functions are left to the rule about the file.
        if not any(isinstance(node, ast.FunctionDef | ast.Lambda) and node is not function for node in nodes):
            local = _values_in(nodes)
            found.update((each, local[each.id]) for each in nodes if isinstance(each, ast.Name) and each.id in local)
    return found


def _values_in(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """The value of each name that is assigned once in some nodes, and not changed there."""
    values, changed = dict[str, list[ast.expr]](), set[str]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values.setdefault(name, []).append(value)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                values.setdefault(name, []).append(node)
            case ast.arg(arg=name):
                changed.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                changed.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr="pop" | "update" | "clear" | "popitem"):
                changed.add(name)
            case _:
                pass
    # An assignment counts twice: as a statement, and as a name that is stored.
    once = {name: found[0] for name, found in values.items() if len(found) == 2 and name not in changed}
    return {name: value for name, value in once.items() if not isinstance(value, ast.Name)}


def unchecked_loads(source: Source) -> Iterator[UncheckedLoad]:
    """The statements that load a whole model with `strict=False` and discard the names of missing weights.

    Not where a part of the model gets its own weights, which the first file lacks: `model.head.load_state_dict(…)`.
    """
    for statement in source.nodes_of(ast.Expr):
        if _skips_missing_keys(statement.value) and not _loads_part(source, statement.value):
            read = loaded_from_file(source, statement.value.args[0]) if statement.value.args else None
            yield UncheckedLoad(Expression(source, statement.value), Expression(source, read) if read else None)


def _skips_missing_keys(call: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is `model.load_state_dict(…, strict=False)`, for a whole model."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute(value=ast.Name(id="self")), attr=method)):
            return method == "load_state_dict" and any(
                each.arg == "strict" and isinstance(each.value, ast.Constant) and each.value.value is False
                for each in call.keywords
            )
        case _:
            return False


def _loads_part(source: Source, load: ast.Call) -> bool:
    model = unparse(load.func).removesuffix(".load_state_dict")
    return source.contains(rf"\b{re.escape(model)}\.\w+\.load_state_dict\(")


def saves_some_weights(source: Source) -> bool:
    """Whether code selects weights of a model to save them: those that are trained, or have some name."""
    if not source.contains("state_dict"):
        return False
    comprehensions = (each for node in source.nodes_of(ast.DictComp) for each in node.generators)
    loops = (node for node in source.nodes_of(ast.For) if any(map(_stores_under_condition, node.body)))
    selecting = [*(each.iter for each in comprehensions if each.ifs), *(each.iter for each in loops)]
    return any(OF_MODEL.search(unparse(each)) for each in selecting)


OF_MODEL = lazy_pattern(r"\.(?:state_dict|named_parameters)\(")
"""The weights of a model, with their names."""


def _stores_under_condition(statement: ast.stmt) -> bool:
    """Whether a statement of a loop puts some items into a mapping: `if weight.requires_grad: kept[name] = weight`."""
    parts = walk(statement) if isinstance(statement, ast.If) else ()
    return any(isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store) for each in parts)


def is_second_try(source: Source, load: Location) -> bool:
    """Whether code loads in this way only after it has failed to load all weights, so that the difference is known."""
    for node in source.nodes_of(ast.Try):
        handlers = [each for each in node.handlers if source.location(each).holds(load)]
        if handlers and any("load_state_dict" in unparse(each) for each in node.body):
            return True
    return False


def entries_read(source: Source, key: str) -> Sequence[ast.Subscript]:
    """Where an entry of a checkpoint is read by its key."""
    return source.cached(entries_by_key).get(key, ())


def entries_by_key(source: Source) -> dict[str, list[ast.Subscript]]:
    """Where entries of checkpoints are read, by their key."""
    found = dict[str, list[ast.Subscript]]()
    for node in walk(source.tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(key)), ctx=ast.Load()):
                if loaded_from_file(source, node) is not None:
                    found.setdefault(key, []).append(node)
            case _:
                pass
    return found


def assigned_loads(source: Source) -> Iterator[tuple[Location, str, str]]:
    """The statements that give a model's name the result of `load_state_dict`: where, the name, and the call alone.

    The call is empty where the loaded model has no name that remains.
    """
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(
                targets=[target], value=ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict")) as call
            ):
                name, code = unparse(target), source.code(source.location(call))
            case _:
                continue
        used = rf"(?<![\w.]){re.escape(name)}(?:\.(?:eval|train|to|cuda|parameters|forward|zero_grad)\(|\()"
        is_used = source.contains(used)
        if name == unparse(owner) or (is_used and not isinstance(owner, ast.Name)):
            yield source.location(node), name, code if name == unparse(owner) else ""


@dataclass(frozen=True, slots=True)
class StateBeforeMove:
    """The state of an optimizer that is loaded before its model is moved: where, both names, and the move."""

    location: Location
    optimizer: str
    model: str
    moved: Location


def states_before_moves(source: Source) -> Iterator[StateBeforeMove]:
    """The states that stay on the CPU when the weights of the optimizer are moved later in the same function."""
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)) if source.contains("load_state_dict") else ():
        nodes = own_nodes(scope)
        values = _values_of(nodes)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        moves: dict[str, list[ast.Call]] = {}
        for call in calls:
            if model := _moved_model(call):
                moves.setdefault(model, []).append(call)
        handled = _handled(nodes)
        for load in calls if moves else ():
            match load.func:
                case ast.Attribute(value=ast.Name(id=optimizer), attr="load_state_dict") if optimizer not in handled:
                    for model in _trained_by(values, optimizer):
                        later = [call for call in moves.get(model, ()) if call.lineno > load.lineno]
                        is_first = bool(later) and len(later) == len(moves[model])
                        if is_first and not _is_made_there(values, model, load):
                            yield StateBeforeMove(source.location(load), optimizer, model, source.location(later[0]))
                case _:
                    pass


def _trained_by(values: Mapping[str, Sequence[ast.expr]], optimizer: str) -> list[str]:
    """The names of the models whose parameters an optimizer certainly gets."""
    holders: set[str] = set()
    for value in values.get(optimizer, ()):
        first = value.args[0] if isinstance(value, ast.Call) and value.args else value
        for each in [first, *(values.get(first.id, ()) if isinstance(first, ast.Name) else ())]:
            match each:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=model), attr="parameters")):
                    holders.add(model)
                case _:
                    pass
    return sorted(holders)


def _values_of(nodes: Sequence[ast.AST]) -> dict[str, list[ast.expr]]:
    """The values that names are given, by name."""
    found: dict[str, list[ast.expr]] = {}
    for node in (each for each in nodes if isinstance(each, ast.Assign)):
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(node.value)
    return found


def _moved_model(call: ast.Call) -> str:
    """The model that a call moves to a GPU, perhaps inside a wrapper: `DataParallel(model).cuda()`."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name), attr="cuda"):
            return name
        case ast.Attribute(value=ast.Call(args=[ast.Name(id=name), *_]), attr="cuda"):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr="to"):
            return name if call.args and DEVICE.search(unparse(call.args[0])) else ""
        case _:
            return ""


DEVICE = lazy_pattern(r"dev|cuda|gpu|rank")


def _handled(nodes: Sequence[ast.AST]) -> set[str]:
    """The names of the optimizers whose state code handles itself."""
    return {
        node.value.id
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in {"state", "param_groups"}
        and isinstance(node.value, ast.Name)
    }


def _is_made_there(values: Mapping[str, Sequence[ast.expr]], model: str, load: ast.Call) -> bool:
    """Whether a model is put on a device where it is made."""
    made = [unparse(value) for value in values.get(model, ()) if value.lineno < load.lineno]
    return any("cuda" in code or ".to(" in code for code in made)


@dataclass(frozen=True, slots=True)
class DiscardedLoad:
    """A statement that builds a model with loaded weights and drops it; `statement` is one that keeps it."""

    location: Location
    method: str
    statement: str | None


def discarded_loads(pipeline: Pipeline) -> Iterator[DiscardedLoad]:
    """The statements that load a module of Lightning, or a model of `transformers`, and drop what they get."""
    source = pipeline.source
    bound = dict[str, list[Binding]]()
    for binding in pipeline.bindings:
        bound.setdefault(binding.name, []).append(binding)
    saved = {_given(call) for call in source.nodes_of(ast.Call) if _is_save(call)}
    for call, name, method in loads_as_statements(source):
        location = source.location(call)
        if _given(call) in saved:
            continue  # what was saved is loaded again, to see that it can be
        known = _values_in_scope(pipeline, bound.get(name, []), location)
        if method == MERGING and not _is_saved_after(pipeline, name, location):
            continue  # the layers inside have been merged, which is enough to use the model
        is_known = known and all(_is_loaded_by(each, method) for each in known)
        # In a piece of a script the class may come after its use.
        later = _made_of_later(source) if source.is_partial and method == "load_from_checkpoint" else {}
        if (is_known or name in later) and not source.is_displayed(location):
            classes = {each.cls.node.name for each in known if isinstance(each, Instance)}
            cls = classes.pop() if len(classes) == 1 else later.get(name, name)
            code = source.code(location).removeprefix(f"{name}.")
            cls = name if method == MERGING else cls
            is_object = not any(isinstance(each, Class) for each in known)
            yield DiscardedLoad(location, method, f"{name} = {cls}.{code}" if is_object else None)


def _values_in_scope(pipeline: Pipeline, bound: Sequence[Binding], location: Location) -> list[Value]:
    """What the function around a place gives a name; what the whole file gives it if the function does not."""
    scope = blocks.scope_of(pipeline, location)
    near = [each.value for each in bound if blocks.scope_of(pipeline, each.location) is scope]
    return near or [each.value for each in bound]


def _is_save(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"save_pretrained", "save_checkpoint"}


def _given(call: ast.Call) -> str:
    """The code of the file or folder that a call gets first."""
    return unparse(call.args[0]) if call.args else ""


def loads_as_statements(source: Source) -> Iterator[tuple[ast.Call, str, str]]:
    """The statements that only call a method that loads, with the name of its owner and its own."""
    for statement in source.nodes_of(ast.Expr):
        match statement.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call if method in LOADING:
                yield call, name, method
            case _:
                pass


MERGING = "merge_and_unload"
LOADING = frozenset({"load_from_checkpoint", "from_pretrained", MERGING})
"""Class methods that build a model and return it, and the one that takes a model out of its adapter."""


def _is_saved_after(pipeline: Pipeline, name: str, location: Location) -> bool:
    """Whether a function saves the model of a name after a place, and does not bind the name again."""
    source, scope = pipeline.source, blocks.scope_of(pipeline, location)
    uses = [
        each for each in source.nodes_of(ast.Attribute) if isinstance(each.value, ast.Name) and each.value.id == name
    ]
    saves = [each for each in uses if each.attr in {"save_pretrained", "push_to_hub"}]
    stored = [each for each in source.nodes_of(ast.Name) if each.id == name and isinstance(each.ctx, ast.Store)]
    after = [source.location(each) for each in (*saves, *stored) if location < source.location(each)]
    near = [each for each in after if blocks.scope_of(pipeline, each) is scope]
    is_bound_again = any(source.location(each) in near for each in stored)
    return not is_bound_again and any(source.location(each) in near for each in saves)


def _is_loaded_by(value: Value, method: str) -> bool:
    """Whether a value is one whose method of this name certainly returns another one."""
    if method == MERGING:
        return isinstance(value, Model) and (value.is_adapted or value.path.startswith("peft."))
    if method == "from_pretrained":
        return isinstance(value, Model)
    cls = value.cls if isinstance(value, Instance) else value
    return isinstance(cls, Class) and cls.lookup(method) is None and is_lightning_module(cls)


def _made_of_later(source: Source) -> dict[str, str]:
    """The names that are assigned an object of a class of Lightning that the text defines, with the class."""
    classes = {
        node.name
        for node in source.nodes_of(ast.ClassDef)
        if any(unparse(base).rpartition(".")[2] == "LightningModule" for base in node.bases)
    }
    found = dict[str, str]()
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=cls))) if cls in classes:
                found[name] = cls
            case _:
                pass
    return found
