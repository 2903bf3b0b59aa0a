"""Custom training and evaluation loops: which loop trains, and which events happen or may happen in it."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter

from lintrain.analysis.expressions import do_overlap, escapes_of, touched_by
from lintrain.model.finding import Related
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.modules import is_module, modules_in
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Model, Optimizer
from lintrain.pipeline.values.python import Constant, Instance, Unknown, Value
from lintrain.source import nodes
from lintrain.source.fragments import meanings, packages_meant
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

FRAMEWORKS = frozenset(
    {"lightning", "pytorch_lightning", "ignite", "fastai", "deepspeed", "paddle", "mindspore", "oneflow", "jittor"}
    | {"chainer", "dynet", "mxnet"}
)
"""Packages that clear gradients and set modes themselves, or work differently."""

WITH_OTHER_USES = frozenset({"lightning", "pytorch_lightning", "ignite", "fastai", "deepspeed"})
RUNS_TRAINING = lazy_pattern(
    r"^(Lightning(Module|Lite|CLI)|Trainer|[Ll]earner|\w+_learner|Engine|DeepSpeedEngine|initialize|"
    r"PipelineModule|create_supervised\w*|\*)$"
)
"""Their names that run the training loop; other parts of them seed, log, or load data."""

SURELY_ABOUT_TRAINING = lazy_pattern(r"zero|clear|grad|optim|backward|(^|[._])(train|eval)(_mode)?$", re.IGNORECASE)
"""Names of unknown functions that clear gradients, step an optimizer or set a mode."""

PERHAPS_ABOUT_TRAINING = lazy_pattern(
    r"reset|step|update|(?<!pre)train|fit|(?<!p)run|epoch|valid|evaluate|(?<!la)test", re.IGNORECASE
)
"""Names of unknown functions that may do so if they can access the model or the optimizer."""

HOLDS_TRAINED = lazy_pattern(
    r"optim|model|net|agent|actor|critic|policy|learner|grad|backward|nn\.|Module|loss|\*\*|super\(",
    re.IGNORECASE,
)
"""Words of classes whose objects may hold what is trained."""

LOGS_PROGRESS = lazy_pattern(
    r"(^|[._])(acc|accuracy|f1|auc|auroc|precision|recall|iou|dice|metrics?)$|"
    r"(bar|meter|meters|metric|metrics|loss\w*|acc\w*|log|logger|writer|tracker|\w*board|history|timer|stats|tqdm|wandb|progress)"
    r"(\[.*\])?\.\w+$"
)
"""Methods of counters, loggers and progress bars, and metrics that are called: `self.train_acc(scores, y)`."""

OF_SCHEDULES = lazy_pattern(
    r"(^|[._])((lr_?)?sched\w*|(ema|swa)(_\w+)?|\w+_ema|(model_?)?(checkpoint|ckpt)\w*|saver|early_?stop\w*|stopper)(\[.*\])?\.\w+$",
    re.IGNORECASE,
)
"""Methods of schedules, of averages of weights, which are copies, and of what keeps the best."""

READS_RATE = lazy_pattern(r"\.(get_lr|get_last_lr|state_dict)$")
OWN_OPTIMIZER = lazy_pattern(r"(Adam|SGD|Adagrad|RMSprop|Adafactor|Lamb|LARS|Lion)W?$", re.IGNORECASE)

COMPARES_OUTPUTS = lazy_pattern(r"(^|[._])(evaluator|scorer|bleu|rouge)\w*(\[.*\])?\.\w+$", re.IGNORECASE)
"""Methods of what compares predictions with references: they run the model only if they were given it."""

UNRELATED_METHODS = lazy_pattern(
    r"\.(set_epoch|double|float|half|long|int|item|detach|cpu|numpy|tolist|mean|sum|norm|size|append|extend|"
    r"state_dict|save\w*|from_pretrained|new_\w+|view|reshape|expand|repeat|clone|contiguous|(un)?squeeze|permute|"
    r"transpose|masked_fill|argmax|any|all|max|min|numel|keys|values|items|split|strip)$|^torch\.(cuda|backends|mps|xpu)\."
)
"""Methods of samplers, tensors and lists, with any owner, and functions about devices: `running_corrects.double()`."""

SAVES = lazy_pattern(r"(^|\.)_?(save|dump|export|write|log|print|report)(_\w*)?$")
"""Functions that keep or show what they get: `self.checkpointer.save_and_keep(…)`."""

ADDS_ENTRIES = lazy_pattern(r"^[\w.\[\]\"']+\.update\(\s*(\{|dict\()")
"""The update of a dictionary: `samples.update({"epoch": epoch})`."""

ASSIGNMENT = lazy_pattern(r"\s*([\w.]+)\s*(?::[^=]*)?=\s*$")
"""The code before a call whose result is assigned, with the name."""

RUN_TOGETHER = lazy_pattern(
    r"(?<![a-z])(train|val|valid|eval|test|dev)(loaders?|sets?|data|datasets?|dataloaders?|dl|iter|batches)(?![a-z])"
)
"""Names without a separator between their words: `testloader`."""

MOST_BACKWARDS = 16
"""The largest number of backward calls per loop that are considered: more of them repeat each other."""


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """The innermost loop around a backward call in which an optimizer steps."""

    loop: Loop
    backward: Event
    steps: tuple[Event, ...]
    inside: Sequence[Event]
    """All events in the loop, in order."""
    always: tuple[Event, ...] = ()
    """Its backward, step and clear events in order, if every iteration has all of them; otherwise empty."""

    def has(self, act: Act) -> bool:
        """Whether the loop has an event of this kind."""
        return any(event.act is act for event in self.inside)


def trains_by_hand(pipeline: Pipeline) -> bool:
    """Whether the script runs torch modules, and uses no framework that runs the training loop."""
    if not pipeline.acts(Act.FORWARD, Act.BACKWARD):
        return False
    return _uses_torch_without(pipeline, FRAMEWORKS)


def writes_loops(pipeline: Pipeline) -> bool:
    """Whether the script writes its loops itself, although an engine may clear gradients and step in them."""
    # DeepSpeed leaves the mode, autograd and what is kept to the loop: `engine(x)`, `engine.backward(loss)`.
    is_running = bool(pipeline.acts(Act.FORWARD, Act.BACKWARD))
    return is_running and _uses_torch_without(pipeline, FRAMEWORKS - {"deepspeed"})


def _uses_torch_without(pipeline: Pipeline, frameworks: frozenset[str]) -> bool:
    packages = frozenset[str]().union(*(source.cached(_packages) for source in pipeline.sources.values()))
    return "torch" in packages and not packages & frameworks


def _packages(source: Source) -> frozenset[str]:
    """The packages that a file imports, without frameworks whose training it does not use."""
    named = (name for node in source.nodes_of(ast.Import, ast.ImportFrom) for name in _imported(source, node))
    return _without_fabric(source).union(named)


def _without_fabric(source: Source) -> frozenset[str]:
    """The packages that a piece of a script uses without importing them."""
    paths = meanings(source).values()
    is_fabric = all(path.startswith("lightning.fabric") for path in paths if path.startswith("lightning"))
    return packages_meant(source) - {"lightning"} if is_fabric else packages_meant(source)


def _imported(source: Source, node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            packages = {alias.asname or alias.name.partition(".")[0]: alias.name.partition(".")[0] for alias in names}
            attributes = source.cached(_attributes)
            return [each for bound, each in packages.items() if _trains_with(each, attributes.get(bound, ()))]
        case ast.ImportFrom(module=str(module), level=0, names=names):
            package = module.partition(".")[0]
            return [package] if _trains_with(package, [alias.name for alias in names]) else []
        case _:
            return []


def _trains_with(package: str, names: Iterable[str]) -> bool:
    """Whether these names of a package are those of its training; Fabric, seeds and loggers leave the loop alone."""
    return package not in WITH_OTHER_USES or any(RUNS_TRAINING.search(name) for name in names)


def _attributes(source: Source) -> dict[str, set[str]]:
    """The attributes that a file uses below each name: `Trainer` and `callbacks` for `pl.callbacks.Trainer`."""
    found: dict[str, set[str]] = {}
    for node in source.nodes_of(ast.Attribute):
        owner: ast.expr = node
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if isinstance(owner, ast.Name):
            found.setdefault(owner.id, set()).add(node.attr)
    return found


def training_loops(pipeline: Pipeline) -> Iterator[TrainingLoop]:
    """Each backward call that is inside a loop, with the innermost loop around it in which an optimizer steps.

    Only the first MOST_BACKWARDS calls of a loop are returned.
    """
    yield from pipeline.cached(_training_loops, None)


def _training_loops(pipeline: Pipeline, _: None) -> list[TrainingLoop]:
    counts = Counter[int]()
    found: list[TrainingLoop] = []
    for backward in pipeline.acts(Act.BACKWARD):
        loop = next((loop for loop in reversed(backward.loops) if pipeline.cached(_steps_in, loop)), None)
        if loop is not None and counts[id(loop)] < MOST_BACKWARDS:
            counts[id(loop)] += 1
            steps, always = pipeline.cached(_steps_in, loop), pipeline.cached(_always_in, loop)
            found.append(TrainingLoop(loop, backward, steps, events_in(pipeline, loop), always))
    return found


def _always_in(pipeline: Pipeline, loop: Loop) -> tuple[Event, ...]:
    acts = {Act.BACKWARD, Act.STEP, Act.ZERO_GRAD}
    found = tuple(event for event in events_in(pipeline, loop) if event.act in acts)
    around = {(*event.loops, None, *_conditions(event)) for event in found if event.act is not Act.ZERO_GRAD}
    clears = [event for event in found if event.act is Act.ZERO_GRAD]
    together = len(around) == 1 and all(_always_clears(event, around) for event in clears)
    return found if together else ()


def _always_clears(clear: Event, around: set[tuple[object, ...]]) -> bool:
    """Whether gradients are cleared whenever the loop trains, perhaps more often."""
    return all(
        (*clear.loops, None, *_conditions(clear)) == each[: each.index(None) + 1 + len(clear.conditions)]
        for each in around
    )


def _conditions(event: Event) -> tuple[object, ...]:
    # Two `if phase == "train":` in one iteration have the same outcome.
    return tuple(condition.code or condition for condition in event.conditions)


def _steps_in(pipeline: Pipeline, loop: Loop) -> tuple[Event, ...]:
    return tuple(event for event in events_in(pipeline, loop) if event.act is Act.STEP)


def events_in(pipeline: Pipeline, loop: Loop) -> Sequence[Event]:
    """The events inside a loop, in order."""
    return pipeline.events_in(loop)


def index_of(events: Sequence[Event], event: Event) -> int:
    """The number of these ordered events that come before an event, which need not be one of them."""
    return bisect_left(events, event.order, key=attrgetter("order"))


def is_certain_step(event: Event) -> bool:
    """Whether a step belongs to an optimizer of torch, or to something with the name of one."""
    if isinstance(event.subject, Optimizer):
        path = event.subject.path
        return path.startswith(("torch.", "transformers.")) or OWN_OPTIMIZER.search(path) is not None
    named = event.details.get("named")
    return isinstance(event.subject, Unknown) and isinstance(named, Constant) and named.value is True


def text_of_event(event: Event, detail: str = "text") -> str:
    """The code of the event's subject (`optimizer` in `optimizer.step()`), empty if it is unknown."""
    text = event.details.get(detail)
    return text.value if isinstance(text, Constant) and isinstance(text.value, str) else ""


def callee_text(pipeline: Pipeline, event: Event) -> str:
    """The code of a callee (`model` in `model(batch)`), empty if it is not a plain dotted name."""
    callee = pipeline.code(event.location).partition("(")[0].strip()
    callee = callee.removesuffix(".generate").removesuffix(".forward")
    return callee if all(part.isidentifier() for part in callee.split(".")) else ""


def may_hide(pipeline: Pipeline, event: Event, followed: Value) -> bool:
    """Whether an event is a call of unknown code that may change the mode or the gradients of a value."""
    if event.act is not Act.ESCAPE:
        return False
    callee = pipeline.code(event.location).partition("(")[0]
    if _leaves_training(callee):
        return False
    if isinstance(event.subject, Optimizer):
        return not READS_RATE.search(callee)
    if isinstance(event.subject, Instance) and not is_module(event.subject):
        return _may_reach(pipeline, event.subject, followed)
    if not isinstance(event.subject, Unknown):
        return not touched_by(pipeline, event.subject).isdisjoint(touched_by(pipeline, followed))
    code = pipeline.code(event.location)
    callee = code.partition("(")[0]
    if event.subject is followed:
        return True
    if _is_unrelated(code):
        return False
    if SURELY_ABOUT_TRAINING.search(callee):
        return True
    if LOGS_PROGRESS.search(callee):
        return False
    if COMPARES_OUTPUTS.search(callee):
        return callee.rpartition(".")[0] in _holders(pipeline, followed)
    if not PERHAPS_ABOUT_TRAINING.search(_last_name(callee)):
        return callee.rpartition(".")[0] in _holders(pipeline, followed)
    return (callee.startswith("self.") and _is_near(pipeline, event)) or not is_private(pipeline, followed)


@lru_cache(maxsize=1024)
def _leaves_training(callee: str) -> bool:
    """Whether code is called that leaves models and gradients alone: it saves, makes a schedule, or asks a device."""
    if SAVES.search(callee) and not PERHAPS_ABOUT_TRAINING.search(_last_name(callee)):
        return True
    return OF_SCHEDULES.search(callee) is not None or callee.startswith(("torch.cuda.", "torch.distributed."))


@lru_cache(maxsize=1024)
def _is_unrelated(code: str) -> bool:
    """Whether a call is one of a method or function that is not about training: asked of each pair of two events."""
    return UNRELATED_METHODS.search(code.partition("(")[0]) is not None or ADDS_ENTRIES.search(code) is not None


def _is_near(pipeline: Pipeline, event: Event) -> bool:
    """Whether the class around a call names what trains, or there is none: an environment cannot reach the model."""
    source = pipeline.source_of(event.location)
    around = [node for node in source.nodes_of(ast.ClassDef) if source.location(node).holds(event.location)]
    return not around or HOLDS_TRAINED.search(nodes.unparse(max(around, key=lambda node: node.lineno))) is not None


def _last_name(callee: str) -> str:
    """The name that is called: `to` in `batch["mask_valid"].to`."""
    return callee.rpartition(".")[2]


def _may_reach(pipeline: Pipeline, holder: Instance, followed: Value) -> bool:
    """Whether an object of the script may hold a model or optimizer: as an attribute, or in something unknown."""
    parts = list(modules_in(holder))
    models = followed.trains if isinstance(followed, Optimizer) else (followed,)
    own = {id(followed)}.union(*(touched_by(pipeline, model) for model in models))
    if any(id(part) in own for part in parts):
        return True
    is_open = holder.cls.has_unknown_base or any(isinstance(part, Unknown) for part in parts)
    return is_open and not is_private(pipeline, followed)


def _holders(pipeline: Pipeline, followed: Value) -> set[str]:
    """The code of the objects that may hold a value: created from it, or passed it by a method call."""
    return pipeline.cached(_find_holders, followed)


def _find_holders(pipeline: Pipeline, followed: Value) -> set[str]:
    found: set[str] = set()
    for event in escapes_of(pipeline, followed):
        line = pipeline.source_of(event.location).lines[event.location.line - 1]
        if assigned := ASSIGNMENT.match(line[: event.location.column - 1]):
            found.add(assigned[1])
        found.add(pipeline.code(event.location).partition("(")[0].rpartition(".")[0])
    return found - {""}


def is_private(pipeline: Pipeline, followed: Value) -> bool:
    """Whether a known model or optimizer is never passed to unknown code, which cannot access it then."""
    return not isinstance(followed, Unknown) and not escapes_of(pipeline, followed)


def place_in(pipeline: Pipeline, event: Event, loop: Loop | None) -> Location:
    """Where to report an event of a loop: at its call, or at the head of the loop if that only calls its function."""
    if loop is None or loop.location.holds(event.location):
        return event.location
    start = loop.location
    width = len(pipeline.source_of(start).lines[start.line - 1].partition("#")[0].rstrip())
    return replace(start, end_line=start.line, end_column=width + 1)


def touches(pipeline: Pipeline, event: Event, module: Value) -> bool:
    """Whether an event concerns a module, a part of it, or something that contains it."""
    return event.subject is module or do_overlap(pipeline, event.subject, module)


def covers(event: Event, module: Value) -> bool:
    """Whether an event concerns a whole module."""
    return any(part is module for part in modules_in(event.subject))


def always_with(event: Event, other: Event) -> bool:
    """Whether an event always happens with another one: all of its conditions also apply to the other."""
    return event.conditions == other.conditions[: len(event.conditions)]


def runs_whenever(forward: Event, backward: Event) -> bool:
    """Whether both run in the same iterations with autograd on: `set_grad_enabled` may depend on the same condition."""
    shared = len(forward.conditions)
    more = {condition.code for condition in backward.conditions[shared:]}
    return backward.conditions[:shared] == forward.conditions and more.issubset(forward.switches)


def is_left_after(pipeline: Pipeline, event: Event, loop: Loop) -> bool:
    """Whether the loop always ends after the event, without another iteration."""
    return any(
        leave.order > event.order
        and leave.is_inside(loop)
        and loop.location.holds(leave.location)
        and (leave.loops[-1] is loop or not pipeline.code(leave.location).startswith("break"))
        and always_with(leave, event)
        for leave in pipeline.acts(Act.LEAVE)
    )


@lru_cache(maxsize=1024)
def words_of(name: str) -> frozenset[str]:
    """The words of an identifier or code in lower case: `val`, `loader` for `valLoader` or `valloader`, and `f1`."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return frozenset(re.findall(r"(?<![a-z])f1(?!\d)|[a-z]+", RUN_TOGETHER.sub(r"\1 \2", spaced.lower())))


def origin_of(value: Value, note: str) -> list[Related]:
    """The location where a value is created; empty if it is unknown."""
    text = value.text if isinstance(value, Optimizer | Model) else ""
    return [Related(value.origin, note, "origin", text)] if value.origin else []
