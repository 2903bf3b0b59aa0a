"""Questions about data loaders: which of them feed a training loop, what they read, and whether it is used."""

from __future__ import annotations

import ast
import re
from collections import abc
from collections.abc import Iterator

from lintrain.analysis.training_loops import TrainingLoop, training_loops, words_of
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Batch, Loader, TorchDataset
from lintrain.pipeline.values.python import Absent, Constant, Either, Instance, Mapping, Sequence, Value, is_missing
from lintrain.source import places
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

STREAM = "torch.utils.data.IterableDataset"
MAP_STYLE = "torch.utils.data.Dataset"


NOT_FOR_TRAINING = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev", "pred", "infer"})

PHASES = lazy_pattern(r"^[\[(]['\"]train(?:ing)?['\"]")

MENTIONS_OVERFITTING = lazy_pattern(
    r"overfit(?!t)|overfit_|memori[sz]e"
    r"|(?<!num_)(?<!validation )(?<!step )sanity(?!_checking|[ _-]val| checks? before)",
    re.IGNORECASE,
)
MENTIONS_TEST_RUN = lazy_pattern(
    r"debug|smoke|dry.?run|\btoy\b|dummy|quick (test|check)|on purpose|intentional|train(ing)?[ _-]acc",
    re.IGNORECASE,
)
"""Words for runs that overfit a few rows on purpose, or only test the code."""


DIVIDES_ROWS = lazy_pattern(
    r"(?i)worker|get_rank|world_size|\brank\b|shard|islice|rand|shuffle|sample|choice|queue|socket|\bdist\b|"
    r"webdataset|wds"
)
"""Names in classes that divide their rows among the workers, or sample them."""

READING = frozenset({"open", "range", "iter", "enumerate", "zip", "len", "int", "float", "str", "list"})
"""Functions that return the same in each worker."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """A loader over whose batches a training loop iterates: `loop` is the loop over the batches."""

    training: TrainingLoop
    loop: Loop
    loader: Loader

    @property
    def is_repeated(self) -> bool:
        """Whether the loop over the batches is certainly inside another one: there are several epochs."""
        around = self.training.backward.loops
        outer = (each for each in around[: around.index(self.loop)] if not each.runs_once)
        return any(not self._starts_again_in(each) for each in outer)

    def _starts_again_in(self, loop: Loop) -> bool:
        """Whether each iteration of a loop makes an optimizer: it is another training, and no epoch."""
        made = (step.subject.origin for step in self.training.steps)
        return any(origin is not None and loop.location.holds(origin) for origin in made)


def feedings(pipeline: Pipeline) -> Iterator[Feeding]:
    """Each loader that certainly feeds a loop in which an optimizer steps."""
    for training in training_loops(pipeline):
        for loop in training.backward.loops:
            loaders = list(loaders_in(loop.each))
            if len(loaders) == 1 and _is_applied(pipeline, training, loop):
                yield Feeding(training, loop, loaders[0])


def _is_applied(pipeline: Pipeline, training: TrainingLoop, loop: Loop) -> bool:
    """Whether a step follows the backward calls of a loop: gradients for an attack are cleared before the next step."""
    inside = pipeline.events_in(loop)
    if any(event.act is Act.STEP for event in inside):
        return True
    ends = {Act.STEP, Act.ZERO_GRAD}
    around = [event for event in training.inside if event.act in ends and loop not in event.loops]
    after = [event for event in around if event.order > training.backward.order]
    return bool(after or around) and (after or around)[0].act is Act.STEP


def is_named_for_training(pipeline: Pipeline, loader: Loader) -> bool:
    """Whether the names of a loader, or of its data set, show that it is the one to train with."""
    names = {binding.name for binding in pipeline.names_of(loader)}
    code = pipeline.code(loader.dataset_location) if loader.dataset_location else ""
    if OTHER_SPLIT.search(code) or _is_only_evaluated(pipeline.source, names):
        return False
    words = frozenset[str]().union(*(words_of(name) for name in (*names, code)))
    if words & {"train", "training"}:
        return not words & NOT_FOR_TRAINING
    return not words & NOT_FOR_TRAINING and _is_made_for_phases(pipeline, loader)


def is_of_train_method(pipeline: Pipeline, loader: Loader) -> bool:
    """Whether a method of Lightning returns a loader to train with: `train_dataloader`."""
    scope = blocks.scope_of(pipeline, loader.origin) if loader.origin is not None else None
    if not isinstance(scope, ast.FunctionDef) or scope.name != "train_dataloader" or loader.origin is None:
        return False
    source = pipeline.source_of(loader.origin)
    around = (node for node in source.nodes_of(ast.ClassDef) if scope in node.body)
    return any(
        unparse(base).endswith(("LightningDataModule", "LightningModule")) for node in around for base in node.bases
    )


OTHER_SPLIT = lazy_pattern(r"\btrain\s*=\s*False\b")


def _is_only_evaluated(source: Source, names: set[str]) -> bool:
    """Whether code hands a loader to functions, and the names of all of them show that they evaluate."""
    calls = [
        words_of(unparse(call.func))
        for call in source.nodes_of(ast.Call)
        for given in (*call.args, *(keyword.value for keyword in call.keywords))
        if isinstance(given, ast.Name) and given.id in names
    ]
    return bool(calls) and all(words & (NOT_FOR_TRAINING | {"evaluate", "validate"}) for words in calls)


def _is_made_for_phases(pipeline: Pipeline, loader: Loader) -> bool:
    """Whether one call makes the loaders of all phases: `{x: DataLoader(sets[x]) for x in ["train", "val"]}`."""
    location = loader.origin
    statement = blocks.statement_at(pipeline, location) if location is not None else None
    found = (node for node in walk(statement) if isinstance(node, ast.DictComp | ast.ListComp)) if statement else ()
    phases = (unparse(each.iter) for node in found for each in node.generators)
    return any(PHASES.search(text) for text in phases)


def loaders_in(each: Value) -> Iterator[Loader]:
    """The loaders whose batches a loop's element contains in any case: alone, or in a tuple with an index."""
    match each:
        case Either(options=options):
            first, *others = (tuple(loaders_in(option)) for option in options)
            yield from (loader for loader in first if all(loader in other for other in others))
        case Batch(loader=Loader() as loader):
            yield loader
        case Sequence(items=items):
            for item in items[:4]:
                yield from loaders_in(item)
        case _:
            return


def is_stream(value: Value) -> bool:
    """Whether a data set is certainly iterable only, without access by index."""
    match value:
        case Dataset(is_streaming=is_streaming):
            return is_streaming
        case Instance(cls=cls):
            return STREAM in cls.library_bases
        case Either(options=options):
            return all(is_stream(option) for option in options)
        case _:
            return False


def is_map_style(value: Value) -> bool:
    """Whether a data set certainly returns its rows by index."""
    match value:
        case Dataset(is_streaming=is_streaming, may_differ=may_differ):
            return not is_streaming and not may_differ
        case Instance(cls=cls):
            return MAP_STYLE in cls.library_bases and STREAM not in cls.library_bases and not cls.has_unknown_base
        case TorchDataset(path=path):
            return path.startswith(("torch.", "torchvision."))
        case Sequence(kind=kind):
            return kind == "list"
        case Either(options=options):
            made = [option for option in options if not is_missing(option)]  # None is no data set
            return bool(made) and all(is_map_style(option) for option in made)
        case _:
            return False


def is_deliberate(pipeline: Pipeline, location: Location) -> bool:
    """Whether the script mentions overfitting on purpose, or a test run next to a location."""
    source = pipeline.source_of(location)
    near = "\n".join(source.lines[max(0, location.line - 4) : location.end_line])
    # What another module of the project mentions (`# Lightning's sanity check`) says nothing about this run.
    return (
        any(each.contains(MENTIONS_OVERFITTING) for each in (pipeline.source, source))
        or MENTIONS_TEST_RUN.search(near) is not None
    )


def expects_error(pipeline: Pipeline, location: Location) -> bool:
    """Whether code is in a `try`, or in a `with` that expects an error."""
    return any(guard.holds(location) for guard in pipeline.source_of(location).cached(_guards))


def is_decided_by(pipeline: Pipeline, location: Location, name: str) -> bool:
    """Whether an `if` around a location, or an expression there, asks for a name: `if sampler is None`."""
    source = pipeline.source_of(location)
    nodes: list[ast.If | ast.IfExp] = [*source.nodes_of(ast.If), *source.nodes_of(ast.IfExp)]
    tests = [node.test for node in nodes if source.location(node).holds(location)]
    return any(isinstance(part, ast.Name) and part.id == name for test in tests for part in walk(test))


def _guards(source: Source) -> tuple[Location, ...]:
    """The `try` and `with` statements of a file that expect an error."""
    kinds = (ast.With, ast.Try) if "raises" in source.text.lower() else (ast.Try,)
    nodes: abc.Sequence[ast.With | ast.Try] = source.nodes_of(*kinds)
    return tuple(source.location(node) for node in nodes if _expects(node))


def _expects(node: ast.With | ast.Try) -> bool:
    if isinstance(node, ast.Try):
        return bool(node.handlers)
    return any("raises" in unparse(item).lower() for item in node.items)


@dataclass(frozen=True, slots=True)
class UnusedBatch:
    """A loop that trains on the same tensors in each iteration: what it iterates over is never read."""

    loop: Loop
    forward: Event
    names: tuple[str, ...]
    """What the loop binds in each iteration."""
    given: tuple[str, ...]
    """What the model gets instead."""


COUNTERS = frozenset({"epoch", "epochs", "step", "steps", "iteration", "it", "idx", "index", "trial", "run", "repeat"})
REPEATS = lazy_pattern(r"\b(?:range|arange|count|repeat|cycle)\(|\bwhile\b")
"""Loops that repeat something, and do not iterate over rows."""


def unused_batches(pipeline: Pipeline) -> Iterator[UnusedBatch]:
    """The training loops that bind a batch, read none of it, and give the model names that nothing in them changes."""
    for training in training_loops(pipeline):
        loop = training.backward.loops[-1]
        node = pipeline.source.cached(_loops).get(loop.location)
        if node is None or REPEATS.search(loop.header):
            continue
        names = _batch_names(node.target)
        used = {each.id for statement in node.body for each in walk(statement) if isinstance(each, ast.Name)}
        if not names or used & (_bound_names(node.target) - COUNTERS):
            continue
        forwards = [event for event in training.inside if event.act is Act.FORWARD and event.loops[-1] is loop]
        found = [
            (event, _fixed_names(pipeline, event, node)) for event in forwards if event.order < training.backward.order
        ]
        if found and all(given for _, given in found):
            yield UnusedBatch(loop, found[0][0], names, found[0][1])


def _loops(source: Source) -> dict[Location, ast.For]:
    return {source.location(node): node for node in source.nodes_of(ast.For)}


def _batch_names(target: ast.expr) -> tuple[str, ...]:
    """The names that a loop binds to parts of a batch, without its counters."""
    match target:
        case ast.Tuple(elts=[ast.Name(), ast.Tuple() | ast.List() as batch]):
            return _batch_names(batch)
        case _:
            names = [each.id for each in walk(target) if isinstance(each, ast.Name)]
            return tuple(name for name in names if len(name) > 1 and name[0] != "_" and name not in COUNTERS)


def _bound_names(target: ast.expr) -> set[str]:
    """All names that a loop binds, those of one letter too."""
    return {each.id for each in walk(target) if isinstance(each, ast.Name)}


def _fixed_names(pipeline: Pipeline, forward: Event, loop: ast.For) -> tuple[str, ...]:
    """The arguments of a pass, if all of them are names or attributes that nothing in the loop binds or writes to."""
    call = places.call_at(pipeline.source, forward.location)
    given = [_unmoved(each) for each in call.args] if call is not None and not call.keywords else [None]
    names = tuple(unparse(each) for each in given if each is not None)
    if len(names) < len(given):
        return ()
    body = "\n".join(unparse(statement) for statement in loop.body)
    stored = {unparse(node) for node in walk(loop) if isinstance(getattr(node, "ctx", None), ast.Store)}
    # A method that is not seen here may load a batch into an attribute.
    attributes = [name for name in names if "." in name]
    may_load = bool(attributes) and LOADS.search(body) is not None
    changed = any(re.search(rf"(?<!\.)\b{re.escape(name)}(?:\.\w+_\(|\[[^\]]*\] =|\.\w+ =)", body) for name in names)
    return () if changed or may_load or stored & set(names) else names


LOADS = lazy_pattern(r"\b(?:self|\w*batch\w*)\.\w*(?:next|load|input|batch|data|feed|sample|fetch|prepare|set_)\w*\(")
"""Methods that may put other rows into the attributes of an object."""

UNCHANGED = frozenset(
    {"to", "cuda", "cpu", "float", "long", "double", "half", "unsqueeze", "squeeze", "view", "reshape"}
)
"""Methods that give the same numbers elsewhere, or in another form."""


def _unmoved(given: ast.expr) -> ast.Name | ast.Attribute | None:
    """The name behind `x`, `self.x` and `x.to(device)`; None for other code."""
    match given:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in UNCHANGED:
            return _unmoved(owner)
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return given
        case _:
            return None


def yields_all(stream: Instance) -> bool:
    """Whether a stream class of the script certainly iterates over the same rows in every process."""
    cls = stream.cls
    bases = set(cls.library_bases)
    if cls.has_unknown_base or STREAM not in bases or bases - {STREAM, "typing.Generic"}:
        return False
    nodes = [owner.node for owner in cls.lineage()]
    if any(DIVIDES_ROWS.search(unparse(node)) for node in nodes):
        return False
    iterates = next((method for node in nodes for method in node.body if _is_iter(method)), None)
    return iterates is not None and all(_is_plain(stream, each) for each in walk(iterates))


def _is_iter(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__iter__"


def _is_plain(stream: Instance, node: ast.AST) -> bool:
    """Whether a node of `__iter__` is the same in every process: a known attribute, or a function that only reads."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            found = stream.attributes.get(name)
            inherited = stream.cls.lookup(name)
            return _is_known(found if found is not None else inherited[1] if inherited else Absent())
        case ast.Call(func=ast.Name(id=name)):
            return name in READING
        case ast.YieldFrom(value=ast.Call(func=ast.Name(id=name))):
            return name in READING
        case _:
            return True


def _is_known(value: Value) -> bool:
    match value:
        case Constant():
            return True
        case Sequence(items=items) | Mapping(entries=dict() as items):
            return bool(items) or isinstance(value, Sequence)
        case _:
            return False


def only_loop(pipeline: Pipeline, stream: Instance) -> tuple[Location, Location] | None:
    """The locations of `__iter__` and of the rows of its only loop, if it yields one row in each iteration."""
    method = next((each for owner in stream.cls.lineage() for each in owner.node.body if _is_iter(each)), None)
    if not isinstance(method, ast.FunctionDef) or stream.cls.node not in pipeline.source.nodes:
        return None
    loops = [node for node in walk(method) if isinstance(node, ast.For | ast.While)]
    yields = [node for node in walk(method) if isinstance(node, ast.Yield | ast.YieldFrom)]
    names = {node.id for node in walk(method) if isinstance(node, ast.Name)}
    if len(loops) != 1 or len(yields) != 1 or names & {"worker", "first", "step"}:
        return None
    match loops[0]:
        case ast.For(iter=rows, body=[ast.Expr(value=ast.Yield())], orelse=[]) if loops[0] in method.body:
            return pipeline.source.location(method), pipeline.source.location(rows)
        case _:
            return None


def cycled(pipeline: Pipeline) -> Iterator[tuple[Loader, Loop]]:
    """The loaders that a generator starts again and again, `while True: yield from loader`, each with that loop."""
    source = pipeline.source
    for function in source.nodes_of(ast.FunctionDef):
        endless = next((node for node in function.body if _starts_again(node)), None)
        if endless is None:
            continue
        calls = [call for call in source.nodes_of(ast.Call) if getattr(call.func, "id", "") == function.name]
        given = {unparse(call.args[0]) for call in calls if call.args}
        for loader in pipeline.loaders if given else ():
            if len(pipeline.loaders) == 1 or not given.isdisjoint(each.name for each in pipeline.names_of(loader)):
                yield loader, Loop(source.location(endless), header="while True")


def _starts_again(node: ast.stmt) -> bool:
    """Whether a statement yields the items of a loop without an end."""
    match node:
        case ast.While(test=ast.Constant(value=True | 1), body=body):
            loops = [each for each in body if isinstance(each, ast.For) and isinstance(each.iter, ast.Name)]
            return any(isinstance(inner, ast.Yield) for each in loops for inner in walk(each)) or any(
                isinstance(each, ast.Expr) and isinstance(each.value, ast.YieldFrom) for each in body
            )
        case _:
            return False
