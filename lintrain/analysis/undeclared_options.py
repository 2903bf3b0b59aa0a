"""Options that a script reads, and that its parser does not declare: `args.output_dir` of a parser with `--outpath`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from lintrain.analysis import namespaces
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.unread_settings import declarations
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OPEN = lazy_pattern(
    r"parse_known_args|set_defaults|add_subparsers|parents\s*=|\bsetattr\(|__dict__|\bvars\(|\.update\(|Namespace\(|\bhasattr\("
    r"|\badd_\w+_arg\w*\(|\bexec\(|namespace\s*=|\bglobals\(|ArgumentParser\)"
)
"""Code that may give the object options of other names, that asks which it has, or that declares them elsewhere."""


OF_PARSER = frozenset({"add_argument", "parse_args", "print_help", "print_usage", "error", "exit"})


@dataclass(frozen=True, slots=True)
class Undeclared:
    """An option that is read and not declared: where, its name, the code that reads it, and the first declaration."""

    location: Location
    name: str
    code: str
    declared: Location


def undeclared(source: Source) -> Iterator[Undeclared]:
    """The first read of each option that no parser of a file declares, where nothing else can give it to the object."""
    if ".parse_args(" not in source.text or source.contains(OPEN):
        return
    calls = source.gathered(declarations)
    parsers = {unparse(each.func.value) for each in calls if isinstance(each.func, ast.Attribute)}
    options = [_names(each) for each in calls]
    if not options or not all(options) or len(_parsers(source)) != 1:
        return
    space = namespaces.followed(source, ("parse_args",))
    if space is None or len(parsers) != 1 or _is_handed_on(source, *parsers):
        return
    known = {name for each in options for name in each}
    reads = _attributes_of(source, space.names)
    seen = set[str]()
    for node in source.named(*space.names):
        for read in _read_of(node, reads):
            name = read.attr
            is_new = name not in known and name not in seen and not name.startswith("_")
            if not is_new or name in source.cached(_stored) or id(read) in source.cached(_tried):
                continue
            if _is_parsed(source, node, space.names):
                seen.add(name)
                yield Undeclared(source.location(read), name, unparse(read), source.location(calls[0]))


def _parsers(source: Source) -> list[ast.Call]:
    """The parsers that a file makes: with two of them, which one an object comes from is not in the text."""
    return [each for each in source.nodes_of(ast.Call) if last_name(each.func).endswith("ArgumentParser")]


def _is_handed_on(source: Source, parser: str) -> bool:
    """Whether other code may declare options of a parser, or its name is also that of something else."""
    reads = _attributes_of(source, {parser})
    for node in source.named(parser):
        made = reads.get(id(node), [])
        if isinstance(node.ctx, ast.Load) and (not made or any(each.attr not in OF_PARSER for each in made)):
            return True
    return not parser.isidentifier()


def _names(call: ast.Call) -> list[str]:
    """The names under which an option may be stored; none if they are not written."""
    flags = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    given = {each.arg: each.value for each in call.keywords}
    stored = given.get("dest")
    if len(flags) != len(call.args) or None in given:
        return []
    if stored is not None:
        return [stored.value] if isinstance(stored, ast.Constant) and isinstance(stored.value, str) else []
    return [each.lstrip("-").replace("-", "_") for each in flags]


def _stored(source: Source) -> set[str]:
    """The attributes that the file stores in any object."""
    return {each.attr for each in source.nodes_of(ast.Attribute) if not isinstance(each.ctx, ast.Load)}


def _read_of(node: ast.Name | ast.Attribute, reads: Mapping[int, list[ast.Attribute]]) -> Sequence[ast.Attribute]:
    """The attribute that is read of a plain name."""
    return reads.get(id(node), ()) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ()


def _is_parsed(source: Source, node: ast.Name | ast.Attribute, names: frozenset[str], passes: int = 3) -> bool:
    """Whether a name is certainly the parsed object: as the parameter of a function, one that a call gives it to."""
    if not isinstance(node, ast.Name) or node.id not in names or not passes:
        return False
    for function in source.nodes_of(ast.FunctionDef):
        parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if node.id in {each.arg for each in parameters} and source.location(function).holds(source.location(node)):
            given = [each for call in _calls_of(source, function) for each in _given(call)]
            return any(_is_parsed(source, each, names, passes - 1) for each in given)
        if source.location(function).holds(source.location(node)) and node.id in _bound_in(function):
            return _is_bound_by_parser(source, function, node.id)
    return _is_bound_by_parser(source, source.tree, node.id)


def _bound_in(scope: ast.AST) -> set[str]:
    return {each.id for each in own_nodes(scope) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _is_bound_by_parser(source: Source, scope: ast.AST, name: str) -> bool:
    """Whether all that a scope binds to a name is what a parser gives, or a function that returns that."""
    makers = {each.name for each in source.nodes_of(ast.FunctionDef) if ".parse_args(" in unparse(each)}
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign) and name in map(unparse, node.targets):
            called = unparse(node.value.func).rpartition(".")[2] if isinstance(node.value, ast.Call) else ""
            if called != "parse_args" and called not in makers:
                return False
    return name in _bound_in(scope)


def _calls_of(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    """The calls of a function, or of the class that it makes objects of."""
    owners = [each.name for each in source.nodes_of(ast.ClassDef) if function in each.body]
    called = owners[0] if owners and function.name == "__init__" else function.name
    return [each for each in source.nodes_of(ast.Call) if unparse(each.func).rpartition(".")[2] == called]


def _given(call: ast.Call) -> list[ast.Name]:
    given = [*call.args, *(each.value for each in call.keywords)]
    return [each for each in given if isinstance(each, ast.Name)]


def _attributes_of(source: Source, names: Collection[str]) -> dict[int, list[ast.Attribute]]:
    """The attributes that are read of some names, by the node of the name."""
    found = dict[int, list[ast.Attribute]]()
    for node in source.nodes_of(ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in names and isinstance(node.ctx, ast.Load):
            found.setdefault(id(node.value), []).append(node)
    return found


def _tried(source: Source) -> set[int]:
    """What is read under `try`, which is ready to miss it."""
    tries = source.nodes_of(ast.Try)
    return {id(each) for node in tries for statement in node.body for each in walk(statement)}
