"""Rules about what a loss compares: shapes that are broadcast against each other, and targets of the wrong dtype."""

from __future__ import annotations

import pytest

from tests.support.loops import codes_of, lines_of, related_of

COMPARES = """
from torch.utils.data import DataLoader, TensorDataset
line = nn.Linear(8, {outputs})
for x, y in DataLoader(TensorDataset(torch.randn(96, 8), {targets}), batch_size=16):
    {loss}
"""
SQUARES = "F.mse_loss({0}, y).backward()"


def comparing(outputs: int, targets: str, loss: str) -> str:
    return COMPARES.format(outputs=outputs, targets=targets, loss=loss)


@pytest.mark.parametrize(
    ("outputs", "targets", "prediction", "is_found"),
    [
        (1, "torch.randn(96)", "line(x)", True),
        (1, "torch.randn(96, 1)", "line(x)[:, 0]", True),
        (1, "torch.randn(96, 1)", "line(x)", False),
        # three numbers for each row against one
        (3, "torch.randn(96)", "line(x)", True),
        # as many columns on both sides, or another axis that fits
        (3, "torch.randn(96, 3)", "line(x)", False),
        (1, "torch.randn(96)", "line(x)[:, 0]", False),
        (1, "torch.randn(96, 4)", "line(x)", False),
        (1, "torch.randn(96, 1, 1)", "line(x)", False),
        (1, "load()", "line(x)", False),
    ],
)
def test_only_columns_against_a_row_are_reported(outputs: int, targets: str, prediction: str, is_found: bool) -> None:
    found = lines_of("broadcast-loss", comparing(outputs, targets, SQUARES.format(prediction)))
    assert found == ([4] if is_found else [])


@pytest.mark.parametrize(
    "code",
    [
        # in one of the branches the shapes fit
        "p = line(x)\n    if flat:\n        p = p.squeeze(-1)\n    F.mse_loss(p, y)",
        "t = y\n    if column:\n        t = y.unsqueeze(1)\n    F.mse_loss(line(x), t)",
    ],
)
def test_shapes_that_fit_in_some_branch_are_left_alone(code: str) -> None:
    assert lines_of("broadcast-loss", comparing(1, "torch.randn(96)", code)) == []


@pytest.mark.parametrize(
    ("prediction", "offered"),
    [
        ("line(x)", ["line(x).squeeze(-1)"]),
        ("p := line(x)", []),
        # a method would be called on the last part alone
        ("line(x) * 2", []),
        ("-line(x)", []),
    ],
)
def test_a_squeeze_is_offered_where_it_can_be_written_behind_the_prediction(
    prediction: str, offered: list[str]
) -> None:
    code = comparing(1, "torch.randn(96)", SQUARES.format(prediction))
    assert codes_of("broadcast-loss", code) == offered


def test_both_sides_of_a_spread_comparison_are_shown() -> None:
    code = comparing(1, "torch.randn(96)", SQUARES.format("line(x)"))
    assert related_of("broadcast-loss", code) == [
        (4, "has shape (N, 1)"),
        (3, "targets are created here, in batches of shape (N,)"),
    ]
    unmade = comparing(1, "torch.randn(96)", SQUARES.format("line(x) * 2"))
    assert [line for line, _ in related_of("broadcast-loss", unmade)] == [3]


BINARY = "F.binary_cross_entropy_with_logits({0}, {1})"


@pytest.mark.parametrize(
    ("targets", "given", "is_found"),
    [
        ("torch.randint(2, (96, 1))", "y", True),
        ("torch.randint(2, (96, 1))", "y.long()", True),
        ("torch.rand(96, 1)", "y.long()", True),
        ("torch.rand(96, 1)", "y", False),
        ("torch.randint(2, (96, 1))", "y.float()", False),
        # true and false are no numbers that a class has
        ("torch.rand(96, 1) > 0.5", "y", False),
        ("load()", "y", False),
        ("torch.randint(2, (96, 1))", "y if whole else y.float()", False),
        ("torch.randint(2, (96, 1))", "smooth(y)", False),
    ],
)
def test_only_targets_that_are_certainly_whole_numbers_are_found(targets: str, given: str, is_found: bool) -> None:
    found = lines_of("integer-bce-targets", comparing(1, targets, BINARY.format("line(x)", given)))
    assert found == ([4] if is_found else [])


def test_the_place_where_whole_numbers_are_made_is_shown() -> None:
    code = comparing(1, "torch.randint(2, (96, 1))", BINARY.format("line(x)", "-y"))
    assert related_of("integer-bce-targets", code) == [(3, "integer targets are created here")]


def test_a_loss_of_predictions_that_nobody_knows_is_left_alone() -> None:
    code = comparing(1, "torch.randint(2, (96, 1))", BINARY.format("build()(x)", "y"))
    assert lines_of("integer-bce-targets", code) == []


@pytest.mark.parametrize(("given", "offered"), [("y", ["y.float()"]), ("y.long()", ["y.long().float()"]), ("-y", [])])
def test_a_conversion_is_offered_where_it_can_be_written_behind_the_targets(given: str, offered: list[str]) -> None:
    code = comparing(1, "torch.randint(2, (96, 1))", BINARY.format("line(x)", given))
    assert codes_of("integer-bce-targets", code) == offered
