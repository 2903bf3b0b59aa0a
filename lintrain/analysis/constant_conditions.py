"""Conditions that have the same result whatever they are about, and parameters that change nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import updated_bests
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

GENERATOR = "a generator"
TEXT = "a text"
TUPLE = "a tuple"
UNCALLED = "a function"
NAMED = "a function of the file"
ITSELF = "a comparison with itself"
NO_LOCAL = "a name that the function does not have"
UPDATED = "a comparison with a best value that was updated before"

BACKENDS = frozenset({"torch.cuda", "torch.backends.mps", "torch.mps", "torch.xpu", "torch.distributed", "cuda"})


@dataclass(frozen=True, slots=True)
class AlwaysTrue:
    """A part of a condition that is true by itself, or false: where, its code, and what it is."""

    location: Location
    code: str
    what: str


def always_true(source: Source) -> list[AlwaysTrue]:
    """The parts of a file's conditions that are always true."""
    return source.cached(_always_true)


def _always_true(source: Source) -> list[AlwaysTrue]:
    found = [(part, what) for test in _tests(source) for part in _parts(test) if (what := _kind_of(part))]
    found += [(node, UNCALLED) for node in _kept_functions(source)]
    found += [(node, NAMED) for node in _named_functions(source)]
    found += [(node, NO_LOCAL) for node in _no_locals(source)]
    found += [(node, UPDATED) for node in updated_bests.late_comparisons(source)]
    return [AlwaysTrue(source.location(node), unparse(node), what) for node, what in found]


def _tests(source: Source) -> Iterator[ast.expr]:
    yield from (node.test for node in source.nodes_of(ast.If))
    yield from (node.test for node in source.nodes_of(ast.While))
    yield from (node.test for node in source.nodes_of(ast.IfExp))
    yield from (node.test for node in source.nodes_of(ast.Assert))


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """What a condition is put together of by `not`, `and` and `or`."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            # `name or "none"` chooses a text; only next to a comparison a text was meant to be compared as well.
            compares = any(isinstance(each, ast.Compare) for each in values)
            for value in values:
                is_text = isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value != ""
                if is_text and compares:
                    yield value
                elif not is_text:
                    yield from _parts(value)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _parts(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts(operand)
        case _:
            if not isinstance(test, ast.Constant):
                yield test


def _kind_of(part: ast.expr) -> str:
    """What makes a part of a condition true by itself; empty for anything else."""
    match part:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.Gt()], comparators=[right]):
            # `==` and `<=` ask for NaN, and a call may give another number the second time.
            is_same = unparse(left) == unparse(right) and not any(isinstance(each, ast.Call) for each in walk(left))
            return ITSELF if is_same else ""
        case ast.GeneratorExp():
            return GENERATOR
        case ast.Constant():
            return TEXT
        case ast.Tuple(elts=[_, *_]):
            return TUPLE
        case ast.Attribute() if _is_asked_without_call(part):
            return UNCALLED
        case _:
            return ""


def _is_asked_without_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "is_available" and unparse(node.value) in BACKENDS


def _named_functions(source: Source) -> Iterator[ast.Name]:
    """Functions of the file that a condition names: the parameter that it was written for has another name."""
    defined = {each.name for each in source.tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    parts = [part for test in _tests(source) for part in _parts(test) if isinstance(part, ast.Name)]
    asked = [part for part in parts if part.id in defined]
    if asked:
        others = [each.name for each in source.nodes_of(ast.FunctionDef) if each not in source.tree.body]
        others += [each.id for each in source.nodes_of(ast.Name) if not isinstance(each.ctx, ast.Load)]
        others += [each.arg for each in source.nodes_of(ast.arg)]
        others += [each.name or "" for each in source.nodes_of(ast.ExceptHandler)]
        others += [each.asname or each.name for each in source.nodes_of(ast.alias)]
        yield from (each for each in asked if each.id not in others)


def _no_locals(source: Source) -> Iterator[ast.Compare]:
    """`"RATE" in dir()` in a function that binds no such name: `dir()` and `locals()` leave out those of the module."""
    if not source.contains(r"[\"'] (?:not )?in (?:dir|locals)\(\)"):
        return
    for function in source.nodes_of(ast.FunctionDef):
        asked = [
            (node, name) for node in own_nodes(function) if isinstance(node, ast.Compare) and (name := _asked(node))
        ]
        around = [each for each in source.nodes_of(ast.FunctionDef) if any(node in walk(each) for node, _ in asked)]
        names = {name for each in around for part in walk(each) for name in _names_in(part)}
        yield from (node for node, name in asked if name not in names)


def _asked(node: ast.Compare) -> str:
    """The name that is looked for among the names of a function; empty for other comparisons."""
    match node:
        case ast.Compare(
            left=ast.Constant(value=str(name)),
            ops=[ast.In() | ast.NotIn()],
            comparators=[ast.Call(func=ast.Name(id="dir" | "locals"), args=[], keywords=[])],
        ):
            return name
        case _:
            return ""


def _names_in(part: ast.AST) -> tuple[str, ...]:
    """The names that a part of a function gives it."""
    match part:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.alias(name=name, asname=bound):
            return (bound or name.partition(".")[0],)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case _:
            return ()


def _kept_functions(source: Source) -> Iterator[ast.expr]:
    """`use_cuda = torch.cuda.is_available`, under a name that is never called: a condition elsewhere."""
    assigned = [(node, [each for each in _values(node) if _is_asked_without_call(each)]) for node in _assigned(source)]
    called = {unparse(each.func) for each in source.nodes_of(ast.Call)} if any(asked for _, asked in assigned) else ()
    for node, asked in assigned:
        is_kept = all(
            isinstance(each, ast.Name | ast.Attribute) and unparse(each) not in called for each in node.targets
        )
        # Where a module's function is replaced by another, it is stored under the name that it had.
        is_patched = any(unparse(each).endswith("is_available") for each in node.targets)
        yield from asked if is_kept and not is_patched else ()


def _assigned(source: Source) -> Sequence[ast.Assign]:
    return source.nodes_of(ast.Assign) if "is_available" in source.text else ()


def _values(node: ast.Assign) -> list[ast.expr]:
    return node.value.values if isinstance(node.value, ast.BoolOp) else [node.value]


@dataclass(frozen=True, slots=True)
class UnreadParameter:
    """A parameter that nothing reads, and the call that gets a literal under its name: its location, name and value."""

    location: Location
    name: str
    value: str
    call: Location


def _literal_arguments(function: ast.FunctionDef) -> list[tuple[ast.Call, ast.keyword]]:
    calls = [each for each in walk(function) if isinstance(each, ast.Call)]
    pairs = [(each, keyword) for each in calls for keyword in each.keywords]
    return [
        (call, each) for call, each in pairs if isinstance(each.value, ast.Constant) and each.value.value is not None
    ]


def unread_parameters(source: Source) -> Iterator[UnreadParameter]:
    """The parameters of functions whose value a call leaves out: `def train(rate): fit(rate=0.1)`."""
    for function in source.nodes_of(ast.FunctionDef):
        given = {each.arg: each for each in (*function.args.args, *function.args.kwonlyargs)}
        if "self" in given or "cls" in given or function.decorator_list or function.args.kwarg is not None:
            continue  # a method, or a function that others call, may have to have its parameters
        literals = [each for each in source.once(_literal_arguments, function) if each[1].arg in given]
        read = {each.id for each in walk(function) if isinstance(each, ast.Name)} if literals else set[str]()
        if "locals" in read or "eval" in read:
            continue
        for call, keyword in literals:
            if keyword.arg is not None and keyword.arg not in read:
                location, value = source.location(given[keyword.arg]), unparse(keyword.value)
                yield UnreadParameter(location, keyword.arg, value, source.location(call))
