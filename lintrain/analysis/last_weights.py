"""Tests of a network after a training that keeps its best weights, which nothing loads again.

    for epoch in range(epochs):
        …
        if accuracy > best:
            best = accuracy
            torch.save(net.state_dict(), "best.pt")
    test(net, test_loader)

An object that stops the training early keeps the best weights as well: `stopper(loss, net)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

BEST = lazy_pattern(r"(?i)best|improv")
KEEPS = lazy_pattern(r"(?i)(?:^|[._])(?:save\w*|\w*save_\w+|deepcopy|\w*checkpoint\w*)$")
"""Calls that keep the weights of a network."""

KEPT = lazy_pattern(r"(?i)save|deepcopy|stopp")
STOPPER = lazy_pattern(r"(?i)early_?stop|stopper")
LOADS = lazy_pattern(r"(?i)load|restore|best_?(?:model|weights|state|net)|resume|average|swa|from_pretrained")
"""Code that may give a network other weights than its last ones."""

TESTS = lazy_pattern(r"(?i)(?:\b|_)test")
MEASURES = lazy_pattern(r"(?i)test|eval|valid|measure|score|metric|predict|accuracy|infer|loss|auc")
NAMES_A_FILE = lazy_pattern(r"(?i)path|ckpt|checkpoint|dir|file|save|best|weights|\.pth?\b")
LOADER = lazy_pattern(r"(?i)load|data|set|iter|gen|dl\b|\bx_|_x\b")


@dataclass(frozen=True, slots=True)
class LastTested:
    """A test of the last weights: where it is, where the best ones are kept, and the network as code.

    Code that keeps the last weights in a file of their own tells them from the best ones, and may test them on purpose.
    """

    location: Location
    kept: Location
    network: str
    keeps_last: bool


def last_tested(source: Source) -> Iterator[LastTested]:
    """The tests after a training of a network whose best weights it keeps, and that nothing loads."""
    if not source.contains(TESTS) or not source.contains(KEPT) or _restores_itself(source):
        return
    trainings = source.cached(_trainings)
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        for body in _blocks(scope):
            yield from _in_block(source, body, trainings)


def _blocks(scope: ast.Module | ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """The statements of a scope, and those that it runs under `with`, `try` and the guard of a script."""
    pending = [scope.body]
    while pending:
        body = pending.pop()
        yield body
        pending.extend(each.body for each in body if isinstance(each, ast.With | ast.Try | ast.If))


def _in_block(source: Source, body: Sequence[ast.stmt], trainings: Mapping[str, _Training]) -> Iterator[LastTested]:
    for index, statement in enumerate(body):
        after = body[index + 1 :]
        if not any(TESTS.search(unparse(each)) for each in after):
            continue
        kept = _kept_by(source, statement, trainings)
        if kept is None or any(LOADS.search(_calls_and_names(each, kept)) for each in after):
            continue
        found = _test_of(source, unparse(statement), after, kept)
        if found is not None:
            keeps_last = _keeps(after, kept.network)
            yield LastTested(source.location(found), source.location(kept.node), kept.network, keeps_last)
            return


def _keeps(statements: Sequence[ast.stmt], network: str) -> bool:
    """Whether statements keep the weights of a network."""
    calls = (node for each in statements for node in walk(each) if isinstance(node, ast.Call))
    return any(_network_kept(call) == network for call in calls)


def _kept_by(source: Source, statement: ast.stmt, trainings: Mapping[str, _Training]) -> _Kept | None:
    """What keeps the best weights in a loop, or in a function of the file that a statement calls."""
    if isinstance(statement, ast.For | ast.While):
        return _kept_in(source, statement)
    if not isinstance(statement, ast.Expr | ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    training = trainings.get(unparse(call.func).rpartition(".")[2])
    if training is None:
        return None
    if training.is_method:
        owner = unparse(call.func).rpartition(".")[0]
        return _Kept(training.kept.node, owner) if owner else None
    given = [*call.args[training.index : training.index + 1]]
    given += [each.value for each in call.keywords if each.arg == training.kept.network]
    is_new = isinstance(statement, ast.Assign) and given and unparse(given[0]) in unparse(statement.targets[0])
    return _Kept(training.kept.node, unparse(given[0])) if given and not is_new else None


@dataclass(frozen=True, slots=True)
class _Training:
    """A function that trains a network and keeps its best weights: what keeps them, and which argument it is."""

    kept: _Kept
    index: int
    is_method: bool


def _trainings(source: Source) -> Mapping[str, _Training]:
    found = dict[str, _Training]()
    for function in source.nodes_of(ast.FunctionDef):
        loops = [(index, each) for index, each in enumerate(function.body) if isinstance(each, ast.For | ast.While)]
        for index, loop in loops:
            kept = _kept_in(source, loop)
            if kept is None or any(LOADS.search(_calls_and_names(each, kept)) for each in function.body[index + 1 :]):
                continue
            names = [each.arg for each in function.args.args]
            is_method = names[:1] == ["self"]
            if is_method or kept.network in names:
                at = names.index(kept.network) if kept.network in names else 0
                found[function.name] = _Training(kept, at, is_method)
    return found


@dataclass(frozen=True, slots=True)
class _Kept:
    """What keeps the best weights of a network in a loop."""

    node: ast.expr
    network: str


def _kept_in(source: Source, loop: ast.For | ast.While) -> _Kept | None:
    """The call that keeps a network under a comparison with the best value, or that may stop the training early."""
    for node in walk(loop):
        if isinstance(node, ast.If) and BEST.search(unparse(node.test)):
            for call in (each for part in node.body for each in walk(part) if isinstance(each, ast.Call)):
                network = _network_kept(call) or _kept_by_method(loop, call)
                if network:
                    return _Kept(call, network)
        elif isinstance(node, ast.Call) and STOPPER.search(unparse(node.func)) and _may_save(source, node):
            network = next((unparse(each) for each in node.args if _is_network(each)), "")
            if network:
                return _Kept(node, network)
    return None


def _network_kept(call: ast.Call) -> str:
    """The network whose weights a call keeps, as code; empty if it keeps none."""
    if not KEEPS.search(unparse(call.func)):
        return ""
    for node in walk(call):
        if isinstance(node, ast.Attribute) and node.attr == "state_dict":
            owner = unparse(node.value).removesuffix(".module")
            if not any(word in owner for word in ("optim", "sched", "scaler")):
                return owner
    return next((unparse(each) for each in call.args[:1] if _is_network(each)), "")


def _kept_by_method(loop: ast.For | ast.While, call: ast.Call) -> str:
    """The network of an object whose own method saves it as the best one, as far as the loop hands it on."""
    name = unparse(call.func)
    if not name.startswith("self.") or not KEEPS.search(name) or not BEST.search(unparse(call)):
        return ""
    given = (arg for each in walk(loop) if isinstance(each, ast.Call) and each is not call for arg in each.args)
    return next((unparse(each) for each in given if _is_network(each)), "")


def _is_network(node: ast.expr) -> bool:
    words = unparse(node).lower()
    return isinstance(node, ast.Name | ast.Attribute) and any(
        each in words for each in ("model", "net", "classifier", "encoder", "rcnn")
    )


def _may_save(source: Source, call: ast.Call) -> bool:
    """Whether an object that stops a training keeps the network that it gets: its class is elsewhere, or saves it."""
    owners = [node for node in source.nodes_of(ast.ClassDef) if STOPPER.search(node.name)]
    code = "\n".join(unparse(each) for each in owners)
    return not owners or (("save(" in code or "deepcopy(" in code) and "load_state_dict(" not in code)


def _restores_itself(source: Source) -> bool:
    """Whether an object that stops a training gives the network its best weights when it does."""
    owners = [node for node in source.nodes_of(ast.ClassDef) if STOPPER.search(node.name)]
    return any("load_state_dict(" in unparse(each) for each in owners)


def _calls_and_names(statement: ast.stmt, kept: _Kept) -> str:
    """What a statement calls and stores, as text: each may be what loads the weights."""
    found = list[str]()
    for node in walk(statement):
        match node:
            case ast.Call(func=func):
                found.append(unparse(func))
            case ast.Assign(targets=targets) if kept.network in map(unparse, targets):
                found.append("load")
            case _:
                pass
    return "\n".join(each for each in found if not LOADER.search(each) or "load_" in each or each.endswith("load"))


def _test_of(source: Source, inside: str, after: Sequence[ast.stmt], kept: _Kept) -> ast.expr | None:
    """The first code after a loop that measures the network on rows for the test, which the loop does not use."""
    for statement in after:
        for node in walk(statement):
            if isinstance(node, ast.Call) and _is_test(source, node, inside, kept):
                return node
            if isinstance(node, ast.For) and TESTS.search(unparse(node.iter)) and unparse(node.iter) not in inside:
                calls = (each for each in walk(node) if isinstance(each, ast.Call))
                found = next((each for each in calls if unparse(each.func) == kept.network), None)
                if found is not None:
                    return found
    return None


def _is_test(source: Source, call: ast.Call, inside: str, kept: _Kept) -> bool:
    name = unparse(call.func).rpartition(".")[2]
    given = [*call.args, *(each.value for each in call.keywords)]
    texts = [unparse(each) for each in given]
    rows = [each for each in texts if TESTS.search(each.rpartition(".")[2]) or "['test']" in each]
    is_given = kept.network in texts or unparse(call.func).startswith(f"{kept.network}.")
    if not is_given or not rows or not MEASURES.search(name):
        return False
    if any(each in inside for each in rows) or any(NAMES_A_FILE.search(each) for each in texts if each not in rows):
        return False
    own = [each for each in source.nodes_of(ast.FunctionDef) if each.name == name]
    return not any("load_state_dict(" in (code := unparse(each)) or "torch.load(" in code for each in own)
