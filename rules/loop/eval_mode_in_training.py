"""The model trains in eval mode.

`eval()` disables dropout and freezes the running statistics of batch normalization until `train()` is called. If a
validation pass leaves the model in eval mode, or `from_pretrained` returns it in eval mode, training continues without
regularization. No error is raised, and the model overfits.

## Bad

    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        net.eval()  # <- eval-mode-in-training
        with torch.no_grad():
            for x, y in loader:
                net(x)

`from_pretrained` returns the model in eval mode, and `train()` is never called:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    for batch in train_loader:
        loss = model(**batch).loss  # <- eval-mode-in-training
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

## Good

    for epoch in range(3):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for x, y in loader:
                net(x)

For the checkpoint:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    for batch in train_loader:
        model.train()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

## When it is fine

An averaged copy is evaluated, not the model that is trained:

    import copy

    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        average = copy.deepcopy(net)
        average.eval()
        with torch.no_grad():
            average(features)

The model behaves the same in both modes:

    linear = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(linear.parameters())
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(linear(x), y).backward()
            optimizer.step()
        linear.eval()
        with torch.no_grad():
            linear(features)

## Fix

Safe: dropout and batch statistics that a previous evaluation disabled are meant to be enabled during training.

## References

lerobot#3668; simpletransformers#941; pytorch-fcn#57; Megatron-LM#411.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import evaluations, expressions, iterations, lightning_updates, script_text, training_loops
from lintrain.evidence.training import ModelEvidence
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.model import Model, Module, Optimizer, Task
from lintrain.pipeline.values.python import Unknown, Value, options_of, text_of
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


@dataclass(frozen=True, slots=True)
class Claim:
    """The name that the model has in the loop, None if it has none there."""

    model: str | None


RAISED = "cudnn RNN backward can only be called in training mode"
"""On a GPU a recurrent layer keeps what its backward pass needs in train mode only."""


class EvalModeInTraining(Rule[Claim]):
    level = Level.WARNING
    keywords = "backward|training_step"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for location in lightning_updates.left_in_eval_mode(pipeline):
            yield self.finding(
                location,
                "`training_step` leaves the module in eval mode, in which the next batches train it",
                related=[Related(location, "Lightning calls `train()` only after an evaluation", "step")],
                help="call `self.train()` before `training_step` ends",
            )
        if not training_loops.writes_loops(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        for forward, backward in _training_passes(pipeline):
            if _trains_others(pipeline, forward, backward):
                continue
            finding = self._left_in_eval(pipeline, forward, backward) or self._never_trained(
                pipeline, forward, backward
            )
            if finding is not None:
                found.setdefault(finding.location, finding)
        yield from found.values()

    def _left_in_eval(self, pipeline: Pipeline, forward: Event, backward: Event) -> Finding[Claim] | None:
        """An `eval()` that still applies when the next iteration trains."""
        for loop in reversed(backward.loops):
            switches = [
                each for each in pipeline.cached(_switches_in, loop) if training_loops.covers(each, forward.subject)
            ]
            if not switches or not forward.is_inside(loop):
                continue
            if _is_made_in(pipeline, loop, forward):
                return None
            inside = training_loops.events_in(pipeline, loop)
            switch = next(
                each for each in switches if each is switches[-1] or iterations.contradict(each, switches[-1])
            )
            if (
                _is_of_copy(pipeline, switch, inside)
                or _is_on_purpose(pipeline, inside, switch, forward)
                or _may_switch_back(pipeline, inside, forward.subject)
                or training_loops.is_left_after(pipeline, switch, loop)
            ):
                return None
            return (
                self._report(pipeline, switch, forward, loop)
                if _is_for_validation(pipeline, inside, switch, forward)
                else None
            )
        return None

    def _report(self, pipeline: Pipeline, switch: Event, forward: Event, loop: Loop) -> Finding[Claim]:
        name = (
            training_loops.text_of_event(switch)
            or training_loops.callee_text(pipeline, switch).removesuffix(".eval")
            or "the model"
        )
        # An `eval()` in the module that evaluates is right there: what lacks a call is the file that trains.
        is_elsewhere = switch.location.path != loop.location.path
        return self.finding(
            _where_trained(pipeline, forward, loop) if is_elsewhere else switch.location,
            f"`{name}` is still in eval mode when the next iteration trains it",
            related=[
                *([Related(switch.location, "put into eval mode here", "switch")] if is_elsewhere else []),
                Related(forward.location, "trained here, in eval mode from the second iteration on", "training"),
                Related(loop.location, "this loop never calls `train()`", "loop"),
            ],
            help=f"call `{name}.train()` at the top of the loop",
            claim=Claim(_name_in(pipeline, loop, switch, forward)),
        )

    def _never_trained(self, pipeline: Pipeline, forward: Event, backward: Event) -> Finding[Claim] | None:
        """A model from `from_pretrained`, which sets eval mode, trained in a custom loop without any `train()`."""
        model = next((part for part in modules.modules_in(forward.subject) if _is_loaded_in_eval_mode(part)), None)
        if model is None or _ever_switched(pipeline, model) or not _may_be_trained(pipeline, forward, model):
            return None
        name = training_loops.callee_text(pipeline, forward) or "the model"
        loop = backward.loops[-1]
        return self.finding(
            forward.location,
            f"`{name}` is trained in eval mode: `train()` is never called",
            related=[
                *training_loops.origin_of(model, "`from_pretrained` returns it in eval mode"),
                Related(loop.location, "the loop that trains it", "loop"),
            ],
            help=f"call `{name}.train()` before training",
            claim=Claim(_name_in(pipeline, loop, forward, forward)),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop, location = evidence.loop, evidence.first("trained_in_eval_mode")
        # A model that is in eval mode from the first pass on may be meant to be: statistics of batch norm are kept.
        if loop is not None and location is not None and loop.trained_in_eval_mode < loop.trained:
            yield self.finding(
                location,
                "the model is still in eval mode when it is trained again",
                help="call `train()` on the model after each evaluation",
            )
        if location := evidence.failed_place(RAISED):
            yield self.finding(
                location,
                "a recurrent layer is trained in eval mode",
                help="call `train()` on the model before the training loop, and after each evaluation",
            )
        # It is not meant to be where a validation before the training has put it there, and does so again later, nor
        # where the script only does so after the training: libraries load pretrained models in this mode.
        is_whole = loop is not None and loop.trained_in_eval_mode == loop.trained
        later = evidence.first("evaluation_mode")
        is_left = evidence.first("trained_in_eval_mode") == evidence.first("trained")
        if is_whole and is_left and later is not None and evidence.model is not None and evidence.model.pretrained:
            yield self.finding(
                later,
                "the model is in eval mode from its loading on, and never in train mode",
                help="call `train()` on the model before the training loop, and after each evaluation",
            )
        for call in (each for each in evidence.odd_calls if is_whole and each.kind == "left in eval mode"):
            yield self.finding(
                call.location,
                "the model is still in eval mode when it is trained after this evaluation",
                help="call `train()` on the model after each evaluation",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.failed_with(RAISED):
            return Verdict.confirmed(f"the backward pass raises `{RAISED}`")
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if evidence.loop is not None:
            return _in_custom_loop(finding, evidence)
        if model.training and finding.with_role("step"):
            return Verdict.inconclusive("the first batch is trained in train mode, and the next was not measured")
        if model.training:
            return Verdict.refuted("the model is in train mode during training", training=True)
        if not model.has_dropout_or_batch_norm:
            return _without_layers(finding, model, training=False)
        return Verdict.confirmed(
            "the model is in eval mode during training, and has dropout or batch normalization", training=False
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, loops = finding.claim, finding.with_role("loop")
        if claim is None or claim.model is None or not loops:
            return None
        statement = f"{claim.model}.train()"
        return fixes.Fix.of(
            f"insert `{statement}` at the top of the loop", fixes.InsertAtTop(loops[0].location, statement), safe=True
        )


def _where_trained(pipeline: Pipeline, forward: Event, loop: Loop) -> Location:
    """The forward pass that trains, or the head of the loop if that calls a function of another file for it."""
    is_same_file = forward.location.path == loop.location.path
    return forward.location if is_same_file else training_loops.place_in(pipeline, forward, loop)


def _in_custom_loop(finding: Finding[Claim], evidence: Evidence) -> Verdict:
    """The verdict on a custom loop, whose training passes were counted up to the first one after an evaluation."""
    loop, model = evidence.loop, evidence.model
    assert loop is not None
    assert model is not None
    text = f"{loop.trained_in_eval_mode} of {loop.trained} training passes ran with dropout and batch norm in eval mode"
    if loop.trained_in_eval_mode:
        return Verdict.confirmed(text, trained_in_eval_mode=loop.trained_in_eval_mode)
    if not model.has_dropout_or_batch_norm:
        return _without_layers(finding, model, trained=loop.trained)
    if loop.trained and (loop.came_round or not finding.with_role("training")):
        return Verdict.refuted(text, trained=loop.trained)
    return Verdict.inconclusive(f"{text}, and the loop did not train again after its evaluation")


def _without_layers(finding: Finding[Claim], model: ModelEvidence, **measured: float) -> Verdict:
    """The verdict where the measured model has no layer that the mode changes: it may be another than the reported."""
    # Of an encoder and a head that the script calls one after the other, a loop's evidence holds the head.
    is_about_loaded = not finding.with_role("training") and not finding.with_role("step")
    if is_about_loaded and not model.pretrained:
        return Verdict.inconclusive(f"the measured model (`{model.name}`) was not loaded by `from_pretrained`")
    return Verdict.refuted("the model has neither dropout nor batch normalization", **measured)


def _is_made_in(pipeline: Pipeline, loop: Loop, forward: Event) -> bool:
    """Whether an iteration may train another model than the one before, since the loop makes it."""
    if any(each.origin is not None and loop.location.holds(each.origin) for each in options_of(forward.subject)):
        return True
    # A function that the loop calls, and that makes the model itself, makes another one in each call.
    origins = [each.origin for each in options_of(forward.subject) if each.origin is not None]
    is_called = not blocks.is_one_scope(pipeline, loop.location, forward.location)
    if is_called and any(blocks.is_one_scope(pipeline, each, forward.location) for each in origins):
        return True
    name = re.escape(training_loops.callee_text(pipeline, forward))
    code = pipeline.code(loop.location)
    # `net = net.to(device)` goes on with the same model.
    bound = rf"(?m)^\s+\(?(?:[\w.]+,\s*)*{name}(?:,\s*[\w.]+)*\)?\s*=\s*(?!.*\b{name}\b)"
    return bool(name) and re.search(bound, code) is not None


def _is_of_copy(pipeline: Pipeline, switch: Event, inside: Sequence[Event]) -> bool:
    """Whether only a copy is put into eval mode, which no optimizer of the loop trains: `old = deepcopy(model)`."""
    name = training_loops.callee_text(pipeline, switch).removesuffix(".eval")
    name = re.escape(training_loops.text_of_event(switch) or name)
    makes_copy = rf"(?m)^\s*{name}\s*=\s*(?:copy\.)?deepcopy\("
    if not name or not any(each.contains(makes_copy) for each in pipeline.sources.values()):
        return False
    steps = [each.subject.text for each in inside if each.act is Act.STEP and isinstance(each.subject, Optimizer)]
    return all(".parameters(" in text and not re.search(rf"\b{name}\.", text) for text in steps)


def _is_on_purpose(pipeline: Pipeline, inside: Sequence[Event], switch: Event, forward: Event) -> bool:
    """Whether the function that trains a part of a network, on features that are fixed, calls `eval()` itself first."""
    trained = [module for optimizer in pipeline.optimizers for module in optimizer.trains]
    is_last_layer = bool(trained) and all(isinstance(each, Module) for each in trained)
    is_partial = bool(pipeline.acts(Act.FREEZE)) or (is_last_layer and forward.subject not in trained)
    return (
        is_partial
        and forward.function != switch.function
        and any(
            event.act is Act.EVAL_MODE
            and (event.reading, event.function) == (forward.reading, forward.function)
            and event.order < forward.order
            and training_loops.covers(event, forward.subject)
            for event in inside
        )
    )


def _training_passes(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """Each forward pass with gradients, with the first backward call after it in the same loops.

    Each backward call of a loop continues where the previous one ended, so that every pass is visited once.
    """
    start_of = dict[tuple[int, ...], int]()
    for backward in pipeline.acts(Act.BACKWARD):
        if not backward.loops or not _steps(pipeline, backward):
            continue
        key = tuple(map(id, backward.loops))
        passes = pipeline.cached(_passes_in, backward.loops[-1])
        end = training_loops.index_of(passes, backward)
        between = passes[start_of.get(key, 0) : end]
        yield from ((forward, backward) for forward in between if forward.records_for(backward))
        start_of[key] = max(start_of.get(key, 0), end)


def _trains_others(pipeline: Pipeline, forward: Event, backward: Event) -> bool:
    """Whether every optimizer that steps there certainly trains something else: a head, an input, a patch."""
    inside = training_loops.events_in(pipeline, backward.loops[0])
    steps = [event.subject for event in inside if event.act is Act.STEP]
    return all(_trains_other(pipeline, optimizer, forward.subject) for optimizer in steps)


def _trains_other(pipeline: Pipeline, optimizer: Value, model: Value) -> bool:
    if not isinstance(optimizer, Optimizer) or optimizer.is_extended:
        return False
    if not optimizer.trains:
        return bool(optimizer.text) and "param" not in optimizer.text.partition("(")[2].partition(",")[0]
    trained = expressions.parts_shared(pipeline, optimizer.trains)
    is_known = not any(isinstance(each, Unknown) for each in (*optimizer.trains, model))
    return is_known and trained.isdisjoint(expressions.parts_shared(pipeline, [model]))


def _steps(pipeline: Pipeline, backward: Event) -> bool:
    """Whether an optimizer steps around a backward call, which otherwise only asks for gradients."""
    return any(event.act is Act.STEP for event in training_loops.events_in(pipeline, backward.loops[0]))


def _passes_in(pipeline: Pipeline, loop: Loop) -> list[Event]:
    """The forward passes with gradients of models that may differ between train and eval mode."""
    passes = [
        each for each in training_loops.events_in(pipeline, loop) if each.act is Act.FORWARD and not each.without_grad
    ]
    return [each for each in passes if pipeline.cached(evaluations.may_differ_by_mode, each.subject)]


def _switches_in(pipeline: Pipeline, loop: Loop) -> list[Event]:
    """The calls in a loop that put something into eval mode, and not only for a while."""
    inside = training_loops.events_in(pipeline, loop)
    return [each for each in inside if each.act is Act.EVAL_MODE and not evaluations.is_undone(each, inside)]


def _may_switch_back(pipeline: Pipeline, inside: Sequence[Event], model: Value) -> bool:
    """Whether something in the loop puts the model into train mode, or may do so."""
    return any(
        event.act in {Act.TRAIN_MODE, Act.ESCAPE} and evaluations.may_change_mode(pipeline, event, model)
        for event in inside
    )


def _is_for_validation(pipeline: Pipeline, inside: Sequence[Event], switch: Event, forward: Event) -> bool:
    """Whether `eval()` belongs to a validation pass; before all training it may be meant to last."""
    if switch.order > forward.order:
        return True
    between = [event for event in inside if switch.order < event.order < forward.order]
    passes = [event for event in between if event.act is Act.FORWARD]
    if any(_is_evaluation(pipeline, each, forward) for each in passes):
        return True
    validates = any(each.without_grad or each.switches or evaluations.evaluates(pipeline, each) for each in passes)
    return validates and not training_loops.always_with(switch, forward)


def _is_evaluation(pipeline: Pipeline, each: Event, forward: Event) -> bool:
    """Whether a pass of the trained network is one of validation data, or generates: its mode is meant for it alone."""
    code = pipeline.code(each.location)
    is_same = each.without_grad and training_loops.touches(pipeline, each, forward.subject)
    return is_same and (GENERATES.search(code) or VALIDATES.search(code)) is not None


GENERATES = lazy_pattern(r"^[\w.]+\.generate\(")
VALIDATES = lazy_pattern(r"(?i)^[\w.]+\([^()]*(?<![a-z])(?:val|valid|validation|test|dev|eval)(?![a-z])")


def _is_loaded_in_eval_mode(part: Value) -> bool:
    if not isinstance(part, Model) or not part.is_pretrained or part.framework != "torch" or part.is_adapted:
        return False
    return not part.frozen and _has_dropout(part)


WITH_DROPOUT = ("gpt2", "distilgpt2", "opt-", "gpt-neo")

WITHOUT_DROPOUT = ("whisper", "/vit-", "clip-vit", "deit-", "dinov2", "siglip")
"""Parts of the names of checkpoints whose published settings have no dropout: all of their rates are 0."""


def _has_dropout(model: Model) -> bool:
    """Current decoders have no dropout; only the older ones are known to differ between the modes."""
    if any(name in (text_of(model.checkpoint) or "").lower() for name in WITHOUT_DROPOUT):
        return False
    if model.task is not Task.CAUSAL_LM:
        return model.task is not Task.UNKNOWN or model.name.startswith("Auto")
    return any(name in (text_of(model.checkpoint) or "").lower() for name in WITH_DROPOUT)


def _may_be_trained(pipeline: Pipeline, forward: Event, model: Value) -> bool:
    """Whether an optimizer gets the weights of a model, or code gives its parameters to something not understood."""
    trained = [part for optimizer in pipeline.optimizers for part in optimizer.trains]
    if not expressions.parts_shared(pipeline, trained).isdisjoint(expressions.parts_shared(pipeline, [model])):
        return True
    name = re.escape(training_loops.callee_text(pipeline, forward).removesuffix(".forward"))
    given = rf"\b{name}(?:\.\w+)*\.(?:named_)?parameters\(|(?i:optim|param)\w*\([^()\n]*\b{name}\b"
    return not name or script_text.mentions(pipeline, given)


def _ever_switched(pipeline: Pipeline, model: Value) -> bool:
    """Whether the script sets the mode anywhere, or may put the model into train mode."""
    switched, others = pipeline.cached(_lasting_switches, pipeline)
    is_switched = not switched.isdisjoint(modules.shared_parts(model))
    return is_switched or any(evaluations.may_change_mode(pipeline, event, model) for event in others)


def _lasting_switches(pipeline: Pipeline, _: Pipeline) -> tuple[frozenset[int], list[Event]]:
    """The modules whose mode the script sets for good, and the events that may set that of others."""
    # An explicit `eval()` may be meant to last, unless the mode of before is restored.
    switches, restoring = pipeline.acts(Act.TRAIN_MODE, Act.EVAL_MODE, Act.ESCAPE), pipeline.acts(Act.RESTORE_MODE)
    lasting = [each for each in switches if not evaluations.is_undone(each, restoring)]
    others = [each for each in lasting if each.act is Act.ESCAPE or isinstance(each.subject, Unknown)]
    known = (modules.shared_parts(each.subject) for each in lasting if each.act is not Act.ESCAPE)
    return frozenset[int]().union(*known), others


def _name_in(pipeline: Pipeline, loop: Loop, *events: Event) -> str | None:
    """The model's name in the loop, taken from code inside the loop."""
    for event in events:
        name = training_loops.callee_text(pipeline, event).removesuffix(".eval")
        if name and loop.location.holds(event.location):
            return name
    return None
