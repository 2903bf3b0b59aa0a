"""What a model answers to the batch that it overfits: classes, how often, and how many of them are right."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from lintrain.evidence.run import BatchAnswers
from lintrain.runtime.measure.descents import answers_of

torch: Any = import_module("torch")


def one_hot(classes: list[Any], number: int = 3) -> Any:
    return torch.nn.functional.one_hot(torch.tensor(classes), number).float()


def test_classes_are_counted_and_compared() -> None:
    found = answers_of(one_hot([0, 0, 0, 1]), torch.tensor([0, 2, 0, 1]))
    assert found == BatchAnswers(((0, 3), (1, 1)), ((0, 2), (1, 1), (2, 1)), 0.75)


def test_labels_that_are_ignored_do_not_count() -> None:
    found = answers_of(one_hot([[0, 1], [2, 2]]), torch.tensor([[0, -100], [2, 1]]))
    assert found == BatchAnswers(((0, 1), (2, 2)), ((0, 1), (1, 1), (2, 1)), 2 / 3)


def test_classes_may_be_the_second_axis_as_losses_have_them() -> None:
    pixels = torch.tensor([[[0, 1], [2, 2]]])
    found = answers_of(one_hot(pixels.tolist()).movedim(-1, 1), pixels)
    assert found.accuracy == 1.0


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        (torch.zeros(4, 1), torch.zeros(4)),
        (torch.zeros(4, 3), torch.zeros(4, 3)),
        (torch.zeros(4, 3), torch.zeros(5, dtype=int)),
        (torch.zeros(4, 3), torch.full((4,), -100)),
    ],
)
def test_other_labels_have_no_classes(logits: Any, labels: Any) -> None:
    assert answers_of(logits, labels) == BatchAnswers()


def test_of_a_vocabulary_only_the_accuracy_is_known() -> None:
    found = answers_of(torch.eye(2_000)[:4], torch.tensor([0, 1, 2, 4]))
    assert found == BatchAnswers(accuracy=0.75)
