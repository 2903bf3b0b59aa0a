"""An evaluation loop records gradients that are never used.

Outside `torch.no_grad()`, every forward pass stores activations for a backward pass that never runs. Evaluation takes
about as much memory as training. If outputs or losses are collected, their graphs accumulate until memory runs out. An
agent that only acts needs no graph either, nor does a loop that generates tokens one by one.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    for val_x, val_y in eval_loader:
        predicted = net(val_x).argmax(dim=-1)  # <- missing-no-grad

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for val_x, val_y in eval_loader:
            predicted = net(val_x).argmax(dim=-1)

## When it is fine

A decorator or the caller of the function may have disabled autograd:

    @torch.inference_mode()
    def evaluate(net):
        net.eval()
        for x, y in eval_loader:
            net(x)

    evaluate(net)

The evaluation needs gradients:

    net.eval()
    for x, y in eval_loader:
        x.requires_grad_()
        criterion(net(x), y).backward()
        shown = x.grad.abs()

## Fix

Safe: the results are the same, and evaluation uses less memory.

## References

PyTorch documentation, "Locally disabling gradient computation".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lintrain.analysis import (
    dead_graphs,
    evaluations,
    iterations,
    left_out,
    loader_loops,
    sampling_loops,
    statements,
    training_loops,
    untrained_passes,
)
from lintrain.pipeline.events import Act, Condition, Event, Loop
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Unknown, literal
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    fixes,
    lazy_pattern,
    one_per_location,
)

SWITCHES = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})
"""Calls that may disable autograd without a `with` statement."""

TURNS_OFF = lazy_pattern(r"no_grad|inference_mode|set_grad_enabled|volatile|\.grad\b|requires_grad")

DETACHED = lazy_pattern(r"\.(?:detach\(\)|data)$")

ENABLES = lazy_pattern(r"\(\s*(mode\s*=\s*)?True\s*\)$")


class MissingNoGrad(Rule):
    level = Level.WARNING
    keywords = "eval|backward|train(|def val|def test|detach"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return next(left_out.thrown_graphs(source), None) is not None

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report_thrown, left_out.thrown_graphs(pipeline.source)))
        yield from one_per_location(map(self._report_untrained, untrained_passes.untrained_passes(pipeline.source)))
        if not training_loops.writes_loops(pipeline) or _is_switched_off(pipeline):
            return
        found: dict[Location, Finding] = {}
        passes = set[Location]()
        for forward in pipeline.acts(Act.FORWARD):
            if forward.without_grad or forward.switches or _is_of_loss(pipeline, forward):
                continue
            generating = sampling_loops.generating_loop(pipeline, forward)
            predicting = _predicting_loop(pipeline, forward)
            evaluates = _evaluates(pipeline, forward) or _evaluates_rows(pipeline, forward)
            if generating is None and predicting is None and not evaluates:
                continue
            if _surely_records(pipeline, forward):
                loop = generating or evaluations.evaluation_loop(pipeline, forward) or predicting
                location = loop.location if loop else forward.location
                found.setdefault(location, self._report(pipeline, forward, loop))
                passes.add(forward.location)
        yield from found.values()
        reported = {event.location for event in pipeline.acts(Act.FORWARD) if event.location in found}
        yield from self._drawn(pipeline, reported)
        thrown = {each.location for each in left_out.thrown_graphs(pipeline.source)}
        yield from self._ended(pipeline, {*found, *passes, *thrown})

    def _ended(self, pipeline: Pipeline, reported: Collection[Location]) -> Iterator[Finding]:
        """The passes of a trained network whose output ends as numbers in the same function, as those of an agent."""
        passes = pipeline.acts(Act.FORWARD)
        off = {event.location for event in passes if event.without_grad or event.switches}
        forwards = {event.location: event for event in passes if event.location not in off}
        seen = set[str]()
        for dead in dead_graphs.dead_graphs(pipeline.source, forwards.keys()):
            forward = forwards[dead.location]
            if forward.function in seen:
                continue
            if any(each.holds(dead.location) for each in reported) or not _is_trained_with_grad(pipeline, forward):
                continue
            seen.add(forward.function)
            yield self._report_dead(pipeline, dead, training_loops.callee_text(pipeline, forward) or "the network")
        for dead in dead_graphs.method_passes(pipeline.source):
            if dead.location not in reported and not pipeline.source.contains(r"\bvolatile\s*="):
                yield self._report_dead(pipeline, dead, pipeline.code(dead.location).partition("(")[0])

    def _report_dead(self, pipeline: Pipeline, dead: dead_graphs.DeadGraph, name: str) -> Finding:
        use = "detached" if DETACHED.search(pipeline.code(dead.ends)) else "as numbers"
        return self.finding(
            dead.location,
            f"`{name}` records gradients, and its output is only used {use}",
            related=[Related(dead.ends, "its gradient ends here", "ends")],
            help="run it in `with torch.no_grad():`",
            level=Level.NOTE,
        )

    def _drawn(self, pipeline: Pipeline, reported: Collection[Location]) -> Iterator[Finding]:
        """The passes of a trained network for a picture, once for each of its calls."""
        forwards = {event.location: event for event in pipeline.acts(Act.FORWARD)}
        seen = set[Location]()
        for drawn in left_out.drawn_passes(pipeline.source):
            forward = forwards.get(drawn.location)
            if forward is None or forward.without_grad or forward.switches or drawn.location in {*seen, *reported}:
                continue
            seen.add(drawn.location)
            if evaluations.is_trained(pipeline, forward.subject) and _surely_records(pipeline, forward):
                name = training_loops.callee_text(pipeline, forward) or "the network"
                yield self.finding(
                    drawn.location,
                    f"`{name}` records gradients for a picture",
                    related=[Related(drawn.drawn, "its output is only drawn", "drawn")],
                    help="run it in `with torch.no_grad():`",
                    level=Level.NOTE,
                )

    def _report_thrown(self, thrown: left_out.ThrownGraph) -> Finding:
        return self.finding(
            thrown.location,
            f"`{thrown.network}` records gradients, and its output is only used detached",
            related=[Related(thrown.detached, "detached here", "detached")],
            help="run it in `with torch.no_grad():`",
            level=Level.NOTE,
        )

    def _report_untrained(self, untrained: untrained_passes.UntrainedPass) -> Finding:
        return self.finding(
            untrained.location,
            f"`{untrained.network}` records gradients, and nothing trains it",
            related=[Related(untrained.loaded, "loaded here, never frozen", "loaded")],
            help=f"run it in `with torch.no_grad():`, or call `{untrained.network}.requires_grad_(False)`",
        )

    def _report(self, pipeline: Pipeline, forward: Event, loop: Loop | None) -> Finding:
        name = training_loops.callee_text(pipeline, forward) or "the model"
        location, what = (loop.location, "loop") if loop else (forward.location, "pass")
        # The pass of a layer in a method of the model says nothing to who reads the loop.
        is_inside = name.startswith("self.") and not location.holds(forward.location)
        shown = "the model" if name == "the model" or is_inside else f"`{name}`"
        return self.finding(
            training_loops.place_in(pipeline, forward, loop),
            f"evaluation of {shown} records gradients",
            related=[_where(forward, location)],
            help=f"wrap the {what} in `with torch.no_grad():`",
            level=Level.NOTE if ".detach()" in pipeline.code(location) else Level.WARNING,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if location := evidence.first("recorded_for_nothing"):
            yield self.finding(
                location,
                "evaluation of the model records gradients",
                help="wrap the evaluation in `with torch.no_grad():`",
                level=Level.WARNING,
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if not loop.evaluated:
            return Verdict.inconclusive(f"no forward pass ran after {loop.steps} training steps")
        text = f"autograd recorded {loop.recorded_for_nothing} of {loop.evaluated} evaluation passes"
        outcome = Verdict.confirmed if loop.recorded_for_nothing else Verdict.refuted
        return outcome(text, recorded_for_nothing=loop.recorded_for_nothing)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        evaluations = finding.with_role("evaluation")
        if not evaluations or not evaluations[0].location.holds(finding.location):
            return None
        wrap = fixes.WrapInWith(evaluations[0].location, "torch.no_grad()")
        return fixes.Fix.of("wrap it in `with torch.no_grad():`", fixes.AddImport("torch"), wrap, safe=True)


def _where(forward: Event, evaluation: Location) -> Related:
    """The evaluation around a pass; a loop that calls its function may do something else as well, so it has no fix."""
    if evaluation.holds(forward.location):
        return Related(evaluation, "evaluated here with autograd enabled", "evaluation")
    return Related(forward.location, "runs here with autograd enabled", "pass")


def _is_switched_off(pipeline: Pipeline) -> bool:
    """Whether a statement may disable autograd for what follows: `torch.set_grad_enabled(False)`."""
    calls = [call for call in pipeline.calls if call.path in SWITCHES]
    if not calls:
        return any(call.path == "torch.func.functional_call" for call in pipeline.calls)
    managers = pipeline.cached(statements.managers, pipeline)
    return any(call.location not in managers and not ENABLES.search(pipeline.code(call.location)) for call in calls)


def _evaluates_rows(pipeline: Pipeline, forward: Event) -> bool:
    is_used = evaluations.is_in_eval_mode(pipeline, forward) or _trains_before(pipeline, forward)
    return is_used and evaluations.evaluates_rows(pipeline, forward)


def _trains_before(pipeline: Pipeline, forward: Event) -> bool:
    """Whether the model of a pass in a training loop was trained by the same function."""
    first = pipeline.cached(_first_passes, pipeline).get((id(forward.subject), forward.function, forward.uncalled))
    ran = first is not None and first < forward.order
    return bool(forward.loops) and ran and evaluations.is_trained(pipeline, forward.subject)


def _first_passes(pipeline: Pipeline, _: Pipeline) -> dict[tuple[int, str, bool], int]:
    """The order of the first pass of each model in each function."""
    found: dict[tuple[int, str, bool], int] = {}
    for event in pipeline.acts(Act.FORWARD):
        found.setdefault((id(event.subject), event.function, event.uncalled), event.order)
    return found


def _evaluates(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass evaluates a model that is in eval mode, or is trained in the same function or before."""
    if not evaluations.evaluates(pipeline, forward):
        return False
    latest = evaluations.mode_before(pipeline, forward)
    if latest is None and _is_a_piece(pipeline) and forward.uncalled and evaluations.is_named(pipeline, forward):
        return True
    if latest is None and any(event.function == forward.function for event in pipeline.acts(Act.BACKWARD)):
        return True
    return (latest is not None and latest.act is Act.EVAL_MODE) or _only_evaluates(pipeline, forward)


def _predicting_loop(pipeline: Pipeline, forward: Event) -> Loop | None:
    """The loop over batches in a function that sets eval mode itself and trains nothing, whatever its name."""
    latest = evaluations.mode_before(pipeline, forward) if forward.loops else None
    if latest is None or latest.act is not Act.EVAL_MODE or latest.function != forward.function or not latest.function:
        return None
    source = pipeline.source_of(forward.location)
    loaders = {source.location(loop) for loop, _ in source.cached(loader_loops.loops_over_loaders)}
    around = [loop for loop in forward.loops if loop.location in loaders and loop.location.holds(forward.location)]
    acts = pipeline.acts(*evaluations.TRAINING_ACTS)
    return around[-1] if around and not any(event.function == forward.function for event in acts) else None


LOSS = lazy_pattern(r"(?i)(?:^|[._])(?:loss|criterion)(?:_?(?:fn|func|function|module))?$")


def _is_of_loss(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass is that of a loss: it records no more than the pass before it, which is judged itself."""
    return LOSS.search(training_loops.callee_text(pipeline, forward)) is not None


def _only_evaluates(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a loop runs a model that the script trains elsewhere, and no later `backward` may use what it gives."""
    freezes = (event for event in pipeline.acts(Act.FREEZE) if training_loops.touches(pipeline, event, forward.subject))
    # What is frozen as a whole runs in the training too, and records nothing.
    is_of_trained = evaluations.is_trained(pipeline, forward.subject) and not any(freezes)
    loop = evaluations.evaluation_loop(pipeline, forward) if is_of_trained else None
    return loop is not None and not evaluations.is_learned_from(pipeline, forward)


ASKED = lazy_pattern(r"\b(\w+)\.requires_grad(?:_\(\)|_\(True\)|\s*=\s*True)")
"""Code that asks for gradients of a tensor."""


def _is_asked_of_input(pipeline: Pipeline, forward: Event) -> bool:
    """Whether the loop asks for gradients of what the network gets, as attacks and saliency maps do."""
    loop = forward.loops[-1].location if forward.loops else None
    asked = set(ASKED.findall(pipeline.code(loop))) if loop is not None else set[str]()
    return any(re.search(rf"\b{name}\b", pipeline.code(forward.location)) for name in asked)


def _surely_records(pipeline: Pipeline, forward: Event) -> bool:
    """Whether autograd is certainly enabled: no caller can have disabled it, and the parameters require gradients."""
    is_own = _trains_in_same_reading(pipeline, forward) or _sets_mode_itself(pipeline, forward)
    if forward.uncalled and not (_is_a_piece(pipeline) or is_own):
        return False
    if evaluations.may_be_off(pipeline, forward) or _is_asked_of_input(pipeline, forward):
        return False
    if isinstance(forward.subject, Model) and (forward.subject.frozen or forward.subject.framework != "torch"):
        return False
    if _is_frozen_before(pipeline, forward):
        return False
    if evaluations.is_trained(pipeline, forward.subject):
        return True  # whatever is frozen of it, the rest is not
    freezes = pipeline.acts(Act.FREEZE)
    return not any(
        isinstance(event.subject, Unknown) or training_loops.touches(pipeline, event, forward.subject)
        for event in freezes
    )


def _is_trained_with_grad(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a network is trained by the file, and a pass of it records gradients as far as the file says."""
    is_trained = evaluations.is_trained(pipeline, forward.subject) or any(
        iterations.trains_any(pipeline, [forward.subject], each) is True for each in pipeline.optimizers if each.trains
    )
    if not is_trained or evaluations.may_be_off(pipeline, forward) or _is_frozen_before(pipeline, forward):
        return False
    is_torch = not isinstance(forward.subject, Model) or forward.subject.framework == "torch"
    # The inputs of older releases switch autograd off themselves.
    is_off = _is_of_loss(pipeline, forward) or pipeline.source.contains(r"\bvolatile\s*=")
    return is_torch and not is_off and not _is_asked_of_input(pipeline, forward)


FREEZES = lazy_pattern(r"requires_grad_\((?:\w+\s*=\s*)?False\)")
"""Code that freezes all parameters at once."""


def _is_frozen_before(pipeline: Pipeline, forward: Event) -> bool:
    """Whether the same function freezes all parameters before the pass: until it lets them learn again."""
    freezes = [
        event
        for event in pipeline.acts(Act.FREEZE)
        if event.order < forward.order
        and (event.reading, event.function) == (forward.reading, forward.function)
        and literal(event.details["part"]) == ""
        and training_loops.covers(event, forward.subject)
        # `if "head" not in name:` leaves some of them out.
        and all("requires_grad" in pipeline.code(each.location).partition("\n")[0] for each in _others(event, forward))
    ]
    last = freezes[-1] if freezes else None
    is_frozen = last is not None and literal(last.details["wanted"]) is False
    return is_frozen or (last is not None and FREEZES.search(pipeline.code(last.location)) is not None)


def _others(event: Event, forward: Event) -> list[Condition]:
    """The conditions of an event that the pass does not have."""
    return [each for each in event.conditions if not any(each is other for other in forward.conditions)]


def _is_a_piece(pipeline: Pipeline) -> bool:
    """Whether the code is a piece of a script that nowhere switches autograd off, so that its callers do not either."""
    return pipeline.source.is_partial and not pipeline.source.contains(TURNS_OFF)


def _sets_mode_itself(pipeline: Pipeline, forward: Event) -> bool:
    """Whether an unused function puts the model into eval mode itself: then autograd is its affair as well."""
    latest = evaluations.mode_before(pipeline, forward)
    return latest is not None and latest.reading == forward.reading and training_loops.always_with(latest, forward)


def _trains_in_same_reading(pipeline: Pipeline, forward: Event) -> bool:
    """Whether the unused function that evaluates also trains, itself or in what it calls, so that autograd is on."""
    return any(event.reading == forward.reading and not event.without_grad for event in pipeline.acts(Act.BACKWARD))
