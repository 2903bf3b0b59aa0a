"""Searches of many runs for the best settings, as a script starts them: optuna, Trainer, Ray Tune, sweeps, grids."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OF_LIBRARIES = {
    "optimize": ("optuna", ("n_trials",), 1),
    "hyperparameter_search": ("", ("n_trials",), 2),
    "run": ("ray", ("num_samples",), None),
    "TuneConfig": ("ray", ("num_samples",), None),
    "agent": ("wandb", ("count",), 3),
    "RandomSearch": ("keras_tuner", ("max_trials",), 2),
    "BayesianOptimization": ("keras_tuner", ("max_trials",), 2),
    "RandomizedSearchCV": ("sklearn", ("n_iter",), 2),
}
"""By the name of what is called: the library that the script imports, its arguments with a number of runs, and where
that is among those without a name.
"""
GRID = "GridSearchCV"
SCORES = frozenset({"evaluate", "fit", "predict", "score", "test", "train_and_evaluate"})
BOUNDS = ("timeout", "time_budget_s", "time_budget")
"""Arguments that end a search before its runs are through."""
BASELINES = lazy_pattern(
    r"(?i)(?<!search-before-)baseline|Dummy(Classifier|Regressor)|majority|most_frequent|enqueue_trial|FixedTrial|add_trial"
    r"|load_if_exists|chance[ _]level|random[ _]guess"
)
"""What a script that knows what to compare with has in its text, or one that goes on with an earlier search."""

TRAINS = lazy_pattern(r"(?i)train|fit|run|eval")
"""Names of functions that train a network and score it."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search: where it begins, what is called, and its number of runs."""

    location: Location
    called: str
    runs: int


def searches(source: Source) -> tuple[Search, ...]:
    """Those whose number of runs is in the text."""
    return source.cached(_searches)


def knows_baseline(source: Source) -> bool:
    """Whether the text names a score to compare with."""
    return source.contains(BASELINES)


def scores_before(source: Source, search: Search) -> bool:
    """Whether the script trains or evaluates by a library before a search begins, and not only in its runs."""
    line = search.location.line
    others = [each for each in source.nodes_of(ast.FunctionDef) if not _holds(each, line)]
    calls = [call for call in source.nodes_of(ast.Call) if call.lineno < line and _name_of(call.func) in SCORES]
    return any(not any(_holds(function, call.lineno) for function in others) for call in calls)


def is_one_of_several(source: Source, search: Search) -> bool:
    """Whether a script trains once too, by what its search calls again and again, or another file calls the search."""
    functions: Sequence[ast.FunctionDef] = source.nodes_of(ast.FunctionDef)
    named = {node.id for node in source.nodes_of(ast.Name)}
    outer = [each for each in functions if each in source.tree.body and _holds(each, search.location.line)]
    if any(each.name not in named for each in outer):
        return True
    begun = next(call for call in source.nodes_of(ast.Call) if source.location(call) == search.location)
    given = {each.id for each in (*begun.args, *(item.value for item in begun.keywords)) if isinstance(each, ast.Name)}
    objectives = [each for each in functions if each.name in given]
    calls = [(_name_of(call.func), call.lineno) for call in source.nodes_of(ast.Call)]
    inside = {name for name, line in calls if TRAINS.search(name) and any(_holds(each, line) for each in objectives)}
    return any(name in inside and not any(_holds(each, line) for each in objectives) for name, line in calls)


def _holds(function: ast.FunctionDef, line: int) -> bool:
    return function.lineno <= line <= (function.end_lineno or function.lineno)


def _searches(source: Source) -> tuple[Search, ...]:
    imported = _imported(source)
    found = (_search(source, call, imported) for call in source.gathered(_calls_of_searches))
    return tuple(search for search in found if search is not None)


def _calls_of_searches(statement: ast.stmt) -> list[ast.Call]:
    calls = (each for each in walk(statement) if isinstance(each, ast.Call))
    return [each for each in calls if (name := _name_of(each.func)) == GRID or name in OF_LIBRARIES]


def _search(source: Source, call: ast.Call, imported: frozenset[str]) -> Search | None:
    name = _name_of(call.func)
    if name == GRID and "sklearn" in imported:
        runs = _size_of_grid(call)
    elif name in OF_LIBRARIES:
        library, arguments, position = OF_LIBRARIES[name]
        runs = _runs(source, call, arguments, position) if not library or library in imported else None
    else:
        return None
    if runs is None or any(each.arg in BOUNDS and not _is_none(each.value) for each in call.keywords):
        return None
    return Search(source.location(call), name, runs)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _runs(source: Source, call: ast.Call, arguments: Sequence[str], position: int | None) -> int | None:
    given = next((each.value for each in call.keywords if each.arg in arguments), None)
    if given is None and position is not None and len(call.args) > position:
        given = call.args[position]
    return _number(source, given) if given is not None else None


def _number(source: Source, value: ast.expr) -> int | None:
    """A number in the text, or that of a name which is bound once."""
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return value.value
    if not isinstance(value, ast.Name):
        return None
    bound = [node.value for node in source.nodes_of(ast.Assign) for target in node.targets if _is(target, value.id)]
    stores = [node for node in source.nodes_of(ast.Name) if node.id == value.id and isinstance(node.ctx, ast.Store)]
    (only,) = bound if len(bound) == len(stores) == 1 else (None,)
    return only.value if isinstance(only, ast.Constant) and type(only.value) is int else None


def _is(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _size_of_grid(call: ast.Call) -> int | None:
    """How many combinations a dictionary of lists has."""
    grid = next((each.value for each in call.keywords if each.arg == "param_grid"), None)
    grid = grid or (call.args[1] if len(call.args) > 1 else None)
    if not isinstance(grid, ast.Dict) or not all(isinstance(each, ast.List | ast.Tuple) for each in grid.values):
        return None
    return math.prod(len(each.elts) for each in grid.values if isinstance(each, ast.List | ast.Tuple))


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _imported(source: Source) -> frozenset[str]:
    return frozenset(_modules(source))


def _modules(source: Source) -> Iterator[str]:
    for node in source.nodes_of(ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    for each in source.nodes_of(ast.ImportFrom):
        yield (each.module or "").partition(".")[0]
