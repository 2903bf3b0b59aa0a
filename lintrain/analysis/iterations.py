"""The order in which a training loop computes, clips, uses and clears gradients, across iterations."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

from lintrain.analysis import gradients
from lintrain.analysis.expressions import parts_shared
from lintrain.analysis.training_loops import (
    TrainingLoop,
    events_in,
    may_hide,
    text_of_event,
    training_loops,
    trains_by_hand,
)
from lintrain.model.location import Location
from lintrain.pipeline.blocks import scope_of
from lintrain.pipeline.events import Act, Condition, Event, Loop
from lintrain.pipeline.modules import modules_in
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Launcher, Model, Module, Optimizer, Parameters, Scaler
from lintrain.pipeline.values.python import UNKNOWN, Constant, Instance, Unknown, Value, literal
from lintrain.source.nodes import unparse
from lintrain.startup.lazy_pattern import lazy_pattern

ON_GRADIENTS = frozenset({Act.BACKWARD, Act.STEP, Act.ZERO_GRAD, Act.CLIP})

EVALUATES = lazy_pattern(r"(^|[._])(valid\w*|eval\w*|test\w*|predict\w*|infer\w*|scores?|metrics?)$")
"""Names of unknown functions that evaluate, which changes no gradient."""

NEGATED = ((" is not None", " is None"), (" != ", " == "), (" not in ", " in "))


def hides_gradients(pipeline: Pipeline, training: TrainingLoop) -> bool:
    """Whether gradients in a loop are changed by unknown code, or directly."""
    return pipeline.cached(_hides_gradients, training.loop)


def _hides_gradients(pipeline: Pipeline, loop: Loop) -> bool:
    inside = events_in(pipeline, loop)
    if any(gradients.handles(pipeline, event) for event in inside):
        return True
    steps = [event for event in inside if event.act is Act.STEP]
    if any(takes_gradients(pipeline, loop, step) for step in steps):
        return True
    followed = {id(event.subject): event.subject for event in steps}
    escapes = [event for event in inside if event.act is Act.ESCAPE]
    escapes = [event for event in escapes if not EVALUATES.search(pipeline.code(event.location).partition("(")[0])]
    return any(may_hide(pipeline, event, optimizer) for event in escapes for optimizer in followed.values())


def takes_gradients(pipeline: Pipeline, loop: Loop, step: Event) -> bool:
    """Whether a loop calls a method that no optimizer of torch has, and that may read gradients: `accumulate()`."""
    name = text_of_event(step)
    if not name:
        return False
    called = re.findall(rf"(?<![\w.]){re.escape(name)}\.(\w+)\(", pipeline.code(loop.location))
    return any(_may_read_gradients(pipeline, each) for each in {*called} - OF_OPTIMIZERS)


def _may_read_gradients(pipeline: Pipeline, method: str) -> bool:
    """Whether a method of an optimizer reads gradients, or is defined in no file that was read."""
    sources = pipeline.sources.values()
    defined = [node for source in sources for node in source.nodes_of(ast.FunctionDef) if node.name == method]
    return not defined or any(".grad" in unparse(node) for node in defined)


OF_OPTIMIZERS = frozenset({"add_param_group", "backward", "load_state_dict", "state_dict", "step", "zero_grad"})
"""Methods that leave the gradients to `step`."""


def clippings(pipeline: Pipeline) -> Iterator[tuple[TrainingLoop, Event]]:
    """The calls that clip gradients in custom training loops without unknown effects on gradients."""
    for training in training_loops(pipeline) if trains_by_hand(pipeline) else ():
        clips = [event for event in training.inside if event.act is Act.CLIP]
        for clip in clips if clips and not hides_gradients(pipeline, training) else ():
            yield training, clip


def events_before(order: Sequence[Event], start: Event) -> Iterator[Event]:
    """The events before an event, latest first: of the same iteration, then of the previous one."""
    first = bisect_left(order, start.order, key=_order_of)
    yield from (order[index] for index in range(first - 1, -1, -1))
    after = first + (first < len(order) and order[first].order == start.order)
    yield from (order[index] for index in range(len(order) - 1, after - 1, -1))


def _order_of(event: Event) -> int:
    return event.order


def concerns(pipeline: Pipeline, event: Event, optimizer: Value) -> bool | None:
    """Whether a step, clear or clip event concerns what an optimizer trains; None if it is not certain."""
    if event.subject is optimizer:
        return True
    if not isinstance(optimizer, Optimizer) or not optimizer.trains:
        return None
    if _is_assumed(optimizer) and _is_assumed(event.subject):
        return False
    return covers_all(pipeline, event.subject, optimizer.trains)


def are_apart(one: Value, other: Value) -> bool:
    """Whether two optimizers have one network each, neither of which is understood, and neither is a part of the other.

    Whoever makes an optimizer for each of two networks does not share weights between them.
    """
    match one, other:
        case Optimizer(trains=(Unknown() as first,)), Optimizer(trains=(Unknown() as second,)):
            names = [f"{value.name}." for value in (first, second)]
            is_known_apart = first is not second and not any(value is UNKNOWN for value in (first, second))
            return is_known_apart and not names[0].startswith(names[1]) and not names[1].startswith(names[0])
        case _:
            return False


def _is_assumed(value: Value) -> bool:
    """Whether a value is an optimizer by its name only, in a piece of a script: two of them have other parameters."""
    return isinstance(value, Optimizer) and value.is_part and value.text.isidentifier()


def covers_all(pipeline: Pipeline, subject: Value, trained: Sequence[Value]) -> bool | None:
    """Whether a value covers all trained modules (True) or shares none of them (False); None otherwise."""
    match subject:
        case Optimizer():
            modules: Sequence[Value] = subject.trains
        case Parameters():
            modules = subject.of
        case Instance() | Model() | Module():
            modules = (subject,)
        case _:
            modules = ()
    if not modules or any(isinstance(module, Unknown) for module in (*modules, *trained)):
        return None
    inside = [pipeline.cached(_find_inside, module) for module in modules]
    if all(any(id(module) in parts for parts in inside) for module in trained):
        return True
    return False if parts_shared(pipeline, modules).isdisjoint(parts_shared(pipeline, trained)) else None


def _find_inside(_: Pipeline, module: Value) -> frozenset[int]:
    return frozenset(id(part) for part in modules_in(module))


def clears_each(pipeline: Pipeline, event: Event, backward: Event, step: Event) -> bool:
    """Whether a loop over all parameters in the loop of a backward call clears each gradient of a step."""
    optimizer, depth = step.subject, len(backward.loops)
    if event.loops[:depth] != backward.loops or len(event.loops) == depth or not isinstance(optimizer, Optimizer):
        return False
    around, over = event.loops[-1], event.loops[-1].over
    conditions = [each for each in event.conditions if each not in backward.conditions]
    # `if p.grad is not None:` leaves out only what has no gradient.
    is_each = all(GUARDS_GRADIENT.search(each.code) for each in conditions)
    if not is_each or CHOOSES_PARAMETERS.search(pipeline.code(around.location)):
        return False
    if len(event.loops) == depth + 1 and isinstance(over, Parameters):
        return bool(optimizer.trains) and covers_all(pipeline, over, optimizer.trains) is True
    groups = text_of_event(step) + ".param_groups"
    return len(event.loops) == depth + 2 and event.loops[depth].header == groups and "params" in around.header


GUARDS_GRADIENT = lazy_pattern(r"^\w+(?:\[\d\])?\.grad(?: is not None)?$")
CHOOSES_PARAMETERS = lazy_pattern(r"\b(?:continue|break|while)\b| in name")
"""A test whether a parameter has a gradient, and code that may leave some parameters out."""


def passes_of(pipeline: Pipeline, backward: Event) -> Sequence[Event]:
    """The forward passes since the last backward call before, in the innermost loop around a backward call."""
    around = _around(pipeline, backward)
    passes: list[Event] = []
    # From the backward call upwards, to the one before: a loop may hold thousands of them.
    for index in reversed(range(bisect_left(around, backward.order, key=_order_of))):
        event = around[index]
        if event.act is Act.BACKWARD and event.location != backward.location:
            break
        if event.act is Act.FORWARD and event.records_for(backward):
            passes.append(event)
    return passes[::-1]


def _around(pipeline: Pipeline, backward: Event) -> Sequence[Event]:
    """The forward and backward passes of the innermost loop around a backward call, in order."""
    return pipeline.cached(_passes_in, backward.loops[-1]) if backward.loops else pipeline.cached(_all_passes, pipeline)


def _passes_in(pipeline: Pipeline, loop: Loop) -> Sequence[Event]:
    return [event for event in events_in(pipeline, loop) if event.act in (Act.FORWARD, Act.BACKWARD)]


def _all_passes(pipeline: Pipeline, _: Pipeline) -> Sequence[Event]:
    return pipeline.acts(Act.FORWARD, Act.BACKWARD)


def _keeps_graphs(pipeline: Pipeline, loop: Loop) -> bool:
    """Whether a loop detaches or retains graphs, so that a backward call may leave some of them."""
    code = pipeline.code(loop.location)
    return "detach" in code or "retain_graph" in code


def reaches(pipeline: Pipeline, backward: Event, optimizer: Value) -> bool | None:
    """Whether a backward call computes gradients for what an optimizer trains; None if it is not certain."""
    if not isinstance(optimizer, Optimizer) or not optimizer.trains:
        return None
    return trains_any(pipeline, [event.subject for event in _graphs_of(pipeline, backward)], optimizer)


def trains_any(pipeline: Pipeline, passes: Sequence[Value], optimizer: Optimizer) -> bool | None:
    """Whether an optimizer trains parts of what ran in some forward passes; None if it is not certain."""
    if any(each is trained and each is not UNKNOWN for each in passes for trained in optimizer.trains):
        return True
    if not passes or any(isinstance(each, Unknown) for each in (*passes, *optimizer.trains)):
        return None
    shared = parts_shared(pipeline, passes) & parts_shared(pipeline, optimizer.trains)
    # A size that two networks were given is a part of both, and has no gradients.
    parts = (part for each in passes if shared for part in modules_in(each))
    is_shared = any(id(part) in shared and not isinstance(part, Unknown) for part in parts)
    return is_shared or (None if shared else False)


def step_of(pipeline: Pipeline, training: TrainingLoop) -> Event:
    """The first step of a loop that may use the gradients of its backward call."""
    steps = (step for step in training.steps if reaches(pipeline, training.backward, step.subject) is not False)
    return next(steps, training.steps[0])


def _graphs_of(pipeline: Pipeline, backward: Event) -> Sequence[Event]:
    """The forward passes whose graph a backward call may go through.

    An earlier backward call frees the graphs that it went through: what came before it counts only if something is
    detached, so that it may not have gone through all, or graphs are retained.
    """
    since = passes_of(pipeline, backward)
    if since and backward.loops and not pipeline.cached(_keeps_graphs, backward.loops[-1]):
        return since
    around = _around(pipeline, backward)
    earlier = around[: bisect_left(around, backward.order, key=_order_of)]
    return [event for event in earlier if event.act is Act.FORWARD and event.records_for(backward)]


def is_of_other(pipeline: Pipeline, event: Event, optimizer: Value) -> bool:
    """Whether an event of a loop certainly concerns only the gradients of another optimizer."""
    if event.act is Act.BACKWARD:
        return reaches(pipeline, event, optimizer) is False
    return event.act in ON_GRADIENTS and concerns(pipeline, event, optimizer) is False


def contradict(one: Event, other: Event) -> bool:
    """Whether two events exclude each other: their conditions are never true in the same iteration."""
    if not one.conditions or not other.conditions:
        return False
    others = [(each, each.code) for each in other.conditions]
    for mine in one.conditions:
        code = mine.code
        for yours, its_code in others:
            if mine is yours:
                continue
            if _are_opposite(code, its_code):
                return True
            if code and its_code and code != its_code and mine.location == yours.location:
                return True
    return False


@lru_cache(maxsize=4096)  # loops with many events under conditions ask this of each pair
def _are_opposite(code: str, other: str) -> bool:
    return _plain(code) == _plain(f"not ({other})")


def _plain(code: str) -> tuple[str, bool]:
    """A condition without its negation, and whether it is negated."""
    code, is_negated = code.strip(), False
    while match := re.fullmatch(r"not \((.*)\)|not (\w[\w.]*)", code):
        code, is_negated = match[1] if match[2] is None else match[2], not is_negated
    for negative, positive in NEGATED:
        if negative in code:
            return code.replace(negative, positive, 1), not is_negated
    return code, is_negated


def swap_of(pipeline: Pipeline, first: Event, second: Event) -> tuple[str, str] | None:
    """The code of two one-line statements on consecutive lines; None for other statements."""
    one, other = first.location, second.location
    if one.path != other.path or one.end_line + 1 != other.line or one.column != other.column:
        return None
    lines = pipeline.source_of(one).lines
    codes = [pipeline.code(location) for location in (one, other)]
    whole = [lines[location.line - 1].partition("#")[0].strip() for location in (one, other)]
    is_whole = one.line == one.end_line and other.line == other.end_line and whole == codes
    return (codes[0], codes[1]) if is_whole else None


def is_switched_off(scaler: Value) -> bool:
    """Whether a gradient scaler is not enabled: certainly, or as long as a switch is not passed.

    Another value of an option enables it: `enabled=options.dtype == "float16"`.
    """
    enabled = scaler.arguments.get("enabled") if isinstance(scaler, Scaler) else None
    if not isinstance(enabled, Constant) or enabled.value:
        return False
    return enabled.default is None or enabled.default.is_switch or not enabled.default.option


def divisor_of(launcher: Launcher) -> Value:
    """The accumulation steps of an Accelerator, by which it divides the loss."""
    return launcher.arguments.get("gradient_accumulation_steps", UNKNOWN if launcher.is_open else Constant(1))


def launchers_of(value: Value, launchers: Sequence[Launcher]) -> list[Launcher]:
    """The launchers that prepare a value."""
    return [launcher for launcher in launchers if any(each is value for each in launcher.prepared)]


def loops_and_steps(pipeline: Pipeline) -> Iterator[TrainingLoop]:
    """The training loops, the functions that train one step for a caller elsewhere, and a pasted body of a loop."""
    yield from training_loops(pipeline)
    for backward in pipeline.acts(Act.BACKWARD):
        around = None if backward.loops else _body_around(pipeline, backward)
        if around is None:
            continue
        inside = [each for each in pipeline.events if each.reading == backward.reading and not each.loops]
        steps = tuple(each for each in inside if each.act is Act.STEP and each.order > backward.order)
        if steps:
            yield TrainingLoop(Loop(around), backward, steps, inside)


def _body_around(pipeline: Pipeline, backward: Event) -> Location | None:
    """The unused function around a backward call, or all of a piece of a script that has no loop around it."""
    source = pipeline.source_of(backward.location)
    if backward.uncalled:
        around = scope_of(pipeline, backward.location)
        return source.location(around) if isinstance(around, ast.FunctionDef) else None
    is_piece = source.is_partial and not backward.function
    return Location(source.path, 1, 1, len(source.lines), 1) if is_piece else None


ACCUMULATES = re.compile(
    r"%|accum|update_step|should_step|should_update|\b(acc|ga)_(b|batch|batches|steps?|iters?)\b", re.IGNORECASE
)
"""Conditions of a step that is made after several batches."""


def accumulated_step(pipeline: Pipeline, training: TrainingLoop) -> Event | None:
    """The step of a loop that is made only after several batches, each with its own backward pass.

    None where the loop steps several optimizers, of which one may just be used less often.
    """
    loop, around = training.loop, {each.code for each in training.backward.conditions}
    # Under `if amp:` there may be another step, of a backward pass on the other side.
    steps = [step for step in training.steps if not contradict(step, training.backward)]
    # `if amp:` may be asked again, within `if (i + 1) % 4 == 0:` or around it.
    if len({id(step.subject) for step in steps}) != 1 or any(
        not around.issubset(each.code for each in step.conditions) for step in steps
    ):
        return None
    first = steps[0]
    conditions = [each for step in steps for each in step.conditions if each.code not in around]
    if any(literal(each.period) == 1 for each in conditions):
        return None  # `i % 1 == 0`
    are_periodic = all(_is_rarer(step, training.backward, loop) for step in steps)
    code = pipeline.code(loop.location)
    if not are_periodic or not any(ACCUMULATES.search(each.code) or _counts(each, code) for each in conditions):
        return None
    backwards = (event for event in training.inside if event.act is Act.BACKWARD)
    is_own = any(event.conditions == first.conditions for event in backwards)
    return None if is_own else first


def _counts(condition: Condition, code: str) -> bool:
    """Whether a test is that of a counter, which the code of its loop increases in each iteration and sets back."""
    match condition.test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.GtE()]) if not condition.is_else:
            return all(re.search(rf"\b{name} *{end}", code) for end in (r"(?:\+= *1|= *\w+ *\+ *1)\b", r"= *0\b"))
        case _:
            return False


def is_in_each_batch(event: Event, training: TrainingLoop, step: Event) -> bool:
    """Whether an event happens with each backward pass of a loop, or with none: in a run that clips, in each of them.

    `step` is the one that is made only after several batches.
    """
    own = [each.code for each in event.conditions if each not in training.backward.conditions]
    rarer = {each.code for each in step.conditions if each not in training.backward.conditions}
    return rarer.isdisjoint(own) and not any(SOME_BATCHES.search(code) for code in own)


SOME_BATCHES = lazy_pattern(r"%|accum|step|\b(i|idx|it|iter|iteration|batch_idx|batch|epoch|count\w*)\b", re.IGNORECASE)
"""Conditions that may change from batch to batch."""


def _is_rarer(step: Event, backward: Event, loop: Loop) -> bool:
    """Whether some iterations skip a step though they compute gradients for it."""
    is_skipped = step.is_conditional_in(loop) if loop in step.loops else bool(step.conditions)
    return is_skipped and len(step.conditions) > len(backward.conditions)
