"""Dictionaries of a script that number their words from 1, and embeddings with only as many rows as there are words.

vocab = {word: number + 1 for number, word in enumerate(words)}
layer = nn.Embedding(len(vocab), 64)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of, scopes_with
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

NUMBERS = lazy_pattern(r"enumerate\(|len\([\w.]+\) *\+ *1")
CHANGES = frozenset({"update", "pop", "clear", "setdefault", "popitem"})
STEPS = 4


@dataclass(frozen=True, slots=True)
class ShortSize:
    """The size of an embedding that is the number of words: where, its code, the words, and where they get numbers.

    `missing` is how many rows more the last word needs.
    """

    location: Location
    size: str
    vocabulary: str
    numbered: Location
    missing: int


def short_sizes(source: Source) -> Iterator[ShortSize]:
    """The sizes of embeddings that leave no row for the last word."""
    if not source.contains(NUMBERS) or "Embedding" not in source.text:
        return
    found: list[_Numbered] = []
    for scope, names in scopes_with(source, _numbered_from_one):
        found.extend(_Numbered(name, node, scope, missing) for name, (node, missing) in names.items())
        found.extend(_given_to(source, scope, names))
    changed = {name for _, names in scopes_with(source, _others) for name in names}
    for size in dict.fromkeys(_sizes(source)) if found else ():
        match size:
            case ast.Call(func=ast.Name(id="len"), args=[words]):
                name = unparse(words)
                of_it = [each for each in found if each.name == name and _is_known_at(source, each, size)]
                if of_it and name not in changed:
                    numbered, missing = source.location(of_it[0].node), min(each.missing for each in of_it)
                    yield ShortSize(source.location(size), unparse(size), name, numbered, missing)
            case _:
                pass


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A dictionary whose words have numbers from 1: its name, where they get them, and where it has this name.

    The largest number is `missing - 1` more than its length.
    """

    name: str
    node: ast.stmt
    scope: ast.AST
    missing: int


def _is_known_at(source: Source, found: _Numbered, size: ast.expr) -> bool:
    """Whether a name means a dictionary where a size is written."""
    is_global = found.scope is source.tree or found.name.startswith("self.")
    return is_global or any(each is size for each in walk(found.scope))


def _numbered_from_one(scope: ast.AST) -> dict[str, tuple[ast.stmt, int]]:
    """The dictionaries of a scope whose largest number is certainly their length, or more, with the rows missing.

    One that a function returns as it is made has its own code for a name.
    """
    starts, last = dict[str, tuple[int, ast.stmt]](), dict[str, list[ast.stmt]]()
    grows = dict[str, ast.stmt]()
    for node in own_nodes(scope):
        match node:
            case (
                ast.Assign(targets=[target], value=ast.DictComp(value=value, generators=[each]))
                | ast.AnnAssign(target=target, value=ast.DictComp(value=value, generators=[each]))
                | ast.Return(value=ast.DictComp(value=value, generators=[each]) as target)
            ) if not each.ifs:
                if (start := _start(value, each.target, each.iter)) is not None:
                    starts[unparse(target)] = start, node
            case ast.For(target=target, iter=over, body=[ast.Assign(targets=[ast.Subscript(value=held)], value=value)]):
                if (start := _start(value, target, over)) is not None:
                    starts[unparse(held)] = start, node
            case ast.Assign(targets=[ast.Subscript(value=held)], value=ast.Constant(value=int())):
                last.setdefault(unparse(held), []).append(node)
            case ast.Assign(targets=[ast.Subscript(value=held)], value=value):
                if _is_length_and_one(value, unparse(held)):
                    grows[unparse(held)] = node
            case _:
                pass
    found = {name: (node, start - len(last.get(name, ()))) for name, (start, node) in starts.items()}
    growing = {
        name: (node, 1) for name, node in grows.items() if all(each.lineno < node.lineno for each in last.get(name, ()))
    }
    return {name: (node, missing) for name, (node, missing) in found.items() if missing > 0} | growing


def _is_length_and_one(value: ast.expr, held: str) -> bool:
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1)):
            return unparse(left) == f"len({held})"
        case _:
            return False


def _start(value: ast.expr, target: ast.expr, over: ast.expr) -> int | None:
    """The first number that a loop over `enumerate` gives; None if it gives something else."""
    match target, over:
        case (
            ast.Tuple(elts=[ast.Name(id=counter), ast.Name()]),
            ast.Call(func=ast.Name(id="enumerate"), args=args, keywords=keywords),
        ):
            named = [each.value for each in keywords if each.arg == "start"]
            given = [*args[1:], *named]
        case _:
            return None
    first = given[0].value if given and isinstance(given[0], ast.Constant) else None if given else 0
    if not isinstance(first, int):
        return None
    match value:
        case ast.Name(id=name) if name == counter:
            return first
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=int(more))) if name == counter:
            return first + more
        case _:
            return None


def _others(scope: ast.AST) -> set[str]:
    """The dictionaries that a scope also changes in another way."""
    found = set[str]()
    for node in own_nodes(scope):
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in CHANGES:
                found.add(unparse(held))
            case ast.AugAssign(target=held, op=ast.BitOr()):
                found.add(unparse(held))
            case ast.Delete(targets=[ast.Subscript(value=held)]):
                found.add(unparse(held))
            case _:
                pass
    return found


def _given_to(source: Source, scope: ast.AST, names: dict[str, tuple[ast.stmt, int]]) -> Iterator[_Numbered]:
    """The names that get what a function returns, if that is one of its dictionaries, and nothing else."""
    returned = [each.value for each in own_nodes(scope) if isinstance(each, ast.Return)]
    if not isinstance(scope, ast.FunctionDef) or len(returned) != 1 or returned[0] is None:
        return
    inside = {id(each) for each in walk(scope)}
    given = [each for each in source.nodes_of(ast.Assign) if id(each) not in inside]
    others = {unparse(one) for each in given if not _calls(each, scope) for one in _targets(each.targets[0])}
    for node in given if _is_one_of(source, scope) else ():
        match node.targets[0], returned[0]:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                pairs = list(zip(targets, values, strict=True))
            case target, value:
                pairs = [(target, value)]
        for target, value in pairs if _calls(node, scope) else ():
            if unparse(value) in names and unparse(target) not in others:
                numbered, missing = names[unparse(value)]
                missing -= sum(_written_to(each) == unparse(target) for each in given)
                if missing > 0:
                    yield _Numbered(unparse(target), numbered, source.tree, missing)


def _written_to(node: ast.Assign) -> str:
    """The code of the dictionary that an assignment writes one more word to."""
    return unparse(node.targets[0].value) if isinstance(node.targets[0], ast.Subscript) else ""


def _calls(node: ast.Assign, function: ast.FunctionDef) -> bool:
    return isinstance(node.value, ast.Call) and last_name(node.value.func) == function.name


def _targets(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _is_one_of(source: Source, function: ast.FunctionDef) -> bool:
    """Whether a file has only one function of its name."""
    return sum(each.name == function.name for each in source.nodes_of(ast.FunctionDef)) == 1


def _sizes(source: Source) -> Iterator[ast.expr]:
    """What the numbers of rows of the embeddings of a file are, through names and the parameters of its functions."""
    for call in calls_of(source, {"Embedding"}):
        named = {each.arg: each.value for each in call.keywords}
        given = call.args[0] if call.args else named.get("num_embeddings", named.get("input_dim"))
        if given is not None:
            yield from _origins(source, given, call, STEPS)


def _origins(source: Source, node: ast.expr, call: ast.Call, steps: int) -> Iterator[ast.expr]:
    match node:
        case ast.Call():
            yield node
        case ast.Name(id=name) if steps:
            function = _function_of(source, call)
            names = [each.arg for each in function.args.args] if function is not None else []
            if function is not None and name in names:
                if not any(isinstance(each, ast.Name) and each.id == name and _binds(each) for each in walk(function)):
                    yield from _passed(source, function, name, steps)
                return
            made = loss_terms.assigned(source, name)
            if len(made) == 1 and not source.contains(rf"\b{name} *\+="):
                yield from _origins(source, made[0], call, steps - 1)
        case _:
            pass


def _binds(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _function_of(source: Source, call: ast.Call) -> ast.FunctionDef | None:
    around = [each for each in source.nodes_of(ast.FunctionDef) if any(one is call for one in walk(each))]
    return max(around, key=lambda each: each.lineno, default=None)


def _passed(source: Source, function: ast.FunctionDef, name: str, steps: int) -> Iterator[ast.expr]:
    """What a function, or the class of a constructor, is called with for one of its parameters."""
    owner = next((each.name for each in source.nodes_of(ast.ClassDef) if function in each.body), function.name)
    names = [each.arg for each in function.args.args]
    position = names.index(name) - (names[0] == "self")
    for call in calls_of(source, {owner}):
        named = {each.arg: each.value for each in call.keywords}
        given = call.args[position] if 0 <= position < len(call.args) else named.get(name)
        if given is not None and not any(isinstance(each, ast.Starred) for each in call.args):
            yield from _origins(source, given, call, steps - 1)
