"""Predictions `(N, 1)` and targets `(N,)` are broadcast against each other.

The loss compares every prediction with every target: N x N pairs instead of N. Its minimum is the mean of the targets,
so the network learns to output a constant, and even perfect predictions have a high loss. PyTorch only warns, once.

An accuracy computed from such a comparison counts the hits of all pairs, so it may be far above 1, without a warning.

## Bad

    prices = torch.randn(96)
    regressor = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(regressor.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        F.mse_loss(regressor(x), y).backward()  # <- broadcast-loss
        optimizer.step()

Squeezed predictions and targets of shape `(N, 1)`:

    prices = torch.randn(96, 1)
    regressor = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(regressor.parameters())
    criterion = nn.L1Loss()
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        criterion(regressor(x).squeeze(-1), y).backward()  # <- broadcast-loss
        optimizer.step()

A loss that is computed by hand:

    regressor = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(regressor.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96)), batch_size=16):
        optimizer.zero_grad()
        loss = torch.sqrt(((regressor(x) - y) ** 2).mean())  # <- broadcast-loss
        loss.backward()
        optimizer.step()

## Good

    prices = torch.randn(96)
    regressor = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(regressor.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        F.mse_loss(regressor(x).squeeze(-1), y).backward()
        optimizer.step()

With targets of shape `(N, 1)`:

    prices = torch.randn(96, 1)
    regressor = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(regressor.parameters())
    criterion = nn.L1Loss()
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        criterion(regressor(x), y).backward()
        optimizer.step()

## When it is fine

A difference of each prediction and its own target:

    regressor = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(regressor.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96)), batch_size=16):
        optimizer.zero_grad()
        loss = torch.sqrt(((regressor(x).squeeze(1) - y) ** 2).mean())
        loss.backward()
        optimizer.step()

The shapes match, or they are unknown:

    from my_data import make_loader

    regressor = nn.Linear(8, 1)
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96)), batch_size=16):
        F.mse_loss(regressor(x), y.unsqueeze(1)).backward()
        F.mse_loss(regressor(x), y.view(-1, 1)).backward()
        F.mse_loss(regressor(x).flatten(), y).backward()
    for x, y in make_loader():
        F.mse_loss(regressor(x), y).backward()

A single number may be broadcast on purpose:

    regressor = nn.Linear(8, 1)
    F.mse_loss(regressor(torch.randn(4, 8)), torch.tensor(0.5)).backward()
    F.mse_loss(regressor(torch.randn(4, 8)), torch.zeros(1)).backward()

## Fix

Safe: until then the loss compares every prediction with every target. Asks first if only a run showed the shapes.

## References

PyTorch documentation, `torch.nn.MSELoss`; pytorch#18349.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from lintrain.analysis import action_values, loop_verdicts
from lintrain.pipeline.record import Difference
from lintrain.pipeline.values import tensors, training
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
from lintrain.source import nodes

if TYPE_CHECKING:
    from lintrain.evidence.run import LossEvidence, OddCall

REGRESSION_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
"""Losses that broadcast their inputs; classification losses raise an error instead."""

ARGUMENTS = {"prediction": (0, "input"), "target": (1, "target")}
"""The position and the keyword of each argument in a call of a loss."""

NAMES_LOSS = lazy_pattern(r"(loss|crit(erion)?|mse|l1|mae|huber)(_?fn|_?function|_?func)?$", re.IGNORECASE)
"""Names of functions that are the loss itself, not a function that computes a loss from other arguments."""

OPERATIONS = {"Sub": "difference", "Mult": "product", "Eq": "comparison"}
"""What is recorded of predictions and rows of the data, in words."""

CALLABLE = lazy_pattern(r"[\w.]+(\(.*\))?", re.DOTALL)
"""Code to which a method call can be appended."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The argument of the loss that has an extra last axis: `prediction` or `target`; empty for a comparison."""

    argument: str


class BroadcastLoss(Rule[Claim]):
    level = Level.ERROR
    keywords = "loss|Loss|binary_cross_entropy|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for loss in loop_verdicts.losses_called(pipeline, *REGRESSION_LOSSES):
            predictions, targets = loop_verdicts.tensors_given(loss), loop_verdicts.tensors_given(loss, "target")
            pairs = [(one.shape, other.shape) for one in predictions for other in targets]
            if pairs and all(_broadcast(one, other) for one, other in pairs):
                found.setdefault(loss.location, self._report(loss, *pairs[0], targets[0].made))
            elif pairs and all(_are_scores_against_row(one, other) for one, other in pairs):
                found.setdefault(loss.location, self._report_scores(loss, *pairs[0]))
        for each in pipeline.differences:
            if _broadcast(each.left, each.right):
                found.setdefault(each.location, self._report_difference(each))
        for compared in action_values.broadcast(pipeline.source):
            found.setdefault(compared.location, self._report_values(compared))
        yield from found.values()

    def _report_values(self, compared: action_values.Compared) -> Finding[Claim]:
        return self.finding(
            compared.location,
            f"the loss broadcasts values of actions {compared.left} against {compared.right}",
            help="squeeze what `gather` gives (`.squeeze(1)`), or unsqueeze the targets (`.unsqueeze(1)`)",
        )

    def _report_difference(self, difference: Difference) -> Finding[Claim]:
        what = OPERATIONS[difference.operator]
        return self.finding(
            difference.location,
            f"the {what} broadcasts {difference.left} against {difference.right}",
            help="squeeze the predictions (`.squeeze(-1)`), or unsqueeze the targets (`.unsqueeze(-1)`)",
            claim=Claim("") if difference.operator == "Eq" else None,
        )

    def _report(
        self, loss: training.LossCall, prediction: tensors.Shape, target: tensors.Shape, made: tensors.Operation | None
    ) -> Finding[Claim]:
        related: list[Related] = []
        if loss.prediction is not None and prediction.last == 1 and CALLABLE.fullmatch(loss.prediction.text):
            code = f"{loss.prediction.text}.squeeze(-1)"
            related.append(Related(loss.prediction.location, f"has shape {prediction}", "prediction", code))
        if made is not None and made.location is not None:
            related.append(Related(made.location, f"targets are created here, in batches of shape {target}", "target"))
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` broadcasts predictions {prediction} against targets {target}",
            related=related,
            help="squeeze the predictions (`.squeeze(-1)`), or unsqueeze the targets (`.unsqueeze(-1)`)",
        )

    def _report_scores(self, loss: training.LossCall, scores: tensors.Shape, row: tensors.Shape) -> Finding[Claim]:
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` compares predictions {scores} with targets {row}",
            help="for class numbers use `nn.CrossEntropyLoss`; else give each row as many targets as predictions",
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        for call in _comparisons(evidence):
            if call.location.meets(finding.location):
                return Verdict.confirmed(call.text, times=call.times)
        if finding.claim is not None and not finding.claim.argument:
            return Verdict.inconclusive("what a script compares with its targets is not measured")
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        losses = evidence.losses_of(*REGRESSION_LOSSES)
        if evidence.failed_at(finding.location, "must match the size of tensor"):
            return Verdict.confirmed("the loss raises an error: the shapes of its arguments do not match")
        for loss in losses:
            if _is_broadcast(loss):
                shapes = f"predictions {loss.input_shape} and targets {loss.target_shape}"
                pairs = prod(map(max, zip(*_padded(loss), strict=True)))
                return Verdict.confirmed(f"{shapes} are compared in {pairs} pairs", pairs=pairs)
        if loop is not None and loop.rows_in_pairs:
            pairs = loop.rows_in_pairs**2
            return Verdict.confirmed(f"{loop.rows_in_pairs} predictions are compared in {pairs} pairs", pairs=pairs)
        if losses:
            return Verdict.refuted(f"predictions have shape {losses[0].input_shape}, targets {losses[0].target_shape}")
        return Verdict.inconclusive(
            f"none of {len(evidence.called_losses)} losses in the first batch is a regression loss"
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        for call in _comparisons(evidence):
            found = self.finding(
                call.location,
                "predictions (N, 1) and labels (N,) are compared in N x N pairs",
                help="squeeze the predictions (`.squeeze(-1)`), or unsqueeze the labels (`.unsqueeze(-1)`)",
            )
            yield from self.if_confirmed(found, evidence)
        for loss in evidence.losses_of(*REGRESSION_LOSSES):
            if _is_broadcast(loss):
                found = self.finding(
                    loss.location or evidence.location,
                    "predictions and targets are broadcast against each other",
                    claim=Claim("prediction" if len(loss.input_shape) > 1 else "target"),
                )
                yield from self.if_confirmed(found, evidence)

        if evidence.loop is not None and evidence.loop.rows_in_pairs:
            found = self.finding(
                evidence.first("losses") or evidence.location,
                "predictions and targets are broadcast against each other",
            )
            yield from self.if_confirmed(found, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is not None and finding.claim.argument:
            return _squeeze_in_call(finding, finding.claim.argument)
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("prediction")]
        return fixes.Fix.of("squeeze the predictions", *edits, safe=True) if edits else None


def _comparisons(evidence: Evidence) -> Iterator[OddCall]:
    """The comparisons of a run that broadcast predictions against labels."""
    return (call for call in evidence.odd_calls if call.kind == "compared in pairs")


def _squeeze_in_call(finding: Finding[Claim], argument: str) -> fixes.Fix | None:
    """The fix that squeezes one argument of the loss call that a run showed; None if it may be another call."""
    callee, given = nodes.callee_in(finding), nodes.argument_in(finding, *ARGUMENTS[argument])
    if callee is None or given is None or not NAMES_LOSS.search(callee[1]) or not CALLABLE.fullmatch(given[1]):
        return None
    return fixes.Fix.of(f"squeeze the {argument}", fixes.Replace(given[0], f"{given[1]}.squeeze(-1)"), safe=False)


def _broadcast(one: tensors.Shape, other: tensors.Shape) -> bool:
    """Whether `(N, 1)` is certainly compared with `(N,)`, in either order."""
    return _is_column_against_row(one, other) or _is_column_against_row(other, one)


def _are_scores_against_row(scores: tensors.Shape, row: tensors.Shape) -> bool:
    """Whether `(N, C)` scores are certainly compared with one number a row, `(N,)`.

    An error, or a comparison of each row with all targets where a batch has as many rows as there are scores.
    """
    is_row = row.rank == 1 and row.rows_first and row.last is None
    return is_row and scores.rank == 2 and scores.rows_first and (scores.last or 0) > 1


def _is_column_against_row(column: tensors.Shape, row: tensors.Shape) -> bool:
    return row.rank == 1 and row.last != 1 and column.rank == 2 and column.last == 1


def _is_broadcast(loss: LossEvidence) -> bool:
    """Whether shapes `(N, 1)` and `(N,)` were compared, with N above 1, or `(N, 1)` and `(N, K)`."""
    column, row = sorted((loss.input_shape, loss.target_shape), key=len, reverse=True)
    if len(column) == len(row) == 2:
        return column[0] == row[0] > 1 and min(column[1], row[1]) == 1 < max(column[1], row[1])
    return len(column) == 2 and len(row) == 1 and column == (row[0], 1) and row[0] > 1


def _padded(loss: LossEvidence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of predictions and targets, with as many axes."""
    axes = max(len(loss.input_shape), len(loss.target_shape))
    one, other = ((1,) * (axes - len(shape)) + shape for shape in (loss.input_shape, loss.target_shape))
    return one, other
