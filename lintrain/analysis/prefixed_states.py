"""States of wrapped networks, whose names begin with the wrapper's, that are loaded into plain networks.

net = torch.compile(build())
torch.save(net.state_dict(), "net.pt")
plain = build()
plain.load_state_dict(torch.load("net.pt"))  # RuntimeError: Missing key(s), Unexpected key(s): "_orig_mod.…"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import checkpoints
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

INNER = {
    "torch.compile": "_orig_mod",
    **dict.fromkeys(("DataParallel", "DistributedDataParallel", "DDP"), "module"),
}
"""What wrappers call the network that they were given, which is the prefix of all names in their state."""

MOST_SAVES = 50
"""How many saved states of a function are compared with what it loads."""

STRIPS = lazy_pattern(
    r"consume_prefix|removeprefix|lstrip|\.replace\(|\.(?:startswith|partition|split)\(|\[(?:7|10):\]"
)
"""Code that may take a prefix off the names."""


@dataclass(frozen=True, slots=True)
class PrefixedState:
    """A state that is loaded with a prefix that its network lacks: where, both networks, and where it was saved."""

    location: Location
    plain: str
    wrapped: str
    inner: str
    saved: Location


def prefixed_states(source: Source) -> Iterator[PrefixedState]:
    """The loads that raise RuntimeError, since they get the names of a wrapped network."""
    if not source.contains(r"torch\.compile\(|Parallel\(|DDP\(") or source.contains(STRIPS):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        calls = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
        networks = _networks(source, scope)
        saves = [each for each in map(_saved, calls) if each is not None and networks.get(each[0])][:MOST_SAVES]
        for load in calls if saves else ():
            yield from _prefixed(source, networks, saves, load)


def _prefixed(
    source: Source, networks: dict[str, str], saves: Sequence[tuple[str, ast.Call]], load: ast.Call
) -> Iterator[PrefixedState]:
    plain = unparse(load.func).removesuffix(".load_state_dict")
    if networks.get(plain, "?") or len(load.args) != 1 or load.keywords or isinstance(load.args[0], ast.Subscript):
        return
    read = checkpoints.loaded_from_file(source, load.args[0])
    for wrapped, save in saves:
        path = unparse(save.args[1])
        if isinstance(read, ast.Call) and read.args and unparse(read.args[0]) == path and save.lineno < read.lineno:
            yield PrefixedState(source.location(load), plain, wrapped, networks[wrapped], source.location(save))


def _saved(call: ast.Call) -> tuple[str, ast.Call] | None:
    """The network whose state a call saves alone."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="save"), args=[ast.Call(func=ast.Attribute(value=owner, attr="state_dict")), _]
        ) if unparse(call.func) == "torch.save":
            return unparse(owner), call
        case _:
            return None


def _networks(source: Source, scope: ast.AST) -> dict[str, str]:
    """The names that a scope certainly binds to one network, with what its wrapper calls it; empty for a plain one."""
    nodes, given = own_nodes(scope), dict[str, list[ast.expr]]()
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                given.setdefault(unparse(target), []).append(node.value)
    uncertain = {id(each) for node in nodes if isinstance(node, ast.If | ast.Try | ast.Match) for each in walk(node)}
    makers = {each.name for each in source.nodes_of(ast.FunctionDef) if any(map(_inner, walk(each)))} | {"prepare"}
    found = dict[str, str]()
    for name, values in given.items():
        last = values[-1]
        if not isinstance(last, ast.Call) or any(id(each) in uncertain for each in values):
            continue
        is_wrapped_again = len(values) == 2 and bool(_inner(last)) and name in _names(last)
        if (len(values) == 1 or is_wrapped_again) and last_name(last.func) not in makers:
            found[name] = _inner(last)
    wrapped = {name for name, inner in found.items() if inner}
    # What is made of a wrapped network may be wrapped, too: `copy.deepcopy(net)`.
    return {name: inner for name, inner in found.items() if inner or not wrapped & _names(given[name][-1])}


def _inner(node: ast.AST) -> str:
    """What a call that wraps a network calls it inside; empty for others."""
    if not isinstance(node, ast.Call):
        return ""
    # `DataParallel(net).cuda()` is wrapped, too.
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "cuda"}:
        return _inner(node.func.value)
    return INNER.get(unparse(node.func)) or INNER.get(last_name(node.func), "")


def _names(node: ast.AST) -> set[str]:
    """The names and attributes in an expression, as code."""
    return {unparse(each) for each in walk(node) if isinstance(each, ast.Name | ast.Attribute)}
