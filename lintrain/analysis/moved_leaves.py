"""Tensors that require gradients too early or too late, as the text of one scope says.

    x = torch.randn(3, requires_grad=True).cuda()

The name stands for the copy: its `grad` stays empty, and no optimizer takes it. A loss that is made to require
gradients after it was computed is the other way round, and the loss of a generator is cut off from it by `detach`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.knowledge.trainers import TORCH_OPTIMIZERS
from lintrain.model.location import Location
from lintrain.source.nodes import is_within, own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MAKES = frozenset(
    {"arange", "empty", "full", "linspace", "ones", "ones_like", "rand", "rand_like", "randn", "randn_like", "tensor"}
    | {"Tensor", "FloatTensor", "Variable", "zeros", "zeros_like", "Parameter", "requires_grad_"}
)
DERIVES = frozenset(
    {"abs", "clone", "cuda", "exp", "expand", "expand_as", "flatten", "log", "mul", "permute", "pow", "repeat"}
    | {"reshape", "sigmoid", "softmax", "sqrt", "squeeze", "t", "tanh", "to", "transpose", "unsqueeze", "view"}
)
"""Methods that give another tensor; those that may give the same one, such as `float`, are left out."""

LOSSES = lazy_pattern(r"loss|(?:^|_)cost$")
REBUILDS = frozenset({"Variable", "tensor", "Tensor", "FloatTensor", "as_tensor"})

KEEPS = frozenset({"retain_grad", "requires_grad_", "detach_"})
TO_GPU = lazy_pattern(r"cuda|mps|xpu")


@dataclass(frozen=True, slots=True)
class Moved:
    """A use of a tensor that is no longer a leaf: where, its name, what derived it, and who requires the leaf."""

    location: Location
    name: str
    by: Location
    is_optimized: bool


def read_of_moved(source: Source) -> Iterator[Moved]:
    """The reads of `x.grad`, and the optimizers of `x`, for names that no longer hold the tensor that was made."""
    if "requires_grad" not in source.text and "Parameter(" not in source.text:
        return
    functions = (*source.nodes_of(ast.FunctionDef), *source.nodes_of(ast.AsyncFunctionDef))
    lines = sorted(node.lineno for node in source.nodes_of(ast.Call) if _is_called(node, "backward"))
    for scope in (source.tree, *(each for each in functions if is_within(lines, each))) if lines else ():
        own = [node for node in own_nodes(scope) if isinstance(node, ast.expr | ast.stmt)]
        if any(_is_called(node, "backward") for node in own) and any(map(_may_need_leaf, own)):
            yield from _reads(source, sorted(own, key=lambda node: (node.lineno, node.col_offset)))


def _may_need_leaf(node: ast.AST) -> bool:
    """Whether code reads a gradient of a name, or gives an optimizer a list."""
    match node:
        case ast.Attribute(value=ast.Name(), attr="grad"):
            return True
        case ast.Call(args=[ast.List(), *_]):
            return last_name(node.func) in TORCH_OPTIMIZERS
        case _:
            return False


def _reads(source: Source, nodes: list[ast.expr | ast.stmt]) -> Iterator[Moved]:
    moved = _moved_names(source, nodes)
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="grad", ctx=ast.Load()) if name in moved:
                yield Moved(source.location(node), name, moved[name], is_optimized=False)
                del moved[name]
            case ast.Call(args=[ast.List(elts=given), *_]) if last_name(node.func) in TORCH_OPTIMIZERS:
                for each in given:
                    if isinstance(each, ast.Name) and each.id in moved:
                        yield Moved(source.location(each), each.id, moved.pop(each.id), is_optimized=True)
            case _:
                pass


def _moved_names(source: Source, nodes: list[ast.expr | ast.stmt]) -> dict[str, Location]:
    """The names that end as what was derived from a leaf, each with the place of that."""
    leaves = set[str]()
    moved = dict[str, Location]()
    for node in nodes:
        for name, value in _bindings(node):
            if isinstance(value, ast.Constant):  # x.requires_grad = True
                leaves |= {name} if value.value is True else set()
                continue
            derived = _is_derived(source, value, leaves)
            moved.pop(name, None)
            leaves.discard(name)
            if derived:
                moved[name] = source.location(value)
            elif _is_leaf(value):
                leaves.add(name)
    kept = {name for node in nodes for name in _kept(node)}
    asked = {name for node in nodes if isinstance(node, ast.Compare) for name in _gradients_in(node)}
    return {name: by for name, by in moved.items() if name not in kept | asked}


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            for target, value in zip(names, values, strict=True):
                yield from [(target.id, value)] if isinstance(target, ast.Name) else []
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad")], value=ast.Constant() as value
        ):
            yield name, value
        case ast.Assign() | ast.For() | ast.AugAssign() | ast.AnnAssign() | ast.With():
            for each in walk(node):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    yield each.id, ast.Tuple([], ast.Load())
        case _:
            pass


def _is_leaf(value: ast.expr) -> bool:
    """Whether an expression makes a tensor that requires gradients."""
    if not isinstance(value, ast.Call) or last_name(value.func) not in MAKES:
        return False
    name = last_name(value.func)
    learns = [each.value for each in value.keywords if each.arg == "requires_grad"]
    is_on = any(isinstance(each, ast.Constant) and each.value is True for each in learns)
    return is_on or (name == "Parameter" and not learns) or (name == "requires_grad_" and not value.args and not learns)


def _is_derived(source: Source, value: ast.expr, leaves: set[str]) -> bool:
    """Whether an expression computes another tensor from a leaf: with a method, or with a number."""
    match value:
        case ast.Call(func=ast.Attribute(value=base, attr=name)) if name in DERIVES:
            if name == "cuda" and "device" in unparse(base):
                return False
            if name == "to" and not _moves_to_gpu(source, value):
                return False
        case ast.BinOp(left=base, right=ast.Constant()) | ast.BinOp(left=ast.Constant(), right=base):
            pass
        case _:
            return False
    is_leaf = _is_leaf(base) or (isinstance(base, ast.Name) and base.id in leaves)
    return is_leaf or _is_derived(source, base, leaves)


def _moves_to_gpu(source: Source, call: ast.Call) -> bool:
    given = unparse(call.args[0]) if call.args else ""
    named = [each for each in source.nodes_of(ast.Assign) if unparse(each.targets[0]) == given]
    return TO_GPU.search(" ".join([given, *(unparse(each.value) for each in named)])) is not None


def _is_called(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == name


def _kept(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in KEEPS:
            yield name
        case _:
            pass


def _gradients_in(node: ast.AST) -> Iterator[str]:
    """The names whose gradient code asks for before it uses it."""
    for each in walk(node):
        match each:
            case ast.Attribute(value=ast.Name(id=name), attr="grad"):
                yield name
            case _:
                pass


def made_to_learn(source: Source) -> Iterator[tuple[Location, str]]:
    """The losses that code makes to require gradients after they were computed: where, and the name."""
    if "requires_grad" not in source.text:
        return
    made = source.nodes_of(ast.Assign)
    for node in [*made, *source.nodes_of(ast.Expr)]:
        name = _made_to_learn(node)
        if name is None or not LOSSES.search(name.lower()):
            continue
        before = [each for each in made if each.lineno < node.lineno and unparse(each.targets[0]) == name]
        if before and _is_computed(before[-1].value):
            yield source.location(node), name


def _made_to_learn(node: ast.AST) -> str | None:
    match node:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad")], value=ast.Constant(value=True)
        ):
            return name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="requires_grad_"))):
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=same)]) as call):
            is_new = name == same and last_name(call.func) in REBUILDS
            return name if is_new and any(each.arg == "requires_grad" for each in call.keywords) else None
        case _:
            return None


def _is_computed(value: ast.expr) -> bool:
    """Whether a value is the result of a computation, and no new tensor."""
    if isinstance(value, ast.Call):
        return last_name(value.func) not in MAKES | REBUILDS
    return isinstance(value, ast.BinOp)


OF_GENERATOR = lazy_pattern(
    r"(?:[Gg]|gen|generator)_?(?:[Ll]oss|err|cost|adv)\w*|(?:loss|err|cost)_?(?:[Gg]|gen|generator)(?:_\w+)?\d*"
)
"""Names of a loss for the generator of images or texts."""

JUDGE = lazy_pattern(r"(?:\w+\.)*(?:[Dd]|net_?D|D_net|model_?D|[Dd]isc|[Dd]iscriminator|[Cc]ritic)\d*")
SAME_SCORES = frozenset({"view", "squeeze", "reshape", "flatten", "mean"})


def cut_generators(source: Source) -> Iterator[tuple[Location, str, Location]]:
    """The losses of a generator that only judge what is cut off from it: where, the name, and where it is cut."""
    if ".detach()" not in source.text or not any(map(_is_of_generator, source.nodes_of(ast.Assign))):
        return
    for function in (source.tree, *source.nodes_of(ast.FunctionDef)):
        bound = [each for each in own_nodes(function) if isinstance(each, ast.Assign) and len(each.targets) == 1]
        for node in bound:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[scores, *_])):
                    judged = _latest(scores, bound, node)
                    if _is_of_generator(node) and (cut := _cut_before(judged)) is not None:
                        yield source.location(node), name, source.location(cut)
                case _:
                    pass


def _is_of_generator(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Name) and OF_GENERATOR.fullmatch(node.targets[0].id) is not None


def _latest(scores: ast.expr, bound: list[ast.Assign], node: ast.Assign) -> ast.expr:
    """What the scores were given last before a statement."""
    if not isinstance(scores, ast.Name):
        return scores
    given = [
        each
        for each in bound
        if each.lineno < node.lineno
        and any(isinstance(part, ast.Name) and part.id == scores.id for part in walk(each.targets[0]))
    ]
    last = max(given, key=lambda each: each.lineno, default=None)
    return last.value if last is not None and isinstance(last.targets[0], ast.Name) else scores


def _cut_before(judged: ast.expr) -> ast.expr | None:
    """`fake.detach()` as what a discriminator is called on."""
    while isinstance(judged, ast.Call) and isinstance(judged.func, ast.Attribute) and judged.func.attr in SAME_SCORES:
        judged = judged.func.value
    match judged:
        case ast.Call(func=func, args=[ast.Call(func=ast.Attribute(attr="detach"), args=[]) as cut, *_]):
            return cut if JUDGE.fullmatch(unparse(func)) else None
        case _:
            return None
