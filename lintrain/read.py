"""From a script's syntax tree to its Pipeline, by abstract interpretation, without running anything."""

from __future__ import annotations

import ast
import os.path
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lintrain.interpreter import expressions, functions, load_language, objects
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.keeper import Keeper, kept_from_edit_to_edit
from lintrain.interpreter.core.latest_readings import LatestReadings
from lintrain.interpreter.core.project_state import DEFINING_BUDGET, UNCALLED_BUDGET, Modules
from lintrain.interpreter.core.reader import BudgetSpentError, Frame, Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.invocation import run_function
from lintrain.libraries import load_libraries
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline, Returned
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.certainty import Default, recorded_defaults
from lintrain.pipeline.values.loading import Settings
from lintrain.pipeline.values.python import UNKNOWN, Class, Constant, Function, Library, Unknown, Value, join
from lintrain.source.nodes import own_nodes, walk
from lintrain.source.project import Project
from lintrain.source.source import Source
from lintrain.source.training_syntax import runs_itself
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.knowledge.versions import TargetVersions


MOST_READINGS = 3
"""How often a script is read once more, each time without another option."""

MOST_STEPS_TO_READ_AGAIN = 60_000
"""A script that took more steps is not read again: a quarter of its budget."""

METHOD = lazy_pattern(r"\.(?:(?<=self\.)|(?<=cls\.))(\w+)")
"""A method that a method calls; a pattern that begins with a fixed character takes a third of the time."""

BUILDS = lazy_pattern(r"_*(setup|build|init|prepare|create|make)")
"""Names of methods that make what other methods use."""


def load() -> None:
    """Load everything that a reading needs: the language, then the libraries."""
    load_language()
    load_libraries()


def read_pipeline(
    source: Source,
    targets: TargetVersions,
    project: Project | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
    *,
    keeps: bool = True,
) -> Pipeline:
    """Read what a script builds and does, its project's modules too; raises SyntaxError if it does not parse.

    `check_cancelled` is called every some hundred steps, and may raise to end the reading. `keeps` if the readings of
    functions of a file that is being edited are taken over from edit to edit.
    """
    load()
    record = Pipeline(source, targets)
    reader = Reader(record, check_cancelled=check_cancelled, modules=Modules(project))
    reader.latest = LatestReadings.of(source, targets) if keeps else None
    names = {"__name__": Constant("__main__"), "__file__": _file_name(source)}
    module = Scope(
        names={name: reader.latest.shared(name, value) if reader.latest else value for name, value in names.items()}
    )
    record.circles.add(module)
    reader.modules.add_script(source.path, module)
    if not runs_itself(source):
        reader.modules.leave(DEFINING_BUDGET)
    reader.enter(Frame(None, module))
    try:
        dispatch.execute_block(reader, source.tree.body, module)
        with kept_from_edit_to_edit(reader) as keeper:
            _read_uncalled(reader, keeper)
    except (BudgetSpentError, RecursionError):
        record.is_exhausted = True
    except BaseException:
        record.circles.end()
        raise
    if record.chosen and reader.steps <= MOST_STEPS_TO_READ_AGAIN:
        record.read_without = _again(source, targets, project, check_cancelled)
    return record


def _again(
    source: Source, targets: TargetVersions, project: Project | None, check_cancelled: Callable[[], None]
) -> Callable[[Default], Pipeline | None]:
    """Reads a script once more while one of its options is unknown, for each option at most once."""
    known: dict[Default, Pipeline | None] = {}

    def read_without(option: Default) -> Pipeline | None:
        if option not in known and len(known) < MOST_READINGS:
            with recorded_defaults(option):
                read = read_pipeline(source, targets, project, check_cancelled, keeps=False)
            known[option] = None if read.is_exhausted else read
        return known.get(option)

    return read_without


def _file_name(source: Source) -> Value:
    """`__file__`, which a notebook does not have."""
    return UNKNOWN if source.notebook or not source.path.endswith(".py") else Constant(os.path.abspath(source.path))  # noqa: PTH100


def _read_uncalled(reader: Reader, keeper: Keeper | None) -> None:
    """Read the functions that the file defines and does not call, with parameters that are not known.

    Those that nothing in the file mentions come first, and among them those that create what the others use: what they
    call is read at the call.
    """
    reader.uncalled = True
    reader.modules.leave(UNCALLED_BUDGET)
    _adopt_methods(reader)
    text = reader.record.source.text
    methods = set(METHOD.findall(text)) if any(owner is not None for _, owner in reader.defined) else set[str]()
    first = [
        (function, owner)
        for function, owner in reader.defined
        if (function.name not in methods if owner else _is_named_once(text, function.name))
    ]
    # Order matters: `build_model` sets attributes that `train` reads, and what was read as a call from
    # there is not read again alone, with parameters that are not known.
    _read_all(reader, keeper, sorted(first, key=lambda each: BUILDS.match(each[0].name) is None))
    # Reading a function may define others.
    while reader.defined:
        waiting, reader.defined = reader.defined, []
        _read_all(reader, keeper, waiting)


def _adopt_methods(reader: Reader) -> None:
    """Give the methods of a piece of a script, which were pasted without their class, one by what they are called."""
    source = reader.record.source
    if not source.is_partial:
        return
    methods = [
        function
        for function, owner in reader.defined
        if owner is None and isinstance(function.node, ast.FunctionDef) and _first_parameter(function) == "self"
    ]
    names = {function.name for function in methods}
    base = next((path for path, known in OWNERS.items() if not known.isdisjoint(names)), None)
    if base is None:
        return
    body: list[ast.stmt] = [function.node for function in methods if isinstance(function.node, ast.FunctionDef)]
    node = ast.copy_location(ast.ClassDef("Module", [], [], body, []), body[0])
    owner = Class(node, [Library(base)], {function.name: function for function in methods}, origin=methods[0].origin)
    adopted = {id(function) for function in methods}
    reader.defined = [(function, owner if id(function) in adopted else of) for function, of in reader.defined]


OWNERS = {
    "lightning.LightningModule": frozenset({"configure_optimizers", "training_step", "validation_step"}),
    "torch.nn.Module": frozenset({"forward"}),
}
"""The base class of a class that has a method of one of these names."""


def _first_parameter(function: Function) -> str:
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    return parameters[0].arg if parameters else ""


def _is_named_once(text: str, name: str) -> bool:
    """Whether a text contains a name once, other than as an attribute."""
    found, at = 0, text.find(name)
    while at >= 0 and found < 2:
        end = at + len(name)
        before, after = text[at - 1 : at], text[end : end + 1]
        found += not (before.isalnum() or before in {"_", "."} or after.isalnum() or after == "_")
        at = text.find(name, end)
    return found == 1


def _read_all(reader: Reader, keeper: Keeper | None, functions: Iterable[tuple[Function, Class | None]]) -> None:
    for function, owner in functions:
        if function.node not in reader.visited:
            reader.readings += 1
            reader.reading = reader.readings
            if owner is None and keeper is not None:
                keeper.read(function, partial(_read_alone, reader, function, None))
                continue
            value = _read_alone(reader, function, owner)
            if owner is not None:
                reader.record.returned.append(Returned(owner, function, value))


def _read_alone(reader: Reader, function: Function, owner: Class | None) -> Value:
    """What a function that the file does not call returns: parameters are unknown, defaults may be overruled."""
    location = function.origin or reader.source.location(reader.source.tree.body[0])
    node = function.node
    # Its callers may give `*args` and `**kwargs` anything.
    is_open = node.args.vararg is not None or node.args.kwarg is not None
    call = Call(reader, None, location, is_open=is_open)
    names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    receiver = _receiver(reader, owner, function, location) if owner is not None and names else None
    if function.node in reader.visited and function.name == "__init__":
        return Constant(None)
    for name in names[1:] if receiver is not None else names:
        default = function.defaults.get(name)
        # A literal is likely what the function runs with, but a caller elsewhere may give another: it
        # counts as a default.
        value = (
            functions.parameter_default(name, default)
            if isinstance(default, Constant | Settings)
            else Unknown(name=name)
        )
        if name in function.defaults or expressions.MODEL.fullmatch(name) is None:
            call.keywords[name] = Argument(value, location)
        else:
            # The network of a piece of a script is what its functions get as `model`.
            network = expressions.assumed_network(reader, name, reader.frames[0].scope)
            call.keywords[name] = Argument(network or value, location)
    with _as_at_any_time(reader, function):
        return run_function(call, function, receiver, owner)


@contextmanager
def _as_at_any_time(reader: Reader, function: Function) -> Generator[None]:
    """While a function is read that may be called at any time: its settings have each value that they are given later.

    In `classes = 2; def build(): …; classes = 10` it may be called before the last line.
    """
    names, kept = reader.frames[0].scope.names, dict[str, Value]()
    rebound = reader.source.cached(_rebound_settings) if function.source is None else {}
    read = {each.id for each in walk(function.node) if isinstance(each, ast.Name)} if rebound else set[str]()
    for name in rebound.keys() & read:
        before = [each for each in rebound[name] if each.lineno < function.node.lineno]
        later = rebound[name][len(before) :]
        if later and name in names:
            kept[name] = names[name]
            names[name] = join(
                dispatch.evaluate(reader, each, reader.frames[0].scope) for each in (*before[-1:], *later)
            )
    try:
        yield
    finally:
        if kept:
            names.update(kept)


def _rebound_settings(source: Source) -> dict[str, list[ast.Constant]]:
    """The names of a script that are given several literals one after the other, and nothing else."""
    given = dict[str, list[ast.expr]]()
    for node in own_nodes(source.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    given.setdefault(target.id, []).append(node.value)
    literals = {name: [each for each in values if isinstance(each, ast.Constant)] for name, values in given.items()}
    if all(len(values) < 2 for values in literals.values()):
        return {}
    bound = Counter(
        each.id
        for each in source.nodes_of(ast.Name)
        if isinstance(each.ctx, ast.Store) and len(given.get(each.id, ())) > 1
    )
    return {name: values for name, values in literals.items() if len(values) == bound[name] > 1}


def _receiver(reader: Reader, owner: Class, function: Function, location: Location) -> Value | None:
    """What a method gets as its first argument: an object of the class, made with arguments that are not known."""
    kinds = {functions.path_of(decorator) for decorator in function.decorators}
    if kinds & {"builtins.staticmethod", "builtins.classmethod"}:
        return owner if "builtins.classmethod" in kinds else None
    if owner.node not in reader.instances:
        call = Call(reader, None, location, receiver=owner, keywords=_defaults(owner, location), is_open=True)
        objects.make_instance(call, owner)
    return reader.instances[owner.node]


def _defaults(owner: Class, location: Location) -> dict[str, Argument]:
    """The defaults of a constructor, as those of a function that nothing calls; all else is unknown."""
    found = owner.lookup("__init__")
    defaults = found[1].defaults if found is not None and isinstance(found[1], Function) else {}
    return {
        name: Argument(functions.parameter_default(name, default), location)
        for name, default in defaults.items()
        if isinstance(default, Constant | Settings)
    }
