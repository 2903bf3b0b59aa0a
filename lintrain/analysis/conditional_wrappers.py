"""Networks that a script wraps under a condition, and whose `module` it reads under none.

if torch.cuda.device_count() > 1:
    net = nn.DataParallel(net)
torch.save(net.module.state_dict(), "net.pt")
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import children, own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "DDP"})

ABOUT_DEVICES = lazy_pattern(r"(?i)hasattr|isinstance|parallel|dist|rank|gpu|world|device|module|ddp|multi|cuda|type\(")
"""Words of a condition that may depend on whether the network is wrapped."""

OF_BOTH = lazy_pattern(r"[\w.]+ in [\[({](?:0, -1|-1, 0)[\])}]")
"""A condition that the first of several processes meets, and a single one as well."""

OWN_MODULE = lazy_pattern(r"\.module\s*=[^=]|add_module\(['\"]module['\"]|def module\(")
"""Code that gives an object an attribute of this name."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """A read of `module` where the network may be a plain one: where, its name, the wrapper, and its condition."""

    location: Location
    name: str
    wrapper: str
    wrapped: Location
    condition: str


def unwrapped_reads(source: Source) -> Iterator[Unwrapped]:
    """The first such read of each network in a function, or outside of functions."""
    if ".module" not in source.text or not source.contains("Parallel|DDP") or source.contains(OWN_MODULE):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        for test, wrapping in _conditional(scope):
            name = unparse(wrapping.targets[0])
            read = next((node for node in _reads(scope, name, test) if node.lineno > wrapping.lineno), None)
            if read is not None and isinstance(wrapping.value, ast.Call):
                wrapper = last_name(wrapping.value.func)
                yield Unwrapped(source.location(read), name, wrapper, source.location(wrapping), unparse(test))


def _conditional(scope: ast.AST) -> Iterator[tuple[ast.expr, ast.Assign]]:
    """The assignments `net = DataParallel(net)` that only one branch without an alternative makes, with its test."""
    branches = [node for node in own_nodes(scope) if isinstance(node, ast.If)]
    # Of an `elif`, other branches are as good as an alternative that is not there.
    chained = {id(each) for branch in branches for each in branch.orelse}
    found = [node for node in own_nodes(scope) if isinstance(node, ast.Assign) and _wraps(node)]
    names = Counter(unparse(node.targets[0]) for node in found)
    tests = {id(each): branch for branch in branches if not branch.orelse for each in branch.body}
    for node in found:
        branch = tests.get(id(node))
        if branch is not None and names[unparse(node.targets[0])] == 1 and id(branch) not in chained:
            yield branch.test, node


def _wraps(node: ast.Assign) -> bool:
    match node:
        case ast.Assign(targets=[target], value=ast.Call(func=callee, args=[inner, *_])):
            return last_name(callee) in WRAPPERS and unparse(target) == unparse(inner)
        case _:
            return False


def _reads(scope: ast.AST, name: str, test: ast.expr) -> Iterator[ast.Attribute]:
    """The reads of `name.module` that no condition about devices or about the wrapping is around."""
    names = {node.id for node in walk(test) if isinstance(node, ast.Name)} - {"torch", "args", "opt", "cfg", "self"}
    names |= {node.attr for node in walk(test) if isinstance(node, ast.Attribute)}
    pending = children(scope)[::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.Try):
            continue
        if isinstance(node, ast.If | ast.IfExp | ast.BoolOp | ast.While):
            asked = OF_BOTH.sub("", unparse(node if isinstance(node, ast.BoolOp) else node.test))
            if ABOUT_DEVICES.search(asked) or any(word in asked for word in names):
                continue
        if isinstance(node, ast.Attribute) and node.attr == "module" and unparse(node.value) == name:
            yield node
        pending.extend(reversed(children(node)))
