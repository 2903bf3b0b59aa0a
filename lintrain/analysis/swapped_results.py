"""Results of the script's own functions that are unpacked in another order than they are returned in."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.split_names import split_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.name_orders import FEWEST_MOVED, are_moved, name_given
from lintrain.source.nodes import own_nodes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SwappedResults:
    """An assignment that swaps results: where, the names that are returned, and where, if that is in the script."""

    location: Location
    returned: tuple[str, ...]
    returned_at: Location | None


def swapped_results(pipeline: Pipeline) -> Iterator[SwappedResults]:
    """The assignments that give two or more results of a function the names of others of its results."""
    functions = _functions(pipeline)
    for source in pipeline.sources.values() if functions else ():
        for node in source.nodes_of(ast.Assign):
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(func=callee)):
                    found = functions.get(last_name(callee)) if len(targets) >= FEWEST_MOVED else None
                case _:
                    continue
            names = [name_given(each) for each in targets]
            if found is not None and _are_swapped(names, found):
                first = found[1][0]
                yield SwappedResults(source.location(node.targets[0]), tuple(_names(first)), found[0].location(first))


def swapped_splits(source: Source) -> Iterator[SwappedResults]:
    """The assignments `x_train, y_train, x_test, y_test = train_test_split(x, y)`: each array gives both its parts."""
    for node in source.nodes_of(ast.Assign) if "train_test_split(" in source.text else ():
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(func=callee, args=arrays)):
                is_split = last_name(callee) == "train_test_split" and len(arrays) >= FEWEST_MOVED
            case _:
                continue
        splits = [split_of(name_given(each)) for each in targets]
        half = len(arrays)
        if is_split and len(splits) == 2 * half and {*splits[:half]} == {"train"} and _are_held_out(splits[half:]):
            given = [name_given(each) or "array" for each in arrays]
            returned = tuple(f"{name}_{part}" for name in given for part in ("train", "test"))
            yield SwappedResults(source.location(node.targets[0]), returned, None)


def _are_held_out(splits: Sequence[str | None]) -> bool:
    return all(split in {"test", "validation"} for split in splits)


Returning = tuple[Source, list[ast.Tuple]]
"""A function's file, and the tuples of names that it returns."""


def _functions(pipeline: Pipeline) -> dict[str, Returning]:
    """The functions of all files that return tuples only, if no other function has the name."""
    found: dict[str, Returning] = {}
    seen = set[str]()
    for source in pipeline.sources.values():
        for name, function in source.cached(_returning):
            if name in seen:
                found.pop(name, None)
            elif function is not None:
                found[name] = (source, function)
            seen.add(name)
    return found


def _returning(source: Source) -> list[tuple[str, list[ast.Tuple] | None]]:
    return [(node.name, source.once(_tuples_of, node)) for node in source.nodes_of(ast.FunctionDef)]


def _tuples_of(function: ast.FunctionDef) -> list[ast.Tuple] | None:
    """What a function returns, if those are tuples of names that are not only its own parameters."""
    if function.decorator_list:
        return None
    returned = [node.value for node in own_nodes(function) if isinstance(node, ast.Return)]
    tuples = [value for value in returned if isinstance(value, ast.Tuple) and len(value.elts) >= FEWEST_MOVED]
    taken = {each.arg for each in function.args.args}
    are_new = all(any(name and name not in taken for name in _names(each)) for each in tuples)
    return tuples if tuples and len(tuples) == len(returned) and are_new else None


def _names(value: ast.Tuple) -> list[str]:
    return [name_given(each) for each in value.elts]


def _are_swapped(names: Sequence[str], found: Returning) -> bool:
    """Whether the names are those of each tuple, in another order."""
    return all(
        len(each.elts) == len(names) and are_moved(names, _names(each)) and are_moved(_names(each), names)
        for each in found[1]
    )
