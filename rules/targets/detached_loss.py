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

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import (
    adversaries,
    cut_graphs,
    graph_verdicts,
    hard_losses,
    lightning_modules,
    lightning_returns,
    loss_cuts,
    loss_slices,
    moved_leaves,
    training_loops,
)
from lintrain.pipeline import blocks, events
from lintrain.pipeline.record import Misuse
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

if TYPE_CHECKING:
    pass


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
        for location, name in lightning_returns.cut_returns(pipeline):
            if not any(location.holds(each) or each.holds(location) for each in found):
                found[location] = self._report_step(location, name)
        for hard in hard_losses.hard_losses(pipeline.source):
            found.setdefault(hard.location, self._report_hard(hard))
        trained = {event.location for event in pipeline.acts(events.Act.BACKWARD) if cut_graphs.cut_of(event) is None}
        for event in pipeline.acts(events.Act.BACKWARD):
            cut = cut_graphs.cut_of(event)
            if cut is not None and cut.location is not None and event.location not in trained:
                found.setdefault(cut.location, self._report(pipeline, cut.location, event, cut.name))
        for each in loss_slices.cuts(pipeline):
            if not _is_known(each, found) and not cut_graphs.is_wanted(pipeline, each):
                found[each.location] = self._report_cut(pipeline, each)
        for new in cut_graphs.new_tensors(pipeline):
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
            off = cut_graphs.computed_off(pipeline, event)
            if off is not None and not any(off.holds(location) for location in found):
                found.setdefault(event.location, self._report_switched(event, off))
            useless = cut_graphs.useless_pass(pipeline, event)
            if useless is not None and event.location not in found:
                found[event.location] = self._report_term(pipeline, event, useless)
        for term in loss_cuts.cut_terms(pipeline.source):
            if not any(term.location.holds(each) or each == term.backward for each in found):
                found[term.location] = self._report_policy(term)
        for location in loss_cuts.penalties(pipeline.source):
            found.setdefault(location, self._report_penalty(location))
        for untrained in adversaries.untrained_steps(pipeline):
            around = untrained.step.loops[-1].location if untrained.step.loops else untrained.backward.location
            if not any(around.holds(location) for location in found):
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
            f"{shown} has no gradient: {cut_graphs.HOW.get(found.operation, cut_graphs.HOW['compare'])}",
            related=[Related(found.used, "trained with here", "backward")],
            help="compute with the probabilities themselves",
        )

    def _report_step(self, location: Location, cut: str) -> Finding[Claim]:
        return self.finding(
            location,
            f"the returned loss has no gradient: {cut_graphs.HOW.get(cut, f'`{cut}` is not differentiable')}",
            help="return the loss as the loss function gave it",
        )

    def _report_cut(self, pipeline: Pipeline, cut: loss_slices.Cut) -> Finding[Claim]:
        how = cut_graphs.HOW.get(cut.how, f"`{cut.how}` is not differentiable")
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
        how = cut_graphs.HOW.get(cut, f"`{cut}` is not differentiable")
        statement, code = cut_graphs.loss_without(pipeline, location, event)
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
        for cut in graph_verdicts.cut_parts(evidence):
            yield self.finding(cut.location, cut.message, help=cut.remedy)
        location = graph_verdicts.loss_without_graph(evidence)
        if location is not None:
            yield self.finding(
                location,
                "no gradient flows from this loss back to the model",
                help="call `backward` on the loss as it is computed from the outputs",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*graph_verdicts.RAISED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message.splitlines()[0]}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if (part := graph_verdicts.judge_cut(finding.location, loop, evidence)) is not None:
            return part
        if finding.claim is not None and finding.claim.is_term:
            return Verdict.inconclusive(f"{loop.backwards} backward passes ran, each with the whole loss")
        reached = sum(use.reached for use in loop.optimizers)
        text = f"{reached} of {loop.backwards} backward passes reached a parameter of an optimizer"
        if not loop.backwards:
            return Verdict.inconclusive(text)
        if finding.claim is not None and finding.claim.is_part and loop.reached is not None:
            return graph_verdicts.judge_part(loop, loop.reached)
        return (Verdict.refuted if reached else Verdict.confirmed)(text, reached=reached)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, statements = finding.claim, finding.with_role("statement")
        if claim is None or claim.loss is None:
            return None
        if statements:
            return fixes.Fix.of("remove this statement", fixes.Replace(statements[0].location, ""), safe=False)
        return fixes.Fix.of("use the loss unchanged", fixes.Replace(finding.location, claim.loss), safe=False)


def _is_known(cut: loss_slices.Cut, found: dict[Location, Finding[Claim]]) -> bool:
    """Whether the same cut, or one of the same loss, was found by its value."""
    ends = (related.location for finding in found.values() for related in finding.related if related.role == "backward")
    return any(cut.location.holds(other) or other.holds(cut.location) for other in found) or cut.sink in set(ends)
