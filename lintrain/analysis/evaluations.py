"""Evaluations: the loops and functions that run a model without training it, and the mode that their passes run in.

What happens decides: no step, gradients off, eval mode, held-out rows. Names only add to it.
"""

from __future__ import annotations

import ast
import re
from collections import abc
from collections.abc import Iterator, Mapping
from functools import lru_cache

from lintrain.analysis import expressions, training_loops
from lintrain.analysis.held_out import held_out_names
from lintrain.analysis.training_loops import words_of
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.layer_modes import differs_by_mode, ignores_mode, sets_own_mode
from lintrain.pipeline.modules import has_parameters, is_module, modules_in
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Module, Optimizer
from lintrain.pipeline.values.python import UNKNOWN, Bound, Class, Function, Instance, Sequence, Unknown, Value, literal
from lintrain.source.nodes import unparse, walk
from lintrain.source.project_search import scripts_have_modes
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

EVALUATION_WORDS = frozenset(
    {"val", "valid", "validate", "validation", "eval", "evaluate", "evaluation", "test", "testing", "dev", "holdout"}
)
TRAINING_WORDS = frozenset({"train", "training", "trainer", "fit", "learn", "update"})

SPECIAL_WORDS = frozenset(
    {"mc", "dropout", "uncertainty", "montecarlo", "adversarial", "attack", "pgd", "fgsm", "saliency"}
)
"""Words in the names of evaluations that use train mode, or gradients, on purpose."""

TRAINING_ACTS = frozenset({Act.BACKWARD, Act.STEP, Act.ZERO_GRAD, Act.GRADIENT})

COUNTS = lazy_pattern(r"\b(range|arange|count|repeat)\(")
"""Loops that count, and do not iterate over rows."""

UNIT_TEST = lazy_pattern(
    r"test_(?!(all|and|epoch|step|loop|model|net|network|one|batch|set|data|loader|single|on|acc)\b)\w"
)
"""Names of functions that test code, and no model."""


def evaluation_loop(pipeline: Pipeline, event: Event) -> Loop | None:
    """The innermost loop around an event, if it evaluates and nothing in it trains."""
    for loop in reversed(event.loops):
        if pipeline.cached(_trains, loop):
            return None
        is_named_so = loop is event.loops[-1] and _is_named_for_evaluation(loop, event)
        if is_named_so or _only_runs_model(pipeline, event, loop):
            return loop
        if not COUNTS.search(loop.header):  # `for flip in range(2)`, once for each batch
            return None
    return None


def evaluates(pipeline: Pipeline, event: Event) -> bool:
    """Whether an event is in an evaluation loop, or in an evaluation function that does not train.

    Under `if model.training:` it belongs to one of the two, and only the caller decides which.
    """
    if any(".training" in condition.code for condition in event.conditions):
        return False
    if evaluation_loop(pipeline, event) is not None or _runs_on_one_batch(pipeline, event):
        return True
    # A network that calls its own `forward` in `evaluate` may do so for its training: actors are evaluated at states.
    if pipeline.code(event.location).startswith("self.forward("):
        return False
    words = words_of(event.function)
    if not words & EVALUATION_WORDS or words & (TRAINING_WORDS | SPECIAL_WORDS) or UNIT_TEST.match(event.function):
        return False
    inside = (other for other in pipeline.acts(*TRAINING_ACTS) if other.function == event.function)
    return not any(inside) and not any(words_of(loop.header) & TRAINING_WORDS for loop in event.loops)


def _rows_given(pipeline: Pipeline, forward: Event) -> str:
    """The name that a model gets first, as it is, moved or in a `Variable`; empty for anything else."""
    code = pipeline.code(forward.location).partition("(")[2].removesuffix(")")
    match = ROWS.fullmatch(code.partition(", ")[0].strip()) or ROWS.fullmatch(code.strip())
    return match[1] if match else ""


ROWS = lazy_pattern(r"(?:(?:\w+\.)*Variable\()?([\w.]+?)(?:\.(?:cuda|float|to)\([\w\"']*\))*\)?")


def evaluates_rows(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass gets all rows of an evaluation, `net(x_test)`, and nothing trains after it in its iteration."""
    name = _rows_given(pipeline, forward)
    words = words_of(name)
    is_held_out = name in pipeline.source_of(forward.location).cached(held_out_names)
    is_named_so = bool(words & EVALUATION_WORDS) and not words & TRAINING_WORDS
    if not (is_held_out or is_named_so) or _is_made_up(pipeline, forward, name):
        return False
    depth = len(forward.loops)
    acts = (event for event in pipeline.acts(*TRAINING_ACTS) if event.function == forward.function)
    return not any(event.order > forward.order and event.loops[:depth] == forward.loops for event in acts)


def _is_made_up(pipeline: Pipeline, forward: Event, name: str) -> bool:
    """Whether a name was last bound to random or constant numbers, as who tries out a network does."""
    source = pipeline.source_of(forward.location)
    before = "\n".join(source.lines[: forward.location.line])
    bound = re.findall(rf"(?m)^[ \t]*{re.escape(name)}[ \t]*=[ \t]*(.*)", before)
    return bool(bound) and MADE_UP.match(bound[-1]) is not None


MADE_UP = lazy_pattern(r"(?:torch|np|numpy|np\.random|tf\.random)\.(?:rand\w*|zeros|ones|empty|full|normal|uniform)\(")

TAKES_BATCH = lazy_pattern(r"\bnext\(\s*(?:(?:iter|enumerate)\()?\s*(?P<rows>[\w.]+)")
"""One batch of a loader: `next(iter(test_loader))`."""


def _runs_on_one_batch(pipeline: Pipeline, event: Event) -> bool:
    """Whether a training loop evaluates one batch of other rows in some iterations: `next(iter(test_loader))`."""
    condition = event.conditions[-1] if event.conditions else None
    if condition is None or not event.loops or not condition.location.holds(event.location):
        return False
    lines = pipeline.source_of(event.location).lines[condition.location.line : event.location.line]
    taken = [match["rows"] for line in lines for match in TAKES_BATCH.finditer(line)]
    if not taken or not words_of(taken[-1]) & EVALUATION_WORDS or words_of(taken[-1]) & TRAINING_WORDS:
        return False
    inside = training_loops.events_in(pipeline, event.loops[-1])
    return not any(other.act is Act.BACKWARD and other.order > event.order for other in inside)


def is_named(pipeline: Pipeline, event: Event) -> bool:
    """Whether an evaluation is one by its name, whatever happens in it."""
    return not event.loops or _is_named_for_evaluation(event.loops[-1], event)


def _trains(pipeline: Pipeline, loop: Loop) -> bool:
    return any(event.act in TRAINING_ACTS for event in training_loops.events_in(pipeline, loop))


def _is_named_for_evaluation(loop: Loop, event: Event) -> bool:
    header, function = words_of(loop.header), words_of(event.function)
    if header & SPECIAL_WORDS or function & SPECIAL_WORDS:
        return False
    is_function = bool(function & EVALUATION_WORDS) and not function & TRAINING_WORDS
    # A test may also run on the rows of the training: without gradients it trains on none of them.
    if header & TRAINING_WORDS:
        return is_function and event.without_grad
    return is_function or bool(header & EVALUATION_WORDS)


def _only_runs_model(pipeline: Pipeline, event: Event, loop: Loop) -> bool:
    """Whether a loop over rows runs a model that another loop trains, without gradients or in eval mode."""
    header, function = words_of(loop.header), words_of(event.function)
    if (header | function) & SPECIAL_WORDS or header & TRAINING_WORDS or not _is_over_rows(pipeline, loop):
        return False
    around = [event] if event.act is Act.FORWARD else training_loops.events_in(pipeline, loop)
    passes = [each for each in around if each.act is Act.FORWARD and (each is event or each.loops[-1] is loop)]
    if function & TRAINING_WORDS:
        # `fit` may also evaluate: what it runs in eval mode, of the model that it trains.
        passes = [each for each in passes if is_in_eval_mode(pipeline, each)]
    return any(_is_for_evaluation(pipeline, forward) for forward in passes)


def _is_for_evaluation(pipeline: Pipeline, forward: Event) -> bool:
    runs_only = forward.without_grad or is_in_eval_mode(pipeline, forward)
    is_ready = is_trained(pipeline, forward.subject) or is_loaded(pipeline, forward.subject) or _only_loads(pipeline)
    return runs_only and is_ready and not is_learned_from(pipeline, forward)


def _only_loads(pipeline: Pipeline) -> bool:
    """Whether a script loads weights and trains nothing, so that all its passes are those of a trained model."""
    is_trained_here = bool(pipeline.acts(Act.BACKWARD, Act.STEP, Act.TRAIN)) or pipeline.source.is_partial
    return not is_trained_here and any(source.contains(LOADS_WEIGHTS) for source in pipeline.sources.values())


LOADS_WEIGHTS = lazy_pattern(r"\.load_(?:state_dict|weights|checkpoint|pretrained\w*)\(")


def _is_over_rows(pipeline: Pipeline, loop: Loop) -> bool:
    over = loop.over
    calls = isinstance(over, Sequence) and any(isinstance(each, Function | Bound | Class) for each in over.items)
    return pipeline.code(loop.location).startswith("for ") and not calls and not COUNTS.search(loop.header)


def is_in_eval_mode(pipeline: Pipeline, forward: Event) -> bool:
    """Whether the model of a forward pass was certainly put into eval mode, and not back."""
    latest = mode_before(pipeline, forward)
    if latest is None or latest.act is not Act.EVAL_MODE or latest.reading != forward.reading:
        return False
    return training_loops.always_with(latest, forward)


def is_trained(pipeline: Pipeline, model: Value) -> bool:
    """Whether the script certainly trains a model: `backward` follows a forward pass of it that records gradients."""
    if isinstance(model, Module) and not has_parameters(model):
        return False  # a sigmoid that a method of the trainer uses
    trained = pipeline.cached(_trained_parts, pipeline)
    return not trained.isdisjoint(expressions.touched_by(pipeline, model))


def _trained_parts(pipeline: Pipeline, _: Pipeline) -> frozenset[int]:
    passes = pipeline.cached(_training_passes, pipeline)
    return frozenset[int]().union(*(expressions.touched_by(pipeline, forward.subject) for forward in passes))


def is_loaded(pipeline: Pipeline, model: Value) -> bool:
    """Whether the script loads trained weights into a model, which leaves it in train mode."""
    names = {binding.name for binding in pipeline.names_of(model)}
    loads = (rf"(^|[^\w.]){re.escape(name)}(\.module)?{LOADS_WEIGHTS.pattern}" for name in names)
    return any(source.contains(pattern) for pattern in loads for source in pipeline.sources.values())


def only_teaches(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a training loop only takes targets from a model that was trained before: its weights come from a file."""
    passes = [event for event in pipeline.acts(Act.FORWARD) if event.subject is forward.subject]
    # An unknown context manager may leave autograd on, and then the model learns.
    if not forward.loops or not all(event.is_off for event in passes) or not is_loaded(pipeline, forward.subject):
        return False
    inside = training_loops.events_in(pipeline, forward.loops[-1])
    return any(event.act is Act.BACKWARD for event in inside) and not _is_copied(pipeline, forward.subject)


def _is_copied(pipeline: Pipeline, model: Value) -> bool:
    """Whether a model gets the weights of another one of the script, as a target network or an average does."""
    names = {binding.name for binding in pipeline.names_of(model)}
    copies = (rf"\b{re.escape(name)}(?:\.module)?\.load_state_dict\([^)\n]*\.state_dict\(" for name in names)
    return any(source.contains(pattern) for pattern in copies for source in pipeline.sources.values())


def _training_passes(pipeline: Pipeline, _: Pipeline) -> list[Event]:
    """The forward passes that a backward call follows in the innermost loop around it, one for each model."""
    found: dict[int, Event] = {}
    for training in training_loops.training_loops(pipeline):
        for event in training.inside:
            is_earlier = event.act is Act.FORWARD and event.order < training.backward.order
            if is_earlier and event.records_for(training.backward):
                found.setdefault(id(event.subject), event)
    return list(found.values())


def is_learned_from(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a later `backward` of the same iteration may use what a forward pass in an inner loop gave."""
    last, around = pipeline.cached(_last_backwards, pipeline), forward.loops[:-1]
    # Loops nest: a backward pass of the same iteration is in the first of these loops, as many as there are.
    return any(last.get(frozenset(map(id, around[:count])), -1) > forward.order for count in range(len(around) + 1))


def _last_backwards(pipeline: Pipeline, _: Pipeline) -> dict[frozenset[int], int]:
    """The order of the last backward pass inside exactly these loops."""
    return {frozenset(map(id, each.loops)): each.order for each in pipeline.acts(Act.BACKWARD)}


ABOUT_GRADIENTS = lazy_pattern(r"zero|clear|grad|optim|backward", re.IGNORECASE)
ABOUT_MODE = lazy_pattern(r"train|eval|valid|test|mode|fit|run|epoch|step", re.IGNORECASE)
"""Names of unknown functions that clear gradients or run an optimizer, and of those that may set a mode."""

STEPS = lazy_pattern(r"(^|[._])(opt(im\w*)?|scaler)(\[.*\])?\.(step|update|zero_grad)$", re.IGNORECASE)
"""Methods of optimizers and scalers that are not known more closely."""

KEEPS_MODE = lazy_pattern(
    r"(^|[._])(early_?stop\w*|stopp\w*|save_\w+|checkpoint\w*|log_\w+|watch|add_graph|count_\w+|num_param\w*|"
    r"(update_)?ema(\.\w+)?|update_parameters|clip_\w+|summon_full_params|unwrap\w*|sliding_window_inference)$",
    re.IGNORECASE,
)
"""Names of functions that get a model to save it, to count or copy its weights, to unwrap it, or to run it."""

SETS_MODE = frozenset({Act.TRAIN_MODE, Act.EVAL_MODE, Act.RESTORE_MODE})


def deciding(pipeline: Pipeline, at: Event, *acts: Act) -> Iterator[Event]:
    """The events of these kinds before an event, latest first, without those whose effect on its model is undone.

    `model.train(was_training)` undoes what happened since the script asked for the mode.
    """
    wanted = frozenset(acts)
    order = at.order
    while order > 0:
        order -= 1
        event = pipeline.events[order]
        if event.act is Act.RESTORE_MODE and training_loops.covers(event, at.subject):
            order = min(_since(event), order)
        elif event.act in wanted or (event.act is Act.RESTORE_MODE and Act.ESCAPE in wanted):
            yield event


def mode_before(pipeline: Pipeline, at: Event) -> Event | None:
    """The last call that sets the mode of the whole model of a forward pass; None if there is none."""
    if pipeline.acts(Act.RESTORE_MODE):
        switches = deciding(pipeline, at, Act.TRAIN_MODE, Act.EVAL_MODE)
        return next((event for event in switches if training_loops.covers(event, at.subject)), None)
    own = pipeline.cached(_switches_by_part, pipeline).get(id(at.subject), [])
    before = training_loops.index_of(own, at)
    return own[before - 1] if before else None


def _switches_by_part(pipeline: Pipeline, _: Pipeline) -> Mapping[int, list[Event]]:
    """The calls that set a mode, for every module whose whole mode they set, in order."""
    found: dict[int, list[Event]] = {}
    for event in pipeline.acts(Act.TRAIN_MODE, Act.EVAL_MODE):
        for part in dict.fromkeys(map(id, modules_in(event.subject))):
            found.setdefault(part, []).append(event)
    return found


OFF = lazy_pattern(r"no_grad|inference_mode|set_grad_enabled\(False")


def may_be_off(pipeline: Pipeline, forward: Event) -> bool:
    """Whether all of a network runs with autograd off, or the file calls an unused function only so."""
    source = pipeline.source_of(forward.location)
    if forward.uncalled and source.contains(OFF.pattern):
        inside = source.cached(_inside_no_grad)
        # A method that a base class calls: `self.validate()`.
        name = forward.function.rpartition(".")[2]
        calls = [each for each in source.nodes_of(ast.Call) if unparse(each.func) in {name, f"self.{name}"}]
        if calls and all(id(each) in inside for each in calls):
            return True
    network = forward.subject
    return isinstance(network, Instance) and pipeline.cached(_runs_without_grad, network)


def _inside_no_grad(source: Source) -> frozenset[int]:
    """The nodes in the bodies of `with torch.no_grad():`."""
    blocks = (
        node for node in source.nodes_of(ast.With) if any(OFF.search(unparse(x.context_expr)) for x in node.items)
    )
    return frozenset(id(part) for node in blocks for each in node.body for part in walk(each))


def _runs_without_grad(_: Pipeline, network: Instance) -> bool:
    """Whether each layer that a class of the script calls runs with autograd off."""
    methods = [each for each in network.cls.node.body if isinstance(each, ast.FunctionDef)]
    is_any = False
    for method in methods:
        if any(OFF.search(unparse(each)) for each in method.decorator_list):
            is_any = True
            continue
        blocks = [each for each in walk(method) if isinstance(each, ast.With)]
        off = [each for each in blocks if any(OFF.search(unparse(item.context_expr)) for item in each.items)]
        inside = {id(part) for each in off for statement in each.body for part in walk(statement)}
        for call in (each for each in walk(method) if isinstance(each, ast.Call)):
            parts = unparse(call.func).split(".")
            if parts[0] == "self" and len(parts) > 1 and is_module(network.attributes.get(parts[1], UNKNOWN)):
                if method.name != "__init__" and id(call) not in inside:
                    return False
                is_any = is_any or id(call) in inside
    return is_any


def is_undone(switch: Event, inside: abc.Sequence[Event]) -> bool:
    """Whether one of these events always gives the model back the mode that it had before a switch."""
    return any(
        event.act is Act.RESTORE_MODE
        and _since(event) <= switch.order < event.order
        and training_loops.covers(event, switch.subject)
        and training_loops.always_with(event, switch)
        for event in inside
    )


def may_differ_by_mode(pipeline: Pipeline, model: Value) -> bool:
    """Whether a model may do something else in eval mode: its class says so, or it is of a project that has modes.

    A class that is read, and names neither dropout nor batch normalization, has none: its layers may be of any library.
    """
    if isinstance(model, Instance) or differs_by_mode(model):
        return differs_by_mode(model) and not sets_own_mode(model)
    return not ignores_mode(model) and scripts_have_modes(pipeline.source)


def may_change_mode(pipeline: Pipeline, event: Event, model: Value) -> bool:
    """Whether an event may set the mode of a model, in part or through unknown code."""
    if event.act in SETS_MODE:
        return isinstance(event.subject, Unknown) or training_loops.touches(pipeline, event, model)
    if event.act is not Act.ESCAPE:
        return False
    callee = pipeline.code(event.location).partition("(")[0]
    if isinstance(event.subject, Optimizer) or _keeps_mode(callee):
        return False  # an optimizer has the parameters of a model, and not the model
    # Code that gets only a part of the model cannot set the mode of the whole.
    if training_loops.touches(pipeline, event, model):
        return training_loops.covers(event, model)
    is_about_gradients = ABOUT_GRADIENTS.search(callee) is not None and not ABOUT_MODE.search(callee)
    return not is_about_gradients and training_loops.may_hide(pipeline, event, model)


@lru_cache(maxsize=1024)
def _keeps_mode(callee: str) -> bool:
    return STEPS.search(callee) is not None or KEEPS_MODE.search(callee) is not None


def _since(event: Event) -> int:
    since = literal(event.details["since"])
    return since if isinstance(since, int) else event.order
