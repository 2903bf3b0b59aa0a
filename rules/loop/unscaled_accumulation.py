"""Gradients are accumulated over several batches without dividing the loss by their number.

A loss that is averaged over its batch must be divided by the number of batches in a step. Otherwise the gradients are
too large by that factor: with SGD, this multiplies the learning rate, and clipping affects nearly every step.

## Bad

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y)
        loss.backward()  # <- unscaled-accumulation
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

## Good

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y)
        (loss / 4).backward()
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

## When it is fine

A sum over rows may be divided by the number of all rows:

    summed = nn.CrossEntropyLoss(reduction="sum")
    for index, (x, y) in enumerate(loader):
        loss = summed(net(x), y) / len(features)
        loss.backward()
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

The learning rate may account for the sum:

    accumulation = 4
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1 / accumulation)
    for index, (x, y) in enumerate(loader):
        criterion(net(x), y).backward()
        if (index + 1) % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()

A loss computed by other code may be divided there:

    from engine import loss_of

    for index, (x, y) in enumerate(loader):
        loss_of(net, x, y).backward()
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

An Accelerator passed as an argument may divide the loss itself:

    def train(accelerator):
        for index, (x, y) in enumerate(loader):
            accelerator.backward(criterion(net(x), y))
            if (index + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()

    train(Accelerator(gradient_accumulation_steps=4))

## Fix

Asks first: gradients become smaller by that factor, and the learning rate may have been tuned without the division.

## References

Hugging Face Accelerate documentation, "Performing gradient accumulation".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from lintrain.analysis import iterations, lightning_updates, origins, script_text, training_loops, undivided
from lintrain.pipeline.events import Act, Condition, Event
from lintrain.pipeline.values.model import Launcher, Model, Role, Tensor
from lintrain.pipeline.values.python import Absent, Constant, Unknown, Value, number_of, text_of
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

COUNTED = lazy_pattern(r"range\(([\w.]+)\)")
ACCUMULATES = lazy_pattern(r"accum", re.IGNORECASE)
"""A loop that counts, and names for the number of batches in a step."""
NEAR = 1e-4


@dataclass(frozen=True, slots=True)
class Claim:
    """The backward call on the divided loss, None without a fix."""

    code: str | None


class UnscaledAccumulation(Rule[Claim]):
    level = Level.WARNING
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for update in lightning_updates.undivided_updates(pipeline):
            yield self._added_up(update.backward, update.batches, update.step, self.level)
        found: dict[Location, Finding[Claim]] = {}
        if training_loops.trains_by_hand(pipeline) and not any(_may_divide(each) for each in pipeline.launchers):
            for training in training_loops.training_loops(pipeline):
                window = _window(pipeline, training)
                if (
                    window is not None
                    and not _is_scaled(pipeline, training, window)
                    and not iterations.hides_gradients(pipeline, training)
                ):
                    found.setdefault(training.backward.location, self._report(pipeline, training, window))
        # A loop whose optimizer or loss is not followed still names what it adds up.
        for each in undivided.undivided(pipeline):
            found.setdefault(each.backward, self._added_up(each.backward, each.batches, each.step, Level.NOTE))
        yield from found.values()

    def _report(self, pipeline: Pipeline, training: training_loops.TrainingLoop, window: Window) -> Finding[Claim]:
        level = self.level if window.is_default else Level.NOTE
        code = _divided(pipeline.code(training.backward.location), window.batches)
        return self._added_up(training.backward.location, window.batches, window.location, level, Claim(code))

    def _added_up(
        self, backward: Location, batches: str, step: Location, level: Level, claim: Claim | None = None
    ) -> Finding[Claim]:
        shown = f"`{batches}`" if not batches.isdigit() else batches
        return self.finding(
            backward,
            f"gradients of {shown} batches are summed, but the loss is not divided by {shown}",
            related=[Related(step, f"steps once every {batches} batches", "step")],
            help=f"divide the loss by {shown} before `backward`",
            level=level,
            claim=claim or Claim(None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop, location = evidence.loop, evidence.first("undivided_losses")
        # A script that divides by the steps elsewhere may mean its learning rate.
        is_divided = loop is not None and "accumulation" in loop.mentions
        if loop is None or location is None or is_divided or not _adds_means_of_batches(evidence):
            return
        batches = loop.batches_per_step[0]
        yield self.finding(
            location,
            f"gradients of {batches} batches are summed, but the loss is not divided by {batches}",
            help=f"divide the loss by {batches} before `backward`",
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        most = max(loop.backwards_per_step, default=0)
        if most < 2:
            return Verdict.inconclusive(f"at most {most} backward passes ran before a step", backwards=most)
        text = f"{loop.undivided_losses} losses were left undivided, with up to {most} backward passes per step"
        return (Verdict.confirmed if loop.undivided_losses else Verdict.refuted)(
            text, undivided=loop.undivided_losses, added=most
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        return fixes.Fix.of(
            "divide the loss by the number of batches", fixes.Replace(finding.location, code), safe=False
        )


def _adds_means_of_batches(evidence: Evidence) -> bool:
    """Whether one optimizer steps once every few batches, each with its own backward pass of a plain average."""
    loop, forward = evidence.loop, evidence.forward
    if loop is None or forward is None or not forward.losses or len(loop.optimizers) != 1:
        return False
    per_step, taken = loop.backwards_per_step, loop.batches_per_step
    is_even = per_step == taken and len(set(per_step)) == 1 and per_step[0] > 1
    means = [each.value for each in loop.losses if each.reduction == "mean"]
    is_mean = any(value is not None and abs(value - forward.losses[0]) <= NEAR * abs(value) for value in means)
    is_cleared = not loop.optimizers[0].steps_on_used and not loop.optimizers[0].dropped
    return is_even and is_mean and is_cleared and loop.accumulates == 1 and bool(loop.past_the_launcher)


def _may_divide(launcher: Launcher) -> bool:
    """Whether the `backward` of a launcher may divide the loss: Fabric's never does."""
    batches = iterations.divisor_of(launcher)
    return launcher.is_accelerator and not (isinstance(batches, Constant) and number_of(batches) == 1)


@dataclass(frozen=True, slots=True)
class Window:
    """Where the batches of one step are counted, and the code of their number.

    Not `is_default` if it is one unless an option asks for more.
    """

    location: Location
    batches: str
    is_default: bool = True


def _window(pipeline: Pipeline, training: training_loops.TrainingLoop) -> Window | None:
    """What makes the loop step and clear once every few batches, with `backward` in each."""
    step = iterations.step_of(pipeline, training)
    counted = (event for event in training.inside if event.act in (Act.ZERO_GRAD, Act.STEP))
    own = [event for event in counted if not iterations.is_of_other(pipeline, event, step.subject)]
    clears = [event for event in own if event.act is Act.ZERO_GRAD]
    if not clears or not _are_alternatives([event for event in own if event.act is Act.STEP]):
        return None
    return _condition(training, step, clears) or _inner_loop(pipeline, training, step, clears)


def _condition(training: training_loops.TrainingLoop, step: Event, clears: Sequence[Event]) -> Window | None:
    """The condition of the step: `if (index + 1) % 4 == 0`."""
    windows = [condition for condition in step.conditions if condition.period_text]
    window = windows[-1] if windows else None
    if window is None or not _means_several(window):
        return None
    together = all(any(condition is window for condition in event.conditions) for event in clears)
    is_apart = window not in training.backward.conditions and training.backward.loops == step.loops
    is_default = number_of(window.period) != 1
    return Window(window.location, window.period_text, is_default) if together and is_apart else None


def _inner_loop(
    pipeline: Pipeline, training: training_loops.TrainingLoop, step: Event, clears: Sequence[Event]
) -> Window | None:
    """The loop around `backward` that takes a batch in each iteration, and after which the optimizer steps."""
    inner, loops = training.backward.loops[-1], training.backward.loops
    is_directly_inside = loops[-2:-1] == (training.loop,) and step.loops[-1] is training.loop
    counted = COUNTED.fullmatch(inner.header)
    if counted is None or not is_directly_inside or step.order < training.backward.order:
        return None
    batches = counted[1]
    takes_batches = ACCUMULATES.search(batches) or "next(" in pipeline.code(inner.location)
    is_cleared = all(not event.is_inside(inner) for event in clears)
    return Window(inner.location, batches) if takes_batches and is_cleared and batches not in {"0", "1"} else None


def _means_several(window: Condition) -> bool:
    """Whether the step is made once every few batches, by default or where an option asks for it."""
    batches = number_of(window.period)
    if not isinstance(window.period, Constant) or (batches is not None and batches > 1):
        return True
    return window.period.default is not None and ACCUMULATES.search(window.period_text) is not None


def _is_scaled(pipeline: Pipeline, training: training_loops.TrainingLoop, window: Window) -> bool:
    """Whether the loss, or a value derived from it, may be divided by the number of batches."""
    step = iterations.step_of(pipeline, training)
    backwards = [
        event
        for event in training.inside
        if event.act is Act.BACKWARD and not iterations.is_of_other(pipeline, event, step.subject)
    ]
    if not _are_alternatives(backwards):
        return True
    if _is_divided(pipeline, backwards, window):
        return True
    # The events at one place are those of the losses that several branches give.
    is_named = ACCUMULATES.search(window.batches) is not None
    return not all(
        _is_plain_mean(pipeline, event) or (is_named and _is_unknown(pipeline, training, event)) for event in backwards
    )


def _is_divided(pipeline: Pipeline, backwards: Sequence[Event], window: Window) -> bool:
    """Whether code that a loss is computed by, or that is about a loss elsewhere, has the number of batches."""
    if window.batches.isdigit():
        return False
    batches = _pattern(window.batches)
    # A function that is not read may divide what it returns.
    divides = rf"(?<!/)/=?\s*\(?\s*(?:float\()?{batches}"
    if script_text.mentions(pipeline, rf"(?m)\b\d(?:\.0?)?\s*{divides}|^[^\n#]*(?:loss|return)[^\n#]*{divides}"):
        return True
    return any(_mentions(pipeline, event, re.compile(rf"\b{batches}|accum", re.IGNORECASE)) for event in backwards)


def _pattern(batches: str) -> str:
    """A regular expression for the number of batches, whatever quotes a key is written in: `config["steps"]`."""
    return re.sub("['\"]", "['\"]", re.escape(batches)) + r"(?!\w)"


def _mentions(pipeline: Pipeline, backward: Event, pattern: re.Pattern[str]) -> bool:
    loss, source = origins.loss_of(pipeline, backward), pipeline.source_of(backward.location)
    behind = origins.origins(source, loss) if loss is not None else ()
    return any(pattern.search(pipeline.code(source.location(each.expression))) for each in behind)


def _are_alternatives(events: Sequence[Event]) -> bool:
    """Whether an iteration has only one of some events: at one place, or in branches that exclude each other."""
    return bool(events) and all(
        one.location == other.location or iterations.contradict(one, other) for one, other in combinations(events, 2)
    )


def _is_unknown(pipeline: Pipeline, training: training_loops.TrainingLoop, backward: Event) -> bool:
    """Whether the loss is unknown, and computed here from what a model gives, by nothing that knows the batches."""
    given = backward.subject
    is_own = isinstance(given, Tensor) and id(given) not in pipeline.arithmetic
    if not isinstance(given, Unknown) and not is_own:
        return False
    loss, source = origins.loss_of(pipeline, backward), pipeline.source_of(backward.location)
    passes = [event.location for event in training.inside if event.act is Act.FORWARD]
    behind = [source.location(each.expression) for each in origins.origins(source, loss)] if loss is not None else []
    return any(part.holds(location) for part in behind for location in passes)


def _is_plain_mean(pipeline: Pipeline, backward: Event) -> bool:
    """Whether `backward` is called on the unchanged result of a loss that averages over its batch."""
    loss: Value = backward.details.get("loss", backward.subject)
    if loss is not backward.subject and not isinstance(backward.subject, Launcher):
        return False  # an engine that is passed the loss may divide it
    if not isinstance(loss, Tensor) or loss.role is not Role.LOSS or id(loss) in pipeline.arithmetic:
        return False
    if isinstance(loss.model, Model):
        return True
    used = next((used for used in pipeline.losses if used.location == loss.origin and used.text == loss.text), None)
    if used is None:
        return False
    reduction = used.options.get("reduction", Absent())
    return isinstance(reduction, Absent) or text_of(reduction) == "mean"


def _divided(code: str, batches: str) -> str | None:
    """The backward call on the loss divided by the number of batches, if both are simple expressions."""
    loss, dot, call = code.rpartition(".backward(")
    is_plain = bool(dot) and call.endswith(")") and "\n" not in code and re.fullmatch(r"[\w.]+", batches)
    return f"({loss} / {batches}).backward({call}" if is_plain else None
