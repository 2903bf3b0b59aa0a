"""How scripts resume from a checkpoint: where they read their progress, and best scores that they do not read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import checkpoints
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SAVES = lazy_pattern(r"torch\s*\.\s*save|\.save\(")
BEST = lazy_pattern(r"(?i)best(?!\w*(?:epoch|iter|step|model|state|weight|path|param|config))")
PROGRESS = ("epoch", "step", "iteration", "global_step", "iter", "epochs")
"""Keys of how far a run has come."""
FIRST = lazy_pattern(r"-?(?:[\d.]+(?:e[+-]?\d+)?|float\(['\"][+-]?inf\w*['\"]\)|(?:np|numpy|math|torch)\.inf|None)")
"""What a best score begins with."""

WHOLE = lazy_pattern(r"(?i)(?:\w*_)?(?:checkpoint|ckpt|state|saved)s?")
"""Names of all that a checkpoint holds."""


@dataclass(frozen=True, slots=True)
class RestartedScore:
    """A best score that is saved and never read: where its start is, its code, its key, and where each is used."""

    location: Location
    best: str
    key: str
    saved: Location
    resumed: Location


def restarted_scores(source: Source) -> Iterator[RestartedScore]:
    """The best scores that a file saves with its progress, and does not read where it reads that."""
    if not source.contains(SAVES) or not source.contains(BEST):
        return
    resumed = resumed_progress(source)
    if resumed is None:
        return
    for saved in source.nodes_of(ast.Dict):
        if not any(unparse(each).endswith(".state_dict()") for each in saved.values):
            continue
        for key, value in zip(saved.keys, saved.values, strict=True):
            start = _start_of(source, value, resumed) if BEST.search(unparse(value)) else None
            if start is None or not isinstance(key, ast.Constant) or _is_read(source, str(key.value)):
                continue
            locations = [source.location(each) for each in (start, key, resumed)]
            yield RestartedScore(locations[0], unparse(value), str(key.value), *locations[1:])


def resumed_progress(source: Source) -> ast.Subscript | None:
    """Where the epoch or step is read from the checkpoint into a variable that is the start of a `range`."""
    starts = {
        unparse(part)
        for call in source.nodes_of(ast.Call)
        if len(call.args) > 1 and unparse(call.func) == "range"
        for part in walk(call.args[0])
        if isinstance(part, ast.Name | ast.Attribute)
    }
    entries = [entry for key in PROGRESS for entry in checkpoints.entries_read(source, key)]
    given = _given_back(source, entries) if entries else {}
    for node in source.nodes_of(ast.Assign) if entries else ():
        names = {unparse(each) for target in node.targets for each in walk(target) if isinstance(each, ast.expr)}
        if names & starts:
            parts = {id(part) for part in walk(node.value)}
            found = [entry for entry in entries if id(entry) in parts]
            found += [given[called] for called in _names_called(node.value) if called in given]
            if found:
                return found[0]
    return None


def continued(source: Source) -> ast.Subscript | None:
    """Where a run that goes on is shown by other code: the schedule gets its state, or a start gets the last epoch."""
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict"), args=[ast.Subscript() as entry, *_]):
                if SCHEDULE.search(unparse(owner)):
                    return entry
            case _:
                pass
    entries = {id(entry): entry for key in PROGRESS for entry in checkpoints.entries_read(source, key)}
    for node in source.nodes_of(ast.Assign) if entries else ():
        found = [entries[id(part)] for part in walk(node.value) if id(part) in entries]
        if found and START.search(unparse(node.targets[0])):
            return found[0]
    return None


SCHEDULE = lazy_pattern(r"(?i)sched")
START = lazy_pattern(r"(?i)(?:start|initial|first|begin|resum)\w*(?:epoch|step|iter)")


def _given_back(source: Source, entries: Sequence[ast.Subscript]) -> dict[str, ast.Subscript]:
    """The functions of a file that return an entry of a checkpoint, with it."""
    found: dict[str, ast.Subscript] = {}
    for function in source.nodes_of(ast.FunctionDef):
        returned = {id(part) for node in walk(function) if isinstance(node, ast.Return) for part in walk(node)}
        found.update((function.name, entry) for entry in entries if id(entry) in returned)
    return found


def _names_called(value: ast.expr) -> list[str]:
    return [unparse(node.func).rpartition(".")[2] for node in walk(value) if isinstance(node, ast.Call)]


def _start_of(source: Source, value: ast.expr, resumed: ast.expr) -> ast.stmt | None:
    """Where a score gets its first value, if the others are what a comparison or a maximum gives it."""
    best = unparse(value)
    if not isinstance(value, ast.Name | ast.Attribute):
        return None
    compared = [node for node in source.nodes_of(ast.Compare) if best in map(unparse, [node.left, *node.comparators])]
    kept = [node for node in source.nodes_of(ast.Call) if unparse(node.func) in {"max", "min"}]
    if not compared and not any(best in map(unparse, each.args) for each in kept):
        return None
    starts: list[ast.stmt] = []
    for node in source.nodes_of(ast.Assign, ast.AnnAssign, ast.AugAssign):
        for name, given in _given(node):
            if name != best:
                continue
            if (
                given is None
                or "load" in unparse(given)
                or unparse(getattr(resumed, "value", resumed)) in unparse(given)
            ):
                return None
            if FIRST.fullmatch(unparse(given)):
                starts.append(node)
    is_passed = any(best.rpartition(".")[2] == each.arg for each in source.nodes_of(ast.arg))
    return starts[0] if len(starts) == 1 and not is_passed else None


def _given(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The code of each target of an assignment, with what it gets; None for a part of something else."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return
    value = node.value
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from ((unparse(one), other) for one, other in zip(target.elts, value.elts, strict=True))
        elif isinstance(target, ast.Tuple):
            yield from ((unparse(one), None) for one in target.elts)
        else:
            yield unparse(target), value


def _is_read(source: Source, key: str) -> bool:
    """Whether a file reads an entry, by its key or with all others."""
    written = {id(each) for node in source.nodes_of(ast.Dict) for each in node.keys}
    others = [each for each in source.nodes_of(ast.Constant) if each.value == key and id(each) not in written]
    return bool(others) or any(_takes_all(each) for each in source.nodes_of(ast.Call))


def _takes_all(call: ast.Call) -> bool:
    """Whether a call gets all entries of a checkpoint: `self.__dict__.update(checkpoint)`, `restore(**state)`."""
    given = [each.value for each in call.keywords if each.arg is None]
    given += call.args if isinstance(call.func, ast.Attribute) and call.func.attr == "update" else []
    return any(WHOLE.fullmatch(unparse(each)) for each in given)
