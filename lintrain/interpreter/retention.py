"""What outlives an iteration: values that a loop adds to a sum, or puts into a list, which was there before it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.blocks import given_back, given_names
from lintrain.pipeline.events import Act, Loop
from lintrain.pipeline.values.python import Constant, Instance, Mapping, Value
from lintrain.pipeline.values.python import Sequence as Items
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

TAKES_OFF = frozenset(
    {
        "array",
        "asarray",
        "detach",
        "float",
        "gather",
        "gather_for_metrics",
        "item",
        "numpy",
        "reduce",
        "tensor",
        "tolist",
    }
)
"""Calls whose result has no graph, or has none with several processes."""

ASSIGNS = lazy_pattern(r"\s*=(?!=)")
DELETES = lazy_pattern(r"del ")
TAKES_OUT = lazy_pattern(r"\.(clear|pop|popleft|reset|zero_|fill_|detach_)\(")
TAKES_OFF_IN_PLACE = lazy_pattern(r"\.detach_\(\)")


def note_sum(reader: Reader, target: ast.expr, added: ast.expr, value: Value, scope: Scope) -> None:
    """Note `target += added`, where the target was there before the iteration."""
    match added:
        case ast.List(elts=[item]) if not isinstance(item, ast.Starred):
            # `losses += [loss]` keeps what `losses.append(loss)` keeps.
            added, value = item, dispatch.evaluate(reader, item, scope)
        case _:
            pass
    # A list that is made in the iteration is freed with it. Only what was there before keeps every graph
    # alive: `total += loss` needs memory for all steps.
    if reader.loops and (outlives(reader, target, scope) or _is_callers_sum(reader, target)):
        _note(reader, target, added, value)


def note_own_sum(reader: Reader, node: ast.Assign, scope: Scope) -> None:
    """Note `total = total + added`, `mean = 0.9 * mean + 0.1 * added` and `total = torch.cat([total, added])`."""
    if not reader.loops:
        return
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            # `total, count = total + loss, count + 1`
            pairs = list(zip(targets, values, strict=True))
        case ast.Assign(targets=[target], value=value):
            pairs = [(target, value)]
        case _:
            pairs = []
    for target, value in pairs:
        if isinstance(value, ast.BinOp | ast.Call | ast.IfExp):
            for added in _added_in(target, value):
                # The addition is evaluated here and again by the assignment: the value alone would not tell what
                # was added.
                note_sum(reader, target, added, dispatch.evaluate(reader, added, scope), scope)


def _added_in(target: ast.expr, value: ast.expr) -> Sequence[ast.expr]:
    """What an assignment adds to what its target held: `loss` of `total = total + loss`; empty for any other."""
    averaged = _averaged_in(unparse(target), value) if isinstance(target, KEEPERS) else None
    if averaged is not None:
        return [averaged]
    match value:
        case ast.BinOp(op=ast.Add(), left=left, right=right) if isinstance(target, KEEPERS):
            name = unparse(target)
            return [other for side, other in ((left, right), (right, left)) if unparse(side) == name][:1]
        case ast.Call(func=ast.Attribute(attr=joins), args=[ast.Tuple(elts=parts) | ast.List(elts=parts), *_]) if (
            joins in JOINS and isinstance(target, ast.Name)
        ):
            first, *others = parts or [target]
            return others if isinstance(first, ast.Name) and first.id == target.id else ()
        case _:
            return ()


KEEPERS = (ast.Name, ast.Attribute, ast.Subscript)
"""What may hold a sum from one iteration to the next."""


def _averaged_in(name: str, value: ast.expr) -> ast.expr | None:
    """What a running mean of this name gets: the other side of `0.9 * mean + 0.1 * loss`; None for anything else."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):  # `loss if mean is None else 0.9 * mean + 0.1 * loss`
            return _averaged_in(name, orelse) or _averaged_in(name, body)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = [other for side, other in ((left, right), (right, left)) if _is_scaled(name, side)]
            return sides[0] if sides else None
        case _:
            return None


def _is_scaled(name: str, node: ast.expr) -> bool:
    """Whether an expression is a name times a factor: `0.9 * mean`, `self.means[key] * count`."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(isinstance(each, KEEPERS) and unparse(each) == name for each in (left, right))
        case _:
            return False


JOINS = frozenset({"cat", "concat", "concatenate", "hstack", "vstack"})
"""Functions of torch that put tensors behind each other."""

JOIN = lazy_pattern(rf"torch\.(?:{'|'.join(sorted(JOINS))})\(\s*[\[(]\s*")


def note_append(reader: Reader, node: ast.Call | None, value: Value, scope: Scope) -> None:
    """Note `target.append(added)`, and each part of `target.append((epoch, loss))`."""
    match node:
        case ast.Call(func=ast.Attribute(value=target), args=[added]):
            if not (reader.loops and (outlives(reader, target, scope) or _is_callers_list(reader, target))):
                return
            # A part is the value that was evaluated, so that its name in the finding is that of the loss alone.
            for part, given in _parts(added, value):
                _note(reader, target, part, given)
        case _:
            pass


def _parts(added: ast.expr, value: Value) -> Iterator[tuple[ast.expr, Value]]:
    """The parts of a tuple or dictionary that is written where it is put into a list; else the value itself."""
    match added, value:
        case ast.Tuple(elts=nodes) | ast.List(elts=nodes), Items(items=items) if len(nodes) == len(items):
            yield from zip(nodes, items, strict=True)
        case ast.Dict(values=nodes), Mapping(entries=entries) if len(nodes) == len(entries):
            yield from zip(nodes, entries.values(), strict=True)
        case _:
            yield added, value


def _note(reader: Reader, target: ast.expr, added: ast.expr, value: Value) -> None:
    if not _takes_off(added) and not _is_cut(reader, added):
        reader.act(Act.RETAIN, reader.source.location(added), value, target=Constant(unparse(target)))


def _is_cut(reader: Reader, added: ast.expr) -> bool:
    """Whether the loop takes what is added off the graph before: `loss.detach_()`, `loss = loss.detach()`."""
    texts = [unparse(added)]
    match added:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Mult()):
            texts.append(name)  # `value * count`
        case _:
            pass
    codes = [reader.code(location) for location in (reader.loops[-1].location, _own_location(reader))]
    return any(
        text in _texts_before(TAKES_OFF_IN_PLACE, code, len(text)) or f"{text} = {text}.detach()" in code
        for text in texts
        for code in codes
    )


def _takes_off(added: ast.expr) -> bool:
    calls = [node.func for node in walk(added) if isinstance(node, ast.Call)]
    names = {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}
    return bool(names & TAKES_OFF)


def outlives(reader: Reader, target: ast.expr, scope: Scope) -> bool:
    """Whether a target that is added to keeps what it gets from one iteration of the innermost loop to the next."""
    loop = reader.loops[-1]
    text = unparse(target)
    location = reader.source.location(target)
    if not loop.location.holds(location):
        return _is_kept_by_object(reader, target, loop, scope)
    root, code = text.partition(".")[0].partition("[")[0], reader.code(loop.location)
    # `losses = []` at the start of each iteration, or `losses.clear()`, releases the graphs.
    if root in loop.rebound or isinstance(target, ast.Name):
        return root not in loop.rebound and not _is_taken_from(code, text)
    # Quotes are written in two ways: `means["loss"]`.
    return not any(_is_emptied(code, each) for each in {text, reader.code(location)})


def _is_emptied(code: str, target: str) -> bool:
    """Whether a loop's code removes something from the target, or assigns it again."""
    ends = _texts_before(ASSIGNS, code, len(target)).get(target, ())
    return _is_taken_from(code, target) or any(not _adds_to_itself(code, end, target) for end in ends)


def _adds_to_itself(code: str, start: int, target: str) -> bool:
    """Whether what follows an `=` begins with `target +` or a factor, or puts something behind: `cat([target, …])`."""
    location = _after_blanks(code, start)
    if (scaled := SCALED.match(code, location)) is not None and scaled[1] == target:
        return True
    if (joined := JOIN.match(code, location)) is not None:
        location = joined.end()
        return code.startswith(target, location) and code.startswith(",", _after_blanks(code, location + len(target)))
    return code.startswith(target, location) and code.startswith("+", _after_blanks(code, location + len(target)))


SCALED = lazy_pattern(r"(?:[\w.]+ *\* *)?([A-Za-z_][\w.\[\]\"']*)(?= *[+*])")
"""What begins a running mean: `0.9 * self.mean +`, `self.mean * 0.9`."""


def _after_blanks(code: str, start: int) -> int:
    return next((location for location in range(start, len(code)) if not code[location].isspace()), len(code))


def _is_taken_from(code: str, target: str) -> bool:
    is_deleted = target in _texts_after(DELETES, code, len(target))
    return is_deleted or target in _texts_before(TAKES_OUT, code, len(target))


@lru_cache(maxsize=12)
def _texts_before(pattern: re.Pattern[str], code: str, length: int) -> dict[str, list[int]]:
    """The text of so many characters before each match, and where the match ends.

    A loop's code is searched once for all names of one length: as a loop grows, more names are asked for in more code.
    """
    found = dict[str, list[int]]()
    for match in pattern.finditer(code):
        found.setdefault(code[max(match.start() - length, 0) : match.start()], []).append(match.end())
    return found


@lru_cache(maxsize=4)
def _texts_after(pattern: re.Pattern[str], code: str, length: int) -> frozenset[str]:
    """The text of so many characters after each match."""
    return frozenset(code[match.end() : match.end() + length] for match in pattern.finditer(code))


def _is_kept_by_object(reader: Reader, target: ast.expr, loop: Loop, scope: Scope) -> bool:
    """Whether a method that the loop calls keeps it, in an object that the loop neither makes nor resets."""
    if isinstance(target, ast.Subscript):
        target = target.value  # `self.totals[name] += value`
    if not isinstance(target, ast.Attribute):
        return False
    owner = dispatch.evaluate(reader, target.value, scope)
    if not isinstance(owner, Instance) or owner.origin is None or loop.location.holds(owner.origin):
        return False
    return re.search(r"reset|clear|zero_\(|init", reader.code(loop.location)) is None


def _is_callers_list(reader: Reader, target: ast.expr) -> bool:
    """Whether the loop calls the function under evaluation with a list of its own that outlives the iteration."""
    loop, given = reader.loops[-1], _given_in_loop(reader, target)
    return given is not None and given.id not in loop.rebound and not _is_emptied(reader.code(loop.location), given.id)


def _is_callers_sum(reader: Reader, target: ast.expr) -> bool:
    """Whether the function gives the sum back to the name that it came from, which nothing else in the loop binds."""
    source, loop, given = reader.source, reader.loops[-1], _given_in_loop(reader, target)
    if given is None or _is_taken_from(reader.code(loop.location), given.id):
        return False
    back = [node for node, names in source.cached(given_back).items() if given.id in names]
    own = _own_location(reader)
    bound = source.cached(_bound_names).get(given.id, [])
    return (
        any(own.holds(source.location(node)) and node.id == unparse(target) for node in back)
        and sum(loop.location.holds(source.location(node)) for node in bound) == 1
    )


def _bound_names(source: Source) -> dict[str, list[ast.Name]]:
    """The names that a file binds or deletes, by what they are called."""
    found = dict[str, list[ast.Name]]()
    for node in source.nodes_of(ast.Name):
        if not isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def _given_in_loop(reader: Reader, target: ast.expr) -> ast.Name | None:
    """The name, in the loop, of what a function that it calls in the same file knows as the target."""
    frame, loop = reader.frame, reader.loops[-1]
    if frame.function is None or frame.call is None or frame.source is not reader.frames[-2].source:
        return None
    if not isinstance(target, ast.Name) or _is_emptied(reader.code(_own_location(reader)), target.id):
        return None
    given = given_names(frame.function.node.args, frame.call, int(frame.receiver is not None)).get(target.id)
    return given if given is not None and loop.location.holds(reader.source.location(given)) else None


def _own_location(reader: Reader) -> Location:
    """The function under evaluation, or else the innermost loop."""
    function = reader.frame.function
    return reader.source.location(function.node) if function is not None else reader.loops[-1].location


def rebound(body: Sequence[ast.stmt]) -> frozenset[str]:
    """The names that statements bind other than by adding to what they hold, or by a reset once in so many steps."""
    return frozenset(_bound(body))


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        match node:
            case ast.AugAssign(target=ast.Name()):
                continue
            case ast.If(test=test) if _is_periodic(test):
                # `if step % 100 == 0: total = 0` keeps 100 graphs.
                pending.extend(each for each in children(node) if not _is_reset(each))
                continue
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
                values
            ):
                pending.extend(each for each, value in zip(targets, values, strict=True) if not _keeps(each, value))
                pending.extend(values)
                continue
            case ast.Assign(targets=[target], value=value) if _keeps(target, value):
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case _:
                pass
        pending.extend(children(node))


def _keeps(target: ast.expr, value: ast.expr) -> bool:
    """Whether an assignment extends what a name held before: `total = total + loss`, `cat([total, loss])`."""
    match target, value:
        case ast.Name(id=name), ast.BinOp(left=ast.Name(id=same)) if name == same:
            return True
        case ast.Name(id=name), ast.Call(
            args=[ast.Tuple(elts=[ast.Name(id=same), *_]) | ast.List(elts=[ast.Name(id=same), *_]), *_]
        ) if name == same:
            return True
        case _:
            return bool(_added_in(target, value))


def _is_periodic(test: ast.expr) -> bool:
    """Whether a test asks for each so many iterations: `step % 100 == 0`."""
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) for each in walk(test))


def _is_reset(node: ast.AST) -> bool:
    """Whether a statement sets names to a number, or an empty list."""
    match node:
        case ast.Assign(value=ast.Constant(value=int() | float()) | ast.List(elts=[])):
            return True
        case _:
            return False
