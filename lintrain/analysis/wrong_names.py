"""Names that are used in place of others: labels of another loop, a model without its wrapper, logits as scores."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from lintrain.analysis import loaders
from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import LibraryObject, options_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MEASURES = lazy_pattern(r"loss|crit|acc|metric|f1|score|iou|dice|entropy|nll|bce|mse")
LABELS = lazy_pattern(r"lab|targ|^y|_y|gt|truth|mask|cls|class")
LOADS = lazy_pattern(r"load|iter|data|batch|set|dl\b|enumerate|tqdm")

WRAPPERS = frozenset({"DistributedDataParallel", "DDP"})
KEPT_BY = frozenset({"module", "state_dict", "load_state_dict"})
"""Attributes of a wrapper that reach the bare model."""

PASSES_NOTHING = lazy_pattern(
    r"(load_)?state_dict|(named_)?(parameters|modules)|children|train(ing)?|eval|zero_grad|to|cpu|cuda|half|float|apply"
    r"|save(_pretrained)?|requires_grad_|config|device|dtype|module"
)
"""Attributes of a model that pass nothing through it."""

AVERAGES = lazy_pattern(r"all_reduce|(average|sync|reduce)\w*_grad")
"""Code that averages gradients itself."""


@dataclass(frozen=True, slots=True)
class StaleLabel:
    """A loss or metric in a loop that gets a label of another loop: the call, both names, and the other loop."""

    location: Location
    name: str
    own: str
    other: Location


def stale_labels(source: Source) -> list[StaleLabel]:
    """The losses of a file that compare predictions of one batch with labels of another."""
    return source.cached(_stale_labels)


def _stale_labels(source: Source) -> list[StaleLabel]:
    loops = [loop for loop in source.nodes_of(ast.For) if LOADS.search(unparse(loop.iter))]
    bound_by: dict[str, list[ast.For]] = {}
    for loop in loops:
        for name in names_bound(loop.target):
            bound_by.setdefault(name, []).append(loop)
    found: list[StaleLabel] = []
    for loop in loops if len(loops) > 1 else ():
        names = names_bound(loop.target)
        own = next((name for name in names[1:] if LABELS.search(name)), None)
        if own is not None:
            found.extend(_stale_in(source, loop, own, set(names), bound_by))
    return found


def names_bound(target: ast.expr) -> list[str]:
    """The names of a loop's target, in order."""
    return [each.id for each in walk(target) if isinstance(each, ast.Name)]


def _stale_in(
    source: Source, loop: ast.For, own: str, names: set[str], bound_by: dict[str, list[ast.For]]
) -> Iterator[StaleLabel]:
    nodes = list(walk(loop))
    inside = {id(node) for node in nodes}
    stored = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}

    def is_other(name: str) -> bool:
        return name not in stored and any(id(each) not in inside for each in bound_by.get(name, ()))

    derived = set(names)
    for node in nodes:
        if isinstance(node, ast.Assign):
            loaded = _loaded(node.value)
            if loaded & derived and not any(map(is_other, loaded)):
                derived |= {name for target in node.targets for name in names_bound(target)}
    for call in nodes:
        if not isinstance(call, ast.Call) or not MEASURES.search(unparse(call.func).lower()):
            continue
        given = [*call.args, *(each.value for each in call.keywords)]
        wrong = [
            each.id for each in given if isinstance(each, ast.Name) and is_other(each.id) and LABELS.search(each.id)
        ]
        names_given = [_loaded(each) for each in given]
        is_own = any(each & derived for each in names_given) and not any(own in each for each in names_given)
        is_mixed = any(each & derived and any(map(is_other, each)) for each in names_given)
        if len(wrong) == 1 and is_own and not is_mixed and len(given) > 1:
            other = next(each for each in bound_by[wrong[0]] if id(each) not in inside)
            yield StaleLabel(source.location(call), wrong[0], own, source.location(other))


def _loaded(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


@dataclass(frozen=True, slots=True)
class UnusedWrapper:
    """A model that is wrapped for several processes, and then called without the wrapper: where, and as what."""

    location: Location
    wrapper: str
    model: str
    called: Location


def unused_wrappers(pipeline: Pipeline) -> Iterator[UnusedWrapper]:
    """The wrappers of a file that nothing calls, though the model inside is called."""
    source = pipeline.source
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call(args=[inner, *_]) as call):
                wrapper, model = unparse(target), unparse(inner)
                name = unparse(call.func).rpartition(".")[2]
                if name in WRAPPERS and wrapper != model and not _is_used(pipeline, source, target):
                    called = _calls_of(source, model, source.location(node))
                    if called is not None:
                        yield UnusedWrapper(source.location(node), wrapper, model, called)
                elif name in WRAPPERS and (called := _called_inside(pipeline, source, call, wrapper)) is not None:
                    yield UnusedWrapper(source.location(node), wrapper, f"{wrapper}.module", called)
            case _:
                pass


def _called_inside(pipeline: Pipeline, source: Source, made: ast.Call, wrapper: str) -> Location | None:
    """Where a function that trains calls the model inside of a wrapper, which itself is neither called nor passed."""
    inside = f"{wrapper}.module"
    if inside not in source.text or source.contains(AVERAGES):
        return None
    harmless = {id(each.value) for each in source.nodes_of(ast.Attribute) if PASSES_NOTHING.fullmatch(each.attr)}
    harmless |= {id(each) for each in walk(made)}
    uses = (each for each in source.nodes_of(ast.Attribute, ast.Name) if unparse(each) == wrapper)
    if any(isinstance(each.ctx, ast.Load) and id(each) not in harmless for each in uses):
        return None
    calls = [each for each in source.nodes_of(ast.Call) if isinstance(each.func, ast.Attribute)]
    owned = [unparse(each.func).rpartition(".")[0] for each in calls if unparse(each.func).endswith(".parameters")]
    if not {wrapper, inside, unparse(made.args[0])} & set(owned):
        return None
    for call in calls:
        owner, _, method = unparse(call.func).rpartition(".")
        if (owner == wrapper and method == "module") or (owner == inside and not PASSES_NOTHING.fullmatch(method)):
            scope = blocks.scope_of(pipeline, source.location(call))
            if any(isinstance(each, ast.Attribute) and each.attr == "backward" for each in walk(scope)):
                return source.location(call)
    return None


def _is_used(pipeline: Pipeline, source: Source, target: ast.Name | ast.Attribute) -> bool:
    """Whether code reads a wrapper, other than for the model inside."""
    inside = {id(each.value) for each in source.nodes_of(ast.Attribute) if each.attr in KEPT_BY}
    if isinstance(target, ast.Attribute):
        attributes = (each for each in source.nodes_of(ast.Attribute) if each.attr == target.attr)
        return any(isinstance(each.ctx, ast.Load) and id(each) not in inside for each in attributes)
    scope = blocks.scope_of(pipeline, source.location(target))
    names = (each for each in walk(scope) if isinstance(each, ast.Name) and each.id == target.id)
    return any(isinstance(each.ctx, ast.Load) and id(each) not in inside for each in names)


def _calls_of(source: Source, model: str, after: Location) -> Location | None:
    """The first call of a bare model after a statement."""
    calls = [each for each in source.nodes_of(ast.Call) if unparse(each.func) == model]
    return next((source.location(each) for each in calls if source.location(each).line > after.line), None)


WRAPS = lazy_pattern(
    r"DistributedDataParallel|\bDDP\b|FSDP|[Ff]ully_?[Ss]hard|accelerat|deepspeed|horovod|\bhvd\b|reduce|averag|prepare"
    r"|paralleli[sz]e|Fabric|[Ll]ightning|Trainer|\bapex\b|wrap|all_gather|DataParallel|sync_|SyncBatch|broadcast",
)
"""Words of code that averages gradients, or may."""


def unwrapped_backwards(pipeline: Pipeline) -> Iterator[Event]:
    """The backward calls of processes that join a group and share the rows, but never average gradients."""
    texts = [source.text for source in pipeline.sources.values()]
    if not any("init_process_group(" in text for text in texts) or any(WRAPS.search(text) for text in texts):
        return
    for feeding in loaders.feedings(pipeline):
        samplers = options_of(feeding.loader.value("sampler"))
        paths = {sampler.path for sampler in samplers if isinstance(sampler, LibraryObject)}
        if paths == {"torch.utils.data.DistributedSampler"}:
            yield feeding.training.backward


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A name for evaluation data that is bound again, to training rows: where, both names, and where it was bound."""

    location: Location
    name: str
    train: str
    first: Location


def overwritten_eval_data(pipeline: Pipeline) -> Iterator[Overwritten]:
    """The assignments that put training rows under a name that held evaluation rows before."""
    source = pipeline.source
    bound: dict[tuple[ast.AST, str], tuple[Location, ast.expr]] = {}
    for node in _repeated_for_evaluation(source):
        location = source.location(node)
        scope = blocks.scope_of(pipeline, location)
        match node.targets:
            case [ast.Name(id=name)] if (scope, name) in bound:
                first, value = bound[scope, name]
                train = _counterpart(name, _loaded(node.value))
                is_other = train and train == _rows_of(node.value) and train not in _loaded(value)
                is_apart = is_other and blocks.are_exclusive(source, first, location)
                if is_other and first < location and not is_apart and not _is_asked_for(source, name, location):
                    yield Overwritten(location, name, train, first)
            case _:
                pass
        for each in (part for target in node.targets for part in walk(target)):
            if isinstance(each, ast.Name):
                bound.setdefault((scope, each.id), (location, node.value))


def _repeated_for_evaluation(source: Source) -> list[ast.Assign]:
    """The assignments to names of evaluation data that are assigned more than once."""
    named = [(node, name) for node in source.nodes_of(ast.Assign) for name in source.once(_names_given, node)]
    counts = Counter(name for _, name in named)
    wanted = {name for name, count in counts.items() if count > 1 and words_of(name) & EVALUATION_WORDS}
    return list(dict.fromkeys(node for node, name in named if name in wanted))


def _names_given(node: ast.Assign) -> list[str]:
    return [part.id for target in node.targets for part in walk(target) if isinstance(part, ast.Name)]


def _is_asked_for(source: Source, name: str, location: Location) -> bool:
    """Whether an `if` around a place asks for the data, which gets other rows on purpose if it has none."""
    return any(name in _loaded(each.test) and source.location(each).holds(location) for each in source.nodes_of(ast.If))


def _rows_of(node: ast.expr) -> str:
    """The name of the data that an expression takes rows of, or computes other values of; empty for anything else."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=[first, *_]) if attr in TRANSFORMS:
                node = first
            case ast.Call(func=ast.Name(), args=[first, *_]):
                node = first
            case ast.Call(func=ast.Attribute(value=owner)) | ast.Subscript(value=owner):
                node = owner
            case ast.BinOp(left=left, right=ast.Constant()):
                node = left
            case _:
                return ""
    return node.id


TRANSFORMS = frozenset({"transform", "fit_transform", "to_categorical", "array", "asarray", "expand_dims", "reshape"})
SIZES = frozenset({"size", "len", "length", "num", "n", "count", "ratio", "steps", "idx", "index", "indices", "batch"})


def _counterpart(name: str, loaded: set[str]) -> str:
    """The training data of the same kind among some names, none of which is for evaluation: `y_train` for `y_test`."""
    words = words_of(name)
    loaded = {each for each in loaded if not each.isupper()}
    if not words & EVALUATION_WORDS or any(words_of(each) & EVALUATION_WORDS for each in loaded):
        return ""
    stem = words - EVALUATION_WORDS
    if stem & SIZES:
        return ""
    same = [each for each in loaded if words_of(each) & TRAINING_WORDS and words_of(each) - TRAINING_WORDS == stem]
    return same[0] if len(same) == 1 and stem else ""
