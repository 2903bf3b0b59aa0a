"""The model trains in eval mode.

`eval()` switches dropout off and freezes the statistics of batch normalisation until `train()` is called. A validation
pass that leaves the model so, or a checkpoint that `from_pretrained` returns so, means that training goes on without
regularisation: the model overfits, and no error appears.

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

A checkpoint comes in eval mode, and nobody calls `train()`:

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

The same for the checkpoint:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    for batch in train_loader:
        model.train()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

## When it is fine

The copy whose weights are averaged is evaluated, not the model that trains:

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

Nothing in the model differs between the modes:

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

Safe: dropout and batch statistics that are switched off by an evaluation before are meant to be on while training.

## References

lerobot#3668; simpletransformers#941; pytorch-fcn#57; Megatron-LM#411.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter

from lintrain.analysis import training_loops
from lintrain.evidence.run import LoopEvidence, ModelEvidence
from lintrain.pipeline import modules
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import Unknown, Value, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class EvalModeInTraining(Rule):
    level = Level.WARNING
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found: dict[Location, Finding] = {}
        for forward, backward in _training_passes(pipeline):
            finding = self._left_in_eval(pipeline, forward, backward) or self._never_trained(
                pipeline, forward, backward
            )
            if finding is not None:
                found.setdefault(finding.location, finding)
        yield from found.values()

    def _left_in_eval(self, pipeline: Pipeline, forward: Event, backward: Event) -> Finding | None:
        """An `eval()` that the next iteration of a loop trains under."""
        for loop in reversed(backward.loops):
            switches = [
                each for each in pipeline.told(_switches_in, loop) if training_loops.covers(each, forward.subject)
            ]
            if not switches or not forward.is_inside(loop):
                continue
            inside, switch = training_loops.events_in(pipeline, loop), switches[-1]
            if _may_switch_back(pipeline, inside, forward.subject) or training_loops.is_left_after(
                pipeline, switch, loop
            ):
                return None
            return (
                self._report(pipeline, switch, forward, loop) if _is_for_validation(inside, switch, forward) else None
            )
        return None

    def _report(self, pipeline: Pipeline, switch: Event, forward: Event, loop: Loop) -> Finding:
        name = (
            training_loops.text_of_event(switch)
            or training_loops.callee_text(pipeline, switch).removesuffix(".eval")
            or "the model"
        )
        return self.finding(
            switch.location,
            f"`{name}` stays in eval mode: the next iteration trains it without `train()`",
            related=[
                Related(forward.location, "trains here, in eval mode from the second iteration on", "training"),
                Related(loop.location, "this loop never calls `train()`", "loop"),
            ],
            help=f"call `{name}.train()` at the top of the loop",
            facts={"model": _name_in(pipeline, loop, switch, forward)},
        )

    def _never_trained(self, pipeline: Pipeline, forward: Event, backward: Event) -> Finding | None:
        """A model of `from_pretrained`, which gives eval mode, in a loop of its own without any `train()`."""
        model = next((part for part in modules.modules_in(forward.subject) if _comes_in_eval_mode(part)), None)
        if model is None or _ever_switched(pipeline, model):
            return None
        name = training_loops.callee_text(pipeline, forward) or "the model"
        loop = backward.loops[-1]
        return self.finding(
            forward.location,
            f"`{name}` trains in eval mode: nothing calls `train()`",
            related=[
                *training_loops.made_here(model, "`from_pretrained` gives it in eval mode"),
                Related(loop.location, "the loop that trains it", "loop"),
            ],
            help=f"call `{name}.train()` before training",
            facts={"model": _name_in(pipeline, loop, forward, forward)},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if evidence.loop is not None:
            return _in_own_loop(finding, evidence.loop, model)
        if model.training:
            return Verdict.refuted("the model is in train mode when it trains", training=True)
        if not model.has_dropout_or_batch_norm:
            return Verdict.refuted("the model has neither dropout nor batch normalisation", training=False)
        return Verdict.confirmed(
            "the model is in eval mode when it trains, and has dropout or batch normalisation", training=False
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        name, loops = finding.facts.get("model"), finding.with_role("loop")
        if not isinstance(name, str) or not loops:
            return None
        statement = f"{name}.train()"
        return fixes.Fix.of(
            f"insert `{statement}` at the top of the loop", fixes.InsertAtTop(loops[0].location, statement), safe=True
        )


def _in_own_loop(finding: Finding, loop: LoopEvidence, model: ModelEvidence) -> Verdict:
    """Of a loop the passes that backward passes used were counted, with the first one of its second round."""
    text = f"{loop.trained_in_eval_mode} of {loop.trained} training passes had all dropout and batch norm in eval mode"
    if loop.trained_in_eval_mode:
        return Verdict.confirmed(text, trained_in_eval_mode=loop.trained_in_eval_mode)
    if not model.has_dropout_or_batch_norm:
        return Verdict.refuted("the model has neither dropout nor batch normalisation", trained=loop.trained)
    if loop.trained and (loop.came_round or not finding.with_role("training")):
        return Verdict.refuted(text, trained=loop.trained)
    return Verdict.inconclusive(f"{text}, and the loop did not come round to train after its evaluation")


def _training_passes(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """Each forward pass with gradients, with the first backward call after it in the same loops.

    The passes of a loop are gone through once: of the calls in the same loops each goes on where the last one ended.
    """
    begun = dict[tuple[int, ...], int]()
    for backward in pipeline.acts(Act.BACKWARD):
        if not backward.loops:
            continue
        key = tuple(map(id, backward.loops))
        passes = pipeline.told(_passes_in, backward.loops[-1])
        end = bisect_left(passes, backward.order, key=attrgetter("order"))
        yield from ((forward, backward) for forward in passes[begun.get(key, 0) : end])
        begun[key] = max(begun.get(key, 0), end)


def _passes_in(pipeline: Pipeline, loop: Loop) -> list[Event]:
    """The forward passes with gradients of models that their mode matters to."""
    passes = [
        each for each in training_loops.events_in(pipeline, loop) if each.act is Act.FORWARD and not each.without_grad
    ]
    return [each for each in passes if not pipeline.told(_ignores_mode, each.subject)]


def _switches_in(pipeline: Pipeline, loop: Loop) -> list[Event]:
    """Where a loop puts something into eval mode."""
    return [each for each in training_loops.events_in(pipeline, loop) if each.act is Act.EVAL_MODE]


def _ignores_mode(_: Pipeline, value: Value) -> bool:
    return modules.ignores_mode(value)


def _may_switch_back(pipeline: Pipeline, inside: Sequence[Event], model: Value) -> bool:
    """Whether something in the loop puts the model into train mode, or may do so."""
    for event in inside:
        if event.act is Act.TRAIN_MODE and (isinstance(event.subject, Unknown) or training_loops.touches(event, model)):
            return True
        if event.act is Act.ESCAPE and (
            training_loops.touches(event, model) or training_loops.may_hide(pipeline, event, model)
        ):
            return True
    return False


def _is_for_validation(inside: Sequence[Event], switch: Event, forward: Event) -> bool:
    """Whether `eval()` follows the training, or is for a pass of its own: before all training it is meant to last."""
    if switch.order > forward.order:
        return True
    between = [event for event in inside if switch.order < event.order < forward.order]
    validates = any(event.act is Act.FORWARD and event.without_grad for event in between)
    return validates and not training_loops.always_with(switch, forward)


def _comes_in_eval_mode(part: Value) -> bool:
    if not isinstance(part, Model) or not part.is_pretrained or part.framework != "torch" or part.is_adapted:
        return False
    return not part.frozen and _has_dropout(part)


WITH_DROPOUT = ("gpt2", "distilgpt2", "opt-", "gpt-neo")


def _has_dropout(model: Model) -> bool:
    """Decoders of today have no dropout; only the older ones are known to differ between the modes."""
    if model.task is not Task.CAUSAL_LM:
        return model.task is not Task.UNKNOWN or model.name.startswith("Auto")
    return any(name in (text_of(model.checkpoint) or "").lower() for name in WITH_DROPOUT)


def _ever_switched(pipeline: Pipeline, model: Value) -> bool:
    """Whether anything in the script sets the mode, or may put the model into train mode."""
    modes = pipeline.acts(Act.TRAIN_MODE, Act.EVAL_MODE)  # who calls `eval()` may mean it to last
    if any(isinstance(event.subject, Unknown) or training_loops.touches(event, model) for event in modes):
        return True
    return any(
        training_loops.touches(event, model) or training_loops.may_hide(pipeline, event, model)
        for event in pipeline.acts(Act.ESCAPE)
    )


def _name_in(pipeline: Pipeline, loop: Loop, *events: Event) -> str | None:
    """The model's name where the loop stands, taken from code that stands in the loop itself."""
    for event in events:
        name = training_loops.callee_text(pipeline, event).removesuffix(".eval")
        if name and loop.location.holds(event.location):
            return name
    return None
