"""Layers and losses of torch that code builds: the networks in a file, layers that are given tensors where settings
belong, and layers that are built several times.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.script_text import imports_of
from lintrain.knowledge import api
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import LibraryCall, Pipeline
from lintrain.source import places
from lintrain.source.fragments import meanings
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WITHOUT_SETTINGS = frozenset({"Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink"})
"""Layers whose constructors accept no argument."""

WITH_SETTINGS = frozenset(
    {"ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid"}
    | {"Softmax", "LogSoftmax", "Softmin", "Softmax2d", "Softplus", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d"}
    | {"AlphaDropout", "Flatten", "MaxPool1d", "MaxPool2d", "AvgPool1d", "AvgPool2d"}
)
"""Layers without weights whose constructors accept only numbers and switches."""

TARGETS = frozenset({"label", "labels", "target", "targets", "gt", "truth", "y"})
"""Words of the names of targets."""

CONTAINERS = frozenset({"ModuleList", "Sequential"})


@dataclass(frozen=True, slots=True)
class Unapplied:
    """A layer or loss that gets tensors in its constructor: its class, where, and what the call should have been."""

    name: str
    location: Location
    callee: str
    given: str
    is_loss: bool


@dataclass(frozen=True, slots=True)
class Repeated:
    """A container whose items are one object: where the items are written, and the code of the object and the count."""

    location: Location
    item: str
    count: str
    is_built_there: bool
    """Whether the item is a call that creates the layer, `[nn.Linear(8, 8)] * n`."""


def may_repeat(source: Source) -> bool:
    """Whether a file puts a multiplied list or a comprehension into a container of modules."""
    nodes = (node for node in source.nodes_of(ast.Call) if len(node.args) == 1 and last_name(node.func) in CONTAINERS)
    return any(_repeated_in(source, node) is not None for node in nodes)


def lacks_pass(source: Source, owner: ast.ClassDef) -> bool:
    """Whether a piece of a script shows the constructor of a class, and none of its other methods."""
    methods = [each.name for each in owner.body if isinstance(each, ast.FunctionDef)]
    return source.is_partial and bool(owner.bases) and methods == ["__init__"]


def may_build_from_tensors(source: Source) -> bool:
    """Whether a file builds such a layer and does not call it at once, or builds a loss with a target."""
    passes = [node for node in source.nodes_of(ast.FunctionDef) if node.name == "forward"]
    nodes = [node for node in source.nodes_of(ast.Call) if node.args]
    called = {id(node.func) for node in source.nodes_of(ast.Call)}
    return any(_may_get_tensors(node, passes) for node in nodes if id(node) not in called)


def _may_get_tensors(node: ast.Call, passes: Sequence[ast.FunctionDef]) -> bool:
    name = last_name(node.func)
    if name in WITHOUT_SETTINGS:
        return len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
    if name in WITH_SETTINGS:
        is_tensor = isinstance(node.args[0], ast.Name | ast.Call | ast.BinOp)
        return is_tensor and any(each.lineno <= node.lineno <= (each.end_lineno or 0) for each in passes)
    return _is_loss_of_tensors(name, node)


def last_name(node: ast.expr) -> str:
    """The name of what code calls, without what it belongs to; empty for other code."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def unapplied(pipeline: Pipeline) -> Iterator[Unapplied]:
    """The layers and losses of torch that are built with tensors."""
    source = pipeline.source
    for call, node in own_calls(pipeline, "torch.nn."):
        name = call.path.rpartition(".")[2]
        is_layer = _is_layer_of_tensors(pipeline, name, node)
        if (is_layer or _is_loss_of_tensors(name, node)) and not _is_called(source, node):
            given = ", ".join(source.code(source.location(each)) for each in node.args)
            yield Unapplied(name, call.location, source.code(source.location(node.func)), given, not is_layer)


def repeated(pipeline: Pipeline) -> Iterator[Repeated]:
    """The containers of torch whose items are the same module several times."""
    for call, node in own_calls(pipeline, "torch.nn."):
        found = _repeated_in(pipeline.source, node) if call.path.rpartition(".")[2] in CONTAINERS else None
        if found is not None and not _is_chosen(pipeline.source, found.location):
            yield found


def _is_chosen(source: Source, location: Location) -> bool:
    """Whether the other branch of an `if` around a container builds one with a layer of its own for each item."""
    around = [node for node in source.nodes_of(ast.If) if node.orelse and source.location(node).holds(location)]
    blocks = [block for node in around for block in (node.body, node.orelse)]
    others = [block for block in blocks if not any(source.location(each).holds(location) for each in block)]
    nodes = (part for block in others for statement in block for part in walk(statement))
    return any(
        isinstance(part, ast.Call)
        and last_name(part.func) in CONTAINERS
        and any(isinstance(inner, ast.ListComp | ast.GeneratorExp) for inner in walk(part))
        for part in nodes
    )


def may_discard(source: Source) -> bool:
    """Whether a file has a statement that only builds a layer, going by its name, or a network of the file."""
    called = [node.func for node in source.cached(_statements).values() if last_name(node.func)[:1].isupper()]
    networks = source.cached(_own_networks) if called else {}
    from_torch = source.cached(_names_from_torch) if called else frozenset[str]()
    return any(last_name(each) in networks or _root(each) in from_torch or "*" in from_torch for each in called)


def _root(node: ast.expr) -> str:
    """The name that code begins with: `nn` of `nn.Linear`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names_from_torch(source: Source) -> frozenset[str]:
    """The names that a file takes from torch; a star for all that a module gives, which may be such names."""
    of_torch = [each for each in imports_of(source) if each.module.startswith("torch") or each.name == "*"]
    meant = {name for name, path in meanings(source).items() if path.startswith("torch")}
    return frozenset(meant | {each.alias or each.name or "torch" for each in of_torch})


def discarded(pipeline: Pipeline) -> Iterator[tuple[str, Location]]:
    """The layers, losses and parts of networks that a statement builds and drops: the class, and where."""
    statements = pipeline.source.cached(_statements)
    for call, _ in own_calls(pipeline, "torch.nn."):
        name = call.path.removeprefix("torch.nn.")
        # The run ends at `nn.Sequence(…)`, a name that torch never had.
        is_class = name[:1].isupper() and api.name_state("torch.nn", name, pipeline.targets).state != "never"
        if call.location in statements and is_class and "." not in name:
            yield name, call.location
    networks = pipeline.source.cached(_own_networks)
    for location, node in statements.items() if networks else ():
        # Outside of a network, `Net()` may be built to see whether it can be.
        inside = [cls for cls, around in networks.items() if around.holds(location)]
        if inside and (name := last_name(node.func)) in networks and isinstance(node.func, ast.Name):
            yield name, location


def _own_networks(source: Source) -> dict[str, Location]:
    """The classes of a file whose base is `nn.Module`."""
    classes = source.nodes_of(ast.ClassDef)
    return {cls.name: source.location(cls) for cls in classes if "Module" in map(last_name, cls.bases)}


def _statements(source: Source) -> dict[Location, ast.Call]:
    """The calls that are statements of their own, without those whose result a notebook shows."""
    calls = [(source.location(node), node.value) for node in source.nodes_of(ast.Expr)]
    return {at: call for at, call in calls if isinstance(call, ast.Call) and not source.is_displayed(at)}


@dataclass(frozen=True, slots=True)
class Unreturned:
    """A `forward` or `call` without a `return`: the class, the last statement, and the name that it assigns, if any."""

    cls: str
    location: Location
    name: str
    method: str


METHODS = {"Module": ("forward",), "Model": ("call", "train_step", "test_step"), "Layer": ("call",)}
"""The methods with a result of a network, by the name of the class of torch or Keras that it derives from."""


def unreturned(source: Source) -> Iterator[Unreturned]:
    """The networks of a file whose `forward` computes something and returns nothing."""
    classes = source.nodes_of(ast.ClassDef)
    is_keras = "keras" in source.text
    bases = {last_name(base) for cls in classes for base in cls.bases}
    for cls in classes:
        methods = METHODS.get(".".join(last_name(base) for base in cls.bases), ())
        if not methods or cls.name in bases or (methods != ("forward",) and not is_keras):
            continue
        if any(isinstance(node, ast.FunctionDef) and node.name == "__call__" for node in cls.body):
            continue  # the class answers its calls itself, and its `forward` is for show
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and node.name in methods and _loses_its_result(node):
                last = node.body[-1]
                name = "" if node.name.endswith("_step") else _assigned(last)
                yield Unreturned(cls.name, source.location(last), name, node.name)


def _loses_its_result(forward: ast.FunctionDef) -> bool:
    """Whether a method computes with layers, leaves nothing on the object, and has no way to give a result."""
    nodes = [node for statement in forward.body for node in walk(statement)]
    gives = ast.Return | ast.Yield | ast.YieldFrom | ast.Raise | ast.Lambda | ast.FunctionDef
    keeps = any(isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store) for each in nodes)
    if forward.decorator_list or keeps or any(isinstance(node, gives) for node in nodes):
        return False
    last = forward.body[-1]
    computes = isinstance(last, ast.Assign | ast.Expr) or any(map(_assigned, walk(forward)))
    is_over = isinstance(last, ast.Assign | ast.Expr | ast.AugAssign | ast.For | ast.With | ast.If | ast.Assert)
    return any(isinstance(node, ast.Call) for node in nodes) and is_over and computes


def _assigned(statement: ast.AST) -> str:
    """The name that a statement assigns; empty for other code."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def own_calls(pipeline: Pipeline, prefix: str) -> Iterator[tuple[LibraryCall, ast.Call]]:
    """The calls of a library in the script itself that name what they call, each once, with their code."""
    calls = {call.location: call for call in reversed(pipeline.calls) if call.path.startswith(prefix)}
    for location, call in calls.items():
        node = places.call_at(pipeline.source, location)
        if node is None:
            continue
        name, own = last_name(node.func), call.path.rpartition(".")[2]
        # `criterion = nn.CrossEntropyLoss` leaves out the brackets, and its calls build losses.
        # A loss that derives from one of torch sets that up itself: `super().__init__(ignore_index=0)`.
        if name == own or (own.endswith("Loss") and name.islower() and name != "__init__"):
            yield call, node


def _is_layer_of_tensors(pipeline: Pipeline, name: str, node: ast.Call) -> bool:
    if not node.args or isinstance(node.args[0], ast.Starred):
        return False
    if name in WITHOUT_SETTINGS:
        return len(node.args) == 1
    return name in WITH_SETTINGS and _is_tensor(node.args[0], _tensors_of(pipeline, node))


def _is_loss_of_tensors(name: str, node: ast.Call) -> bool:
    """Whether a loss is built with two values of which the second has the name of a target."""
    if not name.endswith("Loss") or len(node.args) < 2 or node.keywords:
        return False
    return bool(TARGETS & set(last_name(node.args[1]).lower().split("_")))


def _is_called(source: Source, node: ast.Call) -> bool:
    """Whether what a call gives is called itself: `nn.Softmax(dim)(x)`."""
    return any(call.func is node for call in source.nodes_of(ast.Call))


def _tensors_of(pipeline: Pipeline, node: ast.Call) -> set[str]:
    """The names of tensors in the `forward` around a call: its first parameter, and what is computed from tensors."""
    function = blocks.scope_of(pipeline, pipeline.source.location(node))
    if not isinstance(function, ast.FunctionDef) or function.name != "forward" or len(function.args.args) < 2:
        return set()
    known = {function.args.args[1].arg}
    for each in walk(function):
        if isinstance(each, ast.Assign) and _is_tensor(each.value, known):
            known |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return known


def _is_tensor(node: ast.expr, known: set[str]) -> bool:
    """Whether an expression in a `forward` is certainly a tensor; in no other function is any known."""
    match node:
        case ast.Name(id=name):
            return name in known
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return bool(known) and name.islower() and any(_is_tensor(each, known) for each in node.args)
        case ast.Call(
            func=ast.Attribute(value=owner, attr="view" | "mean" | "sum" | "reshape" | "squeeze" | "permute")
        ):
            return _is_tensor(owner, known)
        case ast.BinOp(left=left, right=right):
            return _is_tensor(left, known) or _is_tensor(right, known)
        case _:
            return False


def _repeated_in(source: Source, call: ast.Call) -> Repeated | None:
    """The module and the count of `[module] * n` or `[module for _ in range(n)]`, if a call gets only that."""
    if len(call.args) != 1 or call.keywords:
        return None
    node = call.args[0].value if isinstance(call.args[0], ast.Starred) else call.args[0]
    match node:
        case ast.BinOp(left=ast.List(elts=[item]), op=ast.Mult(), right=count):
            is_built = isinstance(item, ast.Call)
        case ast.ListComp(
            elt=ast.Name(id=name) as item,
            generators=[
                ast.comprehension(
                    target=ast.Name(id=counter), iter=ast.Call(func=ast.Name(id="range"), args=[count]), ifs=[]
                )
            ],
        ) if counter != name:
            is_built = False
        case _:
            return None
    if isinstance(count, ast.Constant) and count.value == 1:
        return None
    texts = [source.code(source.location(each)) for each in (item, count)]
    return Repeated(source.location(node), texts[0], texts[1], is_built)


SIZED = frozenset({"Linear", "LSTM", "GRU", "RNN", "Embedding", "MultiheadAttention", "LayerNorm"})
"""Layers that are built for a size; convolutions and batch norms come with their numbers of axes."""

MANY_AXES = ("Conv1d", "Conv2d", "Conv3d", "Transpose1d", "Transpose2d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")

MAY_BE_SIZED = lazy_pattern(
    r"\b(?:Linear|LSTM|GRU|RNN|Embedding|MultiheadAttention|LayerNorm|(?:Conv|ConvTranspose|BatchNorm)[123]d)\([^()\n]*\d"
)


def builds_sized_layers(source: Source) -> bool:
    """Whether a file builds two or more layers with sizes that are written as numbers."""
    # The calls are counted first: the expression is tried at each word of the text.
    return _count_sized_layers(source) > 1 and len(MAY_BE_SIZED.findall(source.text)) > 1


def _count_sized_layers(source: Source) -> int:
    return sum(_is_sized_layer(call) for call in source.nodes_of(ast.Call))


def _is_sized_layer(call: ast.Call) -> bool:
    callee = call.func
    name = callee.attr if isinstance(callee, ast.Attribute) else callee.id if isinstance(callee, ast.Name) else ""
    if name not in SIZED and not name.endswith(MANY_AXES):
        return False
    parts = (node for each in call.args for node in walk(each))
    return any(isinstance(node, ast.Constant) and isinstance(node.value, int) for node in parts)
