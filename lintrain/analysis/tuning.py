"""Models that are trained: what trains them, their adapters, and the format of their weights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from lintrain.analysis import gradients
from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.knowledge.tables import CheckpointFacts
from lintrain.libraries.torch.freezing import dtype_of
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import shared_parts
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Launcher, Model, Module, Optimizer, Scaler
from lintrain.pipeline.values.python import (
    ABSENT,
    Constant,
    Instance,
    Library,
    LibraryObject,
    Value,
    is_missing,
    is_true,
    literal,
    text_of,
)
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LATEST = 1 << 30


@dataclass(frozen=True, slots=True)
class Training:
    """A model that a Trainer or the optimizer of a custom loop trains, with the location of that trainer or optimizer.

    `order` is the number of the event at which training begins.
    """

    model: Model | Module | Instance
    location: Location
    order: int
    run: TrainerRun | None = None
    optimizer: Optimizer | None = None
    launcher: Launcher | None = None
    """The Accelerator or Fabric of the script, if the loop uses one."""


@dataclass(frozen=True, slots=True)
class Format:
    """The number format of a model's weights, and the location that sets it."""

    name: str
    location: Location
    is_argument: bool


def trainings(pipeline: Pipeline) -> Iterator[Training]:
    """The models that are certainly trained as a whole, with what trains them."""
    for run in pipeline.runs:
        if run.model is not None and (run.train_calls or not is_missing(run.value("train_dataset"))):
            yield Training(run.model, run.construction, _start(pipeline, run), run)
    backward = pipeline.acts(Act.BACKWARD)
    if not backward:
        return
    launcher = next((event.subject for event in backward if isinstance(event.subject, Launcher)), None)
    steps_of: dict[int, list[int]] = {}
    for event in pipeline.acts(Act.STEP):
        steps_of.setdefault(id(event.subject), []).append(event.order)
    for optimizer in pipeline.optimizers:
        steps = steps_of.get(id(optimizer), ())
        model = optimizer.trains[0] if len(optimizer.trains) == 1 and not optimizer.is_part else None
        if isinstance(model, Model | Module) and steps and optimizer.origin is not None:
            yield Training(model, optimizer.origin, min(steps), None, optimizer, launcher)


def _start(pipeline: Pipeline, run: TrainerRun) -> int:
    return pipeline.cached(_starts, pipeline).get(id(run), LATEST)


def _starts(pipeline: Pipeline, _: Pipeline) -> dict[int, int]:
    """The order of the event at which each run begins to train."""
    found = dict[int, int]()
    for event in pipeline.acts(Act.TRAIN):
        found[id(event.subject)] = min(event.order, found.get(id(event.subject), LATEST))
    return found


def changes_before(pipeline: Pipeline, training: Training, *acts: Act) -> list[Event]:
    """The events that change a model or a part of it before its training begins."""
    touching = pipeline.cached(_touching, pipeline)
    parts = {id(training.model), *shared_parts(training.model)}
    subjects = {subject: events for part in parts for subject, events in touching.get(part, {}).items()}
    found = [event for events in subjects.values() for event in events if event.act in acts]
    return sorted((event for event in found if event.order < training.order), key=attrgetter("order"))


def _touching(pipeline: Pipeline, _: Pipeline) -> dict[int, dict[int, list[Event]]]:
    """For each module the events that concern it or a part of it, grouped by the identity of their subject."""
    events, found = dict[int, list[Event]](), dict[int, dict[int, list[Event]]]()
    for event in pipeline.events:
        subject = id(event.subject)
        if subject not in events:
            events[subject] = []
            for part in {subject, *shared_parts(event.subject)}:
                found.setdefault(part, {})[subject] = events[subject]
        events[subject].append(event)
    return found


def is_left_alone(pipeline: Pipeline, training: Training) -> bool:
    """Whether no unknown code may have changed a model before its training."""
    return not changes_before(pipeline, training, Act.ESCAPE, Act.TOUCH)


def adapter_argument(run: TrainerRun | None) -> Argument | None:
    """The `peft_config` of a trainer, which adds the adapter itself; None if it has none."""
    argument = run.arguments.get("peft_config") if run is not None else None
    return None if argument is None or is_missing(argument.value) else argument


def may_adapt(run: TrainerRun | None) -> bool:
    """Whether a trainer adds an adapter to its model, or may do so."""
    return run is not None and not run.is_plain and not is_missing(run.value("peft_config"))


def is_tuned_whole(pipeline: Pipeline, training: Training) -> bool:
    """Whether a model is certainly trained without any adapter."""
    model = training.model
    is_adapted = isinstance(model, Model) and (model.is_adapted or model.path.startswith("peft."))
    return not is_adapted and not may_adapt(training.run) and is_left_alone(pipeline, training)


def weights_format(pipeline: Pipeline, training: Training) -> Format | None:
    """The number format that a model's weights certainly have when they are trained; None if it is not certain."""
    model = training.model
    # A layer that is cast alone leaves the rest as it is.
    every = changes_before(pipeline, training, Act.CAST)
    casts = [each for each in every if each.subject is training.model or isinstance(each.subject, Model)]
    if casts:
        name = text_of(casts[-1].details["dtype"])
        return Format(name, casts[-1].location, False) if name and not casts[-1].conditions else None
    if not isinstance(model, Model):
        return None
    for argument in ("dtype", "torch_dtype"):
        value, location = model.arguments.get(argument), model.argument_locations.get(argument)
        name = dtype_of(value) if value is not None else None
        if name is not None and location is not None:
            return Format(name, location, True)
    return _saved_format(pipeline, model)


def _saved_format(pipeline: Pipeline, model: Model) -> Format | None:
    """The format that a checkpoint was saved in: with `dtype="auto"`, the default since transformers 5."""
    given = [model.arguments[name] for name in ("dtype", "torch_dtype", "config") if name in model.arguments]
    is_automatic = len(given) == 1 and text_of(given[0]) == "auto"
    if not model.is_pretrained or not model.is_complete or model.origin is None or (given and not is_automatic):
        return None
    if pipeline.acts(Act.CAST) or not isinstance(literal(model.checkpoint), str):
        return None
    is_kept = is_automatic or gradients.is_since(pipeline.targets, "transformers", (5, 0))
    facts = facts_of(pipeline, model) if is_kept else None
    return Format(facts.dtype, model.origin, False) if facts is not None and facts.dtype is not None else None


def facts_of(pipeline: Pipeline, model: Model) -> CheckpointFacts | None:
    """Facts about the checkpoint that a model's weights are loaded from; None if it is unknown."""
    name = text_of(model.checkpoint)
    if name is None:
        return None
    return checkpoint_facts(name, Path(pipeline.source.path).parent) or checkpoint_facts(name)


def quantization_of(model: Model) -> LibraryObject | None:
    """The configuration that certainly quantizes a model's checkpoint on loading; None if there is none."""
    config = model.arguments.get("quantization_config")
    return config if isinstance(config, LibraryObject) else None


def assignment_at(pipeline: Pipeline, target: Location) -> Location | None:
    """The plain assignment whose only target is the code at a location."""
    source = pipeline.source_of(target)
    assignments = [node for node in source.nodes_of(ast.Assign) if len(node.targets) == 1]
    return next((source.location(each) for each in assignments if source.location(each.targets[0]) == target), None)


def attributes_stored(source: Source) -> frozenset[str]:
    """The code of the attributes that a file sets: `layer.weight`."""
    return source.cached(_attributes_stored)


def _attributes_stored(source: Source) -> frozenset[str]:
    return frozenset(unparse(node) for node in source.nodes_of(ast.Attribute) if isinstance(node.ctx, ast.Store))


def is_attribute_read(source: Source, code: str) -> bool:
    """Whether a file reads the attribute of this code, which it also sets."""
    name = code.rpartition(".")[2]
    read = (each for each in source.nodes_of(ast.Attribute) if each.attr == name and isinstance(each.ctx, ast.Load))
    return any(unparse(each) == code for each in read)


def name_in_enum(value: Value) -> str | None:
    """The name of an enum's member, given as the member or as text (`TaskType.SEQ_CLS`, `"SEQ_CLS"`)."""
    if isinstance(value, Library):
        return value.name
    return text_of(value) if isinstance(value, Constant) and isinstance(literal(value), str) else None


def scales_gradients(pipeline: Pipeline, training: Training) -> Location | None:
    """The location that certainly enables gradient scaling for float16 in a training; None if there is none."""
    if training.run is not None:
        settings = training.run.settings
        is_on = settings is not None and is_true(settings.value("fp16"))
        return settings.locations.get("fp16") if settings is not None and is_on else None
    for step in pipeline.acts(Act.STEP):
        scaler = step.details.get("scaler")
        if step.subject is training.optimizer and isinstance(scaler, Scaler):
            return None if "enabled" in scaler.arguments else scaler.origin
    launcher = training.launcher
    is_on = launcher is not None and literal(launcher.arguments.get("mixed_precision", ABSENT)) == "fp16"
    return launcher.origin if launcher is not None and is_on else None


@dataclass(frozen=True, slots=True)
class MisplacedHead:
    """A new head that a network of a library gets under a name which it does not call, and the name of its own head."""

    location: Location
    network: str
    name: str
    head: str


READY = lazy_pattern(r"(?:^|\.)create_model$|^pretrainedmodels\b|^(?:torchvision\.)?models\.[a-z]\w+$")
"""Functions of timm, torchvision and pretrainedmodels that make a classifier with one head."""

OWN_MODELS = lazy_pattern(r"(?m)^\s*(?:import models\b|from (?:\.\w*|(?!torchvision)\w+) import .*\bmodels\b)")
"""Imports that make `models` a module of the project."""


def misplaced_heads(source: Source) -> Iterator[MisplacedHead]:
    """The new heads that have the inputs of a network's old one, and another name: `net.classifier` for `net.fc`."""
    if ".in_features" not in source.text or source.contains(OWN_MODELS.pattern):
        return
    made = source.cached(_ready_networks)
    branches, functions = source.nodes_of(ast.If), source.nodes_of(ast.FunctionDef)
    parents: list[ast.Module | ast.FunctionDef | ast.If] = [source.tree, *functions, *branches] if made else []
    for parent in parents:
        for block in (parent.body, parent.orelse if isinstance(parent, ast.If) else []):
            yield from _misplaced_in(source, [each for each in block if isinstance(each, ast.Assign)], made)


def _ready_networks(source: Source) -> frozenset[str]:
    """The code of what a file binds to networks of libraries, and to no others."""
    bound: dict[str, bool] = {}
    for node in source.nodes_of(ast.Assign):
        for target in node.targets if isinstance(node.value, ast.Call) else ():
            called = unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
            code = unparse(target)
            bound[code] = bound.get(code, True) and READY.search(called) is not None
    return frozenset(code for code, is_ready in bound.items() if is_ready)


def _misplaced_in(source: Source, block: Sequence[ast.Assign], made: frozenset[str]) -> Iterator[MisplacedHead]:
    stored = {unparse(target) for each in block for target in each.targets}
    sizes: dict[str, tuple[str, str]] = {}
    for statement in block:
        target = statement.targets[0]
        read = _head_read(statement.value, made)
        if isinstance(target, ast.Name):
            sizes.pop(target.id, None)
            sizes.update({target.id: read} if read is not None else {})
            continue
        linear = next((each for each in walk(statement.value) if _is_linear(each)), None)
        if not isinstance(target, ast.Attribute) or not isinstance(linear, ast.Call) or not linear.args:
            continue
        first = linear.args[0]
        size = sizes.get(first.id) if isinstance(first, ast.Name) else _head_read(first, made)
        if size is None or unparse(target.value) != size[0] or target.attr == size[1]:
            continue
        is_called = source.contains(rf"\.{target.attr}\(|\bdef forward_\w|\.forward *=")
        own = re.compile(rf"{re.escape(size[0])}\.{size[1]}\b")
        is_replaced = any(map(own.match, stored))
        if not is_called and not is_replaced:
            yield MisplacedHead(source.location(target), size[0], target.attr, size[1])


def _is_linear(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and unparse(node.func).rpartition(".")[2] == "Linear"


def _head_read(node: ast.expr, made: frozenset[str]) -> tuple[str, str] | None:
    """The network and the first part of `net.head.fc.in_features`; not `net.get_classifier()`, which names no part."""
    if not isinstance(node, ast.Attribute) or node.attr != "in_features":
        return None
    code = unparse(node)
    network = max((each for each in made if code.startswith(f"{each}.")), key=len, default="")
    part, _, rest = re.sub(r"[.\[(]", r" \g<0>", code[len(network) + 1 :], count=1).partition(" ")
    return (network, part) if network and part and part != "in_features" and not rest.startswith("(") else None


CUDNN = ("allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "fp32_precision", "conv", "rnn")
"""The settings of `torch.backends.cudnn`; it keeps any other attribute, and reads none of them."""


def misspelt_cudnn(source: Source) -> Iterator[tuple[Location, str, str]]:
    """The settings of cuDNN that a file misspells: where, as they are written, and as they are called."""
    if "cudnn." not in source.text:
        return
    from difflib import get_close_matches

    for node in source.nodes_of(ast.Attribute):
        is_set = isinstance(node.ctx, ast.Store) and node.attr not in CUDNN
        if is_set and unparse(node.value) in {"torch.backends.cudnn", "cudnn", "backends.cudnn"}:
            close = get_close_matches(node.attr, CUDNN, n=1, cutoff=0.75)
            if close:
                yield source.location(node), node.attr, close[0]


OPTIMIZER = lazy_pattern(r"(?:^|\.)(?:Adam\w*|SGD|RMSprop|Adagrad|Adadelta|RAdam|NAdam|ASGD)$")
PRINTS = lazy_pattern(
    r"^print$|\blog|\bwriter\b|add_scalar|\bappend$|set_postfix|set_description|format$|^str$|^round$"
)
"""Functions that only show a number."""


def _optimizers_in(scope: ast.AST) -> list[ast.Call]:
    calls = (each for each in own_nodes(scope) if isinstance(each, ast.Call))
    return [each for each in calls if OPTIMIZER.search(unparse(each.func))]


def unread_rates(source: Source) -> Iterator[tuple[Location, str, Location]]:
    """The rates that a loop lowers after an optimizer got their number: where, the name, and the optimizer."""
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for call in source.once(_optimizers_in, scope):
            name = _rate_of(call)
            changes = [each for each in _changes_of(name, nodes) if each.lineno > call.lineno] if name else []
            if not changes:
                continue
            own = {id(part) for each in changes for part in walk(each)}
            shown = [each for each in nodes if isinstance(each, ast.Call) and PRINTS.search(unparse(each.func))]
            own |= {id(part) for each in shown for part in walk(each)}
            reads = [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
            later = [each for each in reads if each.lineno > call.lineno and id(each) not in own]
            loops = [each for each in nodes if isinstance(each, ast.For | ast.While)]
            change = changes[0]
            around = [loop for loop in loops if any(part is change for part in walk(loop))]
            # An optimizer that the same loop makes gets the new number, and other functions may read a global.
            is_made_again = any(any(part is call for part in walk(loop)) for loop in around)
            if around and not later and not is_made_again and not (scope is source.tree and _is_global(source, name)):
                yield source.location(change), name, source.location(call)


def _rate_of(call: ast.Call) -> str:
    """The name in `Adam(weights, lr=rate)`; empty for other code."""
    named = {each.arg: each.value for each in call.keywords}
    rate = named.get("lr", call.args[1] if len(call.args) > 1 else None)
    return rate.id if isinstance(rate, ast.Name) else ""


def _changes_of(name: str, nodes: Sequence[ast.AST]) -> list[ast.Assign | ast.AugAssign]:
    """The statements that give a name a multiple of its number."""
    found: list[ast.Assign | ast.AugAssign] = []
    for node in nodes:
        match node:
            case ast.AugAssign(target=ast.Name(id=same), op=ast.Mult() | ast.Div()) if same == name:
                found.append(node)
            case ast.Assign(targets=[ast.Name(id=same)], value=ast.BinOp(left=ast.Name(id=left))) if (
                same == left == name
            ):
                found.append(node)
            case _:
                pass
    return found


def _free_names(function: ast.FunctionDef) -> set[str]:
    return {each.id for each in walk(function) if isinstance(each, ast.Name)}


def _is_global(source: Source, name: str) -> bool:
    """Whether a function of the file reads a name of the script."""
    return any(name in _free_names(each) for each in source.nodes_of(ast.FunctionDef))
