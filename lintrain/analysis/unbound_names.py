"""Names that one of several alternatives leaves unset, although code after them needs the name in every case."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MAY_END = lazy_pattern(r"(?i)exit|quit|abort|error|fail|usage|help|raise|unsupported|invalid|not_impl|fatal|die|skip")
"""Names of functions after which nothing may follow."""


@dataclass(frozen=True, slots=True)
class UnboundName:
    """A use of a name, the alternative that leaves it unset with its test, and where another one sets it."""

    location: Location
    name: str
    test: str
    branch: Location
    bound: Location


def unbound_names(source: Source) -> list[UnboundName]:
    """The names of a file that an alternative leaves unset, and that the statements after it need."""
    return source.cached(_unbound_names)


def _unbound_names(source: Source) -> list[UnboundName]:
    if any(word in source.text for word in MAY_BIND) and source.contains(BINDS):
        return []
    found = list(_in_scope(source, source.tree, frozenset()))
    shared = frozenset(name for node in source.nodes_of(ast.Global) for name in node.names)
    end = 0  # of the last function that is in no other
    for function in sorted(source.nodes_of(ast.FunctionDef), key=lambda each: each.lineno):
        if function.lineno > end:
            end = function.end_lineno or 0
            found.extend(_in_scope(source, function, shared))
    return found


BINDS = lazy_pattern(r"\b(?:globals|locals|exec|vars)\(|from [\w.]+ import \*")
"""With these a file may bind names that its text does not show."""

MAY_BIND = ("globals(", "locals(", "exec(", "vars(", "import *")
"""Words of which a file that matches holds one: looking for them takes a hundredth of the time."""


def _in_scope(source: Source, scope: ast.Module | ast.FunctionDef, shared: frozenset[str]) -> Iterator[UnboundName]:
    """The unset names of a function that is in no other, or of the statements in none, outside of loops."""
    for block in _blocks(scope.body):
        for index, statement in enumerate(block):
            if isinstance(statement, ast.If):
                group, after = _alternatives(block, index)
                if len(group) > 1 and not any(_is_certain(each.test, scope) for each in _tests(group)):
                    yield from _unset_by(source, scope, group, block[after:], shared)


def _parameters(scope: ast.Module | ast.FunctionDef) -> frozenset[str]:
    return frozenset(node.arg for node in walk(scope) if isinstance(node, ast.arg))


def _blocks(body: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    """A block and those in it that run at most once each time it runs."""
    yield body
    for statement in body:
        match statement:
            case ast.If(body=then, orelse=other):
                yield from _blocks(then)
                yield from _blocks(other)
            case ast.With(body=inner):
                yield from _blocks(inner)
            case _:
                pass


Alternative = tuple[ast.expr | None, ast.stmt, Sequence[ast.stmt]]
"""Its test, the statement that it begins with, and its statements."""


def _alternatives(block: Sequence[ast.stmt], index: int) -> tuple[list[Alternative], int]:
    """The branches of `if` and `elif` at a place, of which at most one runs, and the index of what follows.

    `if kind == "a"` followed by `if kind == "b"` are alternatives as well.
    """
    found: list[Alternative] = []
    compared = _compared(block[index])
    previous = block[index - 1] if index else None
    if compared and isinstance(previous, ast.If) and _compared(previous) == compared:
        return [], index  # the first of a row has found this one
    while index < len(block) and isinstance(statement := block[index], ast.If):
        found.extend(_branches(statement))
        index += 1
        if not compared or index == len(block) or _compared(block[index]) != compared:
            break
    return found, index


def _compared(statement: ast.stmt) -> str:
    """What the test of an `if` without `else` compares with a constant."""
    match statement:
        case ast.If(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant()]), orelse=[]):
            return unparse(left)
        case _:
            return ""


def _branches(statement: ast.If) -> Iterator[Alternative]:
    yield statement.test, statement, statement.body
    match statement.orelse:
        case [ast.If() as following]:
            yield from _branches(following)
        case [first, *_] as rest:
            yield None, first, rest
        case _:
            pass


def _is_certain(test: ast.expr, scope: ast.Module | ast.FunctionDef) -> bool:
    """Whether a test always has one result: a constant, or one about `**kwargs`, which is never None."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            arguments = scope.args if isinstance(scope, ast.FunctionDef) else None
            return arguments is not None and name in {
                each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None
            }
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=ast.Constant(value=1)), ops=[_], comparators=[_]):
            return True  # `epoch % 1 == 0`
        case _:
            return isinstance(test, ast.Constant)


def _tests(group: Sequence[Alternative]) -> list[ast.If]:
    return [first for test, first, _ in group if test is not None and isinstance(first, ast.If)]


def _unset_by(
    source: Source,
    scope: ast.Module | ast.FunctionDef,
    group: Sequence[Alternative],
    after: Sequence[ast.stmt],
    shared: frozenset[str],
) -> Iterator[UnboundName]:
    """The first use of a name for each alternative that leaves names unset which the others set."""
    reported: set[int] = set()
    bound = [_stored_in(body) for _, _, body in group]
    candidates = frozenset[str]().union(*bound) - frozenset(bound[0]).intersection(*bound[1:]) - shared - BUILTINS
    candidates -= source.once(_parameters, scope) if candidates else frozenset()
    start = group[0][1].lineno
    for name in sorted(candidates):
        setting = [index for index, names in enumerate(bound) if name in names]
        lacking = [
            (test, first, bound[index])
            for index, (test, first, body) in enumerate(group)
            if name not in bound[index] and not _may_end(body)
        ]
        others = frozenset[str]().union(*(bound[index] for index in setting)) - {name}
        parallel = [
            each
            for each in lacking
            if each[2].keys() & others or _only_says_it(each[0], each[1], group) or each[1] is _taken(scope, group)
        ]
        use = _needed(source, after, name) if parallel else None
        if use is None or parallel[0][1].lineno in reported or _is_set_before(scope, name, start):
            continue
        test, first, _ = parallel[0]
        reported.add(first.lineno)
        code = unparse(test) if test is not None else ""
        bound_at = source.location(bound[setting[0]][name])
        yield UnboundName(source.location(use), name, code, source.location(first), bound_at)


def _taken(scope: ast.Module | ast.FunctionDef, group: Sequence[Alternative]) -> ast.stmt | None:
    """The start of the branch that runs where a script sets a switch to True or False once, and asks for it here."""
    test = group[0][0]
    is_negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    asked = test.operand if isinstance(test, ast.UnaryOp) and is_negated else test
    if not isinstance(asked, ast.Name) or len(group) != 2 or group[1][0] is not None:
        return None
    stored = [node for node in walk(scope) if isinstance(node, ast.Name) and node.id == asked.id]
    values = [
        node.value.value
        for node in scope.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and asked.id in _stored_in([node])
    ]
    is_set_once = sum(not isinstance(node.ctx, ast.Load) for node in stored) == 1 and len(values) == 1
    if not is_set_once or not isinstance(values[0], bool):
        return None
    return group[0][1] if values[0] is not is_negated else group[1][1]


def _only_says_it(test: ast.expr | None, first: ast.stmt, group: Sequence[Alternative]) -> bool:
    """Whether an `else` only prints or logs that there is no device: "no GPU is available, using the CPU instead"."""
    if not any(each is not None and DEVICE.search(unparse(each)) for each, _, _ in group):
        return False
    body = next((body for each, start, body in group if start is first and each is None), ())
    calls = [each.value for each in body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    is_output = bool(calls) and len(calls) == len(body)
    return test is None and is_output and all(PRINTS.search(unparse(call.func)) for call in calls)


DEVICE = lazy_pattern(r"is_available\(|(?i:cuda|gpu|\bmps\b|\bxpu\b)")
"""Tests for a device that another machine may lack."""

PRINTS = lazy_pattern(r"^print$|\blog(?:ger|ging)?\.(?:info|debug|warn(?:ing)?)$|^warnings\.warn$")

BUILTINS = frozenset(dir(builtins))


Binding = ast.Name | ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.ExceptHandler


def _stored_in(body: Sequence[ast.stmt]) -> dict[str, Binding]:
    """The names that statements bind in any way, with the first node that does."""
    found: dict[str, Binding] = {}
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Name):  # most of them
                if isinstance(node.ctx, ast.Store):
                    found.setdefault(node.id, node)
                continue
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found.setdefault(name, node)
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    for each in names:
                        found.setdefault((each.asname or each.name).partition(".")[0], node)
                case ast.ExceptHandler(name=str(name)):
                    found.setdefault(name, node)
                case _:
                    pass
    return found


def _may_end(body: Sequence[ast.stmt]) -> bool:
    """Whether nothing may follow a block: it leaves, or calls what may."""
    if isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break | ast.Assert):
        return True
    if isinstance(body[-1], ast.With) and isinstance(body[-1].body[-1], ast.Return | ast.Raise):
        return True
    nodes = [node for statement in body for node in walk(statement)]
    called = (unparse(node.func) for node in nodes if isinstance(node, ast.Call))
    return any(isinstance(node, ast.Raise) for node in nodes) or any(map(MAY_END.search, called))


def _names_in(statement: ast.stmt) -> frozenset[str]:
    return frozenset(node.id for node in walk(statement) if isinstance(node, ast.Name))


def _needed(source: Source, after: Sequence[ast.stmt], name: str) -> ast.Name | None:
    """The first use of a name in statements that run in any case; None if something before it may set the name."""
    for statement in after:
        if name not in source.once(_names_in, statement):
            if isinstance(statement, ast.Return | ast.Raise):
                return None
            continue
        mentioned = [node for node in walk(statement) if isinstance(node, ast.Name) and node.id == name]
        certain = list(_evaluated(statement))
        used = next((node for node in certain if isinstance(node, ast.Name) and node.id == name), None)
        if used is not None and isinstance(used.ctx, ast.Load) and not _is_stored(mentioned, statement):
            return used
        return None
    return None


def _is_stored(mentioned: Sequence[ast.Name], statement: ast.stmt) -> bool:
    """Whether a statement other than an assignment sets the name itself."""
    return not isinstance(statement, ast.Assign) and any(not isinstance(node.ctx, ast.Load) for node in mentioned)


def _evaluated(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement that are evaluated whenever it runs."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            pending: list[ast.AST] = [test]
        case ast.For(iter=over):
            pending = [over]
        case ast.With(items=items):
            pending = [each.context_expr for each in items]
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.AugAssign(value=value):
            pending = [value]
        case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
            pending = [value]
        case _:
            return
    while pending:
        node = pending.pop(0)
        yield node
        match node:
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                continue
            case ast.BoolOp(values=[first, *_]):
                pending.insert(0, first)
            case ast.IfExp(test=test):
                pending.insert(0, test)
            case _:
                pending[:0] = children(node)


def _is_set_before(scope: ast.Module | ast.FunctionDef, name: str, line: int) -> bool:
    """Whether a scope may set a name before a line, or shares it with others."""
    for node in walk(scope):
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names) if name in names:
                return True
            case ast.Name(id=found, ctx=ast.Store() | ast.Del()) if found == name and node.lineno < line:
                return True
            case ast.For() | ast.While() if node.lineno < line <= (node.end_lineno or 0):
                return True
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                if any((each.asname or each.name).partition(".")[0] == name for each in names):
                    return True
            case ast.ExceptHandler() | ast.FunctionDef() | ast.ClassDef() if node.name == name:
                return True
            case _:
                pass
    return False
