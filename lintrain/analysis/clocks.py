"""Clocks around work that a GPU does while Python goes on."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis import script_text
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CLOCKS = frozenset(
    {"time.time", "time.perf_counter", "time.monotonic", "time.clock", "timeit.default_timer"}
    | {"time.time_ns", "time.perf_counter_ns", "time.monotonic_ns"}
)

ON_GPU = lazy_pattern(r"\.cuda\(|[\"']cuda\b|\bcuda\.(?:synchronize|empty_cache|set_device)\(")
"""Code that moves a model or its inputs to a GPU, or waits for one."""

WAITS = lazy_pattern(
    r"sync|\.(?:item|cpu|numpy|tolist|wait|elapsed_time|nonzero|generate|(?:batch_)?decode)\(|print\(|float\(|int\(|bool\("
    r"|assert |\bif |while |barrier|\.data\[0\]|\.to\((?:[\"']|torch\.device\([\"'])?\w*cpu|block_until"
)
"""Code that waits until a tensor has been computed, or may do so."""

SHOWS_NO_VALUE = lazy_pattern(
    r"print\((?:[rf]*(?P<quote>[\"'])[^{}\n]*(?P=quote)|.*\.(?:size\(\)|shape|dim\(\)|device|dtype))\s*\)\s*$",
    re.MULTILINE,
)
"""Output of plain text, or of what is known about a tensor before it has been computed."""

PLAIN = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)

COMPUTES = lazy_pattern(
    r"(?:^|\.)(?:mm|matmul|bmm|einsum|addmm|mv|svd|inverse|sort|topk|cumsum|exp|sum|mean|conv\d?d?|relu|softmax)$"
    r"|^(?:F|torch\.linalg|torch\.fft)\.\w+$"
    r"|(?:^|\.)\w*(?:layer|conv\d?d?|linear|lstm|gru|attn|attention|module|criterion|loss_fn)\d*$"
)
"""The code of what computes with tensors: functions and methods of torch, and names of layers and losses."""

COPIES = lazy_pattern(r"\.(?:cuda|to)\(")
"""Code that copies a tensor to a GPU, for which the GPU first ends what it was given before."""

AROUND = lazy_pattern(r"^\s*(?:\w+\s*\+?=\s*)?[\w.]+\(")
"""The call that a statement is, which runs after what is in its parentheses."""

READS_CLOCK = lazy_pattern(r"\b(?:time|clock|perf_counter|monotonic|default_timer)(?:_ns)?\(\)|\.elapsed_time\(")

MOVED = lazy_pattern(r"\.(?:cuda|to)\(|device|cuda")
"""Code that chooses where a tensor is."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A time that is measured around a pass of a model: where the clock is read last and first, and the pass.

    `is_earlier` if the pass is that of the iteration before, for which a copy to the GPU waits.
    """

    end: Location
    start: Location
    work: Location
    is_earlier: bool = False


def unsynchronized(pipeline: Pipeline) -> Iterator[Timing]:
    """The times around a forward or backward pass on a GPU, with nothing that waits for the pass."""
    source = pipeline.source
    clocks = clock_reads(pipeline)
    yield from _unfinished_events(source)
    if not clocks or not source.cached(_may_use_gpu):
        return
    work = [event.location for event in pipeline.acts(Act.FORWARD, Act.BACKWARD) if event.location.path == source.path]
    for block in _blocks(source):
        started: dict[str, ast.Assign] = {}
        for statement in block:
            for name, end in _differences(source, statement, clocks, started):
                if name in started:
                    yield from _judged(pipeline, started[name], end, work)
                    yield from _judged_next(pipeline, block, started[name], end, work)
            if _is_start(source, statement, clocks):
                assert isinstance(statement, ast.Assign)
                started[unparse(statement.targets[0])] = statement


def _unfinished_events(source: Source) -> Iterator[Timing]:
    """The times between two events of CUDA that are asked for before the second has happened."""
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=first, attr="elapsed_time"), args=[second]):
                pass
            case _:
                continue
        last = _recorded(source, second, call.lineno)
        begin = _recorded(source, first, call.lineno)
        if last is None or begin is None or "synchronize" in _code(source, last.end_line, call.lineno):
            continue
        asked = source.location(call)
        if not WAITS.search(_between(source, last, asked)):
            yield Timing(asked, begin, last)


def _recorded(source: Source, event: ast.expr, before: int) -> Location | None:
    """Where an event was recorded last before a line."""
    code = f"{unparse(event)}.record"
    calls = (each for each in source.nodes_of(ast.Call) if unparse(each.func) == code and each.lineno < before)
    last = max(calls, key=lambda each: each.lineno, default=None)
    return source.location(last) if last is not None else None


def clock_reads(pipeline: Pipeline) -> frozenset[Location]:
    """Where the script reads a clock."""
    return frozenset(call.location for call in pipeline.calls if call.path in CLOCKS)


def may_time(source: Source) -> bool:
    """Whether a file reads a clock next to code for a GPU."""
    return source.contains(READS_CLOCK) and source.contains(ON_GPU)


def _may_use_gpu(source: Source) -> bool:
    """Whether a file has code for a GPU that is not only there for a flag that it never sets."""
    lines = [number for number, line in enumerate(source.lines, 1) if ON_GPU.search(line.partition("#")[0])]
    if not lines:
        return False
    unset = _unset_flags(source)
    off = [
        (node.body[0].lineno, node.body[-1].end_lineno or 0)
        for node in source.nodes_of(ast.If)
        if _flag(node.test) in unset
    ]
    return any(not any(first <= line <= last for first, last in off) for line in lines)


def _flag(test: ast.expr) -> str:
    """The name that a condition is: `cuda` of `if self.cuda`; empty for others."""
    match test:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case _:
            return ""


def _unset_flags(source: Source) -> set[str]:
    """The parameters that are False by default, and that the file gives nothing else: `cuda=False`."""
    defaults: dict[str, set[bool]] = {}
    for function in source.nodes_of(ast.FunctionDef):
        given = function.args
        names = [each.arg for each in (*given.posonlyargs, *given.args)]
        pairs = list(zip(reversed(names), reversed(given.defaults), strict=False))
        pairs += [(each.arg, value) for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value]
        for name in {*names, *(each.arg for each in given.kwonlyargs)}:
            is_off = any(name == other and unparse(value) == "False" for other, value in pairs)
            defaults.setdefault(name, set()).add(is_off)
    unset = {name for name, are_off in defaults.items() if are_off == {True}}
    for call in source.nodes_of(ast.Call) if unset else ():
        # A True among the arguments may be for any of them.
        if any(isinstance(each, ast.Constant) and each.value is True for each in call.args):
            return set()
        unset -= {each.arg for each in call.keywords if each.arg and unparse(each.value) not in {"False", each.arg}}
    for node in source.nodes_of(ast.Assign) if unset else ():
        unset -= {name for name in map(_flag, node.targets) if unparse(node.value) not in {"False", name}}
    return unset


def _blocks(source: Source) -> Iterator[list[ast.stmt]]:
    yield source.tree.body
    nodes: Sequence[ast.FunctionDef | ast.For | ast.While | ast.With | ast.If] = source.nodes_of(
        ast.FunctionDef, ast.For, ast.While, ast.With, ast.If
    )
    for node in nodes:
        yield node.body


def _is_start(source: Source, statement: ast.stmt, clocks: frozenset[Location]) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.value, ast.Call)
        and source.location(statement.value) in clocks
    )


def _differences(
    source: Source, statement: ast.stmt, clocks: frozenset[Location], started: Mapping[str, ast.Assign]
) -> Iterator[tuple[str, Location]]:
    """The names in `clock() - name` of a plain statement, each with where the clock is read.

    In `total + end - start` that is where `end` was assigned.
    """
    for node in walk(statement) if isinstance(statement, PLAIN) else ():
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
            continue
        last = node.left.right if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add) else node.left
        if isinstance(last, ast.Call) and source.location(last) in clocks:
            yield unparse(node.right), source.location(last)
        elif (end := started.get(unparse(last))) is not None:
            yield unparse(node.right), source.location(end.value)


def _judged(pipeline: Pipeline, start: ast.Assign, end: Location, work: list[Location]) -> Iterator[Timing]:
    first = pipeline.source.location(start)
    done = [each for each in work if first.end_line < each.line and each.end_line < end.line]
    moved = [] if done else _work_on_moved(pipeline.source, first, end)
    code = _between(pipeline.source, first, end)
    is_waiting = any(re.search(rf"\b{name}\(", code) for name in pipeline.source.cached(_waiting))
    if not (done or moved) or is_waiting or _waits(code):
        return
    if moved or _is_on_gpu(pipeline, first, end):
        yield Timing(end, first, (done or moved)[-1])


def _work_on_moved(source: Source, first: Location, end: Location) -> list[Location]:
    """Operations between two reads of a clock on tensors that the script moved to a GPU before."""
    found: list[Location] = []
    nodes: Sequence[ast.Call | ast.BinOp] = source.nodes_of(ast.Call, ast.BinOp)
    for node in nodes:
        if not first.end_line < node.lineno or not (node.end_lineno or 0) < end.line:
            continue
        if isinstance(node, ast.Call) and not COMPUTES.search(unparse(node.func)):
            continue
        names = {each.id for each in walk(node) if isinstance(each, ast.Name)}
        if any(_is_moved(source, name, node.lineno) for name in names):
            found.append(source.location(node))
    return found


def _is_moved(source: Source, name: str, line: int) -> bool:
    """Whether what a name was given last before a line is on a GPU: `x = x.cuda()`, `torch.ones(8, device="cuda")`."""
    given = [node for node in source.nodes_of(ast.Assign) if node.lineno < line and name in _targets(node)]
    last = max(given, key=lambda node: node.lineno, default=None)
    code = unparse(last.value) if last is not None else ""
    return re.search(r"\.cuda\(|\.to\(|device=", code) is not None and "cpu" not in code


def _targets(node: ast.Assign) -> set[str]:
    return {each.id for target in node.targets for each in walk(target) if isinstance(each, ast.Name)}


def _judged_next(
    pipeline: Pipeline, block: list[ast.stmt], start: ast.Assign, end: Location, work: list[Location]
) -> Iterator[Timing]:
    """A time around a copy to the GPU in a loop, whose pass comes later and is still running in the next iteration."""
    source, first = pipeline.source, pipeline.source.location(start)
    loops: Sequence[ast.For | ast.While] = source.nodes_of(ast.For, ast.While)
    loop = next((node for node in loops if node.body is block), None)
    code = _between(source, first, end)
    if loop is None or not COPIES.search(code) or _waits(code):
        return
    inside = source.location(loop)
    later = [each for each in work if inside.holds(each) and each.line > end.line]
    earlier = [each for each in work if inside.holds(each) and each.line < end.line]
    if (
        not later
        or earlier
        or _waits(_code(source, inside.line + 1, first.line))
        or _waits(_code(source, end.line + 1, inside.end_line))
    ):
        return
    if _is_on_gpu(pipeline, first, end):
        yield Timing(end, first, later[-1], is_earlier=True)


def _waits(code: str) -> bool:
    return WAITS.search(SHOWS_NO_VALUE.sub("", code)) is not None


def _between(source: Source, first: Location, last: Location) -> str:
    """The code that runs after one location and before another, without comments.

    `sync()` of `sync(); end = clock()` does, and `loss.item()` of `print(loss.item(), clock() - start)`, while `print`
    runs afterwards.
    """
    is_one_line = first.end_line >= last.line
    before = source.lines[last.line - 1][first.end_column - 1 if is_one_line else 0 : last.column - 1]
    done, divider, own = before.rpartition(";")
    before = done + divider + AROUND.sub("", own)
    if is_one_line:
        return before
    after = source.lines[first.end_line - 1][first.end_column - 1 :].partition("#")[0]
    return "\n".join((after, _code(source, first.end_line + 1, last.line - 1), before))


def _code(source: Source, first: int, last: int) -> str:
    """These lines, without their comments."""
    return "\n".join(line.partition("#")[0] for line in source.lines[first - 1 : last])


def _is_on_gpu(pipeline: Pipeline, first: Location, end: Location) -> bool:
    scope = blocks.scope_of(pipeline, first)
    used = {
        each.id
        for each in walk(scope)
        if isinstance(each, ast.Name) and first.end_line < each.lineno < end.line and isinstance(each.ctx, ast.Load)
    }
    return _may_be_on_gpu(pipeline.source, scope, used)


READS_VALUES = lazy_pattern(r"synchronize|\.(?:item|tolist|nonzero)\(|\.cpu\(\)|\.numpy\(|\.to\([\"']cpu")
"""Code that needs the values of a tensor, or waits for the GPU by itself."""


def _waiting(source: Source) -> frozenset[str]:
    """The functions of a file that wait for the GPU, on some devices at least: by the result, little is left to do."""
    functions = source.nodes_of(ast.FunctionDef)
    return frozenset(each.name for each in functions if READS_VALUES.search(source.code(source.location(each))))


def _may_be_on_gpu(source: Source, scope: ast.AST, used: set[str]) -> bool:
    """Whether one of these names is moved in a scope, or made of something that is, or comes in from outside of it."""
    neutral = script_text.imported_names(source) | set(dir(builtins))
    made: dict[str, list[ast.expr]] = {}
    moved: set[str] = set()
    for node in walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value):
                for name in (each.id for target in targets for each in walk(target) if isinstance(each, ast.Name)):
                    made.setdefault(name, []).append(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to" | "cuda")):
                moved.add(name)
            case _:
                pass
    pending, seen = list(used), set[str]()
    while pending:
        name = pending.pop()
        if name in seen or name in neutral:
            continue
        seen.add(name)
        if name in moved or name not in made:
            return True
        if any(MOVED.search(unparse(value)) for value in made[name]):
            return True
        pending.extend(each.id for value in made[name] for each in walk(value) if isinstance(each, ast.Name))
    return False
