"""Evaluation runs in train mode.

Without `eval()`, dropout stays active, and batch normalization uses the statistics of each batch and updates its
running statistics. The metrics are lower and differ from run to run, and validation data leaks into the model. A
teacher that is loaded to give targets, and was never put into eval mode, gives noisy ones.

## Bad

    for epoch in range(3):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for val_x, val_y in eval_loader:
                net(val_x)  # <- train-mode-in-eval

## Good

    for epoch in range(3):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            net.eval()
            for val_x, val_y in eval_loader:
                net(val_x)

## When it is fine

Dropout may stay enabled to measure uncertainty:

    def mc_dropout(net, test_loader):
        net.train()
        for x, y in test_loader:
            net(x)

The caller of a function may have called `eval()`:

    def evaluate(net, val_loader):
        for x, y in val_loader:
            net(x)

## Fix

Safe: an evaluation with dropout does not measure the model that is saved.

## References

PyTorch documentation, `torch.nn.Module.eval`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import adversaries, evaluations, expressions, mode_subjects, partial_modes, training_loops
from lintrain.pipeline import blocks, layer_modes, modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Model, Module
from lintrain.pipeline.values.python import UNKNOWN, Instance, Unknown
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

LOADS = lazy_pattern(r"\.load_state_dict\(")

NAMES_MODE = lazy_pattern(r"[(,]\s*_*(?:is_?|in_?)?(?:eval|evaluate|evaluation|train|training|mode)\w*\s*=")
"""An argument of a pass for the mode: what gets it may set the mode itself."""

SWITCHED = "switch"
"""The role of a call that sets train mode in the evaluation itself."""

OF_UNKNOWN = "train mode of unknown layers"
"""The role of a reason that another function gives, for a network whose layers are not known."""

MATTERS = ", which matters with dropout or batch norm"

MOVES = lazy_pattern(r"^[\w.]+\.(?:to|cuda|cpu|half|float)\(")
SETS_MODE = lazy_pattern(r"\.(?:eval|train)\(|set_mode")


@dataclass(frozen=True, slots=True)
class Claim:
    """The name of the model, None without a fix."""

    model: str | None


class TrainModeInEval(Rule[Claim]):
    level = Level.WARNING
    keywords = "train(|backward|no_grad|def val|def eval|def test|load_state_dict"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.writes_loops(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        for forward in pipeline.acts(Act.FORWARD):
            is_evaluation = evaluations.evaluates(pipeline, forward) or _evaluates_rows(pipeline, forward)
            is_evaluation = is_evaluation or (pipeline.source.is_partial and _runs_loaded_weights(pipeline, forward))
            is_evaluation = is_evaluation or partial_modes.left_out(pipeline, forward) is not None
            is_teacher = (
                not is_evaluation and _certainly_differs(forward) and evaluations.only_teaches(pipeline, forward)
            )
            if not is_evaluation and not is_teacher:
                continue
            reason = _why_in_train_mode(pipeline, forward)
            if reason is None or adversaries.is_judged_network(pipeline, forward) or _gives_losses(pipeline, forward):
                continue
            if NAMES_MODE.search(pipeline.code(forward.location)) or mode_subjects.is_plain_object(pipeline, forward):
                continue
            is_switched = reason.role == SWITCHED
            if is_switched or is_teacher or evaluations.may_differ_by_mode(pipeline, forward.subject):
                report = self._report_switch if is_switched else self._report
                finding = (self._report_teacher if is_teacher else report)(pipeline, forward, reason)
                found.setdefault(finding.location, finding)
        yield from found.values()

    def _report_teacher(self, pipeline: Pipeline, forward: Event, reason: Related) -> Finding[Claim]:
        shown = training_loops.callee_text(pipeline, forward) or "the model"
        return self.finding(
            forward.location,
            f"`{shown}` gives targets in train mode, so they are noisy",
            related=[reason],
            help=f"call `{shown}.eval()` before the training",
            claim=Claim(None),
        )

    def _report_switch(self, pipeline: Pipeline, forward: Event, reason: Related) -> Finding[Claim]:
        shown = training_loops.callee_text(pipeline, forward) or "the model"
        return self.finding(
            reason.location,
            f"`{shown}` is put into train mode for its evaluation",
            related=[Related(forward.location, "evaluated here", "evaluation")],
            help=f"call `{shown}.eval()` instead, and `{shown}.train()` before the training goes on",
            claim=Claim(None),
        )

    def _report(self, pipeline: Pipeline, forward: Event, reason: Related) -> Finding[Claim]:
        loop = evaluations.evaluation_loop(pipeline, forward)
        name = training_loops.callee_text(pipeline, forward)
        shown = name or "the model"
        is_of_unknown = reason.role == OF_UNKNOWN
        location = loop.location if loop else forward.location
        is_fixable = bool(name) and location.holds(forward.location) and _returns_to_training(pipeline, forward)
        return self.finding(
            training_loops.place_in(pipeline, forward, loop),
            f"`{shown}` is evaluated in train mode{MATTERS if is_of_unknown else ''}",
            related=[reason, Related(location, "evaluated here", "evaluation")],
            help=f"call `{shown}.eval()` before the evaluation",
            claim=Claim(name if is_fixable else None),
            level=Level.NOTE if is_of_unknown else None,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if location := evidence.first("evaluated_in_train_mode"):
            yield self.finding(
                location,
                "the model is evaluated in train mode",
                help="call `eval()` on the model before the evaluation, and `train()` after it",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if not loop.evaluated:
            return Verdict.inconclusive(f"no forward pass ran after {loop.steps} training steps")
        number = loop.evaluated_in_train_mode
        text = f"{number} of {loop.evaluated} evaluation passes ran with dropout or batch norm in train mode"
        return (Verdict.confirmed if number else Verdict.refuted)(text, evaluated_in_train_mode=number)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, locations = finding.claim, finding.with_role("evaluation")
        if claim is None or claim.model is None or not locations:
            return None
        statement = f"{claim.model}.eval()"
        return fixes.Fix.of(
            f"insert `{statement}` before the evaluation",
            fixes.InsertBefore(locations[0].location, statement),
            safe=True,
        )


def _gives_losses(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass gets targets too and gives a dictionary of losses, as detection models do in train mode alone."""
    call, made = expressions.call_at(pipeline, forward.location), expressions.assignment_at(pipeline, forward.location)
    name = made.name if made is not None else None
    is_given_targets = call is not None and len(call.arguments) > 1
    summed = rf"\bin {name}\.values\(\)|\bsum\({name}\.values\(\)"
    return bool(name) and is_given_targets and pipeline.source_of(forward.location).contains(summed)


def _certainly_differs(forward: Event) -> bool:
    return forward.without_grad and layer_modes.differs_by_mode(forward.subject)


def _why_in_train_mode(pipeline: Pipeline, forward: Event) -> Related | None:
    """Where the model was last put into train mode; None if it may have been put into eval mode since."""
    model = forward.subject
    alone = _switched_for_training_alone(pipeline, forward) if isinstance(model, Unknown) else None
    alone = alone or _left_out(pipeline, forward)
    if alone is not None:
        return alone
    for event in evaluations.deciding(pipeline, forward, Act.EVAL_MODE, Act.TRAIN_MODE, Act.ESCAPE):
        if event.act is Act.TRAIN_MODE and training_loops.covers(event, model):
            if _is_on_purpose(pipeline, event, forward) or mode_subjects.is_never_trained(pipeline, forward):
                return None
            is_certain = _in_one_reading(event, forward) and training_loops.always_with(event, forward)
            is_certain &= evaluations.is_named(pipeline, forward) or _trains_between(pipeline, event, forward)
            note = "put into train mode here, never into eval mode afterwards"
            is_switch = event.function == forward.function and event.location.line <= forward.location.line
            role = SWITCHED if is_switch and evaluations.evaluates(pipeline, event) else "train mode"
            return Related(event.location, note, role) if is_certain else None
        if evaluations.may_change_mode(pipeline, event, model):
            return None
    return _created_in_train_mode(pipeline, forward)


def _is_on_purpose(pipeline: Pipeline, switch: Event, forward: Event) -> bool:
    """Whether train mode is for this pass alone, as detection models need it for their losses: `eval()` follows."""
    if _follows_eval_of_whole(pipeline, switch):
        return True
    if switch.function != forward.function or _trains_between(pipeline, switch, forward):
        return False
    if _is_chosen(pipeline, switch):
        return True
    if len(forward.loops) > 1 and evaluations.COUNTS.search(forward.loops[-1].header):
        return True  # several passes for the same rows, whose spread is measured
    acts = {Act.TRAIN_MODE, Act.EVAL_MODE, Act.BACKWARD, Act.STEP}
    later = next((event for event in pipeline.events[forward.order + 1 :] if event.act in acts), None)
    is_eval = later is not None and later.act is Act.EVAL_MODE and training_loops.covers(later, forward.subject)
    return is_eval and later is not None and later.loops == switch.loops and later.function == forward.function


def _follows_eval_of_whole(pipeline: Pipeline, switch: Event) -> bool:
    """Whether a part gets train mode right after the whole got eval mode: `net.eval()`, then `net.decoder.train()`."""
    acts = {Act.TRAIN_MODE, Act.EVAL_MODE, Act.FORWARD, Act.BACKWARD}
    before = next((event for event in reversed(pipeline.events[: switch.order]) if event.act in acts), None)
    if before is None or before.act is not Act.EVAL_MODE or before.function != switch.function:
        return False
    return before.subject is not switch.subject and training_loops.covers(before, switch.subject)


def _is_chosen(pipeline: Pipeline, switch: Event) -> bool:
    """Whether another branch of the `if` around a switch sets eval mode, so that a caller asks for train mode."""
    name, source = pipeline.code(switch.location).partition(".train(")[0], pipeline.source_of(switch.location)
    # Where the caller is seen, its argument decides, and the switch has no condition.
    around = (each for each in source.cached(blocks.branches) if each.holds(switch.location))
    return any(f"{name}.eval(" in source.code(each) for each in around)


def _trains_between(pipeline: Pipeline, switch: Event, forward: Event) -> bool:
    """Whether train mode was for a training, and not for what follows it, such as statistics of batch norm."""
    return any(switch.order < event.order < forward.order for event in pipeline.acts(Act.BACKWARD))


def _created_in_train_mode(pipeline: Pipeline, forward: Event) -> Related | None:
    """Where a custom module was created, which is in train mode; it matters once the script trains it."""
    model = forward.subject
    if isinstance(model, Unknown):
        return _trained_here(pipeline, forward) or _never_in_eval_mode(pipeline, forward)
    earlier = [event for event in pipeline.acts(Act.BACKWARD) if event.order < forward.order]
    # A model that each iteration makes is trained there or not at all.
    made_in = [loop for loop in forward.loops if model.origin is not None and loop.location.holds(model.origin)]
    earlier = [event for event in earlier if not made_in or made_in[-1] in event.loops]
    trained = bool(earlier) or (forward.without_grad and evaluations.is_loaded(pipeline, model))
    if not trained or model.origin is None or not isinstance(model, Instance | Module):
        return None
    if forward.uncalled and not any(event.reading == forward.reading for event in earlier):
        return _trained_by_its_class(pipeline, forward)
    has_checkpoint = any(isinstance(part, Model) for part in modules.modules_in(model))
    return (
        None
        if has_checkpoint
        else Related(model.origin, "created in train mode, never put into eval mode", "train mode")
    )


def _evaluates_rows(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass gets all rows of an evaluation at once, by a model for which the mode certainly matters."""
    is_unknown = isinstance(forward.subject, Unknown)
    matters = pipeline.source.is_partial if is_unknown else layer_modes.differs_by_mode(forward.subject)
    return matters and evaluations.evaluates_rows(pipeline, forward)


def _runs_loaded_weights(pipeline: Pipeline, forward: Event) -> bool:
    """Whether weights were loaded in the lines before, and nothing in the text trains."""
    source = pipeline.source
    if forward.uncalled or not source.contains(LOADS) or pipeline.acts(Act.BACKWARD, Act.STEP):
        return False
    return LOADS.search("\n".join(source.lines[: forward.location.line])) is not None


def _trained_here(pipeline: Pipeline, forward: Event) -> Related | None:
    """The pass that trains a model of an unknown class, before its evaluation in the same function or one it calls."""
    if forward.subject is UNKNOWN:
        return None
    for training in training_loops.training_loops(pipeline):
        for event in training.inside:
            if (
                event.act is Act.FORWARD
                and event.subject is forward.subject
                and event.order < training.backward.order < forward.order
                and event.records_for(training.backward)
                and (event.reading, event.uncalled) == (forward.reading, forward.uncalled)
            ):
                role = "train mode" if event.function == forward.function else OF_UNKNOWN
                return Related(event.location, "trained here, and never put into eval mode", role)
    return None


def _switched_for_training_alone(pipeline: Pipeline, forward: Event) -> Related | None:
    """Where another function puts a model of this name into train mode, if no code that was read sets eval mode."""
    if not forward.uncalled or not forward.without_grad or not evaluations.is_named(pipeline, forward):
        return None
    name = training_loops.callee_text(pipeline, forward)
    if any(partial_modes.may_set_eval_mode(source, name) for source in pipeline.sources.values()):
        return None
    own = (each for each in pipeline.acts(Act.ESCAPE) if each.reading == forward.reading and each.order < forward.order)
    if any(not MOVES.search(pipeline.code(each.location)) and _may_set(pipeline, each, forward) for each in own):
        return None
    for event in pipeline.acts(Act.TRAIN_MODE):
        is_other = event.uncalled and event.function != forward.function
        if is_other and name and pipeline.code(event.location).startswith(f"{name}.train("):
            return Related(
                event.location, "put into train mode for the training, and nowhere into eval mode", "train mode"
            )
    return None


def _left_out(pipeline: Pipeline, forward: Event) -> Related | None:
    other = partial_modes.left_out(pipeline, forward)
    note = "another network is put into eval mode here, and this one nowhere"
    role = OF_UNKNOWN if isinstance(forward.subject, Unknown) else "train mode"
    return Related(other.location, note, role) if other is not None else None


def _may_set(pipeline: Pipeline, event: Event, forward: Event) -> bool:
    return evaluations.may_change_mode(pipeline, event, forward.subject)


def _trained_by_its_class(pipeline: Pipeline, forward: Event) -> Related | None:
    """Where a class made a network that one of its methods trains and another evaluates, if no code sets its mode."""
    model = forward.subject
    trains = any(
        each.act is Act.FORWARD
        and each.subject is model
        and not each.without_grad
        and each.function != forward.function
        for each in pipeline.acts(Act.FORWARD)
    )
    is_method = training_loops.callee_text(pipeline, forward).startswith("self.")
    if (
        not (trains and is_method and forward.without_grad and layer_modes.differs_by_mode(model))
        or model.origin is None
    ):
        return None
    is_set = any(source.contains(SETS_MODE) for source in pipeline.sources.values())
    return (
        None if is_set else Related(model.origin, "created in train mode, and no code here sets its mode", "train mode")
    )


def _never_in_eval_mode(pipeline: Pipeline, forward: Event) -> Related | None:
    """The evaluation itself, if the code is a piece of a script that never mentions eval mode."""
    # Whoever shows a function that validates, and no caller, shows all that sets its mode.
    source = pipeline.source
    is_loaded = source.contains(LOADS) and not pipeline.acts(Act.BACKWARD, Act.STEP)
    if not source.is_partial or not (forward.uncalled or is_loaded) or source.contains(partial_modes.SETS_EVAL_MODE):
        return None
    return Related(forward.location, "this code never calls `eval()`", "train mode")


def _in_one_reading(event: Event, forward: Event) -> bool:
    """Whether both run in the order of the script: in called functions, or in one unused function and what it calls."""
    return event.reading == forward.reading or not (event.uncalled or forward.uncalled)


def _returns_to_training(pipeline: Pipeline, forward: Event) -> bool:
    """Whether adding `eval()` is harmless: `train()` precedes all later training, or there is none."""
    shared = [event for event in pipeline.acts(Act.BACKWARD) if set(map(id, event.loops)) & set(map(id, forward.loops))]
    later = [event for event in pipeline.acts(Act.BACKWARD) if event.order > forward.order]
    switches = [event for event in pipeline.acts(Act.TRAIN_MODE) if training_loops.covers(event, forward.subject)]
    if not shared:
        return not later
    return any(switch.is_inside(loop) for switch in switches for loop in forward.loops if shared[0].is_inside(loop))
