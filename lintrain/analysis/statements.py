"""Statements as they are written: whether every run or iteration executes them, and whether they keep a value.

Iterators that several statements read.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeGuard, cast

from lintrain.analysis.expressions import keeps_name
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source import parsing
from lintrain.source.nodes import WITH_BLOCKS, own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PLAIN = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr)
"""Statements without a condition inside that could keep a part of them from running."""

COLLECTS = frozenset({"append", "add", "insert", "setdefault"})
"""Methods that store their argument in a container."""


def is_whole_statement(pipeline: Pipeline, location: Location) -> bool:
    """Whether the expression at a location is a statement by itself, whose value is discarded."""
    statement = blocks.statement_at(pipeline, location)
    return isinstance(statement, ast.Expr) and pipeline.source_of(location).location(statement) == location


def names_in_effect(source: Source) -> frozenset[str]:
    """The names of a file, without those of statements that only name something: `loss.backward` calls nothing."""
    unused = {id(node.value) for node in source.nodes_of(ast.Expr) if isinstance(node.value, ast.Attribute)}
    used = (node for node in source.nodes if id(node) not in unused)
    names = (getattr(node, "attr", getattr(node, "id", getattr(node, "name", ""))) for node in used)
    return frozenset(name for name in names if isinstance(name, str))


def is_plain_at_module_level(pipeline: Pipeline, location: Location) -> bool:
    """Whether every run of a file executes this code: it is in a simple statement outside of any block."""
    source = pipeline.source_of(location)
    return any(source.location(node).holds(location) for node in source.tree.body if isinstance(node, PLAIN))


def are_in_one_function(pipeline: Pipeline, one: Location, other: Location) -> bool:
    """Whether two locations have the same innermost function, which is no lambda and not `async`."""
    scope = blocks.scope_of(pipeline, one)
    return isinstance(scope, ast.FunctionDef) and blocks.scope_of(pipeline, other) is scope


def name_of_scope(pipeline: Pipeline, location: Location) -> str:
    """The name of the function around a location; empty outside of functions."""
    scope = blocks.scope_of(pipeline, location)
    return scope.name if isinstance(scope, ast.FunctionDef) else ""


def entered_names(source: Source, names: Collection[str]) -> list[tuple[str, Location]]:
    """What `with` statements of a file enter without a call: attributes and names of torch that are called so."""
    entered = [item.context_expr for node in source.nodes_of(ast.With) for item in node.items]
    imports = [node for node in source.nodes_of(ast.ImportFrom) if (node.module or "").partition(".")[0] == "torch"]
    plain = {each.asname or each.name for node in imports for each in node.names if each.name in names}
    found: list[ast.Attribute | ast.Name] = []
    found += [each for each in entered if isinstance(each, ast.Attribute) and each.attr in names]
    found += [each for each in entered if isinstance(each, ast.Name) and each.id in plain]
    return [(unparse(each), source.location(each)) for each in found]


def ends_of_branches(source: Source) -> Iterator[tuple[str, str]]:
    """The normalized code of each `if` and `elif` of a file: its test, and the last statement under it."""
    return ((unparse(node.test), unparse(node.body[-1])) for node in source.nodes_of(ast.If))


def file_named(code: str) -> str | None:
    """The normalized code of the name that `torch.save(content, name)` or `push(name)` gets; None without any text."""
    match parsing.expression_of(f"({code})"):
        case ast.Call(args=[*_, name], keywords=keywords) if not any(each.arg == "f" for each in keywords):
            texts = (each.value for each in walk(name) if isinstance(each, ast.Constant))
            return unparse(name) if any(isinstance(text, str) for text in texts) else None
        case _:
            return None


def is_written_in_a_loop(source: Source, text: str) -> bool:
    """Whether the code of a `for` loop of a file contains a text."""
    return any(text in source.code(source.location(loop)) for loop in source.nodes_of(ast.For))


def run_every_iteration(source: Source, loop: Location) -> Iterator[Location]:
    """The expression statements that each iteration of a loop executes, including those in functions that it calls.

    None after an `if` that may continue the loop or return from it.
    """
    node = source.cached(_loops).get(loop)
    if node is not None:
        yield from map(source.location, _always_run(node.body, source.cached(_own_functions)))


def _loops(source: Source) -> dict[Location, ast.For | ast.While]:
    loops: Sequence[ast.For | ast.While] = source.nodes_of(ast.For, ast.While)
    return {source.location(loop): loop for loop in reversed(loops)}


def _own_functions(source: Source) -> dict[str, ast.FunctionDef]:
    """The functions at module level that are defined once and have no decorator, by name."""
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef)]
    names = Counter(node.name for node in source.nodes_of(ast.FunctionDef))
    return {node.name: node for node in functions if names[node.name] == 1 and not node.decorator_list}


def _always_run(body: list[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> Iterator[ast.Expr]:
    """The expression statements of a body that always run, including those in a `with` or in a called function."""
    for statement in body:
        if isinstance(statement, ast.If) and _may_leave(statement):
            return
        if isinstance(statement, ast.With):
            yield from _always_run(statement.body, functions)
        elif isinstance(statement, ast.Expr):
            yield statement
        match statement:
            case (
                ast.Expr(value=ast.Call(func=ast.Name(id=name))) | ast.Assign(value=ast.Call(func=ast.Name(id=name)))
            ) if name in functions:
                others = {other: function for other, function in functions.items() if other != name}
                yield from _always_run(functions[name].body, others)
            case _:
                pass


def _may_leave(statement: ast.If) -> bool:
    return any(isinstance(node, ast.Continue | ast.Return) for node in walk(statement))


def managers(pipeline: Pipeline, _: Pipeline) -> frozenset[Location]:
    """The locations of the expressions that a `with` enters, or that decorate a function, in all files."""
    found: set[Location] = set()
    for source in pipeline.sources.values():
        found.update(source.location(item.context_expr) for node in source.nodes_of(ast.With) for item in node.items)
        functions = source.nodes_of(ast.FunctionDef)
        found.update(source.location(each) for node in functions for each in node.decorator_list)
    return frozenset(found)


def keeps_value(pipeline: Pipeline, name: str, bound: Location, loop: Location) -> bool:
    """Whether a loop may keep or free what an iteration gave a name at `bound`.

    It gives the value a second name, stores it in a container, assigns the name elsewhere too, deletes something, or
    ends early.
    """
    starts, nodes = pipeline.source_of(loop).cached(_statements_and_calls)
    first, last = bisect_left(starts, (loop.line, loop.column)), bisect_left(starts, (loop.end_line, loop.end_column))
    return any(_keeps(pipeline.source_of(bound), node, name, bound) for node in nodes[first:last])


def _statements_and_calls(source: Source) -> tuple[list[tuple[int, int]], list[ast.stmt | ast.Call]]:
    """Statements and calls in source order, with the start of each."""
    nodes = [node for node in source.nodes if isinstance(node, ast.stmt | ast.Call)]
    starts = {node: (source.location(node).line, source.location(node).column) for node in nodes}
    nodes.sort(key=starts.__getitem__)
    return [starts[node] for node in nodes], nodes


def _keeps(source: Source, node: ast.stmt | ast.Call, name: str, bound: Location) -> bool:
    match node:
        case ast.Break() | ast.Return() | ast.Delete():
            return True
        case ast.Call(func=ast.Attribute(attr=method), args=given):
            return method in COLLECTS and any(keeps_name(each, name) for each in given)
        case ast.Assign(targets=targets, value=value):
            others = (each for each in targets if source.location(each) != bound)
            is_stored = isinstance(targets[0], ast.Subscript) and keeps_name(value, name)
            return is_stored or _is_name(value, name) or any(_is_name(each, name) for each in others)
        case _:
            return False


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def calls_in_order(
    source: Source, first: re.Pattern[str], second: re.Pattern[str], between: re.Pattern[str]
) -> Iterator[tuple[Location, Location]]:
    """A call statement of one kind, the first of both kinds in its block, and the next one of the other kind.

    None if a call between them is one of the third kind.
    """
    for node in (source.tree, *source.nodes_of(*WITH_BLOCKS)):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            listed = cast("list[object]", block) if isinstance(block, list) else []
            calls = [each for each in listed if _is_call(each)]
            known = [each for each in calls if any(kind.search(_callee(each)) for kind in (first, second, between))]
            start = next((at for at, each in enumerate(known) if not between.search(_callee(each))), len(known))
            match known[start:]:
                case [one, other, *_] if first.search(_callee(one)) and second.search(_callee(other)):
                    yield source.location(one.value), source.location(other.value)
                case _:
                    pass


def _callee(statement: ast.Expr) -> str:
    return unparse(statement.value.func) if isinstance(statement.value, ast.Call) else ""


def _is_call(node: object) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


MAKES_ITERATOR = lazy_pattern(
    r"^((itertools\.)?chain(\.from_iterable)?|filter|map|[\w.\[\]\"']+\.(named_)?parameters|"
    r"(copy\.)?deepcopy\([\w.]+\)\.(named_)?parameters)\("
)
READS_ALL = lazy_pattern(
    r"(^|\.)(list|tuple|set|dict|sum|max|min|any|all|sorted|clip_grad\w*|parameters_to_vector|[A-Z]\w*)$"
)
"""Calls that read an iterator to its end; those of classes are optimizers."""


@dataclass(frozen=True, slots=True)
class UsedAgain:
    """An iterator of parameters that is given a name, with its code, and two locations that each read all of it."""

    name: str
    code: str
    value: Location
    first: Location
    second: Location


def iterators_used_again(source: Source) -> Iterator[UsedAgain]:
    """The iterators of parameters that a function, a class or the module assigns once and reads more than once."""
    if "parameters(" not in source.text:
        return
    makers = source.cached(_iterator_makers)
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef), *source.nodes_of(ast.ClassDef)):
        found = list(_assigned_iterators(source, scope, makers)) if makers or _names_parameters(source, scope) else []
        for target, value in found:
            readers = source.cached(_reading_functions)
            uses = list(_uses_of(scope, target, value, readers)) if _is_assigned_once(scope, target) else []
            first = next((use for use in uses if not use.leaves), None)
            if first is None:
                continue
            second = next((use for use in uses if use is not first and not use.excludes(first)), None)
            if second is None and first.repeats:
                second = first
            if second is not None:
                locations = [source.location(each.node) for each in (first, second)]
                yield UsedAgain(target, unparse(value), source.location(value), *locations)


def _names_parameters(source: Source, scope: ast.AST) -> bool:
    if not isinstance(scope, ast.FunctionDef | ast.ClassDef):
        return True  # the whole file
    return "parameters(" in source.code(source.location(scope))


def _assigned_iterators(source: Source, scope: ast.AST, makers: Collection[str]) -> Iterator[tuple[str, ast.expr]]:
    """The names that a scope gives iterators; of a class, the attributes that its methods give them."""
    is_class = isinstance(scope, ast.ClassDef)
    for node in walk(scope) if is_class else own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                # Methods of one object share its attributes, so those are looked at in the whole class.
                if is_class == unparse(target).startswith("self.") and _gives_iterator(value, makers):
                    yield unparse(target), value
            case _:
                pass


def _gives_iterator(value: ast.expr, makers: Collection[str]) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name)) if name in makers:
            return True
        case ast.Call():
            return "parameters(" in (code := unparse(value)) and MAKES_ITERATOR.search(code) is not None
        case ast.GeneratorExp():
            return "parameters(" in unparse(value)
        case _:
            return False


def _iterator_makers(source: Source) -> frozenset[str]:
    """The functions of a file that return an iterator of parameters each time, or that yield them."""
    functions = source.cached(_own_functions).items()
    return frozenset(name for name, node in functions if _names_parameters(source, node) and _returns_iterator(node))


def _returns_iterator(function: ast.FunctionDef) -> bool:
    nodes = own_nodes(function)
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        loops = [node for node in nodes if isinstance(node, ast.For) and "parameters(" in unparse(node.iter)]
        given = [node.value for node in nodes if isinstance(node, ast.YieldFrom)]
        yields = any(isinstance(each, ast.Yield) for loop in loops for each in walk(loop))
        return yields or any("parameters(" in unparse(value) for value in given)
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    return bool(returned) and all(value is not None and _gives_iterator(value, ()) for value in returned)


def _is_assigned_once(scope: ast.AST, target: str) -> bool:
    stores = (
        node
        for node in walk(scope)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
    )
    parameters = [node.arg for node in walk(scope) if isinstance(node, ast.arg)]
    return sum(unparse(node) == target for node in stores) == 1 and target not in parameters


@dataclass(frozen=True, slots=True)
class _Use:
    """A place that reads all of an iterator: the sides of the branches around it, and whether a loop repeats it.

    `leaves` if nothing after it in its function runs.
    """

    node: ast.expr
    sides: tuple[tuple[int, str], ...]
    repeats: bool
    leaves: bool

    def excludes(self, other: _Use) -> bool:
        """Whether a run reaches only one of the two."""
        mine = dict(self.sides)
        return any(mine.get(branch, side) != side for branch, side in other.sides)


Readers = Mapping[str, list[int]]
"""The functions of a file that read an argument to its end, with the numbers of these arguments."""


def _reading_functions(source: Source) -> Readers:
    found: dict[str, list[int]] = {}
    for name, function in source.cached(_own_functions).items():
        names = [each.arg for each in function.args.args]
        read = [index for index, each in enumerate(names) if any(_read_at(n, each, {}) for n in own_nodes(function))]
        found[name] = read
    return found


def _uses_of(scope: ast.AST, target: str, value: ast.expr, readers: Readers) -> Iterator[_Use]:
    """The places after an assignment that read all of its iterator, in the order of the code."""
    pending: list[tuple[ast.AST, tuple[tuple[int, str], ...], bool, bool]] = [(scope, (), False, False)]
    while pending:
        node, sides, repeats, leaves = pending.pop()
        read = _read_at(node, target, readers)
        # In a class another method may be written before the one that sets the attribute, and runs after it.
        is_after = read is not None and (read.lineno > (value.end_lineno or 0) or isinstance(scope, ast.ClassDef))
        if read is not None and is_after:
            yield _Use(read, sides, repeats, leaves)
        leaves = leaves or isinstance(node, ast.Return | ast.Raise)
        inside: list[tuple[ast.AST, tuple[tuple[int, str], ...], bool, bool]] = []
        for field, part in ast.iter_fields(node):
            side = sides
            if isinstance(node, ast.If | ast.IfExp | ast.Try | ast.Match) and field != "test":
                side = (*sides, (id(node), field))
            is_repeated = repeats or (
                isinstance(node, ast.For | ast.While) and field == "body" and not _holds(node, value)
            )
            parts = cast("list[object]", part) if isinstance(part, list) else [part]
            inside.extend((each, side, is_repeated, leaves) for each in parts if isinstance(each, ast.AST))
        pending.extend(reversed(inside))


def _holds(loop: ast.For | ast.While, value: ast.expr) -> bool:
    return any(node is value for node in walk(loop))


def _read_at(node: ast.AST, target: str, readers: Readers) -> ast.expr | None:
    """The expression that a node reads to its end, if that is the target: what it loops over, or its call."""
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(id="zip" | "enumerate"), args=given) as over):
            return over if any(_is_given(each, target) for each in given) else None
        case ast.For(iter=over) | ast.comprehension(iter=over):
            return over if unparse(over) == target else None
        case ast.Call(func=ast.Name(id=called), args=given) if called in readers:
            given = [given[index] for index in readers[called] if index < len(given)]
            return node if any(_is_given(each, target) for each in given) else None
        case ast.Call(func=callee) if READS_ALL.search(unparse(callee)):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            return node if any(_is_given(each, target) for each in given) else None
        case _:
            return None


def _is_given(given: ast.expr, target: str) -> bool:
    match given:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return any(_is_given(part, target) for part in parts)
        case ast.Dict(values=parts):
            return any(_is_given(part, target) for part in parts)
        case ast.Name() | ast.Attribute():
            return unparse(given) == target
        case _:
            return False
