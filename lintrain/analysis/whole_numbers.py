"""Sizes, counts and bounds of slices that certainly are floats, although only whole numbers are accepted."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from lintrain.analysis import keras_steps
from lintrain.analysis.script_text import imports_of
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.project_search import is_beside_python_2
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

LAYERS = {
    **dict.fromkeys(("Linear", "Embedding", "LSTM", "GRU", "RNN", "Dense", "Bilinear"), 2),
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), 3),
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), 2),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "PixelShuffle", "RepeatVector"), 1),
    **dict.fromkeys(("MaxPool1d", "MaxPool2d", "AvgPool2d", "MaxPooling2D", "AveragePooling2D", "SimpleRNN"), 1),
}
"""Layers, and how many of their first arguments are whole numbers; the second of `Dense` is never a number."""

SIZES = frozenset(
    {"in_features", "out_features", "in_channels", "out_channels", "num_embeddings", "embedding_dim", "input_size"}
    | {"hidden_size", "num_layers", "num_features", "kernel_size", "units", "filters", "input_dim", "output_dim"}
    | {"groups", "normalized_shape", "upscale_factor"}
)
"""Keywords of layers that are whole numbers."""

PACKAGES = frozenset({"torch", "keras", "tensorflow", "tf_keras", "numpy"})
MAKES = frozenset({"zeros", "ones", "empty", "rand", "randn"})
SHAPES = frozenset({"view", "reshape", "expand"})
FLOATS = frozenset({"ceil", "floor", "sqrt", "log2", "log", "log10", "exp", "mean", "rint", "round"})
"""Functions of NumPy that return floats, `ceil` and `floor` too."""

TAKES_SIZES = LAYERS.keys() | MAKES | SHAPES | keras_steps.METHODS | {"DataLoader", "OneCycleLR"}
"""Names of layers, functions and methods that take whole numbers."""

OF_MATH = frozenset({"sqrt", "log2", "log", "log10", "exp"})

COUNTS = frozenset({"len", "get_dimensions", "get_image_size", "get_size", "get_num_channels"})
"""Functions of Python and torchvision that only count the rows or pixels of a tensor."""


@dataclass(frozen=True, slots=True)
class FloatSize:
    """A float where a whole number belongs: the expression, its code, what gets it, and how it becomes one.

    `computed` is where the value of a name is computed; `whole` is empty if the name is used so several times.
    `is_passed_on` if a function or class of the project gets it first.
    """

    location: Location
    code: str
    taken_by: str
    whole: str
    package: str
    computed: Location | None
    is_passed_on: bool


def float_sizes(source: Source, others: Sequence[Source] = ()) -> list[FloatSize]:
    """The floats that a file passes as sizes of layers and tensors, as counts and as bounds of slices.

    Functions and classes of the file and of `others` pass on what they get to such a layer. In Python 2 a division of
    whole numbers gives one.
    """
    if "import division" not in source.text and any("'print'" in flaw.msg for flaw in source.flaws):
        return []
    modules = _modules(source)
    may_be_float = _Looks(source, modules)
    defined = frozenset(name for each in (source, *others) for name in each.cached(_defined))
    named = calls_of(source, {*TAKES_SIZES, "range", *modules, *defined})
    calls = (node for node in named if _may_take_sizes(node, modules, defined))
    slices = (node for node in source.nodes_of(ast.Subscript) if isinstance(node.slice, ast.Slice))
    nodes = [node for node in (*calls, *slices) if any(map(may_be_float, _given_to(node)))]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    own = _passing_on([source, *others]) if not called.isdisjoint(defined) else {}
    scopes: dict[int, _Floats] = {}
    found: dict[tuple[int, str, Location | None], FloatSize] = {}
    for node in nodes:
        for given, taken_by, package in (*_whole_numbers(node, modules), *_of_own(node, own)):
            if not may_be_float(given):
                continue
            scope = _scope_of(source, given)
            floats = scopes.setdefault(id(scope), _Floats(scope, modules))
            if not floats.holds(given) or _is_tried(source, given):
                continue
            value = floats.value_of(given)
            key = (id(scope), unparse(given), None if value is not None else source.location(given))
            whole = "" if key in found else _as_whole(given)
            first = found[key].location if key in found else source.location(given)
            computed = source.location(value) if value is not None else None
            found[key] = FloatSize(first, key[1], taken_by, whole, package, computed, taken_by.strip("`") in own)
    is_whole = bool(found) and "import division" not in source.text and is_beside_python_2(source)
    return [] if is_whole else list(found.values())


def _defined(source: Source) -> frozenset[str]:
    """The names of the functions and classes of a file."""
    made: Sequence[ast.FunctionDef | ast.ClassDef] = source.nodes_of(ast.FunctionDef, ast.ClassDef)
    return frozenset(each.name for each in made)


def _may_take_sizes(call: ast.Call, modules: dict[str, str], defined: frozenset[str]) -> bool:
    """Whether a call is one by its name of what takes whole numbers: most calls of a file are not."""
    match call.func:
        case ast.Attribute(attr=name):
            return name in TAKES_SIZES
        case ast.Name(id=name):
            return name == "range" or name in modules or name in defined
        case _:
            return False


def _targets(node: ast.Assign) -> Iterator[str]:
    return (each.id for each in node.targets if isinstance(each, ast.Name))


def _given_to(node: ast.expr) -> Iterator[ast.expr]:
    """What a call or an index gets, parts of tuples and slices by themselves."""
    match node:
        case ast.Call(args=args, keywords=keywords):
            for each in (*args, *(keyword.value for keyword in keywords)):
                yield from each.elts if isinstance(each, ast.Tuple | ast.List) else (each,)
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper)):
            yield from (bound for bound in (lower, upper) if bound is not None)
        case _:
            pass


FLOAT_FORMS = frozenset({ast.Name, ast.Constant, ast.BinOp, ast.Call, ast.UnaryOp, ast.IfExp})
"""The kinds of expressions that may be a float at first sight."""


class _Looks:
    """Whether an expression of a file looks like a float at first sight: `_Floats.holds` for any scope and order."""

    def __init__(self, source: Source, modules: dict[str, str]) -> None:
        self._modules = modules
        self._names: frozenset[str] | None = None
        self._names = frozenset(
            name for node in source.nodes_of(ast.Assign) if self(node.value) for name in _targets(node)
        )

    def __call__(self, node: ast.expr) -> bool:
        if node.__class__ not in FLOAT_FORMS:  # most nodes: a file has thousands of calls
            return False
        match node:
            case ast.Name(id=name):
                return self._names is None or name in self._names
            case ast.Constant(value=float()) | ast.BinOp(op=ast.Div()):
                return True
            case ast.Call(func=func, args=[_], keywords=[]):
                return _makes_float(func, self._modules)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Add() | ast.Sub() | ast.FloorDiv(), right=right):
                return self(left) or self(right)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self(inner)
            case ast.IfExp(body=one, orelse=other):
                return self(one) and self(other)
            case _:
                return False


def _scope_of(source: Source, node: ast.expr) -> ast.Module | ast.FunctionDef:
    line = node.lineno
    around = [each for each in source.nodes_of(ast.FunctionDef) if each.lineno <= line <= (each.end_lineno or 0)]
    return max(around, key=lambda each: each.lineno, default=source.tree)


Taken = dict[str, dict[str, tuple[int, str]]]
"""The parameters of functions that are passed on as whole numbers, with their positions and the package that asks."""


def _passing_on(sources: Iterable[Source]) -> Taken:
    found: Taken = {}
    for source in sources:
        for name, taken in source.cached(_passed_on).items():
            found[name] = {} if name in found else taken  # two of one name: which one is meant is not followed
    return found


def _passed_on(source: Source) -> Taken:
    """The functions of a file, and its classes, with the parameters that they pass on unchanged."""
    modules = _modules(source)
    meant = {name for name, path in modules.items() if path.partition(".")[0] in PACKAGES}
    methods = {each: owner for owner in source.nodes_of(ast.ClassDef) for each in owner.body}
    found: Taken = {}
    for function in source.nodes_of(ast.FunctionDef):
        owner = methods.get(function)
        if owner is not None and function.name != "__init__":
            continue
        names = [each.arg for each in function.args.args][owner is not None :]
        nodes = walk(function) if names and meant else []
        # Only calls of libraries, for slices and `range` ask for no package.
        calls = [node for node in nodes if isinstance(node, ast.Call) and _root(node.func) in meant]
        if not calls:
            continue
        stored = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        taken = {
            given.id: (names.index(given.id), package)
            for node in calls
            for given, _, package in _of_library(node, _path(node.func, modules))
            if isinstance(given, ast.Name) and given.id in names and given.id not in stored
        }
        if taken:
            found[owner.name if isinstance(owner, ast.ClassDef) else function.name] = taken
    return found


def _root(node: ast.expr) -> str:
    """The name that a dotted one begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _of_own(node: ast.AST, own: Taken) -> Iterator[tuple[ast.expr, str, str]]:
    """The arguments of a call that a function or class of the project passes on as whole numbers."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=given, keywords=named) if name in own:
            if not any(isinstance(each, ast.Starred) for each in given):
                for position, package in own[name].values():
                    yield from ((each, f"`{name}`", package) for each in given[position : position + 1])
            yield from ((each.value, f"`{name}`", own[name][each.arg][1]) for each in named if each.arg in own[name])
        case _:
            pass


def _is_tried(source: Source, node: ast.expr) -> bool:
    """Whether an error of an expression is caught."""
    blocks = ((each.body[0].lineno, each.body[-1].end_lineno or 0) for each in source.nodes_of(ast.Try))
    return any(first <= node.lineno <= last for first, last in blocks)


def _modules(source: Source) -> dict[str, str]:
    """What the names mean that a file imports: `np` is `numpy`, `Dense` is `keras.layers.Dense`."""
    found: dict[str, str] = {}
    for each in imports_of(source):
        if each.name is None:
            name = each.alias or each.module.partition(".")[0]
            found[name] = each.module if each.alias else name
        else:
            found[each.alias or each.name] = f"{each.module}.{each.name}"
    defined = source.cached(_defined)
    return {name: path for name, path in found.items() if name not in defined}


def _path(node: ast.expr, modules: dict[str, str]) -> str:
    """The full name of what an expression means; empty if it starts with nothing that is imported."""
    match node:
        case ast.Name(id=name):
            return modules.get(name, "")
        case ast.Attribute(value=owner, attr=name):
            path = _path(owner, modules)
            return f"{path}.{name}" if path else ""
        case _:
            return ""


def _whole_numbers(node: ast.AST, modules: dict[str, str]) -> Iterator[tuple[ast.expr, str, str]]:
    """The expressions in a node that have to be whole numbers, what gets each, and the package that asks."""
    match node:
        case ast.Subscript(value=owner, slice=ast.Slice(lower=lower, upper=upper)) if not _takes_floats(owner):
            for bound in (lower, upper):
                if bound is not None:
                    yield bound, "a slice", ""
        case ast.Call(func=ast.Name(id="range" as name), args=given) if name not in modules:
            yield from ((each, "`range`", "") for each in given)
        case ast.Call(func=ast.Attribute(attr=name) as func, args=given) if name in SHAPES and not _path(func, modules):
            yield from ((each, f"`{name}`", "") for each in given)
        case ast.Call(func=func):
            yield from keras_steps.given_counts(node, modules)
            yield from _of_library(node, _path(func, modules))
        case _:
            pass


def _takes_floats(node: ast.expr) -> bool:
    """Whether slices of something may have bounds of any kind: `np.r_`, `frame.loc`."""
    return isinstance(node, ast.Attribute) and node.attr in {"r_", "c_", "s_", "mgrid", "ogrid", "loc", "ix"}


def _of_library(call: ast.Call, path: str) -> Iterator[tuple[ast.expr, str, str]]:
    package, name = path.partition(".")[0], path.rpartition(".")[2]
    if package not in PACKAGES:
        return
    given = {each.arg: each.value for each in call.keywords if each.arg is not None}
    if name in LAYERS and package != "numpy":
        yield from ((each, f"`{name}`", package) for each in call.args[: LAYERS[name]])
        yield from ((value, f"`{name}`", package) for key, value in given.items() if key in SIZES)
    elif name in MAKES and package in {"torch", "numpy"}:
        sizes = call.args if package == "torch" or name in {"rand", "randn"} else call.args[:1]
        parts = [part for each in sizes for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])]
        yield from ((each, f"`{name}`", package) for each in parts)
    elif name == "DataLoader":
        yield from ((each, "`DataLoader`", package) for each in (*call.args[1:2], given.get("batch_size")) if each)
    elif name == "OneCycleLR":
        keys = ("total_steps", "epochs", "steps_per_epoch")
        yield from ((given[key], "`OneCycleLR`", package) for key in keys if key in given)


class _Floats:
    """The floats of one function, or of what is in none."""

    def __init__(self, scope: ast.Module | ast.FunctionDef, modules: dict[str, str]) -> None:
        self.modules = modules
        self.nodes = own_nodes(scope)
        self._values: dict[str, ast.expr | None] = {}
        if isinstance(scope, ast.FunctionDef):
            arguments = scope.args
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            self._values = {each.arg: None for each in every if each is not None}
        stored: dict[str, int] = {}
        for node in self.nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    stored[name] = stored.get(name, 0) + 1
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    stored.update(dict.fromkeys(names, 2))
                case _:
                    pass
        for node in self.nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if stored[name] == 1:
                    self._values.setdefault(name, value)
                case _:
                    pass

    def value_of(self, node: ast.expr) -> ast.expr | None:
        """What a name is bound to, if it is one."""
        return self._values.get(node.id) if isinstance(node, ast.Name) else None

    def holds(self, node: ast.expr, depth: int = 4) -> bool:
        """Whether an expression certainly is a float, whatever numbers its names are."""
        if not depth:
            return False
        match node:
            case ast.Constant(value=float()):
                return True
            case ast.Name(id=name):
                value = self._values.get(name)
                return value is not None and value.lineno < node.lineno and self.holds(value, depth - 1)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return not any(map(_is_text, walk(left))) and not any(map(_is_text, walk(right)))
            case ast.BinOp(left=left, op=ast.Mult() | ast.Add() | ast.Sub() | ast.FloorDiv(), right=right):
                return self.holds(left, depth - 1) or self.holds(right, depth - 1)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self.holds(inner, depth - 1)
            case ast.IfExp(body=one, orelse=other):
                return self.holds(one, depth - 1) and self.holds(other, depth - 1)
            case ast.Call(func=func, args=[_], keywords=[]):
                return _makes_float(func, self.modules)
            case _:
                return False


def _makes_float(func: ast.expr, modules: dict[str, str]) -> bool:
    """Whether a function of one number returns a float."""
    module, _, name = _path(func, modules).rpartition(".")
    is_from_module = (module == "numpy" and name in FLOATS) or (module == "math" and name in OF_MATH)
    return is_from_module or (isinstance(func, ast.Name) and func.id == "float")


def _is_text(node: ast.AST) -> bool:
    """Whether a part of a quotient is text, so that it is a path: `folder / "train"`."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _as_whole(node: ast.expr) -> str:
    """The code of the whole number that was meant: a quotient without its remainder, or the number cut off."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return unparse(ast.BinOp(node.left, ast.FloorDiv(), node.right))
    return f"int({unparse(node)})"


SIZED = frozenset({"arange", "zeros", "ones", "empty", "rand", "randn", "linspace", "eye", "view", "repeat", "reshape"})
"""Functions and methods whose arguments are numbers."""


def counted_in(function: ast.FunctionDef) -> set[str]:
    """The names that a function uses as numbers: `range(h)`, `torch.arange(h)`, `torch.tensor([h - 1, w - 1])`."""
    found: set[str] = set()
    for node in walk(function):
        match node:
            case ast.Call(func=ast.Name(id="range"), args=given):
                counted = given
            case ast.Call(func=ast.Attribute(attr=attr), args=given) if attr in SIZED:
                counted = given
            case ast.Call(func=ast.Attribute(attr="tensor"), args=[ast.List(elts=given), *_]):
                counted = given
            case _:
                continue
        plain = (each.left if isinstance(each, ast.BinOp) else each for each in counted)
        found |= {each.id for each in plain if isinstance(each, ast.Name)}
    return found
