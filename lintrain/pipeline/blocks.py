"""Statements in their blocks, for fixes that move or add some: their neighbours, and what uses their names.

How a file calls its own plain functions: under which names things go on in them, and where they were called from.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.pipeline.events import Event
from lintrain.pipeline.record import Pipeline
from lintrain.source import places
from lintrain.source.bounds import Nesting
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import BLOCKS, children, ordered_statements, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def statement_at(pipeline: Pipeline, location: Location) -> ast.stmt | None:
    """The innermost statement around a location."""
    return places.statement_at(pipeline.source_of(location), location)


def in_order(source: Source) -> list[tuple[ast.stmt, int]]:
    """The statements of a file in the order of the code, each with the number of the one around it; -1 for none."""
    return ordered_statements(source.tree)


def scope_of(pipeline: Pipeline, location: Location) -> ast.AST:
    """The function around a location, else the whole file."""
    source = pipeline.source_of(location)
    return source.cached(_functions).innermost(location) or source.tree


def _functions(source: Source) -> Nesting[ast.expr | ast.stmt]:
    found: Sequence[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = source.nodes_of(*FUNCTIONS)
    return Nesting((source.location(node), node) for node in found)


def branches(source: Source) -> list[Location]:
    """The locations of the `if` statements of a file."""
    return [source.location(node) for node in source.nodes_of(ast.If)]


def are_exclusive(source: Source, one: Location, other: Location) -> bool:
    """Whether two places are in different branches of one `if`, so that at most one of them runs."""
    around = (node for node in source.nodes_of(ast.If) if node.orelse)
    both = [node for node in around if source.location(node).holds(one) and source.location(node).holds(other)]
    return any(
        any(source.location(each).holds(one) for each in node.body)
        != any(source.location(each).holds(other) for each in node.body)
        for node in both
    )


def classes_around(source: Source, location: Location) -> dict[str, Location]:
    """The classes around a location by their names, outer ones first."""
    found = ((node.name, source.location(node)) for node in source.nodes_of(ast.ClassDef))
    return {name: around for name, around in found if around.holds(location)}


def call_leading_to(pipeline: Pipeline, event: Event, other: Event) -> Location | None:
    """The call before another event, in its function, of the function that an event is in; None within one function."""
    scope, source = scope_of(pipeline, other.location), pipeline.source_of(other.location)
    if scope_of(pipeline, event.location) is scope or not event.function:
        return None
    calls = [node for node in walk(scope) if isinstance(node, ast.Call) and _name_called(node) == event.function]
    return next((source.location(call) for call in calls if source.location(call) < other.location), None)


def _name_called(call: ast.Call) -> str:
    return unparse(call.func).rpartition(".")[2]


def is_one_scope(pipeline: Pipeline, *locations: Location) -> bool:
    """Whether locations are in one function, or all outside of any."""
    return (
        len({location.path for location in locations}) == 1
        and len({scope_of(pipeline, location) for location in locations}) == 1
    )


def loop_around(pipeline: Pipeline, location: Location) -> Location | None:
    """The innermost loop around a location."""
    loops = pipeline.cached(_loops, pipeline).get(location.path)
    return loops.innermost(location) if loops else None


def _loops(pipeline: Pipeline, _: Pipeline) -> dict[str, Nesting[Location]]:
    """The locations of the loops of each file."""
    locations = {loop.location for loop in pipeline.loops}
    paths = {location.path for location in locations}
    return {path: Nesting((location, location) for location in locations if location.path == path) for path in paths}


def is_over_some(pipeline: Pipeline, loop: Location) -> bool:
    """Whether a loop looks at some batches only: it is left after the first, or at a number of them."""
    statement = statement_at(pipeline, loop)
    if not isinstance(statement, ast.For):
        return False
    for each in statement.body:
        match each:
            case ast.Break() | ast.Return():
                return True
            case ast.If(test=ast.Compare(ops=[ast.GtE() | ast.Gt() | ast.Eq()]), body=[*_, ast.Break()]):
                return True
            case _:
                pass
    return False


def block_of(pipeline: Pipeline, statement: ast.stmt, location: Location) -> list[ast.stmt]:
    """The statements of the block that a statement is in."""
    return pipeline.source_of(location).cached(_blocks).get(statement, [])


def _blocks(source: Source) -> dict[ast.stmt, list[ast.stmt]]:
    """Each statement with those of its block."""
    found: dict[ast.stmt, list[ast.stmt]] = {}
    for node in (source.tree, *source.nodes):
        for field in BLOCKS:
            value: object = getattr(node, field, None)
            block = [each for each in value if isinstance(each, ast.stmt)] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
            for each in block:
                found.setdefault(each, block)
    return found


def names_between(pipeline: Pipeline, first: Location, second: Location) -> set[str] | None:
    """The names in the statements between those at two locations; None if they are not in one block."""
    one, other = (statement_at(pipeline, location) for location in (first, second))
    block = block_of(pipeline, one, first) if one is not None else []
    if one is None or other is None or other not in block:
        return None
    start, end = sorted((block.index(one), block.index(other)))
    nodes = (node for each in block[start + 1 : end] for node in walk(each))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def are_in_one_body(pipeline: Pipeline, first: Location, second: Location) -> bool:
    """Whether both locations are whole statements in the body of one loop, branch, `with` or function."""
    source = pipeline.source_of(first)
    blocks: Sequence[ast.For | ast.While | ast.If | ast.With | ast.FunctionDef] = source.nodes_of(
        ast.For, ast.While, ast.If, ast.With, ast.FunctionDef
    )
    for block in blocks:
        locations = [source.location(each) for each in block.body if isinstance(each, ast.Expr)]
        if first in locations and second in locations:
            return True
    return False


def expects_error(source: Source, location: Location) -> bool:
    """Whether the error of the code at a location is caught: in a `try`, or by `pytest.raises`."""
    raises = (node for node in source.nodes_of(ast.With) if "aises" in unparse(node.items[0]))
    return any(source.location(node).holds(location) for node in (*source.nodes_of(ast.Try), *raises))


def shows_error(source: Source, location: Location) -> bool:
    """Whether code is there to fail: a statement of a short `try` without loops that only prints what it catches."""
    return any(
        len(node.body) <= MOST_SHOWN
        and any(source.location(each).holds(location) for each in node.body if isinstance(each, ast.Assign | ast.Expr))
        and all(_is_printed(each) for handler in node.handlers for each in handler.body)
        for node in source.nodes_of(ast.Try)
        if node.handlers and source.location(node).holds(location)
    )


MOST_SHOWN = 3
"""Statements of a `try` that shows an error: what it needs, what fails, and what says that it did not."""


def _is_printed(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))) | ast.Pass():
            return True
        case _:
            return False


def may_move(pipeline: Pipeline, moved: Location, target: Location) -> bool:
    """Whether a plain statement can change its place: nothing that it passes uses what it binds, or binds what it uses.

    Going down, it may pass what binds names that it uses: to come after that is what it moves for.
    """
    first, second = statement_at(pipeline, moved), statement_at(pipeline, target)
    if first is None or second is None or not isinstance(first, ast.Assign | ast.Expr):
        return False
    notebook = pipeline.source_of(moved).notebook
    if notebook is not None and notebook.cell_at(moved.line) != notebook.cell_at(target.line):
        return False
    block = block_of(pipeline, first, moved)
    if second not in block or not _stands_alone(pipeline, first, moved) or not _stands_alone(pipeline, second, target):
        return False
    here, there = block.index(first), block.index(second)
    passed = block[there:here] if there < here else block[here + 1 : there + 1]
    bound = set(_names(first, ast.Store))
    if bound & {name for each in passed for name in _names(each)}:
        return False
    return here < there or not set(_names(first, ast.Load)) & {
        name for each in passed for name in _names(each, ast.Store)
    }


def _stands_alone(pipeline: Pipeline, statement: ast.stmt, location: Location) -> bool:
    """Whether a statement shares its lines with no other."""
    source = pipeline.source_of(location)
    at = source.location(statement)
    before = source.lines[at.line - 1][: at.column - 1]
    after = source.lines[at.end_line - 1][at.end_column - 1 :].strip()
    return not before.strip() and (not after or after.startswith("#"))


def uses_of(pipeline: Pipeline, name: str, location: Location) -> list[ast.Name | ast.Attribute]:
    """Where the file of a place reads a name (or `self.name`)."""
    by_last = pipeline.source_of(location).cached(_reads)
    return [node for node in by_last.get(name.rpartition(".")[2], ()) if _is_called(node, name)]


def _reads(source: Source) -> dict[str, list[ast.Name | ast.Attribute]]:
    """Where names and attributes are read, by the last part of what is read."""
    found: dict[str, list[ast.Name | ast.Attribute]] = {}
    for node in source.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(node)
    return found


def _is_called(node: ast.expr, name: str) -> bool:
    """Whether an expression is a dotted name; what is written of it first is compared last."""
    while isinstance(node, ast.Attribute):
        name, dot, last = name.rpartition(".")
        if not dot or last != node.attr:
            return False
        node = node.value
    return isinstance(node, ast.Name) and node.id == name


def returned_in(body: list[ast.stmt]) -> list[ast.expr]:
    """What the statements of a function return, one after the other, without those of functions inside it."""
    found: list[ast.expr] = []
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(node.value)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(children(node))
    return found


def _names(node: ast.AST, context: type[ast.expr_context] | None = None) -> Iterator[str]:
    for each in walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and (context is None or isinstance(each.ctx, context)):
            yield unparse(each)
        elif isinstance(each, ast.FunctionDef | ast.ClassDef) and context is not ast.Load:
            yield each.name
        elif isinstance(each, ast.alias) and context is not ast.Load:
            yield (each.asname or each.name).partition(".")[0]


@dataclass(frozen=True, slots=True)
class PlainFunction:
    """A function of a file's top level that the file does nothing with but call it."""

    node: ast.FunctionDef
    calls: tuple[ast.Call, ...]


def plain_functions(source: Source) -> dict[str, PlainFunction]:
    """Such functions of a file by name, if it calls them at all; each name means one thing everywhere in it."""
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    calls: dict[str, list[ast.Call]] = {}
    for call in calls_of(source, {node.name for node in functions}):
        if isinstance(call.func, ast.Name):
            calls.setdefault(call.func.id, []).append(call)
    if not calls:
        return {}
    uses = Counter(node.id for node in source.named(*calls) if isinstance(node, ast.Name))
    defined = Counter(node.name for node in source.nodes_of(ast.FunctionDef))
    defined.update(node.name for node in source.nodes_of(ast.AsyncFunctionDef))
    defined.update(node.name for node in source.nodes_of(ast.ClassDef))
    defined.update(node.arg for node in source.nodes_of(ast.arg))
    defined.update(node.asname or node.name for node in source.nodes_of(ast.alias))
    return {
        node.name: PlainFunction(node, tuple(calls[node.name]))
        for node in functions
        if node.name in calls and defined[node.name] == 1 and len(calls[node.name]) == uses[node.name]
    }


def handed_on(source: Source) -> dict[ast.Name, tuple[str, ...]]:
    """The uses of names that only give a thing to a plain function, or back to its caller, with its names there."""
    found = dict(source.cached(given_back))
    for function in source.cached(plain_functions).values():
        for call in function.calls:
            found.update((given, (name,)) for name, given in given_names(function.node.args, call).items())
    return found


def given_back(source: Source) -> dict[ast.Name, tuple[str, ...]]:
    """The names in what plain functions return, with the one that each call of the function binds it to."""
    targets = {each.value: each.targets for each in source.nodes_of(ast.Assign)}
    return {
        part: names
        for function in source.cached(plain_functions).values()
        for returned in returned_in(function.node.body)
        for part, names in _bound_by(returned, [targets.get(call, []) for call in function.calls])
    }


def given_names(arguments: ast.arguments, call: ast.Call, first: int = 0) -> dict[str, ast.Name]:
    """The names in a call by the parameters that get their values; `first` is the first one that it gives."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][first:]
    stars = [index for index, each in enumerate(call.args) if isinstance(each, ast.Starred)]
    given: list[tuple[str | None, ast.expr]] = list(zip(names, call.args[: stars[0] if stars else None], strict=False))
    given += [(each.arg, each.value) for each in call.keywords]
    known = {*names, *(each.arg for each in arguments.kwonlyargs)}
    return {name: value for name, value in given if name in known and name and isinstance(value, ast.Name)}


def _bound_by(returned: ast.expr, results: list[list[ast.expr]]) -> Iterator[tuple[ast.Name, tuple[str, ...]]]:
    """The returned names, if every call binds their values to one name each."""
    parts = _parts(returned)
    bound = [_parts(targets[0]) for targets in results if len(targets) == 1]
    if len(bound) < len(results) or any(len(targets) != len(parts) for targets in bound):
        return
    for part, targets in zip(parts, zip(*bound, strict=True), strict=True):
        names = tuple(target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(part, ast.Name) and len(names) == len(bound):
            yield part, names


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def spread_names(source: Source, names: set[str]) -> tuple[set[str], set[ast.Name]]:
    """These names with those that the same thing gets in plain functions, and from them; and where it is handed on."""
    table = source.cached(handed_on)
    known = set(names)
    while further := {name for node, given in table.items() if node.id in known for name in given} - known:
        known |= further
    return known, {node for node in table if node.id in known}


def handed_to_files(pipeline: Pipeline, names: set[str]) -> tuple[set[str], set[ast.Name]]:
    """The names that these have in functions imported from other files of the script, and where they are handed on."""
    sources = pipeline.sources.values()
    functions: dict[str, list[ast.FunctionDef]] = {}
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
    further, handed = set[str](), set[ast.Name]()
    for source in sources:
        imported = {each.asname or each.name for node in source.nodes_of(ast.ImportFrom) for each in node.names}
        for call in source.nodes_of(ast.Call):
            called = functions.get(call.func.id, []) if isinstance(call.func, ast.Name) else []
            if len(called) == 1 and called[0].name in imported:
                given = {name: each for name, each in given_names(called[0].args, call).items() if each.id in names}
                further |= given.keys()
                handed |= set(given.values())
    return further, handed


def way_out(pipeline: Pipeline, location: Location) -> list[tuple[ast.AST, Location]]:
    """The function around it; the function around the only call of it, with that call; and so on to the module."""
    source = pipeline.source_of(location)
    functions: dict[ast.AST, PlainFunction] = {each.node: each for each in source.cached(plain_functions).values()}
    found = [(scope_of(pipeline, location), location)]
    while (function := functions.get(found[-1][0])) and len(function.calls) == 1 and len(found) < len(functions) + 2:
        location = source.location(function.calls[0])
        found.append((scope_of(pipeline, location), location))
    return found
