"""Softmax is computed over the rows of the batch, not over the classes.

With `dim=0` the values of one class add up to 1 over the batch. The prediction for a row depends on the other rows of
its batch, a single row always gets probability 1 for every class, and the loss cannot fall to 0. No error is raised.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 3)

        def forward(self, x):
            x = x.view(x.size(0), -1)
            return F.log_softmax(self.output(x), dim=0)  # <- softmax-over-batch

    classifier = Classifier()
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.NLLLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

As a layer:

    classifier = nn.Sequential(
        nn.Linear(8, 3),
        nn.LogSoftmax(dim=0),  # <- softmax-over-batch
    )
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.nll_loss(classifier(x), y).backward()
        optimizer.step()

## Good

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 3)

        def forward(self, x):
            x = x.view(x.size(0), -1)
            return F.log_softmax(self.output(x), dim=1)

    classifier = Classifier()
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.NLLLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

As a layer:

    classifier = nn.Sequential(
        nn.Linear(8, 3),
        nn.LogSoftmax(dim=1),
    )
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.nll_loss(classifier(x), y).backward()
        optimizer.step()

## When it is fine

A single row without a batch has its classes in dimension 0:

    for x, y in DataLoader(TensorDataset(features, targets), batch_size=None):
        F.nll_loss(F.log_softmax(net(x), dim=0), y).backward()

Attention over the rows, which no loss reads:

    attention = nn.Linear(8, 1)
    for x, y in loader:
        weights = F.softmax(attention(x), dim=0)
        F.cross_entropy(net(x * weights), y).backward()

## Fix

Asks first: the fix changes what the network returns.

## References

PyTorch documentation, `torch.nn.functional.log_softmax`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lintrain.analysis import built_layers, loop_verdicts, mixed_rows, tensor_forms
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Unknown, text_of
from lintrain.pipeline.values.tensors import Derived, Operation
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Outcome,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

if TYPE_CHECKING:
    from lintrain.evidence.loop import LossEvidence

OF_LOADER = lazy_pattern(r"(?i)(?:loader|dl)\w*\.\[\]")
LOSSES = lazy_pattern(r"cross_entropy|CrossEntropyLoss|nll_loss|NLLLoss|kl_div|KLDivLoss")
OVER_ROWS = ("softmax over rows", "log_softmax over rows")
FIRST_AXIS = lazy_pattern(r"(?<=[(,=])(\s*)0(?=\s*,?\s*\)$)")
"""The 0 that ends a call: `softmax(x, 0)`, `LogSoftmax(dim=0)`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the call over the classes; None without a fix."""

    code: str | None


class SoftmaxOverBatch(Rule[Claim]):
    level = Level.ERROR
    keywords = "oftmax"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(LOSSES) or any(mixed_rows.mixed_rows(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for loss in loop_verdicts.losses_called(pipeline, "cross_entropy", "nll_loss"):
            for made in loop_verdicts.operations_before(loss, *OVER_ROWS) if _has_batch(loss) else ():
                if made.location is not None:
                    found.setdefault(made.location, self._report(pipeline, made, made.location, loss))
        for loss in loop_verdicts.losses_called(pipeline, "kl_div"):
            sides = ((loss, OVER_ROWS), (replace(loss, prediction=loss.target), OVER_ROWS))
            for side, names in sides if text_of(loss.options.get("reduction", Unknown())) == "batchmean" else ():
                for made in loop_verdicts.operations_before(side, *names) if side.prediction else ():
                    if made.location is not None:
                        found.setdefault(made.location, self._report(pipeline, made, made.location, loss))
        for call in tensor_forms.softmaxes_over_rows(pipeline.source):
            location = pipeline.source.location(call)
            found.setdefault(location, self._report_end(pipeline, location, built_layers.last_name(call.func)))
        for mixed in mixed_rows.mixed_rows(pipeline.source):
            location, needs = pipeline.source.location(mixed.softmax), pipeline.source.location(mixed.needs)
            related = [Related(needs, mixed.meaning, "chosen")]
            name = built_layers.last_name(mixed.softmax.func)
            found.setdefault(location, self._report_end(pipeline, location, name, related))
        yield from found.values()

    def _report_end(
        self, pipeline: Pipeline, location: Location, name: str, related: Sequence[Related] = ()
    ) -> Finding[Claim]:
        code = FIRST_AXIS.sub(r"\g<1>1", pipeline.code(location))
        return self.finding(
            location,
            f"`{name}` over dimension 0 mixes the rows of the batch",
            related=related,
            help="use `dim=1`, the dimension of the classes",
            claim=Claim(code if code != pipeline.code(location) else None),
        )

    def _report(self, pipeline: Pipeline, made: Operation, location: Location, loss: LossCall) -> Finding[Claim]:
        code = FIRST_AXIS.sub(r"\g<1>1", pipeline.code(location))
        return self.finding(
            location,
            f"{made.name.partition(' ')[0]} over dimension 0 mixes the rows of the batch",
            related=[Related(loss.location, "the loss reads the classes of each row", "loss")],
            help="use `dim=1`, the dimension of the classes",
            claim=Claim(code if code != pipeline.code(location) else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for loss in evidence.losses_of("cross_entropy", "nll_loss", "kl_div"):
            if loss.mixes_rows:
                yield self.finding(
                    evidence.first("softmaxes_over_rows") or loss.location or evidence.location,
                    f"softmax over dimension 0 mixes the rows of the batch, and `{loss.function}` reads classes",
                    help="use `dim=1`, the dimension of the classes",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        judged = map(_judged, evidence.losses_of("cross_entropy", "nll_loss", "kl_div"))
        verdicts = [verdict for verdict in judged if verdict is not None]
        # One loss of several that gets such probabilities is enough.
        if verdicts:
            return min(verdicts, key=lambda verdict: verdict.outcome is not Outcome.CONFIRMED)
        return Verdict.inconclusive(
            f"none of {len(evidence.called_losses)} losses in the first batch gets probabilities of classes"
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or finding.claim.code is None:
            return None
        return fixes.Fix.of("use dimension 1", fixes.Replace(finding.location, finding.claim.code), safe=False)


def _judged(loss: LossEvidence) -> Verdict | None:
    """What the inputs of one loss show; None for scores, which no softmax has made."""
    reads_logs = loss.function != "cross_entropy"
    sums = loss.sums_of_exponentials if reads_logs else loss.sums_of_inputs
    if sums is None:
        return None
    is_normalised = loss.gives_log_probabilities or loss.gives_probabilities
    is_limited = (reads_logs and loss.function != "kl_div") or loss.mixes_rows
    is_limited |= not reads_logs and 0 <= (loss.input_minimum or 0.0) <= (loss.input_maximum or 0) <= 1
    text = f"the probabilities of each row of `{loss.function}` sum to {sums[0]:.3g} to {sums[1]:.3g}"
    if is_limited and not is_normalised:
        return Verdict.confirmed(text, least=sums[0], most=sums[1])
    return Verdict.refuted(text, least=sums[0], most=sums[1]) if is_normalised else None


def _has_batch(loss: LossCall) -> bool:
    """Whether a loss certainly gets rows: its input has several axes, or its target one class index for each row."""
    inputs, targets = loop_verdicts.tensors_given(loss), loop_verdicts.tensors_given(loss, "target")
    return _have_rank(inputs, 2) or _have_rank(targets, 1) or _is_range_of_rows(loss)


def _is_range_of_rows(loss: LossCall) -> bool:
    """Whether the targets are some rows of an array, `targets[i : i + size]`, or part of what a loader gives."""
    target = loss.target.value if loss.target else None
    if isinstance(target, Derived) and target.by == "slice":
        return ":" in target.text
    return isinstance(target, Unknown) and OF_LOADER.search(target.name) is not None


def _have_rank(tensors: tuple[Tensor, ...], least: int) -> bool:
    return bool(tensors) and all((each.shape.rank or 0) >= least for each in tensors)
