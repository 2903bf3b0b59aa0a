"""Nothing clears the gradients between two optimizer steps.

`backward` adds to the gradients that are there. Without `zero_grad` every step goes along the sum of all batches seen
so far, and the loss stalls or grows while no error appears.

## Bad

    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()  # <- missing-zero-grad
        optimizer.step()

Of two optimizers each needs its own:

    critic = nn.Linear(3, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for x, y in loader:
        critic_loss = critic(net(x).detach()).mean()
        critic_loss.backward()  # <- missing-zero-grad
        critic_optimizer.step()
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## Good

    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

With two optimizers:

    critic = nn.Linear(3, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for x, y in loader:
        critic_loss = critic(net(x).detach()).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

Gradients of several batches may be added up on purpose, if they are cleared when the step is done:

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / 4
        loss.backward()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

The model can clear them as well, or the closure that an optimizer runs:

    for x, y in loader:
        net.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A loop that is left after its first step clears nothing:

    for x, y in loader:
        criterion(net(x), y).backward()
        optimizer.step()
        break

## Fix

Safe: gradients of all earlier batches are in no step that anybody meant. Offered for one optimizer, where nothing is
accumulated.

## References

PyTorch documentation, `torch.optim.Optimizer.zero_grad`; PyTorch tutorial "Zeroing out gradients".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class MissingZeroGrad(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found: dict[Location, Finding] = {}
        for training in training_loops.training_loops(pipeline):
            if self._never_clears(pipeline, training):
                found.setdefault(training.backward.location, self._report(training))
        yield from found.values()

    def _never_clears(self, pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
        if len(training.backward.loops) == 1 and training_loops.is_left_after(
            pipeline, _next_step(training), training.loop
        ):
            return False
        around = [event for loop in training.backward.loops for event in pipeline.events_in(loop)]
        clears = [event for event in around if event.act is Act.ZERO_GRAD]
        followed = _next_step(training).subject
        hidden = any(training_loops.may_hide(pipeline, event, followed) for event in training.inside)
        if (
            hidden
            or training.has(Act.GRADIENT)
            or any(iterations.is_of(pipeline, event, followed) is not False for event in clears)
        ):
            return False
        return all(training_loops.is_certain_step(step) and not _is_engine(step, training) for step in training.steps)

    def _report(self, training: training_loops.TrainingLoop) -> Finding:
        step = _next_step(training)
        optimizer = training_loops.text_of_event(step)
        loss = training_loops.text_of_event(training.backward)
        return self.finding(
            training.backward.location,
            f"gradients of `{_short(loss)}` add up: nothing in this loop clears them",
            related=[
                *training_loops.made_here(step.subject, "made here"),
                Related(step.location, "steps along the sum of all batches", "step"),
            ],
            help=f"call `{optimizer}.zero_grad()` before `backward`",
            facts={"optimizer": optimizer if _is_plain(training) else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        for use in loop.optimizers:
            if use.steps_on_used:
                text = f"{use.steps_on_used} of {use.steps} steps of `{use.name}` took gradients that a step had used"
                return Verdict.confirmed(text, steps_on_used=use.steps_on_used, steps=use.steps)
        if loop.steps > 1:
            return Verdict.refuted(f"0 of {loop.steps} steps took gradients that a step had used", steps=loop.steps)
        return Verdict.inconclusive(f"{loop.steps} steps were seen, and the second one tells", steps=loop.steps)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        uses = evidence.loop.optimizers if evidence.loop else ()
        if any(use.steps_on_used == use.steps - 1 > 1 for use in uses):
            what = "nothing clears the gradients between two steps"
            yield from self.if_confirmed(self.finding(evidence.location, what), evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding) -> fixes.Fix | None:
        optimizer = finding.facts.get("optimizer")
        if not isinstance(optimizer, str) or not optimizer:
            return None
        statement = f"{optimizer}.zero_grad()"
        return fixes.Fix.of(
            f"insert `{statement}` before `backward`", fixes.InsertBefore(finding.location, statement), safe=True
        )


def _next_step(training: training_loops.TrainingLoop) -> Event:
    """The step that follows the backward call; the last one where none follows in the same iteration."""
    following = (step for step in training.steps if step.order > training.backward.order)
    return next(following, training.steps[-1])


def _is_engine(step: Event, training: training_loops.TrainingLoop) -> bool:
    """`engine.backward(loss)` with `engine.step()`: an engine clears gradients itself."""
    return step.subject is training.backward.subject


def _is_plain(training: training_loops.TrainingLoop) -> bool:
    """One backward and one step, always and in this order, in one function: no accumulation is meant."""
    backwards = [event for event in training.inside if event.act is Act.BACKWARD]
    step = training.steps[0]
    return (
        len(backwards) == len(training.steps) == 1
        and step.function == training.backward.function
        and training.backward.order < step.order
        and not step.is_conditional_in(training.loop)
        and not training.backward.is_conditional_in(training.loop)
        and training.backward.loops[-1] is step.loops[-1] is training.loop
    )


def _short(loss: str) -> str:
    return loss if 0 < len(loss) <= 40 and "\n" not in loss else "the loss"
