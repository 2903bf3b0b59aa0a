"""Hits that an evaluation counts batch by batch: divided by the number of batches, or those of the last batch only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.averages import additions_in, counts_rows, has_single_rows, is_times_rows, is_total
from lintrain.analysis.loader_loops import loops_over_loaders
from lintrain.analysis.preference_sides import is_chosen, is_rejected
from lintrain.analysis.script_text import mentions
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SAME_NUMBER = frozenset({"item", "cpu", "detach", "numpy", "tolist", "data", "float", "int", "long", "double"})
"""Methods and attributes that leave a count what it is."""

WHOLE = r"batch_size\s*=\s*(?:len\(|\w+\.shape\[0\])"
"""Loaders whose only batch is the whole data set."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Hits that are judged wrongly: where, the code of the count, where it is counted, and what it is divided by.

    `is_loss` for losses that are added up times the rows of their batch.
    """

    location: Location
    total: str
    counted: Location
    divisor: str = ""
    is_loss: bool = False


def over_batches(pipeline: Pipeline) -> Iterator[Hits]:
    """The sums over the rows of all batches, of hits or losses, that are divided by the number of batches."""
    source = pipeline.source
    if mentions(pipeline, r"batch_size\s*=\s*1\b"):
        return
    for loop, loader in source.cached(loops_over_loaders):
        losses = source.once(_losses_added, loop)
        added = source.once(_hits_added, loop) | losses
        if not added or has_single_rows(pipeline, source.location(loop)):
            continue
        scope = blocks.scope_of(pipeline, source.location(loop))
        counts = {f"len({loader})", *source.once(_counts_of_iterations, loop)}
        for division, total, divisor in source.once(_plain_divisions, scope):
            if total in added and divisor in counts and not _holds(added[total], division):
                counted = source.location(added[total])
                yield Hits(source.location(division), total, counted, divisor, total in losses)


def _losses_added(loop: ast.For) -> dict[str, ast.stmt]:
    """The sums of losses times the rows of their batch, each with the statement that adds to it."""
    return {total: statement for statement, total in additions_in(loop) if is_times_rows(_added(statement), loop)}


def _hits_added(loop: ast.For) -> dict[str, ast.stmt]:
    """The sums of hits in a loop, each with the statement that adds to it."""
    return {total: statement for statement, total in additions_in(loop) if _is_hits(_added(statement), loop)}


def of_last_batch(pipeline: Pipeline) -> Iterator[Hits]:
    """The counts that each batch sets, and that are divided by the number of rows after the loop."""
    source = pipeline.source
    if mentions(pipeline, WHOLE):
        return
    for loop, _ in source.cached(loops_over_loaders):
        for statement, name in source.once(_hits_set, loop):
            scope = blocks.scope_of(pipeline, source.location(loop))
            reads = [each for each in walk(loop) if isinstance(each, ast.Name) and each.id == name]
            if len(reads) > 1 or leaves(loop):
                continue
            for division, total, divisor in source.once(_plain_divisions, scope):
                is_after = source.location(division).line > (loop.end_lineno or 0)
                rows = ast.parse(divisor, mode="eval").body
                if total == name and is_after and counts_rows(source, scope, loop, rows):
                    yield Hits(source.location(division), name, source.location(statement), divisor)


def _hits_set(loop: ast.For) -> list[tuple[ast.Assign, str]]:
    """The statements of a loop that give a name the hits of a batch."""
    found: list[tuple[ast.Assign, str]] = []
    for statement in walk(loop):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_hits(value, loop):
                found.append((statement, name))
            case _:
                pass
    return found


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A result that each batch sets: where it is read after the loop, its name, and where a batch sets it.

    `is_left` if the loop is left after its first batch instead, `is_count` if the batch starts a count again.
    """

    location: Location
    name: str
    set_at: Location
    is_left: bool = False
    is_count: bool = False


def may_evaluate(source: Source) -> bool:
    """Whether a file that trains nothing may evaluate: it goes through batches, and names eval mode or `no_grad`."""
    return source.contains(MODES) and bool(source.cached(loops_over_loaders))


MODES = lazy_pattern(r"\.eval\(\)|no_grad|inference_mode")


def overwritten(pipeline: Pipeline) -> Iterator[Overwritten]:
    """The scores of one batch that stand for all: each batch sets them, or the first returns them."""
    source = pipeline.source
    if mentions(pipeline, WHOLE):
        return
    for loop, _ in source.cached(loops_over_loaders):
        if source.once(_trains, loop):
            continue
        yield from _returned_early(source, loop)
        yield from _read_in_place_of_sum(source, blocks.scope_of(pipeline, source.location(loop)), loop)
        if not source.once(leaves, loop) and (scores := source.once(_scores_set, loop)):
            # Hits and rows that start from 0 with each batch make one wrong share.
            repeated = _set_again(source, blocks.scope_of(pipeline, source.location(loop)), loop, scores)
            yield from {each.location.line: each for each in reversed(list(repeated))}.values()


def _trains(loop: ast.For) -> bool:
    return any(map(trains, walk(loop)))


def trains(node: ast.AST) -> bool:
    """Whether this is a part of a training step."""
    return isinstance(node, ast.Attribute) and node.attr in {"backward", "step", "zero_grad"}


def _returned_early(source: Source, loop: ast.For) -> Iterator[Overwritten]:
    """A `return` that ends the body of the loop, of what the loop adds up or collects."""
    *_, last = plain_statements(loop)
    if isinstance(last, ast.Return) and last.value is not None:
        sums: dict[str, ast.stmt] = {total: each for each, total in source.once(additions_in, loop)}
        sums |= {name: each for each in plain_statements(loop) if (name := _collects_into(each))}
        read = [total for total in sums if total in names_in(last.value)]
        if read:
            yield Overwritten(source.location(last), read[0], source.location(sums[read[0]]), is_left=True)


def _collects_into(statement: ast.stmt) -> str:
    """The list that a statement adds to: `rows.append(x)`; empty for other statements."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend"))):
            return name
        case _:
            return ""


def _read_in_place_of_sum(source: Source, scope: ast.AST, loop: ast.For) -> Iterator[Overwritten]:
    """A number of the last batch that is read after the loop, where nothing reads the sum that each was added to."""
    for addition, total in source.once(additions_in, loop):
        added = same_number(_added(addition))
        sums = [each for each in source.named_in(scope, total) if isinstance(each, ast.Name)]
        # `total = total + loss` reads the sum for itself alone.
        own = sum(isinstance(each.ctx, ast.Load) for each in sums) - isinstance(addition, ast.Assign)
        if not isinstance(added, ast.Name) or not sums or own:
            continue
        uses = [each for each in source.named_in(scope, added.id) if isinstance(each, ast.Name)]
        stores = [each for each in uses if isinstance(each.ctx, ast.Store)]
        after = [each for each in uses if each.lineno > (loop.end_lineno or 0) and isinstance(each.ctx, ast.Load)]
        set_by = [each for each in plain_statements(loop) if isinstance(each, ast.Assign) and binds(each, added.id)]
        if after and len(set_by) == 1 == len(stores):
            yield Overwritten(source.location(after[0]), added.id, source.location(set_by[0]))


def _scores_set(loop: ast.For) -> list[tuple[ast.Assign, str, bool]]:
    """The statements that give a name a score of one batch, or a number; the last value says which."""
    found: list[tuple[ast.Assign, str, bool]] = []
    for statement in plain_statements(loop):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float())):
                found.append((statement, name, True))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_score(value, loop):
                found.append((statement, name, False))
            case _:
                pass
    return found


def _set_again(
    source: Source, scope: ast.AST, loop: ast.For, scores: list[tuple[ast.Assign, str, bool]]
) -> Iterator[Overwritten]:
    for statement, name, is_number in scores:
        is_count = is_number and any(total == name for _, total in source.once(additions_in, loop))
        reads = [each for each in walk(scope) if isinstance(each, ast.Name) and each.id == name]
        inside = {id(each) for each in walk(loop)}
        stores = [each for each in reads if isinstance(each.ctx, ast.Store)]
        read_inside = [each for each in reads if id(each) in inside and isinstance(each.ctx, ast.Load)]
        after = [each for each in reads if each.lineno > (loop.end_lineno or 0) and isinstance(each.ctx, ast.Load)]
        is_single = sum(id(each) in inside for each in stores) == 1 + is_count
        is_kept = any(each.lineno > (loop.end_lineno or 0) for each in stores)
        if is_count:
            is_single = is_single and not _nested(loop)
        if after and is_single and not is_kept and not read_inside:
            yield Overwritten(source.location(after[0]), name, source.location(statement), is_count=is_count)


def _nested(loop: ast.For) -> bool:
    return any(isinstance(node, ast.For | ast.While) for node in walk(loop) if node is not loop)


def plain_statements(loop: ast.For) -> list[ast.stmt]:
    """The statements that every iteration of a loop runs, also those in its `with` blocks."""
    found: list[ast.stmt] = []
    pending = list(reversed(loop.body))
    while pending:
        statement = pending.pop()
        pending.extend(reversed(statement.body) if isinstance(statement, ast.With) else [])
        found.append(statement)
    return found


def _is_score(node: ast.expr, loop: ast.For, *, follows: bool = True) -> bool:
    """Whether an expression is a score or a loss of one batch, or a name of it: a mean of comparisons, hits, a loss."""
    match same_number(node):
        case ast.Call(func=ast.Attribute(value=inner, attr="mean"), args=[]):
            return is_comparison(inner)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "np"), attr="mean"), args=[inner]):
            return is_comparison(inner)
        case ast.Call(func=ast.Name() | ast.Attribute() as callee, args=[_, _, *_]):
            return LOSS_NAME.search(unparse(callee)) is not None
        case ast.Name(id=name) if follows:
            given = [each.value for each in walk(loop) if isinstance(each, ast.Assign) and binds(each, name)]
            return len(given) == 1 and _is_score(given[0], loop, follows=False)
        case inner:
            return _is_hits(inner, loop)


LOSS_NAME = lazy_pattern(r"(^|[._])(crit\w*|loss\w*|\w*_loss|cross_entropy|loss_fn|ce)$", re.IGNORECASE)
"""Names of what computes a loss from outputs and targets."""


def binds(statement: ast.Assign, name: str) -> bool:
    """Whether an assignment binds a name."""
    return any(isinstance(node, ast.Name) and node.id == name for target in statement.targets for node in walk(target))


def names_in(expression: ast.expr) -> set[str]:
    """The names that an expression reads."""
    return {node.id for node in walk(expression) if isinstance(node, ast.Name)}


def leaves(loop: ast.For) -> bool:
    """Whether a loop may end after a batch, on purpose."""
    return any(isinstance(node, ast.Break | ast.Return | ast.Yield) for node in walk(loop))


def _added(addition: ast.AugAssign | ast.Assign) -> ast.expr:
    value = addition.value
    return value.right if isinstance(addition, ast.Assign) and isinstance(value, ast.BinOp) else value


def _is_hits(node: ast.expr, loop: ast.For, depth: int = 0) -> bool:
    """Whether an expression is the number of rows of a batch whose prediction is right."""
    match same_number(node):
        case ast.Name(id=name) if depth == 0:
            given = [each.value for each in walk(loop) if isinstance(each, ast.Assign) and binds(each, name)]
            return len(given) == 1 and _is_hits(given[0], loop, 1)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "np"), attr="sum"), args=[inner], keywords=[]):
            return is_comparison(inner)
        case ast.Call(func=ast.Name(id="sum"), args=[inner], keywords=[]):
            return is_comparison(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="sum"), args=[], keywords=[]):
            return is_comparison(inner) or _compares_sides(inner)
        case _:
            return False


def _compares_sides(node: ast.expr) -> bool:
    """Whether the two answers of each row are compared: `chosen > rejected`."""
    match same_number(node):
        case ast.Compare(left=left, ops=[ast.Gt() | ast.Lt() | ast.GtE() | ast.LtE()], comparators=[right]):
            return any(is_chosen(one) and is_rejected(other) for one, other in ((left, right), (right, left)))
        case _:
            return False


def same_number(node: ast.expr) -> ast.expr:
    """What `.item()`, `float(…)` and the like give as a number."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[]) if attr in SAME_NUMBER:
            return same_number(owner)
        case ast.Attribute(value=owner, attr="data"):
            return same_number(owner)
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            return same_number(inner)
        case _:
            return node


def is_comparison(node: ast.expr) -> bool:
    """Whether values are compared for being equal."""
    match same_number(node):
        case ast.Compare(ops=[ast.Eq()]):
            return True
        case ast.Call(func=ast.Attribute(attr="eq")):
            return True
        case _:
            return False


def _counts_of_iterations(loop: ast.For) -> set[str]:
    """The code of what counts the iterations of a loop."""
    counts = set[str]()
    match loop:
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=index), _]), iter=ast.Call(func=ast.Name(id="enumerate"))):
            counts |= {f"{index} + 1"}
        case _:
            pass
    for statement, total in additions_in(loop):
        if isinstance(_added(statement), ast.Constant) and getattr(_added(statement), "value", None) == 1:
            counts.add(total)
    return counts


def _plain_divisions(scope: ast.AST) -> list[tuple[ast.BinOp | ast.AugAssign, str, str]]:
    """The divisions of a name, perhaps times a constant, that nothing scales further: with name and divisor as code."""
    operations = [node for node in walk(scope) if isinstance(node, ast.BinOp)]
    scaled = {
        id(part)
        for node in operations
        if isinstance(node.op, ast.Mult | ast.Div)
        for part, other in ((node.left, node.right), (node.right, node.left))
        if not isinstance(other, ast.Constant)
    }
    found: list[tuple[ast.BinOp | ast.AugAssign, str, str]] = []
    for node in operations:
        name = _only_name(node.left) if isinstance(node.op, ast.Div) and id(node) not in scaled else ""
        if name:
            found.append((node, name, unparse(same_number(node.right))))
    return found + _divided_in_place(scope, {_only_name(each) for each in _scaled_parts(operations)})


def _scaled_parts(operations: list[ast.BinOp]) -> Iterator[ast.expr]:
    for node in operations:
        if isinstance(node.op, ast.Mult | ast.Div):
            yield from (node.left, node.right)


def _divided_in_place(scope: ast.AST, scaled: set[str]) -> list[tuple[ast.BinOp | ast.AugAssign, str, str]]:
    """The statements `total /= batches`, if nothing else scales the name."""
    found: dict[str, list[ast.AugAssign]] = {}
    for node in walk(scope):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
            found.setdefault(unparse(node.target), []).append(node)
    single = [(name, nodes[0]) for name, nodes in found.items() if len(nodes) == 1 and name not in scaled]
    return [(node, name, unparse(same_number(node.value))) for name, node in single if isinstance(node.op, ast.Div)]


def _only_name(node: ast.expr) -> str:
    """The name in `hits`, `100 * hits` and `hits.item()`; empty for other code."""
    match same_number(node):
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=inner):
            return _only_name(inner)
        case ast.BinOp(left=inner, op=ast.Mult(), right=ast.Constant()):
            return _only_name(inner)
        case total if is_total(total):
            return unparse(total)
        case _:
            return ""


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in walk(outer))
