"""Predictions `(N, 1)` and targets `(N,)` are spread over each other.

The loss then compares every prediction with every target, N x N pairs instead of N. What minimises it is the mean of
the targets for every row: a perfect prediction scores badly, and the network learns to give a constant. Torch warns
once, in one line, and goes on.

## Bad

    prices = torch.randn(96)
    regressor = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(regressor.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        F.mse_loss(regressor(x), y).backward()  # <- broadcast-loss
        optimizer.step()

The same for a squeezed prediction and targets in a column:

    prices = torch.randn(96, 1)
    regressor = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(regressor.parameters())
    criterion = nn.L1Loss()
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        criterion(regressor(x).squeeze(-1), y).backward()  # <- broadcast-loss
        optimizer.step()

## Good

    prices = torch.randn(96)
    regressor = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(regressor.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        F.mse_loss(regressor(x).squeeze(-1), y).backward()
        optimizer.step()

The same for targets in a column:

    prices = torch.randn(96, 1)
    regressor = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(regressor.parameters())
    criterion = nn.L1Loss()
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), prices), batch_size=16):
        optimizer.zero_grad()
        criterion(regressor(x), y).backward()
        optimizer.step()

## When it is fine

The targets get the missing axis, or the shape is not known:

    from my_data import make_loader

    regressor = nn.Linear(8, 1)
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96)), batch_size=16):
        F.mse_loss(regressor(x), y.unsqueeze(1)).backward()
        F.mse_loss(regressor(x), y.view(-1, 1)).backward()
        F.mse_loss(regressor(x).flatten(), y).backward()
    for x, y in make_loader():
        F.mse_loss(regressor(x), y).backward()

One number may be compared with a whole tensor on purpose:

    regressor = nn.Linear(8, 1)
    F.mse_loss(regressor(torch.randn(4, 8)), torch.tensor(0.5)).backward()
    F.mse_loss(regressor(torch.randn(4, 8)), torch.zeros(1)).backward()

## Fix

Safe: the loss compares every prediction with every target as it stands. Asks first where only a run showed the shapes.

## References

PyTorch documentation, `torch.nn.MSELoss`; pytorch#18349.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from lintrain.analysis import loss_calls
from lintrain.evidence.run import LossEvidence
from lintrain.pipeline.values.tensors import Operation, Shape
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern
from lintrain.source import calls

SPREADING = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
"""Losses that broadcast; those of classes raise."""

ARGUMENTS = {"prediction": (0, "input"), "target": (1, "target")}
"""Where a loss is given both."""

NAMES_LOSS = lazy_pattern(r"(loss|crit(erion)?|mse|l1|mae|huber)(_?fn|_?function|_?func)?$", re.IGNORECASE)
"""Callees that are the loss itself: of another call the loss is somewhere inside, and its arguments are others."""

CALLABLE = lazy_pattern(r"[\w.]+(\(.*\))?", re.DOTALL)
"""Code that a method can be called on as it is."""


class BroadcastLoss(Rule):
    level = Level.ERROR
    keywords = "mse_loss|MSELoss|l1_loss|L1Loss|huber_loss|HuberLoss|binary_cross_entropy|BCELoss|BCEWithLogitsLoss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for loss in loss_calls.losses_called(pipeline, *SPREADING):
            predictions, targets = loss_calls.tensors_given(loss), loss_calls.tensors_given(loss, "target")
            pairs = [(one.shape, other.shape) for one in predictions for other in targets]
            if pairs and all(_spread(one, other) for one, other in pairs):
                found.setdefault(loss.location, self._report(loss, *pairs[0], targets[0].made))
        yield from found.values()

    def _report(self, loss: LossCall, prediction: Shape, target: Shape, made: Operation | None) -> Finding:
        related: list[Related] = []
        if loss.prediction is not None and prediction.last == 1 and CALLABLE.fullmatch(loss.prediction.text):
            code = f"{loss.prediction.text}.squeeze(-1)"
            related.append(Related(loss.prediction.location, f"of shape {prediction}", "prediction", code))
        if made is not None and made.location is not None:
            related.append(Related(made.location, f"the targets are made here, in batches of shape {target}", "target"))
        return self.finding(
            loss.location,
            f"a prediction of shape {prediction} is compared with targets of shape {target}",
            related=related,
            help="squeeze the prediction (`.squeeze(-1)`), or give the targets their last axis",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        losses = loop.losses_of(*SPREADING)
        for loss in losses:
            if _is_spread(loss):
                shapes = f"{loss.input_shape} and targets of {loss.target_shape}"
                pairs = prod(loss.input_shape) * prod(loss.target_shape)
                return Verdict.confirmed(f"predictions of {shapes} are compared in {pairs} pairs", pairs=pairs)
        if losses:
            return Verdict.refuted(f"predictions are of {losses[0].input_shape}, targets of {losses[0].target_shape}")
        return Verdict.inconclusive(f"none of {len(loop.losses)} losses in the first batch compares numbers")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        for loss in evidence.loop.losses_of(*SPREADING) if evidence.loop else ():
            if _is_spread(loss):
                found = self.finding(
                    loss.location or evidence.location,
                    "predictions and targets are spread over each other",
                    facts={"column": "prediction" if len(loss.input_shape) > 1 else "target"},
                )
                yield from self.if_confirmed(found, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding) -> fixes.Fix | None:
        column = finding.facts.get("column")
        if isinstance(column, str):
            return _squeezed(finding, column)
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("prediction")]
        return fixes.Fix.of("drop the last axis of the prediction", *edits, safe=True) if edits else None


def _squeezed(finding: Finding, column: str) -> fixes.Fix | None:
    """The call of a loss that a run showed, with one of its arguments squeezed; None where it may be another call."""
    callee, given = calls.callee_in(finding), calls.argument_in(finding, *ARGUMENTS[column])
    if callee is None or given is None or not NAMES_LOSS.search(callee[1]) or not CALLABLE.fullmatch(given[1]):
        return None
    return fixes.Fix.of(
        f"drop the last axis of the {column}", fixes.Replace(given[0], f"{given[1]}.squeeze(-1)"), safe=False
    )


def _spread(one: Shape, other: Shape) -> bool:
    """Whether a column is certainly compared with a row: `(N, 1)` with `(N,)`, or the other way round."""
    return _is_column_against_row(one, other) or _is_column_against_row(other, one)


def _is_column_against_row(column: Shape, row: Shape) -> bool:
    return row.rank == 1 and row.last != 1 and column.rank == 2 and column.last == 1


def _is_spread(loss: LossEvidence) -> bool:
    """Whether a column of several rows was compared with as many numbers in a row."""
    column, row = sorted((loss.input_shape, loss.target_shape), key=len, reverse=True)
    return len(column) == 2 and len(row) == 1 and column == (row[0], 1) and row[0] > 1
