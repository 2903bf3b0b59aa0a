"""Networks that contribute to a loss, and whose parameters no optimizer gets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import evaluations, expressions, script_text, training_loops
from lintrain.model.location import Location
from lintrain.pipeline import blocks, events, modules
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values import model, python
from lintrain.startup.lazy_pattern import lazy_pattern

NOT_TRAINED = frozenset(
    {"random", "target", "targets", "teacher", "frozen", "fixed", "static", "reference", "ref", "prior", "reservoir"}
)
"""Words in the names of modules that are not trained: fixed networks of distillation and random features."""

DETACHES = lazy_pattern(r"\.detach\(|(?<!utils)\.data\b")

HANDS_ON = "parameters|named_parameters|load_state_dict|requires_grad_|detach"

ASSIGNED = lazy_pattern(r"\s*(\w+)\s*=[^=]")

SUMS = lazy_pattern(r"\bsum\(|\bprint\(|\blog\w*\.")

COUNTS = lazy_pattern(r"clip_grad_|numel")
"""Calls on parameters that do not train them."""

INITIALISES = lazy_pattern(r"init|xavier|glorot|kaiming|weight|summary|count|describe", re.IGNORECASE)
"""Names of functions that set the first weights of a module, or print something about it."""

COMMENT = lazy_pattern(r"(?m)^[ \t]*#.*$")

MAY_FREEZE = lazy_pattern(r"requires_grad(?!\s*=\s*True\b|_\((?:True)?\))|no_grad|inference_mode")

MODES = "train|eval|parameters|zero_grad|named_parameters|state_dict"
"""Methods of a module that do not run it."""


def names_of(pipeline: Pipeline, module: python.Value) -> list[str]:
    """The name of a module and those of parameters that get it, or the attribute of `self` that it was made for.

    None of a module with two names where it was made.
    """
    bindings = pipeline.names_of(module)
    names = list(dict.fromkeys(binding.name for binding in bindings))
    if bindings:
        first = blocks.scope_of(pipeline, bindings[0].location)
        own = {each.name for each in bindings if blocks.scope_of(pipeline, each.location) is first}
        names = names if len(own) == 1 else []
    if bindings or module.origin is None:
        return names
    made = expressions.assignment_at(pipeline, module.origin)
    targets = [target.code for target in made.targets] if made else []
    return targets if all(target.startswith("self.") for target in targets) else []


def _is_of_the_class(pipeline: Pipeline, training: training_loops.TrainingLoop, module: python.Value) -> bool:
    """Whether a function that the file does not call trains what was made together with its optimizers."""
    optimizers = [step.subject for step in training.steps]
    if module.origin is None or any(each.origin is None for each in optimizers):
        return False
    made = blocks.scope_of(pipeline, module.origin)
    return all(blocks.scope_of(pipeline, each.origin) is made for each in optimizers if each.origin)


def trained(pipeline: Pipeline) -> list[python.Value]:
    """The modules in all optimizers; empty unless they are known for every optimizer."""
    known = [optimizer for optimizer in pipeline.optimizers if optimizer.trains and not optimizer.is_extended]
    steps = pipeline.acts(events.Act.STEP)
    are_all_known = all(
        training_loops.is_certain_step(step) and isinstance(step.subject, model.Optimizer) for step in steps
    )
    if len(known) != len(pipeline.optimizers) or not are_all_known:
        return []
    return [module for optimizer in known for module in optimizer.trains]


def of_another(pipeline: Pipeline) -> Iterator[tuple[Location, str, events.Event, str]]:
    """The optimizers of a network that is not understood, in loops that train another one which the file makes."""
    for training in training_loops.training_loops(pipeline):
        optimizer = training.steps[0].subject
        if any(step.subject is not optimizer for step in training.steps) or not isinstance(optimizer, model.Optimizer):
            continue
        passes = list(forwards(training))
        if optimizer.origin is None or len(optimizer.trains) != 1 or len({id(each.subject) for each in passes}) != 1:
            continue
        given, ran = (
            value.name if isinstance(value, python.Unknown) else ""
            for value in (optimizer.trains[0], passes[0].subject)
        )
        are_named = given.isidentifier() and ran.isidentifier() and given != ran
        if are_named and _is_elsewhere(pipeline, given, ran, training):
            yield optimizer.origin, given, passes[0], ran


def _is_elsewhere(pipeline: Pipeline, given: str, ran: str, training: training_loops.TrainingLoop) -> bool:
    """Whether the file makes both networks by calls of their own, and the loop uses only the second one."""
    code = pipeline.code(training.loop.location)
    named = frozenset(re.findall(r"\w+", code))
    reached = [code, *script_text.code_of_functions(pipeline, named)]
    uses = re.compile(rf"\b{given}\b(?!\.({MODES})\()")
    made = [re.compile(rf"(?m)^\s*{name} *= *\w[\w.]*\(([^\n]*)\n") for name in (given, ran)]
    calls = [
        [match[1] for source in pipeline.sources.values() for match in each.finditer(source.text)] for each in made
    ]
    are_made = all(len(each) == 1 for each in calls) and not re.search(rf"\b{given}\b", calls[1][0])
    return are_made and not any(uses.search(each) for each in reached)


def forwards(training: training_loops.TrainingLoop) -> Iterator[events.Event]:
    """The forward passes with gradients before the backward pass of a loop."""
    for event in training.inside:
        is_earlier = event.act is events.Act.FORWARD and event.order < training.backward.order
        if is_earlier and event.records_for(training.backward):
            yield event


def is_left_out(
    pipeline: Pipeline, training: training_loops.TrainingLoop, forward: events.Event, trained: frozenset[int]
) -> bool:
    """Whether a custom module with new weights certainly contributes to the loss and is never trained."""
    module = forward.subject
    if not isinstance(module, model.Module | python.Instance) or not modules.has_parameters(module):
        return False
    names = names_of(pipeline, module)
    if not names or (forward.uncalled and not _is_of_the_class(pipeline, training, module)):
        return False
    if not trained.isdisjoint(expressions.parts_shared(pipeline, [module])) or not training_loops.runs_whenever(
        forward, training.backward
    ):
        return False
    fate = pipeline.acts(events.Act.FREEZE, events.Act.ESCAPE, events.Act.NEW_PART)
    if (
        _may_be_detached(pipeline, training)
        or any(_is_held(pipeline, name) or _is_meant_to_be_frozen(pipeline, name) for name in names)
        or any(_is_held(pipeline, owner, by_part=False) for owner in _owners(pipeline, forward))
        or _stays_in_eval_mode(pipeline, module)
        or any(training_loops.touches(pipeline, event, module) and not _initialises(pipeline, event) for event in fate)
    ):
        return False
    is_fixed = any(training_loops.words_of(name) & NOT_TRAINED for name in names)
    is_fixed = is_fixed or _is_fixed(module) or _is_filter(pipeline, module)
    return not is_fixed and not script_text.mentions(pipeline, r"\b(globals|locals)\(\)")


def _is_meant_to_be_frozen(pipeline: Pipeline, name: str) -> bool:
    """Whether code sets `requires_grad` of the module itself: that freezes nothing, but tells what is meant."""
    return script_text.mentions(pipeline, rf"\b{re.escape(name)}\.requires_grad\s*=\s*False")


def networks_built(pipeline: Pipeline) -> dict[str, Location]:
    """The networks that a text builds and may train: those that a training loop runs, or all if none is run."""
    passes = [event for event in pipeline.acts(events.Act.FORWARD) if not event.without_grad]
    trained = [
        forward.subject for training in training_loops.training_loops(pipeline) for forward in forwards(training)
    ]
    found: dict[str, Location] = {}
    for binding in pipeline.bindings:
        value = binding.value
        if not isinstance(value, python.Instance) or value.origin is None or not modules.has_parameters(value):
            continue
        if passes and not any(each is value for each in trained):
            continue
        if not _stays_in_eval_mode(pipeline, value) and not _is_held(pipeline, binding.name):
            found[binding.name] = value.origin
    return found


def _initialises(pipeline: Pipeline, event: events.Event) -> bool:
    """Whether a call of unknown code only gives a module its first weights, by its name."""
    callee = pipeline.code(event.location).partition("(")[0]
    return event.act is events.Act.ESCAPE and not event.loops and INITIALISES.search(callee) is not None


def may_run_otherwise(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether a loop that calls no trained module may run one by another method, or train something else."""
    # A loop may step thousands of times; its optimizers are few.
    own = {id(step.subject): step.subject for step in training.steps}.values()
    modules_of = [module for each in own if isinstance(each, model.Optimizer) for module in each.trains]
    names = dict.fromkeys(binding.name for module in modules_of for binding in pipeline.names_of(module))
    code = pipeline.code(training.loop.location)
    for forward in training.inside:
        if forward.act is events.Act.FORWARD and forward.without_grad:
            code = code.replace(pipeline.code(forward.location), "")
    uses = (re.search(rf"\b{re.escape(name)}\b(?!\.({MODES})\()", code) for name in names)
    return not names or any(uses)


def _may_be_detached(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether a loop, or a function or class that it names, takes something off the graph before `backward`."""
    loop, backward = training.loop.location, training.backward.location
    code = COMMENT.sub("", pipeline.code(loop))
    before, call, _ = code.partition(pipeline.code(backward))
    if DETACHES.search(before + call):
        return True
    named = frozenset(re.findall(r"\w+", code)) | {"forward"}
    return any(DETACHES.search(code) for code in script_text.code_of_functions(pipeline, named))


def may_get_gradient(pipeline: Pipeline, name: str) -> bool:
    """Whether code switches on the gradient of a tensor by its name, or hands it to a call that may do so."""
    word = rf"\b{re.escape(name)}\b"
    switches = rf"(?m){word}(?:\.\w+|\[[^\]]*\])*\.requires_grad|^\s*(?!print)[\w.]+\((?:.*\W)?{word}"
    return script_text.mentions(pipeline, switches)


def _owners(pipeline: Pipeline, forward: events.Event) -> list[str]:
    """What a call reaches its module through, as far as it has names: `self.clip` of `self.clip.encoder(x)`."""
    parts = training_loops.callee_text(pipeline, forward).split(".")[:-1]
    return [".".join(parts[: count + 1]) for count in range(len(parts)) if parts[: count + 1] != ["self"]]


def _is_held(pipeline: Pipeline, name: str, *, by_part: bool = True) -> bool:
    """Whether code hands on the parameters of a module, loads or frees them, otherwise than to clip or count them.

    `by_part` if those of a part of it count too.
    """
    parts = r"(\.\w+)*" if by_part else ""
    held = re.compile(rf"\b{re.escape(name)}\b{parts}\.({HANDS_ON})\(")
    return any(
        held.search(line) and not COUNTS.search(line) and not _is_only_counted(source.lines, line)
        for source in pipeline.sources.values()
        for line in source.lines
    )


def _is_only_counted(lines: Sequence[str], line: str) -> bool:
    """Whether a line makes a list of parameters that no other line uses but to count them."""
    made = ASSIGNED.match(line)
    if made is None:
        return False
    named = re.compile(rf"\b{made[1]}\b")
    uses = [each for each in lines if named.search(each.partition("#")[0]) and not _assigns(each, made[1])]
    return all(COUNTS.search(each) or SUMS.search(each) for each in uses)


def _assigns(line: str, name: str) -> bool:
    made = ASSIGNED.match(line)
    return made is not None and made[1] == name


def _stays_in_eval_mode(pipeline: Pipeline, module: python.Value) -> bool:
    """Whether a module is put into eval mode for good, as fixed ones are: nothing gives it train mode again."""
    switches = [
        each for each in pipeline.acts(*evaluations.SETS_MODE) if training_loops.touches(pipeline, each, module)
    ]
    restoring = [each for each in switches if each.act is events.Act.RESTORE_MODE]
    is_trained = any(each.act is events.Act.TRAIN_MODE for each in switches)
    lasting = (
        each for each in switches if each.act is events.Act.EVAL_MODE and not evaluations.is_undone(each, restoring)
    )
    return not is_trained and any(lasting)


def _is_fixed(module: python.Value) -> bool:
    """Whether the class of the module, or of a part of it, freezes weights or has a name that implies it."""
    classes = [
        owner
        for part in modules.modules_in(module)
        if isinstance(part, python.Instance)
        for owner in part.cls.lineage()
    ]
    return any(
        training_loops.words_of(owner.node.name) & NOT_TRAINED or MAY_FREEZE.search(expressions.code_of(owner))
        for owner in classes
    )


def _is_filter(pipeline: Pipeline, module: python.Value) -> bool:
    """Whether each iteration gives a layer weights of the script's own, as a fixed filter has: it cannot learn any."""
    return any(
        event.subject is module and event.loops and python.literal(event.details["name"]) == "weight"
        for event in pipeline.acts(events.Act.REPLACE)
    )
