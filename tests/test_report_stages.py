"""The stages of a probe as a person reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click import unstyle

from lintrain.evidence.run import (
    BatchAnswers,
    ColumnEvidence,
    DeterminismEvidence,
    EvaluationEvidence,
    Evidence,
    Failure,
    ForwardEvidence,
    MetricUse,
    OverfitEvidence,
    ScheduleEvidence,
    SplitEvidence,
    Stage,
    StageName,
    StepEvidence,
)
from lintrain.report.text.stage_numbers import extra_lines, numbers
from lintrain.report.text.stages import failure_lines, run_lines
from lintrain.report.text.style import Style, columns
from lintrain.source.source import Source
from lintrain.text import for_terminal

LONG = "The size of tensor a (1202) must match the size of tensor b (512) at non-singleton dimension 1 of the input"


SCRIPT = "experiments/question_answering/train_distilled_model.py"
VERSIONS = {"transformers": "5.23.0.dev0", "torch": "2.13.0+cpu"}
MEASURED = Evidence(SCRIPT, "transformers", "Trainer", None, None, "cpu", VERSIONS)


def evaluated(*, called: bool, **metrics: float | None) -> Evidence:
    evaluation = EvaluationEvidence(True, has_metric_function=True, metric_function_called=called, rows=16)
    return replace(MEASURED, evaluation=replace(evaluation, metrics=metrics))


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_a_probe_is_wider_than_the_terminal(width: int) -> None:
    failed = Stage.failed(StageName.FORWARD, Failure("RuntimeError", LONG, None))
    measured = replace(MEASURED, stages=(failed,), notes=("`push_to_hub` was called but not executed " * 3,))
    lines = [*run_lines(measured, Style(width=width)), *failure_lines(measured, Style(width=width))]
    assert max(columns(line) for line in lines) <= width
    words = " ".join(lines[lines.index("the forward stage failed") + 1 :]).split()[1:]
    assert LONG.split() == words[: len(LONG.split())]


@pytest.mark.parametrize(
    ("framework", "text", "named"),
    [
        ("transformers", "", "(transformers 5.23.0.dev0, torch 2.13.0+cpu)"),
        ("torch", "from transformers import AutoModel\n", "(transformers 5.23.0.dev0, torch 2.13.0+cpu)"),
        ("torch", "import torch\n", "(torch 2.13.0+cpu)"),
        ("lightning", "import lightning\n", "(lightning 2.6.1, torch 2.13.0+cpu)"),
    ],
)
def test_a_heading_names_the_libraries_of_the_script(framework: str, text: str, named: str) -> None:
    measured = replace(MEASURED, framework=framework, versions={**VERSIONS, "lightning": "2.6.1"})
    heading = next(run_lines(measured, Style(width=200), lambda path: Source(path, text)))
    assert heading.endswith(named)


def test_one_batch_is_one_batch() -> None:
    forward = ForwardEvidence(losses=(1.0,), chance=None, finite=True)
    assert numbers(replace(MEASURED, forward=forward), "forward") == "loss 1.000 over 1 batch"


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (evaluated(called=True, accuracy=0.25), "16 rows: accuracy 0.25"),
        (evaluated(called=True, table=None), "16 rows: the metric function returned no number"),
        (evaluated(called=False), "16 rows, metric function not called"),
    ],
)
def test_what_the_metric_function_did_is_told(measured: Evidence, text: str) -> None:
    assert numbers(measured, "evaluation") == text


WARM_UP = ScheduleEvidence("LambdaLR", 101, tuple((step, 2e-5 * min(step / 20, 1.0)) for step in range(101)), 2e-5, 20)
STEPPED = replace(
    MEASURED, step=StepEvidence("AdamW", (), 4, 4), schedule=WARM_UP, stages=(Stage.passed(StageName.STEP, 0.05),)
)


@pytest.mark.parametrize(("unicode", "drawn"), [(True, "▁▃▅▆▇" + "█" * 19), (False, "_,=+*" + "#" * 19)])
def test_the_schedule_is_drawn_in_a_line_with_its_rate_at_five_points(*, unicode: bool, drawn: str) -> None:
    lines = list(run_lines(STEPPED, Style(width=80, unicode=unicode)))
    at = next(number for number, line in enumerate(lines) if line.strip().startswith("rate"))
    assert lines[at] == f"{' ' * 27}rate        {drawn} over 101 steps"
    said = " ".join(" ".join(lines[at + 1 :]).split())
    assert said == "0 at 0%, 1e-05 at 10%, 2e-05 at 50%, 2e-05 at 90%, 2e-05 at 100%"
    assert all(line.isascii() for line in lines) is not unicode


def test_a_rate_that_stays_is_not_drawn() -> None:
    same = replace(WARM_UP, rates=((0, 2e-5), (100, 2e-5)), highest_at=0)
    assert not any(
        line.strip().startswith("rate") for line in run_lines(replace(STEPPED, schedule=same), Style(width=80))
    )


@pytest.mark.parametrize("coloured", [True, False])
def test_the_numbers_of_an_extra_stand_below_each_other(*, coloured: bool) -> None:
    starts = DeterminismEvidence(((1.0, 0.9), (1.0, 0.8)), 10, ("a",), 2, 1, True, ("numpy",))
    measured = replace(MEASURED, determinism=starts, stages=(Stage.passed(StageName.DETERMINISM, 26.4),))
    lines = [unstyle(for_terminal(line)) for line in run_lines(measured, Style(width=80, coloured=coloured))]
    assert lines[2:] == [
        "  ✓ determinism   26.40 s  losses      1, 0.9 in the first run; 1, 0.8 in the",
        "                                       second",
        "                           different   1 of 10 weights before the first step; 1",
        "                                       of 2 batches, made of the same rows;",
        "                                       random numbers of numpy",
    ]


def test_an_evaluation_that_was_followed_tells_what_its_metrics_got() -> None:
    use = MetricUse("scikit-learn", "f1_score", (16,), "int64", (16,), "int64", 16, 3, values={"": 0.25})
    raising = replace(use, function="accuracy_score", predictions_shape=(16, 3), values={}, error="ValueError")
    evaluation = EvaluationEvidence(True, has_metric_function=False, is_followed=True, rows=16, batches=2, passes=2)
    seen = replace(evaluation, passes_in_training_mode=1, metric_uses=(use, raising), losses=(1.0, 2.0))
    assert numbers(replace(MEASURED, evaluation=seen), "evaluation") == (
        "data 16 rows in 2 batches; model 2 passes, 1 with dropout or batch norm in training mode, without gradients; "
        "loss 1.500; f1_score receives [16] int64 and [16] int64 and returns 0.25; "
        "accuracy_score receives [16, 3] int64 and [16] int64 and raises ValueError"
    )


def test_a_terminal_without_other_signs_gets_ascii_where_a_line_is_cut() -> None:
    assert (Style(unicode=False).writable("a lo…"), Style().writable("a lo…")) == ("a lo~", "a lo…")


def test_classes_without_names_are_told_from_their_rows() -> None:
    counts = ((0, 89), (1, 111))
    column = ColumnEvidence("1", "class label", "int64", counts=counts, rows_read=200)
    plain = replace(MEASURED, splits=(SplitEvidence("train_dataset", 200, (column,), label_column="1"),))
    assert numbers(plain, "dataset") == "train_dataset 200 rows [1], 1: 89 of class 0, 111 of class 1"
    named = replace(column, names=("cat", "dog"))
    assert numbers(
        replace(MEASURED, splits=(SplitEvidence("train_dataset", 200, (named,), label_column="1"),)), "dataset"
    ).endswith("1: cat 89, dog 111")


def test_a_metric_is_shown_with_what_answers_that_know_nothing_score() -> None:
    measured = evaluated(called=True, accuracy=0.625)
    assert measured.evaluation is not None
    scored = replace(measured.evaluation, of_constant={"accuracy": 0.9375}, of_random={"accuracy": 0.328})
    text = numbers(replace(measured, evaluation=scored), "evaluation")
    assert text == "16 rows: accuracy 0.625 (constant answer 0.938, random 0.328)"


def test_an_accuracy_that_is_counted_by_hand_is_shown_with_the_share_of_the_largest_class() -> None:
    evaluation = EvaluationEvidence(True, has_metric_function=False, is_followed=True, rows=16, batches=2)
    column = ColumnEvidence("label", "class label", "int64", counts=((0, 28), (1, 4)))
    split = SplitEvidence("eval_dataset", 32, (column,), label_column="label")
    measured = replace(MEASURED, evaluation=evaluation, splits=(split,))
    line = ("constant", "label 0 for every row is right in 28 of 32 rows (0.875)")
    assert line in extra_lines(measured, "evaluation")
    known = replace(evaluation, of_constant={"accuracy_score": 0.875})
    assert line not in extra_lines(replace(measured, evaluation=known), "evaluation")


OVERFIT = OverfitEvidence(20, (1.1, 1.09), (1.1, 0.2), 1e-4, rows=8, losses_at_a_tenth=(1.1, 1.1))


def test_an_overfitted_batch_is_shown_with_what_is_predicted_and_with_the_rate_that_learns_it() -> None:
    answers = BatchAnswers(((0, 8),), ((0, 3), (1, 5)), 0.375, {"f1": 0.273})
    lines = dict(extra_lines(replace(MEASURED, overfit=replace(OVERFIT, answers=answers)), "overfit"))
    assert lines["then"] == "accuracy 0.375, f1 0.273 on these rows"
    assert lines["classes"] == "1 of 2 classes are predicted (8 of class 0, 0 of class 1)"
    assert lines["not learned"] == "at the rate of the run; at 0.001 it is"


def test_a_batch_that_is_learned_needs_no_other_rate() -> None:
    lines = dict(extra_lines(replace(MEASURED, overfit=replace(OVERFIT, losses=(1.1, 0.1))), "overfit"))
    assert list(lines) == ["at 0.0001", "at 0.001", "at 1e-05"]
