"""Data sets of TensorFlow by the calls that make them, and generators for `fit`: in which order, and with which end.

The calls are followed through names, attributes of `self`, and what functions of the same file return and get.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from lintrain.analysis import handed_on, origins
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

Chain = list[ast.Call]
"""The calls of methods that gave what a call is made on, latest first."""

MOST_CALLS = 32
"""Calls in a row that are followed."""

PARTS = frozenset({"take", "skip", "shard"})
"""Methods that divide rows: what they give is kept as it was divided."""

BATCHES = frozenset({"batch", "padded_batch"})


def cached_shuffles(source: Source) -> Iterator[tuple[Location, Location]]:
    """The `cache` calls of data sets that were shuffled before, and are not again: where, and the shuffle."""
    calls = source.cached(_chains)
    shuffled_later = {id(call) for last, chain in calls if _called(last) == "shuffle" for call in chain}
    for last, chain in calls:
        before = list(takewhile(lambda call: _called(call) not in PARTS, chain))
        shuffles = [call for call in before if _called(call) == "shuffle"]
        is_open = _called(last) == "cache" and id(last) not in shuffled_later and len(last.args) < 2
        if is_open and shuffles and not any(keeps_order(call) for call in shuffles):
            yield name_at(source, last), name_at(source, shuffles[0])


def shuffled_batches(source: Source) -> Iterator[tuple[Location, Location]]:
    """The `shuffle` calls of data sets in batches whose rows were never shuffled: where, and the `batch`.

    Rows that are divided into batches once more are sequences of the first division.
    """
    divided = {id(call) for batch in _methods(source, BATCHES) for call in _behind(source, batch)}
    few = (call.func for call in _methods(source, frozenset({"take"})) if _takes_few(call))
    looked_at = {id(method.value) for method in few if isinstance(method, ast.Attribute)}
    for last, chain in source.cached(_chains):
        batches = [call for call in chain if _called(call) in BATCHES and (call.args or call.keywords)]
        others = {_called(call) for call in chain}
        is_shuffle = _called(last) == "shuffle" and len(last.args) + len(last.keywords) > 0
        if (
            is_shuffle
            and batches
            and id(last) not in divided | looked_at
            and not others & {"shuffle", "unbatch", "rebatch", "window"}
            and not _has_all_rows(source, batches[0])
        ):
            yield name_at(source, last), name_at(source, batches[0])


def _has_all_rows(source: Source, batch: ast.Call) -> bool:
    """Whether a batch is as large as the data: `batch(len(rows))`, also by a name."""
    size = batch.args[0] if batch.args else batch.keywords[0].value
    return any(ALL_ROWS.fullmatch(unparse(each.expression)) for each in origins.origins(source, size))


ALL_ROWS = lazy_pattern(r"[\w.]+\.shape\[0\]|len\([\w.]+\)")


MOST_LOOKED_AT = 5


def _takes_few(call: ast.Call) -> bool:
    """Whether a `take` gives a few batches to look at, of which there is no next epoch."""
    given = call.args[0] if len(call.args) == 1 else None
    return isinstance(given, ast.Constant) and isinstance(given.value, int) and 0 < given.value <= MOST_LOOKED_AT


def mixed_parts(source: Source) -> Iterator[tuple[Location, Location]]:
    """The `skip` calls for rows of which another epoch gives some to a `take`: where, and the `shuffle`."""
    kept = [_last_shuffle(source, call) for call in _methods(source, frozenset({"take"}))]
    for call in _methods(source, frozenset({"skip"})):
        shuffle = _last_shuffle(source, call)
        if shuffle is not None and any(each is shuffle for each in kept):
            yield name_at(source, call), name_at(source, shuffle)


def _last_shuffle(source: Source, call: ast.Call) -> ast.Call | None:
    """The shuffle that gives the rows of a call another order in each epoch, with nothing that keeps one after it."""
    for before in _behind(source, call):
        if _called(before) == "cache":
            return None
        if _called(before) == "shuffle":
            return None if keeps_order(before) else before
    return None


KEEP_ROWS = frozenset({"shuffle", "cache", "repeat", "prefetch", "take", "skip", "shard", "with_options"})
"""Methods that give rows as they are."""


def unbatched(source: Source) -> Iterator[tuple[Location, Location]]:
    """The data sets that `fit` and `evaluate` get row by row: where they are given, and where they are made."""
    for call in _methods(source, frozenset({"fit", "evaluate"})):
        for given in [*call.args[:1], *(each.value for each in call.keywords if each.arg in {"x", "validation_data"})]:
            chain = list(made_by(source, given))
            names = [_called(each) for each in chain]
            if names[-1:] != ["from_tensor_slices"] or not KEEP_ROWS.issuperset(names[:-1]):
                continue
            rows = unparse(chain[-1])
            if "[None" not in rows and "expand_dims" not in rows and "newaxis" not in rows:
                yield source.location(given), name_at(source, chain[-1])


def name_at(source: Source, call: ast.Call) -> Location:
    """Where the name of a method is: a chain of calls over many lines starts at the first of them."""
    whole = source.location(call.func)
    return replace(whole, line=whole.end_line, column=whole.end_column - len(_called(call)))


def keeps_order(shuffle: ast.Call) -> bool:
    """Whether a `shuffle` is asked for one order in all epochs, or is none of a data set."""
    return not (shuffle.args or shuffle.keywords) or any(
        each.arg == "reshuffle_each_iteration" for each in shuffle.keywords
    )


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _chains(source: Source) -> list[tuple[ast.Call, Chain]]:
    """Each call of `shuffle` and `cache` with its chain."""
    calls = _methods(source, frozenset({"shuffle", "cache"}))
    return [(call, list(_behind(source, call))) for call in calls]


def _behind(source: Source, call: ast.Call) -> Iterator[ast.Call]:
    """The calls that gave what a method is called on, latest first."""
    return made_by(source, call.func.value) if isinstance(call.func, ast.Attribute) else iter(())


def _methods(source: Source, names: frozenset[str]) -> list[ast.Call]:
    """The calls of methods of these names."""
    return [call for name, call in source.gathered(_methods_called) if name in names]


def _methods_called(statement: ast.stmt) -> list[tuple[str, ast.Call]]:
    """The calls of methods with their names, of those that are asked about here and of others."""
    calls = (each for each in walk(statement) if isinstance(each, ast.Call))
    return [(name, call) for call in calls if (name := _called(call))]


def made_by(source: Source, node: ast.expr) -> Iterator[ast.Call]:
    """The calls that give what an expression stands for, latest first: methods, and the function that made it."""
    for _ in range(MOST_CALLS):
        match node:
            case ast.Call(func=function):
                behind = handed_on.returned(source, node)
                if behind is None:
                    yield node
                    behind = function.value if isinstance(function, ast.Attribute) else None
            case ast.Name() | ast.Attribute():
                behind = handed_on.given_to(source, node)
            case _:
                return
        if behind is None:
            return
        node = behind


@dataclass(frozen=True, slots=True)
class Endless:
    """Data without an end that `fit` gets: the argument, the call, and what makes it endless."""

    location: Location
    argument: str
    made: Location
    missing: str


STEPS = {"x": "steps_per_epoch", "validation_data": "validation_steps"}
"""The arguments of `fit` for rows, with the argument that says how many batches an epoch has."""

OF_KERAS = frozenset({"epochs", "validation_data", "callbacks", "steps_per_epoch", "verbose", "nb_epoch"})
"""Arguments by which a `fit` is known to be that of Keras."""


def endless_epochs(source: Source) -> Iterator[Endless]:
    """The data sets and generators without an end that a `fit` gets without a number of batches."""
    for call in source.nodes_of(ast.Call):
        keywords = {each.arg: each.value for each in call.keywords}
        if _called(call) not in {"fit", "fit_generator"} or None in keywords:
            continue
        is_of_keras = not OF_KERAS.isdisjoint(keywords)
        first = call.args[0] if call.args else keywords.get("x", keywords.get("generator"))
        for argument, given in (("x", first), ("validation_data", keywords.get("validation_data"))):
            is_counted = given is None or STEPS[argument] in keywords or len(call.args) > 2
            made = None if is_counted or given is None else _endless(source, given, is_of_keras)
            if made is not None and given is not None:
                yield Endless(source.location(given), argument, made, STEPS[argument])


def _endless(source: Source, given: ast.expr, is_of_keras: bool) -> Location | None:
    """What makes rows endless: `repeat()`, of which nothing is taken, or `while True` around a `yield`."""
    for call in made_by(source, given):
        if _called(call) == "take":
            return None
        if _called(call) == "repeat" and _is_without_count(call):
            return name_at(source, call)
    called = given if is_of_keras else ast.Constant(None)
    for _ in range(2):
        if isinstance(called, ast.Name):
            called = handed_on.given_to(source, called) or called
    functions = handed_on.functions_of(source, _plain_name(called))
    if len(functions) == 1:
        return next((source.location(node) for node in functions[0].body if _yields_forever(node)), None)
    return None


def _plain_name(node: ast.expr) -> str:
    """The name of the function that an expression calls; empty for other expressions."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _is_without_count(call: ast.Call) -> bool:
    given = [*call.args, *(each.value for each in call.keywords)]
    return not given or (len(given) == 1 and unparse(given[0]) in {"-1", "None"})


def _yields_forever(node: ast.stmt) -> bool:
    if not isinstance(node, ast.While) or unparse(node.test) not in {"True", "1"}:
        return False
    inside = list(walk(node))
    leaves = any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in inside)
    return not leaves and any(isinstance(each, ast.Yield | ast.YieldFrom) for each in inside)


PARTS_OF_RUN = lazy_pattern(r"epoch|step|repeat|cycle|count|times|iter", re.IGNORECASE)
"""Names of code that goes through its rows more than once, or divides them among epochs."""


def ended_generators(source: Source) -> Iterator[tuple[Location, Location]]:
    """The generators that go through their rows once and feed several epochs of a `fit`: where, and their loop."""
    for call in source.nodes_of(ast.Call):
        keywords = {each.arg: each.value for each in call.keywords}
        epochs = keywords.get("epochs", keywords.get("nb_epoch"))
        first = call.args[0] if call.args else keywords.get("x", keywords.get("generator"))
        if _called(call) not in {"fit", "fit_generator"} or epochs is None or unparse(epochs) in {"1", "None"}:
            continue
        made = handed_on.given_to(source, first) if isinstance(first, ast.Name) else first
        functions = handed_on.functions_of(source, _plain_name(made)) if made is not None else []
        if first is None or not isinstance(made, ast.Call) or len(functions) != 1 or not _takes_all_rows(keywords):
            continue
        loop = _only_pass(source, functions[0], made)
        if loop is not None:
            yield source.location(first), source.location(loop)


def _takes_all_rows(keywords: dict[str | None, ast.expr]) -> bool:
    """Whether an epoch has all batches of the rows, as far as the arguments of `fit` say."""
    steps = keywords.get("steps_per_epoch", keywords.get("samples_per_epoch"))
    code = unparse(steps) if steps is not None else ""
    return steps is None or (_tells_size(code) and not PARTS_OF_RUN.search(code))


def _tells_size(code: str) -> bool:
    return "len(" in code or ".shape" in code


def _only_pass(source: Source, function: ast.FunctionDef, made: ast.Call) -> ast.For | None:
    """The loop over all rows that holds every `yield` of a generator; None if it may start again or never ends."""
    inside = list(walk(function))
    loops = [each for each in function.body if isinstance(each, ast.For)]
    yields = [each for each in inside if isinstance(each, ast.Yield)]
    around = [loop for loop in loops if all(each in set(walk(loop)) for each in yields)]
    if function.decorator_list or not yields or any(isinstance(each, ast.While | ast.YieldFrom) for each in inside):
        return None
    return around[0] if len(around) == 1 and _ends_with_rows(source, around[0].iter, function, made) else None


def _ends_with_rows(source: Source, rows: ast.expr, function: ast.FunctionDef, made: ast.Call) -> bool:
    """Whether a loop counts rows, or goes through arguments of the generator that have a size."""
    code = unparse(rows)
    if PARTS_OF_RUN.search(code):
        return False
    if isinstance(rows, ast.Call) and _plain_name(rows) == "range":
        return _tells_size(code)
    given = dict(zip((each.arg for each in function.args.args), made.args, strict=False))
    parts = rows.args if isinstance(rows, ast.Call) and _plain_name(rows) in {"zip", "enumerate"} else [rows]
    passed = [given.get(each.id) if isinstance(each, ast.Name) else None for each in parts]
    names = [unparse(each) for each in passed if isinstance(each, ast.Name)]
    return len(names) == len(parts) and any(
        f"{name}.shape" in source.text or f"len({name})" in source.text for name in names
    )


STEPS_OF_DATA = frozenset(
    {"batch", "cache", "filter", "map", "padded_batch", "prefetch", "repeat", "shuffle", "unbatch"}
)
"""Methods of a data set of TensorFlow that return another one."""

OF_STEPS = frozenset({"num_parallel_calls", "reshuffle_each_iteration", "drop_remainder"})
"""Arguments that only methods of a data set of TensorFlow take."""

MAKES_DATA = lazy_pattern(r"tf\.data\.|(?:^|\.)Dataset\.|_dataset_from_(?:directory|array)$|(?:^|\.)TFRecordDataset$")


def dropped_steps(source: Source) -> list[tuple[Location, str, str]]:
    """The steps of data sets of TensorFlow that a statement drops: where, the method, and the code of the data set."""
    return source.cached(_dropped_steps)


def _dropped_steps(source: Source) -> list[tuple[Location, str, str]]:
    found = list[tuple[Location, str, str]]()
    is_used = "tensorflow" in source.text or "tf." in source.text
    statements = source.nodes_of(ast.Expr) if is_used else ()
    for node in statements:
        match node.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as owner, attr=method)) as call if (
                method in STEPS_OF_DATA and (call.args or call.keywords or method in {"cache", "repeat", "unbatch"})
            ):
                makers = [unparse(each.func) for each in made_by(source, owner)]
                made = any(map(MAKES_DATA.search, makers))
                # A class of others may have methods of these names that change its object.
                is_other = not made and any(maker.rpartition(".")[2][:1].isupper() for maker in makers)
                made = made or any(each.arg in OF_STEPS for each in call.keywords)
                if (
                    not is_other
                    and (made or _is_replaced(source, name, method))
                    and not source.is_displayed(source.location(node))
                ):
                    found.append((name_at(source, call), method, name))
            case _:
                pass
    return found


def _is_replaced(source: Source, name: str, method: str) -> bool:
    """Whether other code of the file gives a name the result of such a method: `rows = rows.batch(32)`."""
    other = "|".join(sorted(STEPS_OF_DATA - {method, "filter"}))
    has_data = source.contains(r"tf\.data\b|tensorflow\.data\b|_dataset_from_directory")
    return has_data and source.contains(rf"(?m)^\s*{name} = {name}\.(?:{other})\(")


def history_keys(source: Source) -> Iterator[tuple[Location, str]]:
    """The keys by which a script reads what `fit` has recorded: `history.history["loss"]`."""
    for node in source.nodes_of(ast.Subscript) if ".history[" in source.text else ():
        match node:
            case ast.Subscript(value=ast.Attribute(attr="history"), slice=ast.Constant(value=str() as key)):
                yield source.location(node), key
            case _:
                pass


def counted_rows(source: Source) -> Iterator[tuple[Location, str]]:
    """The `steps_per_epoch` that is the number of rows of a generator: where, and the code of the generator."""
    for call in source.nodes_of(ast.Call):
        given = {each.arg: each.value for each in call.keywords}
        first = (
            unparse(call.args[0]) if call.args else unparse(given.get("x", given.get("generator", ast.Constant(""))))
        )
        for name in STEPS.values():
            match given.get(name):
                case ast.Attribute(value=owner, attr="samples" | "n") as steps if unparse(owner) == first or (
                    unparse(given.get("validation_data", ast.Constant(""))) == unparse(owner)
                ):
                    yield source.location(steps), unparse(owner)
                case _:
                    pass
