"""A loss gets the labels where it expects the prediction.

The losses of torch take the prediction first and the target second. In the other order cross entropy raises an error
about types or shapes, or it computes the logarithm of the labels, and the gradient is not the one of the loss.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        outputs = net(x)
        loss = F.cross_entropy(y, outputs)  # <- swapped-loss-arguments
        loss.backward()
        optimizer.step()
    # raises NotImplementedError

Binary cross entropy accepts both orders, without an error:

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        labels = (y > 0).float().unsqueeze(1)
        loss = criterion(labels, scorer(x))  # <- swapped-loss-arguments
        loss.backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        outputs = net(x)
        loss = F.cross_entropy(outputs, y)
        loss.backward()
        optimizer.step()

and

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        labels = (y > 0).float().unsqueeze(1)
        loss = criterion(scorer(x), labels)
        loss.backward()
        optimizer.step()

## When it is fine

The squared and the absolute error are the same in both orders, and two outputs may be compared:

    teacher = nn.Linear(8, 3)
    for x, y in loader:
        optimizer.zero_grad()
        target = teacher(x).softmax(-1)
        loss = F.cross_entropy(net(x), target) + F.mse_loss(target, net(x))
        loss.backward()
        optimizer.step()

## Fix

Asks first: a name that misleads may have been meant as it is written.

## References

PyTorch documentation, `torch.nn.functional.cross_entropy`, `torch.nn.BCEWithLogitsLoss`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import loop_verdicts, prescreen, swapped_triplets
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Unknown, Value
from lintrain.pipeline.values.tensors import Derived
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    one_per_location,
)

ASYMMETRIC = frozenset(
    {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
    | {"multilabel_soft_margin_loss", "soft_margin_loss", "hinge_embedding_loss", "poisson_nll_loss"}
)
"""Losses whose arguments mean different things; `kl_div` is often called in either order on purpose."""

LABELS = frozenset(
    {"label", "labels", "target", "targets", "gt", "truth", "true", "y", "class", "classes", "positions"}
)
"""Words in the names of labels; positions are those of an answer in its text."""

OUTPUTS = frozenset(
    {
        "output",
        "outputs",
        "out",
        "logit",
        "logits",
        "pred",
        "preds",
        "predicted",
        "prediction",
        "predictions",
        "yhat",
        "hat",
    }
)
BINARY = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
NORMALISED = frozenset({"softmax", "log_softmax", "sigmoid"})
"""Operations that only a prediction goes through."""
WORD = re.compile(r"[a-z]+")
ITEM = re.compile(r"\.\[\d+\]$")
"""Names of the parts of a batch that is a tuple."""

NAMED_ITEM = re.compile(r"\.\['(\w+)'\]$")
"""Names of the parts of a batch that is a dictionary."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Both arguments, to be swapped; those of a triplet loss are its two examples."""

    first: Location
    second: Location
    prediction: str
    target: str
    is_triplet: bool = False


class SwappedLossArguments(Rule[Claim]):
    level = Level.ERROR
    keywords = "ntropy|nll_loss|BCE|NLL|MarginLoss|margin_loss|EmbeddingLoss|embedding_loss"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_compute_loss(source) or any(swapped_triplets.swapped_triplets(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(
            self._report(call, call.prediction, call.target)
            for call in pipeline.losses
            if call.name in ASYMMETRIC and call.prediction and call.target and _are_swapped(call)
        )
        yield from map(self._report_triplet, swapped_triplets.swapped_triplets(pipeline.source))

    def _report(self, call: LossCall, first: Argument, second: Argument) -> Finding[Claim]:
        short = len(first.text) + len(second.text) <= 24
        shown = f"labels, `{first.text}`," if short else "labels"
        other = f"prediction, `{second.text}`" if short else "prediction"
        return self.finding(
            call.location,
            f"this loss gets the {shown} before the {other}",
            help="pass the prediction first and the target second",
            claim=Claim(first.location, second.location, second.text, first.text),
        )

    def _report_triplet(self, found: swapped_triplets.SwappedTriplet) -> Finding[Claim]:
        return self.finding(
            found.location,
            "this loss gets the negative example before the positive one",
            why="The loss falls as the anchor gets closer to the negative example than to the positive one, so a search"
            " by distance gets worse with training. No error is raised.",
            help="pass the anchor, the positive example, and then the negative one",
            claim=Claim(found.second, found.third, found.positive, found.negative, is_triplet=True),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for loss in evidence.losses_of(*ASYMMETRIC):
            if loss.is_swapped and loss.location is not None:
                yield self.finding(
                    loss.location,
                    "this loss gets the labels before the prediction",
                    help="pass the prediction first and the target second",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.claim is not None and finding.claim.is_triplet:
            return Verdict.inconclusive("which example is the positive one is not measured")
        losses = evidence.losses_of(*ASYMMETRIC)
        here = [loss for loss in losses if loss.location is not None and loss.location.meets(finding.location)]
        if any(loss.is_swapped for loss in here):
            return Verdict.confirmed("a gradient flows to its second argument, and 0 of it to the first")
        if here or losses:
            return Verdict.refuted(f"a gradient flows to the first argument of {len(losses)} of {len(losses)} losses")
        failed = evidence.failed_at(finding.location, "Error")
        given = failed.failure.given if failed is not None and failed.failure is not None else ()
        flows = [each.requires_grad for each in given if each.function and each.requires_grad is not None]
        if flows[:2] == [False, True]:
            return Verdict.confirmed("a gradient flows to its second argument, and 0 of it to the first")
        return Verdict.inconclusive(
            f"0 losses of this kind were called in the first batch, of {len(evidence.called_losses)}"
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.prediction or not claim.target:
            return None
        edits = [fixes.Replace(claim.first, claim.prediction), fixes.Replace(claim.second, claim.target)]
        return fixes.Fix.of("swap the arguments", *edits, safe=False)


def _are_swapped(call: LossCall) -> bool:
    """Whether the values show it, or the names of both arguments where the values are not known."""
    if call.prediction is None or call.target is None or call.prediction.keyword or call.target.keyword:
        return False
    first, second = call.prediction, call.target
    if call.name in BINARY and _are_classes(first.value) and _exceeds_one(second.value):
        return True
    if _is_normalised(second.value) and not _is_output(first.value) and _is_named(first, LABELS, OUTPUTS):
        return True
    if _is_output(second.value) and not _is_output(first.value):
        return _is_part_of_batch(first.value) or _has_no_graph(first.value) or _is_named(first, LABELS, OUTPUTS)
    if isinstance(first.value, Tensor) and _is_output(first.value):
        return False
    return _is_named(first, LABELS, OUTPUTS) and _is_named(second, OUTPUTS, LABELS)


def _are_classes(value: Value) -> bool:
    """Whether a tensor is written out and holds nothing but zeros and ones."""
    numbers = loop_verdicts.written_numbers(value)
    return bool(numbers) and set(numbers) <= {0, 1}


def _exceeds_one(value: Value) -> bool:
    """Whether a tensor is written out and holds something that is no probability."""
    return any(not 0 <= number <= 1 for number in loop_verdicts.written_numbers(value))


def _is_normalised(value: Value) -> bool:
    return isinstance(value, Tensor) and value.made is not None and value.made.name in NORMALISED


def _is_output(value: Value) -> bool:
    if isinstance(value, Unknown) and value.name == "output":
        return True
    return isinstance(value, Tensor) and (value.model is not UNKNOWN or value.role is Role.LOGITS)


def _has_no_graph(value: Value) -> bool:
    """Whether a tensor was made of numbers from elsewhere, so that no gradient can flow to it."""
    if not isinstance(value, Tensor) or value.model is not UNKNOWN:
        return False
    return value.cut is not None or (value.made is not None and value.made.name == "data")


def _is_part_of_batch(value: Value) -> bool:
    """Whether a value is computed from a part of a batch, or holds labels, and no model made it."""
    while isinstance(value, Derived) or (isinstance(value, Tensor) and value.of is not UNKNOWN):
        value = value.of
    if isinstance(value, Tensor):
        is_own = value.made is not None and value.made.name == "data"
        return value.role is Role.LABELS or value.kind == "int" or is_own
    named = NAMED_ITEM.search(value.name) if isinstance(value, Unknown) else None
    if named is not None:
        words = set(WORD.findall(named[1].lower()))
        return bool(words & LABELS) and not words & OUTPUTS
    if not isinstance(value, Unknown) or ITEM.search(value.name) is None:
        return False
    return not set(WORD.findall(value.name.lower())) & OUTPUTS  # a model may give several outputs


def _is_named(argument: Argument, words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether the code of an argument is a name with one of these words, and none of the others."""
    found = set(WORD.findall(argument.text.rpartition(".")[2].lower()))
    is_name = all(part.isidentifier() for part in argument.text.split("."))
    return is_name and bool(found & words) and not found & others
