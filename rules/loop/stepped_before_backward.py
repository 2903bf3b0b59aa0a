"""An optimizer changes weights that a later backward call still needs.

The gradients of a network are computed with the weights that its output was computed with. A step in between writes
other numbers into them, and `backward` raises RuntimeError: "one of the variables needed for gradient computation has
been modified by an inplace operation". Old releases of PyTorch computed wrong gradients instead.

It happens if two losses use the same output: of networks that are trained against each other, or of one whose parts
have an optimizer each.

## Bad

    generator = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    judge = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    first = torch.optim.Adam(generator.parameters())
    second = torch.optim.Adam(judge.parameters())
    for x, y in loader:
        scores = judge(generator(x))
        second.zero_grad()
        second_loss = scores.mean()
        second_loss.backward(retain_graph=True)
        second.step()
        first.zero_grad()
        first_loss = -scores.mean()
        first_loss.backward()  # <- stepped-before-backward
        first.step()
    # raises RuntimeError: one of the variables needed for gradient computation has been modified

With one optimizer for each part of a network:

    encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
    head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        logits = head(encoder(x))
        head_loss = criterion(logits, y)
        encoder_loss = logits.square().mean()
        head_optimizer.zero_grad()
        head_loss.backward(retain_graph=True)
        head_optimizer.step()
        encoder_optimizer.zero_grad()
        encoder_loss.backward()  # <- stepped-before-backward
        encoder_optimizer.step()
    # raises RuntimeError: one of the variables needed for gradient computation has been modified

## Good

The second loss uses a new output, of the weights as they are now:

    generator = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    judge = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    first = torch.optim.Adam(generator.parameters())
    second = torch.optim.Adam(judge.parameters())
    for x, y in loader:
        fake = generator(x)
        second.zero_grad()
        second_loss = judge(fake.detach()).mean()
        second_loss.backward()
        second.step()
        first.zero_grad()
        first_loss = -judge(fake).mean()
        first_loss.backward()
        first.step()

## When it is fine

Both calls may come before both steps:

    generator = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    judge = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    first = torch.optim.Adam(generator.parameters())
    second = torch.optim.Adam(judge.parameters())
    for x, y in loader:
        scores = judge(generator(x))
        second.zero_grad()
        scores.mean().backward(retain_graph=True)
        first.zero_grad()
        first_loss = (scores - 1).square().mean()
        first_loss.backward()
        second.step()
        first.step()

The output may be taken off the graph, so that nothing flows back to the changed weights:

    encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    head = nn.Linear(8, 3)
    first = torch.optim.Adam(encoder.parameters())
    second = torch.optim.Adam(head.parameters())
    for x, y in loader:
        hidden = encoder(x)
        first.zero_grad()
        hidden.pow(2).mean().backward()
        first.step()
        second.zero_grad()
        loss = F.cross_entropy(head(hidden.detach()), y)
        loss.backward()
        second.step()

A single layer needs its input for the gradients, and not its weights:

    layer, other = nn.Linear(8, 3), nn.Linear(8, 3)
    first = torch.optim.SGD(layer.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    for x, y in loader:
        logits = layer(x)
        first.zero_grad()
        F.cross_entropy(logits, y).backward(retain_graph=True)
        first.step()
        second.zero_grad()
        loss = F.cross_entropy(logits + other(x), y)
        loss.backward()
        second.step()

## Fix

None: whether the output is computed again or the step comes later is a choice.

## References

PyTorch documentation, "Autograd mechanics", in-place correctness checks; pytorch/pytorch#39141."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import origins, script_text, shared_passes, training_loops
from lintrain.pipeline import modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Module, Optimizer
from lintrain.pipeline.values.python import Unknown, Value
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, lazy_pattern

HALVES = r"autocast|half\(\)|deepspeed"
"""Formats that make copies of the weights for each pass, which a step does not touch."""

WEIGHTED = lazy_pattern(r"Linear|Bilinear|Conv\w*|LSTM|GRU|RNN\w*|MultiheadAttention|Transformer\w*")
"""Layers that need their weights for the gradient of their input."""

CHANGED = "modified by an inplace operation"


class SteppedBeforeBackward(Rule):
    level = Level.ERROR
    keywords = "backward & step"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline) or script_text.mentions(pipeline, HALVES):
            return
        found: dict[Location, Finding] = {}
        for backward in pipeline.acts(Act.BACKWARD)[: shared_passes.MOST_COMPARED]:
            if _may_be_apart(pipeline, backward):
                continue
            for forward, step in _stale(pipeline, backward):
                if _is_of_other_outputs(pipeline, forward, step, backward):
                    continue
                found.setdefault(backward.location, self._report(pipeline, backward, forward, step))
        for stale in shared_passes.stale_passes(pipeline):
            if not _needs_weights(stale.forward.subject) or _may_be_apart(pipeline, stale.backward):
                continue
            if _is_of_other_outputs(pipeline, stale.forward, stale.step, stale.backward):
                continue
            report = self._report(pipeline, stale.backward, stale.forward, stale.step)
            found.setdefault(stale.backward.location, report)
        yield from found.values()

    def _report(self, pipeline: Pipeline, backward: Event, forward: Event, step: Event) -> Finding:
        code, changed = pipeline.code(step.location), training_loops.callee_text(pipeline, forward) or "the network"
        return self.finding(
            backward.location,
            f"this needs weights of `{changed}` that `{code}` has changed",
            related=[
                Related(forward.location, "computed with the weights before the step", "forward"),
                Related(step.location, "changes them", "step"),
            ],
            help=f"call `{changed}` again after the step, or step after this",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        location, loop = evidence.failed_place(CHANGED), evidence.loop
        if location is not None and loop is not None and loop.backwards_behind_a_step:
            yield self.finding(
                location,
                "this needs weights that a step has changed since the forward pass",
                help="call the network again after the step, or step after this",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.failed_with(CHANGED):
            return Verdict.confirmed(f"`{CHANGED}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.backwards} backward passes and {loop.steps} steps ran"
        done = loop.backwards > 1 and loop.steps > 1
        return Verdict.refuted(text, backwards=loop.backwards) if done else Verdict.inconclusive(text)


def _may_be_apart(pipeline: Pipeline, backward: Event) -> bool:
    """Whether one call gave this loss and that of another `backward`: only its function knows what each is made of."""
    others = {training_loops.text_of_event(each) for each in pipeline.acts(Act.BACKWARD) if each is not backward}
    loss, source = training_loops.text_of_event(backward), pipeline.source_of(backward.location)
    return origins.are_given_together(source, loss, others - {loss})


def _stale(pipeline: Pipeline, backward: Event) -> Iterator[tuple[Event, Event]]:
    """The passes that a loss came from, each with a step that has changed its weights since."""
    steps = (
        [step for step in training_loops.events_in(pipeline, backward.loops[-1]) if step.act is Act.STEP]
        if backward.loops
        else []
    )
    steps = [step for step in steps if step.order < backward.order and _are_together(step, backward)]
    inside = training_loops.events_in(pipeline, backward.loops[-1]) if steps else ()
    passes = {
        each.location: each
        for each in inside
        if each.act is Act.FORWARD and each.order < backward.order and each.records_for(backward)
    }
    for forward in shared_passes.passes_behind(pipeline, backward, passes) if passes else ():
        step = next((each for each in steps if each.order > forward.order and _changes(each, forward)), None)
        if step is not None and _needs_weights(forward.subject) and not _is_frozen(pipeline, forward, backward):
            yield forward, step


def _are_together(step: Event, backward: Event) -> bool:
    """Whether a step runs whenever the backward call does, in the same turn of the loop."""
    return step.loops == backward.loops and set(step.conditions) <= set(backward.conditions)


def _changes(step: Event, forward: Event) -> bool:
    """Whether a step certainly changes weights of the network of a pass: it trains the network, or a part of it."""
    optimizer, network = step.subject, forward.subject
    if not isinstance(optimizer, Optimizer) or any(isinstance(each, Unknown) for each in optimizer.trains):
        return False
    inside = {id(part) for part in modules.modules_in(network)}
    return any(id(each) in inside and (each is network or modules.is_module(each)) for each in optimizer.trains)


def _is_of_other_outputs(pipeline: Pipeline, forward: Event, step: Event, backward: Event) -> bool:
    """Whether all gradients before a step come from other outputs of the pass than those that a loss is made of.

    The step changes no weight of the parts that give those: they have no gradient yet.
    """
    before = [
        each
        for each in pipeline.acts(Act.BACKWARD)
        if forward.order < each.order < step.order and each.loops == backward.loops
    ]
    return bool(before) and all(
        shared_passes.uses_separate_outputs(pipeline, forward, each, backward) for each in before
    )


def _needs_weights(network: Value) -> bool:
    """Whether gradients that flow through a network go through weights of it: those of its second layer."""
    layers = [
        part for part in modules.modules_in(network) if isinstance(part, Module) and WEIGHTED.fullmatch(part.name)
    ]
    return len(layers) > 1


def _is_frozen(pipeline: Pipeline, forward: Event, backward: Event) -> bool:
    freezes = (event for event in pipeline.acts(Act.FREEZE) if event.order < backward.order)
    return any(
        isinstance(each.subject, Unknown) or training_loops.touches(pipeline, each, forward.subject) for each in freezes
    )
