"""What metrics score for answers that know nothing: by the form of the predictions, and never by raising."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest

from lintrain.runtime.measure.baselines import NOTHING, baselines

np: Any = import_module("numpy")
torch: Any = import_module("torch")

CLASSES = np.array([0, 0, 0, 1, 2, 0, -100, 0])
"""Of seven that are scored, five are 0."""


def accuracy(classes: Any, labels: Any) -> dict[str, float]:
    scored = labels != -100
    return {"accuracy": float((classes == labels)[scored].mean())}


def test_the_constant_answer_is_the_most_frequent_class_that_is_scored() -> None:
    logits = np.random.default_rng(1).normal(size=(8, 3)).astype("float32")
    found = baselines(lambda answer: accuracy(answer.argmax(-1), CLASSES), logits, CLASSES)
    assert found.of_constant["accuracy"] == pytest.approx(5 / 7)
    assert 0.1 < found.of_random["accuracy"] < 0.6


def test_classes_that_were_chosen_stay_classes() -> None:
    kinds = set[str]()

    def ask(answer: Any) -> dict[str, float]:
        kinds.add(str(answer.dtype))
        return accuracy(answer, CLASSES)

    found = baselines(ask, np.zeros(8, dtype="int32"), CLASSES)
    assert found.of_constant["accuracy"] == pytest.approx(5 / 7)
    assert kinds == {"int32"}


@pytest.mark.parametrize("are_probabilities", [True, False])
def test_scores_stay_scores_of_their_kind(are_probabilities: bool) -> None:
    logits = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    given = logits.softmax(-1) if are_probabilities else logits
    sums = list[float]()

    def ask(answer: Any) -> float:
        sums.extend(answer.sum(-1).tolist())
        return float((answer.argmax(-1) == torch.as_tensor(CLASSES)).float().mean())

    found = baselines(ask, given, torch.as_tensor(CLASSES))
    assert found.of_constant[""] == pytest.approx(5 / 8)
    assert all(abs(each - 1) < 1e-3 for each in sums) is are_probabilities


def test_the_constant_answer_to_quantities_is_their_mean() -> None:
    wanted = np.arange(16, dtype="float32") + 0.5
    found = baselines(lambda answer: float(((answer[:, 0] - wanted) ** 2).mean()), wanted[:, None] * 0, wanted)
    assert found.of_constant[""] == pytest.approx(wanted.var())
    assert found.of_random[""] > 1.5 * wanted.var()


def test_one_score_for_yes_or_no_is_a_share_or_a_logit_of_it() -> None:
    labels = np.array([1, 0, 1, 1, 1, 0, 1, 1])
    seen = list[Any]()

    def ask(answer: Any) -> float:
        seen.append(answer)
        return 0.0

    baselines(ask, np.full(8, 0.3, dtype="float32"), labels)
    baselines(ask, np.full((8, 1), -3.0, dtype="float32"), labels)
    assert seen[0] == pytest.approx(0.75)
    constant = next(answer for answer in seen if answer.ndim == 2)
    assert constant == pytest.approx(np.log(3), abs=1e-3)


@pytest.mark.parametrize("kind", ["float32", "bool", "int64"])
@pytest.mark.parametrize("shape", [(8,), (8, 1)])
def test_answers_of_one_output_are_classes_whatever_their_type(kind: str, shape: tuple[int, ...]) -> None:
    labels = np.array([0, 0, 1, 0, 0, 1, 0, 0], dtype="float32")

    def ask(answer: Any) -> float:
        assert str(answer.dtype) == kind
        assert answer.shape == shape
        assert set(answer.ravel().tolist()) <= {0, 1}
        return float((answer.ravel() == labels).mean())

    found = baselines(ask, np.zeros(shape, dtype=kind), labels)
    assert found.of_constant[""] == pytest.approx(6 / 8)
    assert 0.2 < found.of_random[""] < 0.8


def test_other_outputs_beside_the_logits_stay_what_they_are() -> None:
    logits, hidden = np.zeros((8, 3), dtype="float32"), np.ones((8, 4))

    def ask(answers: Any) -> dict[str, float]:
        assert answers[1] is hidden
        return accuracy(answers[0].argmax(-1), CLASSES)

    assert baselines(ask, (logits, hidden), CLASSES).of_constant["accuracy"] == pytest.approx(5 / 7)


@pytest.mark.parametrize(
    ("predictions", "labels"),
    [
        (np.zeros((8, 3)), np.arange(8)),  # labels beyond the scores
        (np.zeros((8, 5), dtype=int), np.zeros((8, 4), dtype=int)),  # texts as ids
        (["a", "b"], ["a", "a"]),
        (np.zeros((0, 3)), np.zeros(0, dtype=int)),
        (None, None),
    ],
)
def test_what_has_no_known_form_has_no_baseline(predictions: Any, labels: Any) -> None:
    assert baselines(lambda answer: 1.0, predictions, labels) is NOTHING


def test_a_metric_that_raises_has_no_baseline() -> None:
    def ask(answer: Any) -> float:
        raise ValueError(answer.shape)

    assert baselines(ask, np.zeros((8, 3)), np.zeros(8, dtype=int)) is NOTHING


def test_nothing_of_the_script_changes(capsys: pytest.CaptureFixture[str]) -> None:
    def loud(_: Any) -> float:
        sys.stdout.write("asked")
        return float(np.random.random())

    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    baselines(loud, np.zeros((8, 3)), CLASSES)
    assert np.random.get_state()[1].tolist() == before
    assert capsys.readouterr().out == ""
