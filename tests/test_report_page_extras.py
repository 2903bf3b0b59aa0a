"""What is measured on request, as the page of a probe draws it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lintrain.evidence.run import (
    CheckpointEvidence,
    DeterminismEvidence,
    EvaluationEvidence,
    Evidence,
    LayerUpdate,
    MemoryEvidence,
    MetricUse,
    RanksEvidence,
    RankWrite,
    ResidentModel,
    StepEvidence,
    ThroughputEvidence,
)
from lintrain.report.page.charts import Series, curve
from lintrain.report.page.facts import facts_of

MIB = 2**20
HOSTILE = "<b>&"
MEMORY = MemoryEvidence(
    "projected", 100 * MIB, 20 * MIB, 8, 36, 4 * MIB, 4 * MIB, 8 * MIB, 4 * MIB, 12 * MIB, largest_batch=88,
    models=(ResidentModel("student", 4 * MIB, True), ResidentModel(HOSTILE, 9 * MIB, False)), optimizer_name="AdamW",
)  # fmt: skip
PACE = ThroughputEvidence(8, 36, 0.002, 0.006, 2, 3, {HOSTILE: 1.0}, (("aten::mm", 0.4), (HOSTILE, 0.1)))
STARTS = DeterminismEvidence(((1.0, 0.9), (1.0, 0.8)), 10, ("a", "b"), 2, 0, True, ("numpy",))
RANKS = RanksEvidence(
    2, 2, 40, (), 40, ("a",), (), (16, 16), 3, (30, 29), (480, 480), True, (RankWrite(HOSTILE, None, (0, 1)),)
)
RESUMED = CheckpointEvidence(
    2, "library", {"out/model.safetensors": 4 * MIB, HOSTILE: MIB}, 40, (), 80, ("m",), (), (2e-5, 2e-5), (1.0, 1.5),
    same_batch=None,
)  # fmt: skip
USED = MetricUse("scikit-learn", "f1_score", (16, 3), "float32", (16,), "int64", 16, 3, error="ValueError")
EVALUATION = EvaluationEvidence(
    True, has_metric_function=False, is_followed=True, rows=16, batches=2, metric_uses=(USED,), metrics={"loss": 1.25}
)
STEP = StepEvidence("AdamW", (), 4, 4, updates=(LayerUpdate("head", 1e-2), LayerUpdate("body", 1e-4)))
MEASURED = Evidence(
    "train.py", "transformers", "Trainer", None, None, "cpu", {}, memory=MEMORY, throughput=PACE, determinism=STARTS,
    ranks=RANKS, checkpoint=RESUMED, evaluation=EVALUATION, step=STEP,
)  # fmt: skip


def sections(evidence: Evidence) -> dict[str, str]:
    """The text of every section, without its elements, by its title."""
    parts = str(facts_of(evidence)).split("<h3>")[1:]
    named = {title: rest for title, _, rest in (part.partition("</h3>") for part in parts)}
    return {title: re.sub(r"<title>.*?</title>|<[^>]*>", " ", rest) for title, rest in named.items()}


def words(text: str) -> str:
    return " ".join(text.split())


def test_every_extra_has_a_section_with_its_numbers() -> None:
    said = {title: words(text) for title, text in sections(MEASURED).items()}
    memory = said["Memory of a training step"]
    assert "20 MiB at the peak with 8 rows of 36 tokens, projected, ±15%" in memory
    assert "weights 4 MiB gradients 4 MiB AdamW 8 MiB activations 4 MiB" in memory
    assert "on 100 MiB: 88 rows would fit" in memory
    assert "1,000 rows, 36,000 tokens per second" in said["Throughput"]
    assert "loading a batch 2 ms training on it 6 ms" in said["Throughput"]
    assert "2 0.9 0.8 ✗" in said["Determinism"]
    assert "different: 2 of 10 weights before the first step random numbers of numpy" in (said["Determinism"])
    assert "rank 1 16 29 480" in said["Several processes"]
    assert "✗ same gradients after backward 1 of 40 differ" in said["Several processes"]
    resumed = said["Resuming from a checkpoint"]
    assert "✗ next loss 1.5, uninterrupted 1 ✓ weights 0 of 40 differ ✗ optimizer state 1 of 80" in resumed
    assert "? next batch unknown" in resumed
    assert "loss 1.25" in said["Evaluation"]
    assert "f1_score [16, 3] float32 [16] int64 raises ValueError" in said["Evaluation"]
    assert "head 1.00e-02 body 1.00e-04" in said["Updates"]


def test_what_users_write_is_text_in_the_extras_too() -> None:
    assert HOSTILE not in str(facts_of(MEASURED))
    assert str(facts_of(MEASURED)).count("&lt;b&gt;&amp;") > 5


def test_a_batch_that_does_not_fit_is_set_off() -> None:
    text = sections(MEASURED)["Memory of a training step"]
    assert re.findall(r"([\d,]+ rows(?: \(.*?\))?)\s+([\d.]+ MiB)", text) == [
        ("8 rows (this run)", "20 MiB"),
        ("16 rows", "28 MiB"),
        ("32 rows", "44 MiB"),
        ("88 rows (max)", "100 MiB"),
        ("128 rows", "140 MiB"),
    ]
    drawn = str(facts_of(replace(MEASURED, throughput=None, step=None, checkpoint=None)))
    assert drawn.count('class="bar marked"') == 1


@pytest.mark.parametrize("device", [None, 100 * MIB])
def test_a_peak_that_no_batch_changes_has_no_chart_of_batches(device: int | None) -> None:
    memory = replace(MEMORY, device=device, fixed=MEMORY.peak, largest_batch=None, models=())
    text = str(facts_of(Evidence("t.py", "torch", "a loop", None, None, "cpu", {}, memory=memory)))
    assert text.count("<figure>") == 1


def test_losses_that_lie_far_apart_are_drawn_by_powers_of_ten_and_schedules_never() -> None:
    far_apart = [Series("one", ((0, 1.0), (1, 0.1), (2, 0.001)))]
    assert ">0.25</text>" in curve("learning rate", "optimizer step", far_apart)
    wide = curve("loss", "step", far_apart, by_powers=True)
    assert [tick for tick in ("0.001", "0.01", "0.1", "1") if f">{tick}</text>" in wide] == [
        "0.001",
        "0.01",
        "0.1",
        "1",
    ]
    near = curve("loss", "step", [Series("one", ((0, 1.0), (1, 0.5)))], by_powers=True)
    assert ">0.25</text>" in near


def test_nothing_that_was_not_asked_for_is_on_the_page() -> None:
    assert str(facts_of(Evidence("train.py", "torch", "a loop", None, None, "cpu", {}))) == ""
