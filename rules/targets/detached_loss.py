"""No gradient flows from the loss back to the model.

The loss is detached, rebuilt as a new tensor, or computed from Python numbers, NumPy arrays or `argmax`. With
`requires_grad=True` on the new tensor nothing is trained, and PyTorch only warns about the copy. In the other cases
`backward` raises an error.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss = torch.tensor(loss.item(), requires_grad=True)  # <- detached-loss
        loss.backward()
        optimizer.step()

A loss computed from `argmax`, which has no gradient:

    for x, y in loader:
        optimizer.zero_grad()
        classes = net(x).argmax(dim=1).float()  # <- detached-loss
        loss = F.mse_loss(classes, y.float())
        loss.backward()
        optimizer.step()

    # raises RuntimeError: element 0 of tensors does not require grad

A number has no `backward`:

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y).item()  # <- detached-loss
        loss.backward()
        optimizer.step()

    # raises AttributeError: 'float' object has no attribute 'backward'

The output of one part of the network becomes a new tensor, so that part gets no gradient:

    encoder, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 3)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        hidden = torch.autograd.Variable(encoder(x), requires_grad=True)  # <- detached-loss
        loss = F.cross_entropy(head(hidden), y)
        loss.backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

A loss computed from the logits:

    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()

A tensor has `backward`:

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

The output is used as it is:

    encoder, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 3)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        hidden = encoder(x)
        loss = F.cross_entropy(head(hidden), y)
        loss.backward()
        optimizer.step()

## When it is fine

A number for the log, a detached target, and one detached term of several:

    history = []
    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        history.append(loss.item())
        teacher = net(x).detach()
        total = loss + F.mse_loss(logits, teacher) + 0.1 * loss.detach()
        total.backward()
        optimizer.step()

A straight-through estimator passes the gradient around `argmax`:

    for x, y in loader:
        logits = net(x)
        soft = logits.softmax(dim=1)
        hard = F.one_hot(soft.argmax(dim=1), 3).float()
        loss = F.mse_loss(soft + (hard - soft).detach(), F.one_hot(y, 3).float())
        loss.backward()

The input is optimized instead of the network:

    x = features[:4].clone().requires_grad_(True)
    loss = F.cross_entropy(net(x), targets[:4])
    loss.backward()

The gradient of a new tensor is read, so it is meant to be one:

    encoder, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 3)
    for x, y in loader:
        hidden = encoder(x)
        cut = torch.autograd.Variable(hidden.data, requires_grad=True)
        F.cross_entropy(head(cut), y).backward()
        hidden.backward(cut.grad)

The other argument of the loss may have a gradient:

    generator = nn.Linear(8, 3)
    for x, y in loader:
        F.mse_loss(net(x).detach(), generator(x)).backward()

## Fix

Asks first: the fix changes what is trained. Offered if the script only reads the loss as a number.

## References

PyTorch documentation, `torch.Tensor.detach` and `torch.tensor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import (
    adversaries,
    expressions,
    hard_losses,
    lightning_modules,
    loss_cuts,
    loss_slices,
    moved_leaves,
    script_text,
    training_loops,
)
from lintrain.pipeline import blocks, events
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Optimizer, Parameter, Role, Tensor
from lintrain.pipeline.values.python import Unknown, options_of
from lintrain.pipeline.values.tensors import Operation
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

if TYPE_CHECKING:
    from lintrain.evidence.run import LoopEvidence, ReachedWeights

HOW = {
    "item": "`.item()` returns a Python number",
    "tolist": "`.tolist()` returns Python numbers",
    "numpy": "NumPy arrays have no gradient",
    "array": "NumPy arrays have no gradient",
    "asarray": "NumPy arrays have no gradient",
    "tensor": "a new tensor has no history",
    "Tensor": "a new tensor has no history",
    "FloatTensor": "a new tensor has no history",
    "detach": "`.detach()` removes it from the graph",
    "Variable": "a new `Variable` has no history",
    "data": "`.data` removes it from the graph",
    "from_numpy": "a new tensor has no history",
    "round": "`round` has a gradient of zero",
    "floor": "`floor` has a gradient of zero",
    "ceil": "`ceil` has a gradient of zero",
    "sign": "`sign` has a gradient of zero",
    "compare": "a comparison has no gradient",
    "argmax": "`argmax` has no gradient",
    "no_grad": "it is computed under `no_grad`",
}

RAISED = ("does not require grad", "object has no attribute 'backward'")
"""Error messages of PyTorch and Python for a loss without a graph."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the loss that still has a gradient, None without a fix; `is_part` if only a part may be cut off.

    `is_term` if a term of the loss depends on another model than the one that steps.
    """

    loss: str | None
    is_part: bool = False
    is_term: bool = False


class DetachedLoss(Rule[Claim]):
    level = Level.ERROR
    keywords = "backward|requires_grad|def forward|training_step"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for returned in lightning_modules.cut_losses(pipeline):
            if returned.location is not None:
                found.setdefault(returned.location, self._report_step(returned.location, returned.name))
        for hard in hard_losses.hard_losses(pipeline.source):
            found.setdefault(hard.location, self._report_hard(hard))
        trained = {event.location for event in pipeline.acts(events.Act.BACKWARD) if _cut_of(event) is None}
        for event in pipeline.acts(events.Act.BACKWARD):
            cut = _cut_of(event)
            if cut is not None and cut.location is not None and event.location not in trained:
                found.setdefault(cut.location, self._report(pipeline, cut.location, event, cut.name))
        for each in loss_slices.cuts(pipeline):
            if not _is_known(each, found) and not _is_wanted(pipeline, each):
                found[each.location] = self._report_cut(pipeline, each)
        for new in _new_tensors(pipeline):
            if any(new.location.holds(location) for location in found):
                continue
            found.setdefault(new.location, self._report_new(new))
        for location, name in moved_leaves.made_to_learn(pipeline.source):
            # What cuts the loss off is above it, and has been named.
            if not any(each.line <= location.line and blocks.is_one_scope(pipeline, location, each) for each in found):
                found[location] = self._report_made(location, name)
        for location, name, detached in moved_leaves.cut_generators(pipeline.source):
            if not any(location.holds(each) or each.holds(location) for each in found):
                found[location] = self._report_generator(location, name, detached)
        for event in pipeline.acts(events.Act.BACKWARD):
            off = _computed_off(pipeline, event)
            if off is not None and not any(off.holds(location) for location in found):
                found.setdefault(event.location, self._report_switched(event, off))
            useless = _useless_pass(pipeline, event)
            if useless is not None and event.location not in found:
                found[event.location] = self._report_term(pipeline, event, useless)
        for term in loss_cuts.cut_terms(pipeline.source):
            if not any(term.location.holds(each) or each == term.backward for each in found):
                found[term.location] = self._report_policy(term)
        for location in loss_cuts.penalties(pipeline.source):
            found.setdefault(location, self._report_penalty(location))
        for untrained in adversaries.untrained_steps(pipeline):
            if not any(untrained.step.loops[-1].location.holds(location) for location in found):
                found[untrained.backward.location] = self._report_untrained(untrained)
        yield from found.values()

    def _report_policy(self, term: loss_cuts.CutTerm) -> Finding[Claim]:
        return self.finding(
            term.location,
            term.message,
            related=[Related(term.backward, "the loss that it is a part of", "backward")],
            help="keep the tensors as they were computed: `torch.stack` joins a list of them",
        )

    def _report_penalty(self, location: Location) -> Finding[Claim]:
        return self.finding(
            location,
            "the penalty on these gradients has no gradient of its own",
            help="pass `create_graph=True`",
        )

    def _report_untrained(self, untrained: adversaries.Untrained) -> Finding[Claim]:
        loss, optimizer = map(training_loops.text_of_event, (untrained.backward, untrained.step))
        return self.finding(
            untrained.backward.location,
            f"`{loss}` has no gradient for what `{optimizer}` trains",
            related=[
                Related(untrained.forward.location, "the result of this pass is taken off the graph", "forward"),
                Related(untrained.step.location, "steps without gradients", "step"),
            ],
            help="compute this loss from the result itself, without `detach` and `no_grad`",
        )

    def _report_hard(self, found: hard_losses.HardLoss) -> Finding[Claim]:
        shown = f"`{found.name}`" if len(found.name) <= 20 else "this loss"
        return self.finding(
            found.location,
            f"{shown} has no gradient: {HOW.get(found.operation, HOW['compare'])}",
            related=[Related(found.used, "trained with here", "backward")],
            help="compute with the probabilities themselves",
        )

    def _report_step(self, location: Location, cut: str) -> Finding[Claim]:
        return self.finding(
            location,
            f"the returned loss has no gradient: {HOW.get(cut, f'`{cut}` is not differentiable')}",
            help="return the loss as the loss function gave it",
        )

    def _report_cut(self, pipeline: Pipeline, cut: loss_slices.Cut) -> Finding[Claim]:
        how = HOW.get(cut.how, f"`{cut.how}` is not differentiable")
        what = f"the loss has no gradient: {how}" if cut.is_whole else f"what computed this gets no gradient: {how}"
        if cut.term and len(cut.term) <= 20:
            what = f"`{cut.term}` adds no gradient to the loss: {how}"
        return self.finding(
            cut.location,
            what,
            related=[
                Related(
                    cut.sink,
                    f"`backward` reaches nothing through `{cut.term}`"
                    if cut.term
                    else "`backward` reaches no parameter from here",
                    "backward",
                )
            ],
            help="compute the loss from the output of the network, with operations of torch",
            claim=Claim(None, is_part=not cut.is_whole),
            level=Level.WARNING if cut.term else Level.ERROR,
        )

    def _report_made(self, location: Location, name: str) -> Finding[Claim]:
        shown = name if len(name) <= 20 else "the loss"
        return self.finding(
            location,
            f"`{shown}` is made to require gradients, and what computed it gets none by that",
            help="remove it, and compute the loss from the output of the network with operations of torch",
            claim=Claim(None, is_part=True),
            level=Level.WARNING,
        )

    def _report_generator(self, location: Location, name: str, cut: Location) -> Finding[Claim]:
        shown = name if len(name) <= 20 else "this loss"
        return self.finding(
            location,
            f"`{shown}` gives the generator no gradient: what is judged was detached",
            related=[Related(cut, "cut off here", "cut")],
            help="let the discriminator judge the output that is not detached",
            claim=Claim(None, is_part=True),
            level=Level.WARNING,
        )

    def _report_switched(self, event: events.Event, off: Location) -> Finding[Claim]:
        text = training_loops.text_of_event(event)
        return self.finding(
            event.location,
            f"`{text}` has no gradient: autograd is off where it is computed",
            related=[Related(off, "computed here", "pass")],
            help="switch autograd on for what `backward` is called on",
            claim=Claim(None),
        )

    def _report_term(self, pipeline: Pipeline, event: events.Event, useless: events.Event) -> Finding[Claim]:
        text = training_loops.text_of_event(event)
        loss = f"`{text}`" if 0 < len(text) <= 30 and "\n" not in text else "the loss"
        return self.finding(
            event.location,
            f"a term of {loss} gives no gradient to the model that steps",
            related=[Related(useless.location, "the term goes through this model only", "pass")],
            help="compute the term from an output that is not detached",
            claim=Claim(None, is_term=True),
            level=Level.WARNING,
        )

    def _report_new(self, new: Misuse) -> Finding[Claim]:
        made = new.value.origin
        return self.finding(
            new.location,
            "a new tensor has no history, so what computed it gets no gradient",
            related=[Related(made, "computed here", "computed")] if made else [],
            help="use the tensor itself: it requires gradients already",
            claim=Claim(None, is_part=True),
        )

    def _report(self, pipeline: Pipeline, location: Location, event: events.Event, cut: str) -> Finding[Claim]:
        text = training_loops.text_of_event(event)
        loss = f"`{text}`" if 0 < len(text) <= 30 and "\n" not in text else "the loss"
        how = HOW.get(cut, f"`{cut}` is not differentiable")
        statement, code = _loss_without(pipeline, location, event)
        return self.finding(
            location,
            f"{loss} has no gradient: {how}",
            related=[
                Related(event.location, "`backward` reaches no parameter from here", "backward"),
                *([Related(statement, "replaces the loss", "statement")] if statement else []),
            ],
            help="call `backward` on the loss that the loss function returned",
            claim=Claim(code),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        yield from self._parts(evidence)
        loop, model = evidence.loop, evidence.model
        is_trainable = model is None or model.trainable_parameters > 0
        location = _number_at(evidence) or (evidence.failed_place(RAISED[0]) if is_trainable else None)
        if loop is not None and loop.losses_without_graph == loop.backwards > 0:
            location = location or evidence.first("losses_without_graph") or evidence.location
        if location is None and loop is not None and _ends_early(loop):
            location = evidence.first("new_leaves") or evidence.first("losses") or evidence.first("backwards")
        if location is not None:
            yield self.finding(
                location,
                "no gradient flows from this loss back to the model",
                help="call `backward` on the loss as it is computed from the outputs",
            )

    def _parts(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        """Parts of the training that no gradient reaches, where each was cut off."""
        location = evidence.first("terms_without_graph")
        if location is not None:
            yield self.finding(
                location,
                "a term of the loss is a new tensor, so what computed it gets no gradient",
                help="add the loss as it is computed from the outputs",
            )
        uses = evidence.loop.optimizers if evidence.loop is not None else ()
        for use in uses:
            if use.cut_at is not None and use.steps_on_nothing == use.steps and not use.reached:
                yield self.finding(
                    use.cut_at,
                    f"no gradient flows through here to the weights of `{use.name}`",
                    help="use the output with its graph in what this optimizer minimizes",
                )
            if use.part_cut_at is not None and use.steps > 1:
                yield self.finding(
                    use.part_cut_at,
                    "no gradient flows through here, so the module that made it is not trained",
                    help="use the output with its graph, or leave its parameters out of the optimizer",
                )
        rounded = evidence.first("rounded")
        if rounded is not None and _has_no_slope(evidence):
            yield self.finding(
                rounded,
                "the predictions are rounded, which has a gradient of zero",
                help="compute the loss from the predictions as they are, and round for metrics alone",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*RAISED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message.splitlines()[0]}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if (part := _judge_cut(finding.location, loop, evidence)) is not None:
            return part
        if finding.claim is not None and finding.claim.is_term:
            return Verdict.inconclusive(f"{loop.backwards} backward passes ran, each with the whole loss")
        reached = sum(use.reached for use in loop.optimizers)
        text = f"{reached} of {loop.backwards} backward passes reached a parameter of an optimizer"
        if not loop.backwards:
            return Verdict.inconclusive(text)
        if finding.claim is not None and finding.claim.is_part and loop.reached is not None:
            return _judge_part(loop, loop.reached)
        return (Verdict.refuted if reached else Verdict.confirmed)(text, reached=reached)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, statements = finding.claim, finding.with_role("statement")
        if claim is None or claim.loss is None:
            return None
        if statements:
            return fixes.Fix.of("remove this statement", fixes.Replace(statements[0].location, ""), safe=False)
        return fixes.Fix.of("use the loss unchanged", fixes.Replace(finding.location, claim.loss), safe=False)


def _useless_pass(pipeline: Pipeline, backward: events.Event) -> events.Event | None:
    """The forward pass of a term of the loss that reaches no parameter of the optimizers that step after it.

    None unless another term does: a detached output in the loss of a generator is such a term.
    """
    loss, optimizers = backward.details["loss"], _stepping_after(pipeline, backward)
    if not isinstance(loss, Tensor) or not optimizers:
        return None
    trained = expressions.parts_shared(pipeline, [part for each in optimizers for part in each.trains])
    terms = [part for part in pipeline.computed_from(loss) if isinstance(part, Tensor) and part.graph]
    leaves = [term for term in terms if id(term) not in pipeline.arithmetic]
    passes = {id(term): [pipeline.events[order] for order in sorted(term.graph)] for term in leaves}
    if any(isinstance(each.subject, Unknown) for some in passes.values() for each in some):
        return None
    parts = {key: expressions.parts_shared(pipeline, [each.subject for each in some]) for key, some in passes.items()}
    useless = [key for key, some in parts.items() if some.isdisjoint(trained) and _gets_known_history(passes[key][0])]
    return passes[useless[0]][-1] if useless and len(useless) < len(parts) else None


def _gets_known_history(forward: events.Event) -> bool:
    """Whether the input of a pass is understood: what a function that is not known gives may have any history."""
    return isinstance(forward.details.get("given"), Tensor)


def _computed_off(pipeline: Pipeline, backward: events.Event) -> Location | None:
    """The statement that computes the loss of a backward call, if autograd is certainly off around all of it."""
    name = training_loops.text_of_event(backward)
    known = [each for each in options_of(backward.details["loss"]) if not isinstance(each, Unknown)]
    if not name.isidentifier() or known:
        return None
    around = blocks.scope_of(pipeline, backward.location)
    assigned = expressions.assignments_in_file(pipeline.source_of(backward.location))
    for each in sorted(assigned, key=lambda one: one.location, reverse=True):
        is_before = each.location < backward.location and blocks.scope_of(pipeline, each.location) is around
        if is_before and any(target.code == name for target in each.targets):
            inside = [event for event in pipeline.events if each.location.holds(event.location)]
            seen = [event for event in inside if event.order < backward.order and event.reading == backward.reading]
            return each.location if seen and _last_reading_is_off(seen) else None
    return None


def _last_reading_is_off(seen: list[events.Event]) -> bool:
    """Whether autograd was off when a statement was read last: a loop over phases reads it once for each."""
    first = seen[-1].location
    orders = [event.order for event in seen if event.location == first]
    last = [event for event in seen if len(orders) < 2 or event.order > orders[-2]]
    return all(event.is_off for event in last)


def _stepping_after(pipeline: Pipeline, backward: events.Event) -> list[Optimizer]:
    """The optimizers that step between a backward call and the next one; empty if one of them is not known."""
    if not backward.loops:
        return []
    found: list[Optimizer] = []
    for event in training_loops.events_in(pipeline, backward.loops[-1]):
        if event.order <= backward.order or event.act not in {events.Act.BACKWARD, events.Act.STEP}:
            continue
        if event.act is events.Act.BACKWARD:
            break
        if not isinstance(event.subject, Optimizer) or not event.subject.trains:
            return []
        found.append(event.subject)
    return [] if any(isinstance(part, Unknown) for each in found for part in each.trains) else found


def _number_at(evidence: Evidence) -> Location | None:
    """The statement that makes a Python number of the loss, on which `backward` cannot be called."""
    stage = evidence.failed_with(
        "'float' object has no attribute 'backward'", "'int' object has no attribute 'backward'"
    )
    failure = stage.failure if stage is not None else None
    if failure is None or failure.location is None:
        return None
    made = next((value.origin for value in failure.given if value.kind == "number" and value.origin), "")
    line = int(made.partition(":")[0]) if made else failure.location.line
    return Location(failure.location.path, line, 1, line, 1) if made else failure.location


def _ends_early(loop: LoopEvidence) -> bool:
    """Whether the graph of the losses ends at tensors of no module, although modules were called for them."""
    reached = loop.reached
    is_cut = reached is not None and reached.tensors == reached.outside_modules
    return is_cut and loop.trained > 0 and loop.backwards > 1 and not any(use.reached for use in loop.optimizers)


def _judge_cut(location: Location, loop: LoopEvidence, evidence: Evidence) -> Verdict | None:
    """What was measured of a part that is cut off at a location; None if it was seen nowhere."""
    for use in loop.optimizers:
        if use.cut_at is not None and use.cut_at.meets(location) and use.steps_on_nothing == use.steps:
            text = f"{use.steps_on_nothing} of {use.steps} steps of `{use.name}` found no gradient"
            return Verdict.confirmed(text, steps=use.steps)
        if use.part_cut_at is not None and use.part_cut_at.meets(location):
            text = f"{use.reached} backward passes reached `{use.name}`, and none all of its modules"
            return Verdict.confirmed(text, reached=use.reached)
    terms, rounded = evidence.first("terms_without_graph"), evidence.first("rounded")
    if terms is not None and terms.meets(location):
        text = f"{loop.terms_without_graph} terms in {loop.backwards} losses are tensors without a history"
        return Verdict.confirmed(text, terms=loop.terms_without_graph)
    if rounded is not None and rounded.meets(location) and _has_no_slope(evidence):
        return Verdict.confirmed(f"every gradient of {loop.backwards} backward passes is 0", losses=loop.rounded)
    return None


def _has_no_slope(evidence: Evidence) -> bool:
    """Whether all gradients are 0."""
    backward = evidence.backward
    return backward is not None and backward.finite and bool(backward.norms) and not any(backward.norms)


def _judge_part(loop: LoopEvidence, reached: ReachedWeights) -> Verdict:
    """Whether the losses depend on all weights of the optimizers."""
    weights, inside = sum(use.tensors for use in loop.optimizers), reached.tensors - reached.outside_optimizers
    text = f"the losses depend on {inside} of {weights} weights of the optimizers"
    return (Verdict.confirmed if inside < weights else Verdict.refuted)(text, reached=inside, weights=weights)


def _is_known(cut: loss_slices.Cut, found: dict[Location, Finding[Claim]]) -> bool:
    """Whether the same cut, or one of the same loss, was found by its value."""
    ends = (related.location for finding in found.values() for related in finding.related if related.role == "backward")
    return any(cut.location.holds(other) or other.holds(cut.location) for other in found) or cut.sink in set(ends)


def _is_wanted(pipeline: Pipeline, cut: loss_slices.Cut) -> bool:
    """Whether a part is cut off on purpose: the gradient of the new tensor is read, or it is what is optimized."""
    statement = expressions.assignment_at(pipeline, cut.location)
    name = re.escape(statement.name or "") if statement is not None else ""
    if cut.is_whole or cut.term or not name:
        return False
    return _optimizers_around(pipeline, cut.location) > 1 or script_text.mentions(
        pipeline, rf"\b{name}\.grad\b|\[[^\]\n]*\b{name}\b"
    )


def _new_tensors(pipeline: Pipeline) -> list[Misuse]:
    """Computed tensors that became new ones, unless code uses the gradient of such a tensor."""
    made = [misuse for misuse in pipeline.misuses if misuse.use == "rewrapped"]
    if not made or any(_is_of_a_tensor(event) for event in pipeline.acts(events.Act.GRADIENT)):
        return []
    if not (pipeline.losses or pipeline.acts(events.Act.BACKWARD)):
        return []
    return [misuse for misuse in made if _optimizers_around(pipeline, misuse.location) < 2]


def _optimizers_around(pipeline: Pipeline, location: Location) -> int:
    """The number of optimizers that step in the loops around a location, or anywhere if there is no loop around it."""
    # With several optimizers, a new tensor may be the input of the one network that is trained at the moment.
    loops = [loop for loop in pipeline.loops if loop.location.holds(location)]
    steps = pipeline.acts(events.Act.STEP)
    inside = [step for step in steps if any(step.is_inside(loop) for loop in loops)]
    return len({id(step.subject) for step in inside or steps})


def _is_of_a_tensor(event: events.Event) -> bool:
    """Whether code may look at the gradient of something else than a parameter."""
    match event.subject:
        case Parameter():
            return False
        case Unknown(name=name):
            return "param" not in name
        case _:
            return True


def _cut_of(event: events.Event) -> Operation | None:
    """The operation that removed the loss from the graph, if that is certain for every value of the loss."""
    options = options_of(event.details["loss"])
    losses = [option for option in options if isinstance(option, Tensor) and option.role is Role.LOSS]
    cuts = [loss.cut for loss in losses if loss.cut is not None]
    return cuts[0] if cuts and len(cuts) == len(losses) == len(options) else None


def _count_item_calls(pipeline: Pipeline, name: str, location: Location) -> int:
    """The number of `.item()` calls on a tensor after the statement that creates it."""
    calls = script_text.attribute_uses(pipeline.source_of(location), name, "item")
    return sum(call.line > location.line for call in calls)


def _loss_without(pipeline: Pipeline, location: Location, event: events.Event) -> tuple[Location | None, str | None]:
    """The statement that replaces the loss, for removal, and the code of the loss before it.

    None if the script uses the loss for anything but `backward`: it may need a number there.
    """
    statement = expressions.assignment_at(pipeline, location)
    loss = pipeline.code(event.location).partition(".backward(")[0]
    if statement is None or statement.name != loss or statement.value.callee is None:
        return None, None
    made, source = statement.value, pipeline.source_of(location)
    uses = blocks.uses_of(pipeline, loss, location)
    inside = [node for node in uses if statement.location.holds(source.location(node))]
    kept = _count_item_calls(pipeline, loss, location) if "tensor" in statement.value.callee.code else 0
    if location not in {each.location for each in (made, *made.arguments[:1])} or len(uses) != len(inside) + kept + 1:
        return None, None
    owner = made.called_on
    if made.called_name == "tensor" and len(made.arguments) == 1:
        rebuilt = made.arguments[0].called_on
        return (statement.location, loss) if owner and rebuilt and rebuilt.code == loss else (None, None)
    if owner is None or made.called_name not in {"detach", "item"}:
        return None, None
    if owner.code == loss:
        return statement.location, loss
    is_result = owner.kind is expressions.Kind.CALL and not made.arguments
    return None, owner.written_code if is_result else None
