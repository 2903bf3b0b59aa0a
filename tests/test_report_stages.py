"""The stages of a probe as a person reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.core.evidence import EvaluationEvidence, Evidence, Failure, ForwardEvidence, Sample, SplitEvidence, Stage
from lintrain.report.columns import columns
from lintrain.report.look import Look
from lintrain.report.stages import failure_lines, numbers, run_lines, samples

LONG = "The size of tensor a (1202) must match the size of tensor b (512) at non-singleton dimension 1 of the input"


SCRIPT = "experiments/question_answering/train_distilled_model.py"
VERSIONS = {"transformers": "5.23.0.dev0", "torch": "2.13.0+cpu"}
MEASURED = Evidence(SCRIPT, "transformers", "Trainer", None, None, "cpu", VERSIONS)


def evaluated(*, called: bool, **metrics: float | None) -> Evidence:
    evaluation = EvaluationEvidence(True, has_metric_function=True, metric_function_called=called, rows=16)
    return replace(MEASURED, evaluation=replace(evaluation, metrics=metrics))


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_a_probe_is_wider_than_the_terminal(width: int) -> None:
    failed = Stage("forward", "failed", failure=Failure("RuntimeError", LONG, None))
    measured = replace(MEASURED, stages=(failed,), notes=("`push_to_hub` was called and not carried out " * 3,))
    lines = [*run_lines(measured, Look(width=width)), *failure_lines(measured, Look(width=width))]
    assert max(columns(line) for line in lines) <= width
    assert LONG.split() == " ".join(lines[lines.index("the forward stage fails") + 1 :]).split()[1:]


def test_one_batch_is_one_batch() -> None:
    forward = ForwardEvidence(losses=(1.0,), chance=None, finite=True)
    assert numbers(replace(MEASURED, forward=forward), "forward") == "loss 1.000 over 1 batch"


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (evaluated(called=True, accuracy=0.25), "16 rows: accuracy 0.25"),
        (evaluated(called=True, table=None), "16 rows: the metric function gave no number"),
        (evaluated(called=False), "16 rows: the metric function was not called"),
    ],
)
def test_what_the_metric_function_did_is_told(measured: Evidence, text: str) -> None:
    assert numbers(measured, "evaluation") == text


def test_a_sample_shows_its_words_before_labels_of_single_tokens() -> None:
    rows = (Sample("good dog", "[-100, 0, 1, -100]"), Sample("bad dog", "1", "negative"))
    split = SplitEvidence("train_dataset", 2, (), samples=rows)
    assert list(samples(replace(MEASURED, splits=(split,)))) == ["good dog", "1 (negative): bad dog"]
