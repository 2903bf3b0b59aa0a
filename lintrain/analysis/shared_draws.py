"""Random numbers that are sampled once for a whole batch, where each row needs its own.

`torch.randn(1) * std` moves all rows and all entries by the same number. A diffusion model that gets one time for a
batch learns one step of the noise at a time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KEEPS = frozenset(
    {"to", "cuda", "cpu", "float", "double", "half", "item", "type_as", "requires_grad_", "detach", "long"}
)
DRAWS = frozenset({"randn", "normal", "standard_normal", "gauss"})
PLAIN = frozenset({"loc", "scale", "mean", "std", "stddev", "dtype"})
"""Arguments of a draw that say nothing about its size."""

DEVIATION = lazy_pattern(r"(?i)\bstd|sigma|log_?var|logsig|log_?std|stddev")
"""Code of the standard deviation that a network gives."""

POSITIVE = frozenset({"exp", "softplus", "sqrt"})
"""Functions that make the output of a network positive."""

BOUNDS = frozenset({"clamp", "clip", "clamp_min", "clip_by_value"})
NUMBERS = lazy_pattern(r"(?:np|numpy|math)\.")
"""Functions of plain numbers and arrays, which no network gets."""

TIMES = lazy_pattern(r"(?i)^t\w?$|^ts$|time|^step|^sigma|^noise_level|^tau$")
"""Names of the times of diffusion and of flows."""


@dataclass(frozen=True, slots=True)
class SharedDraw:
    """A draw of one number, its code, and what all rows of a batch share by it."""

    location: Location
    code: str
    is_time: bool


def shared_draws(source: Source) -> Iterator[SharedDraw]:
    """The single numbers of a file that stand for noise, or for the time, of each row of a batch."""
    yield from _noises(source)
    yield from _times(source)


def _noises(source: Source) -> Iterator[SharedDraw]:
    """`mu + torch.randn(1) * std`, and the same with the sample of a distribution that has two plain numbers."""
    if not source.contains(r"\brandn\(|\.r?sample\(|\bnormal\(|standard_normal\(|gauss\("):
        return
    for node in source.nodes_of(ast.BinOp):
        match node:
            case ast.BinOp(op=ast.Add(), left=mean, right=ast.BinOp(op=ast.Mult()) as product):
                pass
            case ast.BinOp(op=ast.Add(), left=ast.BinOp(op=ast.Mult()) as product, right=mean):
                pass
            case _:
                continue
        for scale, drawn in ((product.left, product.right), (product.right, product.left)):
            made = _made(source, drawn)
            if made is None or not _is_spread(source, scale) or isinstance(mean, ast.Constant):
                continue
            if _draws_one(source, made):
                yield SharedDraw(source.location(made), unparse(made), False)


def _is_spread(source: Source, scale: ast.expr) -> bool:
    """Whether a factor is a standard deviation that a network gives: `exp` of its output, or a layer's own output."""
    made = _made(source, scale)
    call = _bounded(made) if made is not None else None
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[_, *_]):
            is_of_net = source.contains(rf"\bself\.{name}\s*=\s*(?:nn|torch\.nn|layers|tf\.keras\.layers)\.")
        case ast.Call(func=called):
            # A simulation that takes `np.sqrt(dt)` has one number for each step, and no batch.
            is_of_net = last_name(called) in POSITIVE and NUMBERS.match(unparse(called)) is None
        case _:
            return False
    return is_of_net and DEVIATION.search(f"{unparse(scale)} {unparse(call)}") is not None


def _bounded(node: ast.expr) -> ast.expr:
    """An expression without the bounds, and the numbers next to it, that keep a deviation positive."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "tf"), attr=name), args=[inner, *_]) if (
            name in BOUNDS
        ):
            return _bounded(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in BOUNDS:
            return _bounded(inner)
        case ast.BinOp(left=inner, right=ast.Constant()) | ast.BinOp(left=ast.Constant(), right=inner):
            return _bounded(inner)
        case _:
            return node


def _made(source: Source, node: ast.expr, steps: int = 4) -> ast.expr | None:
    """What an expression is made by, through names and methods that leave its entries what they are."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _made(source, inner, steps)
        case ast.Name() if steps:
            made = list(loss_terms.definitions(source, node))
            if len(made) != 1 or made[0][1] is not None or made[0][2] is not None:
                return None
            return _made(source, made[0][0], steps - 1)
        case _:
            return node


def _draws_one(source: Source, made: ast.expr) -> bool:
    """Whether an expression draws a single number."""
    match made:
        case ast.Call(func=ast.Attribute(value=owner, attr="sample" | "rsample"), args=[], keywords=[]):
            return _has_plain_numbers(source, owner)
        case ast.Call(func=called, args=given, keywords=keywords):
            name = last_name(called)
            sizes = [each.value for each in keywords if each.arg == "size"]
        case _:
            return False
    module = unparse(called).rpartition(".")[0]
    if name == "randn" and module in {"torch", "np.random", "numpy.random", "th"}:
        return _is_one([*given, *sizes]) or (not given and not sizes and "random" in module)
    is_plain = all(isinstance(each, ast.Constant) for each in given) and all(each.arg in PLAIN for each in keywords)
    return name in DRAWS and "random" in module and is_plain and len(given) < 3 and not sizes


def _is_one(sizes: list[ast.expr]) -> bool:
    """Whether a size is `1`, `(1,)` or `[1, 1]`."""
    flat = [part for each in sizes for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])]
    return bool(flat) and all(isinstance(each, ast.Constant) and each.value == 1 for each in flat)


def _has_plain_numbers(source: Source, owner: ast.expr) -> bool:
    """Whether a distribution is `Normal(0, 1)`, whose sample has no axes."""
    made = _made(source, owner)
    match made:
        case ast.Call(func=called, args=given, keywords=keywords) if last_name(called) in {"Normal", "Uniform"}:
            numbers = [*given, *(each.value for each in keywords if each.arg != "validate_args")]
            return len(numbers) == 2 and all(_is_number(each) for each in numbers)
        case _:
            return False


def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float()) | ast.UnaryOp(operand=ast.Constant(value=int() | float())):
            return True
        case ast.Call(func=called, args=[ast.Constant()]):
            return unparse(called) == "torch.tensor"
        case _:
            return False


def _times(source: Source) -> Iterator[SharedDraw]:
    """`t = torch.randint(0, steps, (1,))` of a training step, which a network gets next to a batch."""
    if not source.contains(r"\brandint\(|\brand\(") or source.contains(ONE_ROW):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if TIMES.search(name):
                    drawn = _bare(value)
                    if _is_one_time(drawn) and _noises_batch(source, nodes, node, name):
                        yield SharedDraw(source.location(drawn), unparse(drawn), True)
                case _:
                    pass


ONE_ROW = lazy_pattern(r"batch_size\s*=\s*1\b")

OTHER_SIZES = frozenset(
    {"expand", "expand_as", "repeat", "repeat_interleave", "full", "full_like", "ones", "ones_like"}
)
"""Functions that give a time to every row."""


def _bare(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS and name != "item":
            return _bare(inner)
        case _:
            return node


def _is_one_time(drawn: ast.expr) -> bool:
    match drawn:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="rand"), args=given):
            return _is_one(given)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="randint"), args=given, keywords=keywords):
            sizes = [each.value for each in keywords if each.arg == "size"]
            last = [each for each in given[1:] if isinstance(each, ast.Tuple | ast.List)]
            return _is_one([*last, *sizes])
        case _:
            return False


def _noises_batch(source: Source, nodes: Sequence[ast.AST], bound: ast.Assign, name: str) -> bool:
    """Whether a training step gives a time to a network, next to a batch that it adds noise to."""
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    names = {last_name(each.func) for each in calls}
    if not (names & {"backward", "mse_loss", "l1_loss"} or any("loss" in each.lower() for each in names)):
        return False
    if not names & {"randn", "randn_like"}:
        return False
    given = [each for each in calls if any(_is_read(arg, name) for arg in each.args)]
    if any(last_name(each.func) in OTHER_SIZES for each in given) or _is_rebound(nodes, bound, name):
        return False
    resized = (
        each.func.value for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr in OTHER_SIZES
    )
    if any(_is_read(each, name) for each in resized):
        return False
    return any(len(each.args) > 1 and any(_is_read(arg, name) for arg in each.args[1:]) for each in given)


def _is_read(node: ast.expr, name: str) -> bool:
    return isinstance(_bare(node), ast.Name) and unparse(_bare(node)) == name


def _is_rebound(nodes: Sequence[ast.AST], bound: ast.Assign, name: str) -> bool:
    targets = (each.targets for each in nodes if isinstance(each, ast.Assign) and each is not bound)
    return any(unparse(target) == name for some in targets for target in some)
