"""Rows that a script reads class by class, and of which Keras holds out the last ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

MIXES = r"shuffle\(|permut\w*\(|train_test_split|\.sample\(|sample\(|StratifiedShuffle|KFold|argsort|sorted\(\w+, *key"
"""What gives rows another order than that of the classes; `fit(shuffle=True)` does it after the division."""


@dataclass(frozen=True, slots=True)
class LastClass:
    """A `validation_split` of rows in the order of their classes: where, and the loop that reads them."""

    location: Location
    loop: Location


def last_classes(source: Source) -> list[LastClass]:
    """Each such `fit` of a file in which nothing mixes rows."""
    return source.cached(_last_classes)


def _last_classes(source: Source) -> list[LastClass]:
    if not source.contains(r"validation_split *=") or source.contains(MIXES):
        return []
    filled = dict[str, ast.For]()
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        filled |= dict(_filled(scope))
    labels = _passed_on(source, filled)
    found: list[LastClass] = []
    for call in source.nodes_of(ast.Call) if labels else ():
        given = {each.arg: each.value for each in call.keywords}
        split = given.get("validation_split")
        target = given.get("y", call.args[1] if len(call.args) > 1 else None)
        is_fit = isinstance(call.func, ast.Attribute) and call.func.attr == "fit" and split is not None
        if is_fit and split is not None and target is not None and unparse(split) not in {"0", "0.0"}:
            loops = [labels[each.id] for each in walk(target) if isinstance(each, ast.Name) and each.id in labels]
            found += [LastClass(source.location(split), source.location(loops[0].iter))] if loops else []
    return found


def _filled(scope: ast.Module | ast.FunctionDef) -> Iterator[tuple[str, ast.For]]:
    """The lists that get the number of a class for each of its files, by a loop over files in one over classes."""
    for loop in scope.body:
        if not isinstance(loop, ast.For):
            continue
        decided = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
        decided |= _set_by(loop.body, decided)
        for inner in (each for each in loop.body if isinstance(each, ast.For)):
            varying = {each.id for each in walk(inner.target) if isinstance(each, ast.Name)}
            varying |= {name for each in inner.body if isinstance(each, ast.Assign) for name in _targets(each)}
            for call in walk(inner):
                match call:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[label]):
                        names = {each.id for each in walk(label) if isinstance(each, ast.Name)}
                        if names & decided and not names & varying and not isinstance(label, ast.Call):
                            yield name, loop
                    case _:
                        pass


def _set_by(body: list[ast.stmt], decided: set[str]) -> set[str]:
    """The names that statements of the outer loop give what the class decides: `number = classes.index(folder)`."""
    found = set[str]()
    for statement in body:
        if isinstance(statement, ast.Assign):
            names = {each.id for each in walk(statement.value) if isinstance(each, ast.Name)}
            found |= set(_targets(statement)) if names & (decided | found) else set[str]()
    return found


def _targets(statement: ast.Assign) -> list[str]:
    return [each.id for target in statement.targets for each in walk(target) if isinstance(each, ast.Name)]


KEEPS = re.compile(r"array|asarray|to_categorical|astype|reshape|one_hot|fit_transform|concatenate|stack")
"""Functions that keep the order of rows."""


def _passed_on(source: Source, filled: dict[str, ast.For]) -> dict[str, ast.For]:
    """The names of those labels in other forms, and of what functions return as them."""
    known = dict(filled)
    returned = {
        (function.name, position): each.id
        for function in source.nodes_of(ast.FunctionDef)
        for node in walk(function)
        if isinstance(node, ast.Return) and node.value is not None
        for position, part in enumerate(node.value.elts if isinstance(node.value, ast.Tuple) else [node.value])
        for each in walk(part)
        if isinstance(each, ast.Name) and each.id in filled
    }
    for node in source.nodes_of(ast.Assign):
        called = last_name(node.value.func) if isinstance(node.value, ast.Call) else ""
        parts = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
        for position, part in enumerate(parts):
            if isinstance(part, ast.Name) and (called, position) in returned:
                known[part.id] = filled[returned[called or "", position]]
        if isinstance(node.targets[0], ast.Name) and (isinstance(node.value, ast.Name) or KEEPS.search(called)):
            names = [each.id for each in walk(node.value) if isinstance(each, ast.Name) and each.id in known]
            known |= {node.targets[0].id: known[names[0]]} if names else {}
    return known
