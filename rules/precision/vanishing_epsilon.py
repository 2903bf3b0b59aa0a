"""The `eps` of Adam is zero in float16.

Adam divides each step by the root of an average plus `eps`. The smallest number of float16 is 6e-8, so the default of
1e-8 becomes 0, and so does the average of small gradients. Zero by zero is NaN: weights are lost in the first steps.

## Bad

    net.half()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)  # <- vanishing-epsilon
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.half()), y).backward()
        optimizer.step()

## Good

    net.half()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.half()), y).backward()
        optimizer.step()

## When it is fine

bfloat16 has the range of float32, and weights in float32 keep the default:

    net.bfloat16()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.bfloat16()), y).backward()
        optimizer.step()

SGD divides by nothing:

    net.half()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.half()), y).backward()
        optimizer.step()

## Fix

None: a larger `eps` and weights in float32, with autocast, are both reasonable.

## References

PyTorch documentation, `torch.optim.Adam` and `torch.finfo`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import tuning
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import is_module
from lintrain.pipeline.values.model import Module, Optimizer
from lintrain.pipeline.values.python import Constant, Instance, is_missing, literal, text_of
from lintrain.rule import Evidence, Finding, Level, OptimizerRule, Pipeline, Related, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import StepEvidence

SMALLEST = 2.0**-25
"""Numbers up to this are 0 in float16: half of its smallest one."""
DEFAULT = 1e-8
ADAM = frozenset({"Adam", "AdamW"})


class VanishingEpsilon(OptimizerRule):
    level = Level.ERROR
    message = "the `eps` of the optimizer is zero in float16"
    help_text = "keep the weights in float32 and use autocast, or set `eps=1e-4`"
    keywords = "Adam"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        steps = pipeline.acts(Act.STEP)
        # With a scaler the run fails before: it takes no gradients in float16.
        if any("scaler" in event.details for event in steps):
            return
        for optimizer in pipeline.optimizers:
            own = [event.order for event in steps if event.subject is optimizer]
            cast = _cast_before(pipeline, optimizer, min(own)) if own and _has_small_eps(optimizer) else None
            if cast is not None and optimizer.origin is not None:
                related = [Related(cast.location, "the weights become float16 here", "cast")]
                yield self.finding(optimizer.origin, self.message, related=related, help=self.help_text)

    def judge(self, step: StepEvidence, evidence: Evidence) -> Verdict:
        groups = [group for group in step.groups if group.epsilon is not None]
        halves = [group for group in groups if "float16" in group.formats]
        if not halves:
            return Verdict.refuted(f"{len(halves)} of {len(groups)} groups with an `eps` have weights in float16")
        least = min(group.epsilon or 0.0 for group in halves)
        text = f"{len(halves)} of {len(groups)} groups are in float16, with an `eps` of {least:g}"
        if least <= SMALLEST:
            return Verdict.confirmed(f"{text}, which is 0 in this format", epsilon=least)
        return Verdict.refuted(text, epsilon=least)


def _has_small_eps(optimizer: Optimizer) -> bool:
    """Whether the optimizer is an Adam whose `eps` is certainly 0 in float16, and not computed in float32."""
    arguments, absent = optimizer.arguments, Constant(None)
    is_plain = optimizer.path.startswith("torch.optim.") and optimizer.name in ADAM and not optimizer.has_groups
    is_fused = "fused" in arguments and literal(arguments["fused"]) is not False
    if not is_plain or is_fused or "**" in arguments or "4" in arguments:
        return False
    given = arguments.get("eps", absent)
    epsilon = DEFAULT if is_missing(given) else literal(given)
    return isinstance(epsilon, float) and epsilon <= SMALLEST


def _cast_before(pipeline: Pipeline, optimizer: Optimizer, first_step: int) -> Event | None:
    """The call that certainly turns the weights of a module of the script's own into float16, before any step."""
    model = optimizer.trains[0] if len(optimizer.trains) == 1 and not optimizer.is_part else None
    if not isinstance(model, Module | Instance) or not is_module(model) or optimizer.origin is None:
        return None
    training = tuning.Training(model, optimizer.origin, first_step, None, optimizer)
    if not tuning.is_left_alone(pipeline, training):
        return None
    casts = tuning.changes_before(pipeline, training, Act.CAST)
    is_certain = casts and casts[-1].subject is model and not casts[-1].conditions and not casts[-1].loops
    return casts[-1] if is_certain and text_of(casts[-1].details["dtype"]) == "float16" else None
