"""Averages of a loss that a script computes itself, over the rows of its batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import Absent, literal, text_of
from lintrain.pipeline.values.training import LossCall
from lintrain.source.bounds import Nesting
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

NUMBER_OF = frozenset({"item", "cpu", "detach", "numpy", "tolist", "data", "sum", "mean", "clone", "float"})
"""Methods and attributes that leave the number of a loss what it is."""

SIZES = frozenset({"size", "shape", "numel", "out_features", "num_labels", "num_classes", "vocab_size"})
SIZE = lazy_pattern(r"class|size|vocab|^n_|^num|^dim|labels")
"""Names of numbers of classes."""


@dataclass(frozen=True, slots=True)
class RowAverage:
    """A sum of batch means that is divided by a number of rows: the division, where it is summed, and both codes.

    `batches` are those after which the sum starts again, if it is divided by another number than that; empty for rows.
    """

    location: Location
    summed: Location
    total: str
    rows: str
    batches: str = ""


def means_over_rows(pipeline: Pipeline, loss: LossCall) -> Iterator[RowAverage]:
    """The divisions by rows of sums to which a loop adds this loss, which is a mean over the rows of a batch."""
    if is_mean(loss):
        yield from of_mean_at(pipeline, loss.location)


def of_mean_at(pipeline: Pipeline, loss: Location) -> Iterator[RowAverage]:
    """The same for the mean over the rows of a batch that the expression at a location gives."""
    source = pipeline.source_of(loss)
    loop = source.cached(_loops).innermost(loss)
    statement = blocks.statement_at(pipeline, loss)
    if loop is None or statement is None:
        return
    scope = blocks.scope_of(pipeline, loss)
    for addition, total in source.once(additions_in, loop):
        names = _names_of(source, loop, statement, loss, addition.lineno)
        if _reaches(source, _added(addition), names, loss):
            for division, rows in source.once(divisions_in, scope).get(total, ()):
                is_of_rows = not _holds(division, addition) and counts_rows(source, scope, loop, rows)
                batches = "" if is_of_rows else _batches_between(loop, addition, total, division, rows)
                if batches or (is_of_rows and not has_single_rows(pipeline, source.location(loop))):
                    yield RowAverage(
                        source.location(division), source.location(addition), total, unparse(rows), batches
                    )


def _batches_between(loop: ast.For, addition: ast.stmt, total: str, division: ast.AST, divisor: ast.expr) -> str:
    """The number of batches after which a sum starts again, if it is divided by another number: 500 for `/ 2000`."""
    if not isinstance(divisor, ast.Constant) or not isinstance(divisor.value, int | float):
        return ""
    checks = [node for node in walk(loop) if isinstance(node, ast.If)]
    around = [node for node in checks if _holds(node, division)]
    parts = (part for part in walk(around[-1].test) if isinstance(part, ast.BinOp)) if around else ()
    every = [part.right for part in parts if isinstance(part.op, ast.Mod)]
    if len(every) != 1 or any(_holds(node, addition) for node in checks) or _is_nested(loop, addition):
        return ""
    match every[0]:
        case ast.Constant(value=int() as number) if number != divisor.value and _starts_again(around[-1], total):
            return str(number)
        case _:
            return ""


def _is_nested(loop: ast.For, inner: ast.AST) -> bool:
    """Whether another loop inside of this one holds something."""
    nested = (node for node in walk(loop) if isinstance(node, ast.For | ast.While) and node is not loop)
    return any(_holds(node, inner) for node in nested)


def _starts_again(check: ast.If, total: str) -> bool:
    """Whether a branch sets a sum back to 0."""
    for node in check.body:
        match node:
            case ast.Assign(targets=[target], value=ast.Constant(value=int() | float() as value)):
                if value == 0 and unparse(target) == total:
                    return True
            case _:
                pass
    return False


def is_mean(loss: LossCall) -> bool:
    """Whether a loss certainly is the mean over all of its values, as it is by default."""
    given = loss.options
    # By position come the arguments of old versions, `size_average` among them.
    is_plain = not given.keys() & {"reduce", "size_average", "**", "*"} and not any(map(str.isdigit, given))
    return is_plain and ("reduction" not in given or text_of(given["reduction"]) == "mean")


def is_multiplied_by_size(pipeline: Pipeline, location: Location) -> bool:
    """Whether the expression at a location is a factor next to the size of an axis."""
    source = pipeline.source_of(location)
    scope, statement = blocks.scope_of(pipeline, location), blocks.statement_at(pipeline, location)
    products = (node for node in walk(statement) if isinstance(node, ast.BinOp)) if statement is not None else ()
    around = [node for node in products if isinstance(node.op, ast.Mult) and source.location(node).holds(location)]
    return any(_has_size(source, scope, side) for node in around for side in (node.left, node.right))


def _has_size(source: Source, scope: ast.AST, node: ast.expr) -> bool:
    names = {each.id for each in walk(node) if isinstance(each, ast.Name)}
    assigned = source.once(_assigned, scope)
    values = [node, *(value for name in names for value in assigned.get(name, ()))]
    parts = [each for value in values for each in walk(value)]
    return any(isinstance(each, ast.Attribute) and each.attr in SIZES for each in parts) or any(
        SIZE.search(name) for name in names
    )


def has_single_rows(pipeline: Pipeline, location: Location) -> bool:
    """Whether a batch of the loop at a location is one row, whose mean is its sum."""
    return location in pipeline.cached(_loops_over_single_rows, pipeline)


def _loops_over_single_rows(pipeline: Pipeline, _: Pipeline) -> frozenset[Location]:
    sizes = [(loop.location, loop.over.value("batch_size")) for loop in pipeline.loops if isinstance(loop.over, Loader)]
    return frozenset(at for at, size in sizes if isinstance(size, Absent) or literal(size) == 1)


def _loops(source: Source) -> Nesting[ast.For]:
    return Nesting((source.location(loop), loop) for loop in source.nodes_of(ast.For))


def _names_of(source: Source, loop: ast.For, statement: ast.stmt, loss: Location, end: int) -> set[str]:
    """The names that a loop gives to a loss, or to a sum with it as one term, and to nothing else before a line.

    `loss = alpha * hard + (1 - alpha) * soft` is a mean over the rows as `hard` is.
    """
    names = set[str]()
    stored = [each for each in walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    given = [each for each in walk(loop) if isinstance(each, ast.Assign) and statement.lineno <= each.lineno < end]
    for each in sorted(given, key=lambda node: node.lineno):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                is_first = all(node.lineno >= each.lineno for node in stored if node.id == name and node.lineno <= end)
                if _has_term(source, value, names, loss) and (is_first or name in names):
                    names.add(name)
                else:
                    names.discard(name)
            case _:
                pass
    return names


def _has_term(source: Source, node: ast.expr, names: set[str], loss: Location) -> bool:
    """Whether an expression is the number of a loss, or a sum with it as a term that no number of rows multiplies."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _has_term(source, left, names, loss) or _has_term(source, right, names, loss)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = [(left, right), (right, left)]
            return any(_has_term(source, term, names, loss) and _is_weight(factor) for term, factor in sides)
        case _:
            return _reaches(source, node, names, loss)


def _is_weight(node: ast.expr) -> bool:
    """Whether a factor weighs a term: a number, or a name or arithmetic that no word of a count is in."""
    parts = [each for each in walk(node) if isinstance(each, ast.Name | ast.Attribute | ast.Call)]
    return not any(isinstance(each, ast.Call) or COUNT.search(unparse(each)) for each in parts)


COUNT = lazy_pattern(
    r"(?i)batch|size|shape|len|num|count|rows|samples|total|(?<![a-z])n(?![a-z])|(?<![a-z])bs(?![a-z])"
)


def _reaches(source: Source, node: ast.expr, names: set[str], loss: Location) -> bool:
    """Whether an expression is the number of a loss, by its name or as the call."""
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Name(id="float"), args=[inner]):
            return _reaches(source, inner, names, loss)
        case ast.Call() | ast.Attribute() if source.location(node) == loss:
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[]) if attr in NUMBER_OF:
            return _reaches(source, owner, names, loss)
        case ast.Attribute(value=owner, attr="data"):
            return _reaches(source, owner, names, loss)
        case ast.Subscript(value=owner, slice=ast.Constant(value=0)):
            return _reaches(source, owner, names, loss)
        case _:
            return False


def additions_in(loop: ast.For) -> list[tuple[ast.AugAssign | ast.Assign, str]]:
    """The statements of a loop that add to a total, with the code of the total."""
    found: list[tuple[ast.AugAssign | ast.Assign, str]] = []
    for node in walk(loop):
        match node:
            case ast.AugAssign(target=target, op=ast.Add()) if is_total(target):
                found.append((node, unparse(target)))
            case ast.Assign(targets=[ast.Name() as target], value=ast.BinOp(left=left, op=ast.Add())) if (
                unparse(left) == target.id
            ):
                found.append((node, target.id))
            case _:
                pass
    return found


def is_total(node: ast.expr) -> bool:
    """Whether code names one total: `hits`, `self.hits`, `totals["hits"]` or `counts[0]`."""
    return isinstance(node, ast.Name | ast.Attribute) or (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    )


def _added(addition: ast.AugAssign | ast.Assign) -> ast.expr:
    value = addition.value
    return value.right if isinstance(addition, ast.Assign) and isinstance(value, ast.BinOp) else value


def divisions_in(scope: ast.AST) -> dict[str, list[tuple[ast.BinOp | ast.AugAssign, ast.expr]]]:
    """The divisions in a function by the code of what is divided, with what it is divided by."""
    found: dict[str, list[tuple[ast.BinOp | ast.AugAssign, ast.expr]]] = {}
    for node in walk(scope):
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                total = _number(left)
                if is_total(total):
                    found.setdefault(unparse(total), []).append((node, right))
            case ast.AugAssign(target=target, op=ast.Div(), value=value):
                found.setdefault(unparse(target), []).append((node, value))
            case _:
                pass
    return found


def _number(node: ast.expr) -> ast.expr:
    """A sum without what only takes its number: `total.item()`, `float(total)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[], keywords=[]) if attr in NUMBER_OF:
            return _number(owner)
        case ast.Call(func=ast.Name(id="float"), args=[inner], keywords=[]):
            return _number(inner)
        case _:
            return node


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in walk(outer))


def counts_rows(source: Source, scope: ast.AST, loop: ast.For, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is the number of rows that a loop goes through."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(attr="dataset" | "sampler")]):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() as rows]):
            return unparse(rows) in _data_of(source, loop)
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            return counts_rows(source, scope, loop, inner, depth)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _fills_batches(left, right) or _fills_batches(right, left)
        case ast.Name(id=name) if depth == 0:
            added = [_added(each) for each, total in source.once(additions_in, loop) if total == name]
            assigned = source.once(_assigned, scope).get(name, ())
            given = [value for value in assigned if not isinstance(value, ast.Constant)]
            if added:
                return all(_is_batch_size(each) for each in added)
            return len(given) == 1 and counts_rows(source, scope, loop, given[0], depth + 1)
        case _:
            return False


def _data_of(source: Source, loop: ast.For) -> set[str]:
    """The code of what the loaders in the head of a loop were made from: `rows` of `DataLoader(rows)`."""
    loaders = {unparse(node) for node in walk(loop.iter) if isinstance(node, ast.Name | ast.Attribute)}
    return {data for loader, data in source.cached(_data_by_loader) if loader in loaders}


def _data_by_loader(source: Source) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=called, args=args, keywords=keywords)):
                given = [*args[:1], *(each.value for each in keywords if each.arg == "dataset")]
                if given and unparse(called).rpartition(".")[2] == "DataLoader":
                    found.append((unparse(target), unparse(given[0])))
            case _:
                pass
    return found


def _fills_batches(batches: ast.expr, size: ast.expr) -> bool:
    """Whether two factors are a number of batches and the rows of each: `len(loader) * args.batch_size`."""
    is_count = isinstance(batches, ast.Call) and unparse(batches.func) == "len" and len(batches.args) == 1
    return is_count and BATCH_SIZE.search(unparse(size)) is not None


BATCH_SIZE = lazy_pattern(r"(?i)(^|[._])batch_?size$")


def _assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """The values that a function gives to names, by name."""
    found: dict[str, list[ast.expr]] = {}
    for node in walk(scope):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                found.setdefault(target.id, []).append(node.value)
    return found


def is_times_rows(node: ast.expr, loop: ast.For) -> bool:
    """Whether an expression is the number of a loss times the rows of the batch: `loss.item() * x.size(0)`."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = [(left, right), (right, left)]
            return any(_is_number_of_loss(one) and _is_rows_of_batch(other, loop) for one, other in sides)
        case _:
            return False


def _is_number_of_loss(node: ast.expr) -> bool:
    is_taken = isinstance(node, ast.Call) and (node is not _number(node) or unparse(node.func) == "float")
    return is_taken and not any(isinstance(each, ast.BinOp) for each in walk(node))


def _is_rows_of_batch(node: ast.expr, loop: ast.For) -> bool:
    """Whether an expression is the number of rows of this batch, or a name that the loop gives this number."""
    if isinstance(node, ast.Name):
        given = [each.value for each in walk(loop) if isinstance(each, ast.Assign) and _gives(each, node.id)]
        return len(given) == 1 and _is_batch_size(given[0]) and _reads_batch(given[0], loop)
    return _is_batch_size(node) and _reads_batch(node, loop)


def _gives(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _reads_batch(node: ast.expr, loop: ast.For) -> bool:
    """Whether an expression is about something that each round of a loop sets, and not about the loader."""
    read = {each.id for each in walk(node) if isinstance(each, ast.Name)} - {"len"}
    return any(
        isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id in read for each in walk(loop)
    )


def _is_batch_size(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="size"), args=[]), slice=ast.Constant(value=0)):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name()]):
            return True
        case _:
            return False
