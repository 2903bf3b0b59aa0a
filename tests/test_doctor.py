"""What happened in a run is named from what it left, and a sound run of the same kind is blamed for nothing."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lintrain.cli import run as run_command
from lintrain.doctor.curves import judge_curves
from lintrain.doctor.logs import Table, read_log
from lintrain.doctor.reading import NoRunError, read_run
from lintrain.doctor.record import STEPS, Role, RunRecord, curves_of, role_of

pytest.importorskip("torch")

from tests.doctor.trainings import MISTAKES, Row, train
from tests.doctor.writing import FORMS, HAVE_NO_CLOCK

TIMED = ("stalls", "slows-down")
NEED_PLAN = ("schedule-not-applied",)
"""What is asked for stands in the state of transformers alone."""

CASES = [
    (name, form)
    for name in MISTAKES
    for form in FORMS
    if not (name in TIMED and form in HAVE_NO_CLOCK) and (name not in NEED_PLAN or form == "transformers")
]

pytestmark = pytest.mark.libraries


@cache
def trained(name: str, *, is_sound: bool) -> list[Row]:
    return train(MISTAKES[name][is_sound])


def judged(folder: Path, form: str, rows: list[Row]) -> list[str]:
    return [each.name for each in judge_curves(read_run(FORMS[form](folder / "run", rows)))]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_mistake_is_named_and_its_twin_is_not(name: str, form: str, tmp_path: Path) -> None:
    if form == "tensorboard":
        pytest.importorskip("tensorboard")
    assert judged(tmp_path / "bad", form, trained(name, is_sound=False)) == [name]
    assert judged(tmp_path / "sound", form, trained(name, is_sound=True)) == []


def test_at_least_forty_runs_are_planted() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("loss", Role.LOSS),
        ("train/loss", Role.LOSS),
        ("Loss/test", Role.EVAL_LOSS),
        ("Validation Loss", Role.EVAL_LOSS),
        ("valLoss", Role.EVAL_LOSS),
        ("lr-AdamW", Role.RATE),
        ("train/learning_rate", Role.RATE),
        ("grad_norm", Role.NORM),
        ("val_acc", Role.EVAL_SCORE),
        ("loss_scale", Role.OTHER),
        ("gloss", Role.OTHER),
        ("learning_curve", Role.OTHER),
    ],
)
def test_the_role_of_a_curve_is_in_its_name(name: str, role: Role) -> None:
    assert role_of(name) is role


KERAS = """Epoch 1/4
313/313 - 2s - 5ms/step - accuracy: 0.5000 - loss: 0.6931 - val_accuracy: 0.5000 - val_loss: 0.6920
Epoch 2/4
313/313 - 1s - 4ms/step - accuracy: 0.6000 - loss: 0.6000 - val_accuracy: 0.6100 - val_loss: 0.6100
"""
STATE_LINES = """{'loss': '0.6931', 'grad_norm': '1.25', 'learning_rate': '5e-05', 'epoch': '0.5'}
{'eval_loss': 0.6, 'eval_accuracy': 0.7, 'eval_runtime': 1.2, 'epoch': 1.0}
{'loss': nan, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': 1.5}
"""


def values(text: str, name: str) -> list[float]:
    return next(curve.values for curve in read_log(text).curves if curve.name == name)


def test_logs_of_keras_and_of_the_trainer_are_read() -> None:
    assert values(KERAS, "loss") == [0.6931, 0.6]
    assert values(KERAS, "val_loss") == [0.692, 0.61]
    assert [point.epoch for point in read_log(KERAS).curves[0].points] == [1, 2]
    assert values(STATE_LINES, "learning_rate") == [5e-05, 0.0]
    assert str(values(STATE_LINES, "loss")) == "[0.6931, nan]"


def test_the_last_state_of_a_progress_bar_counts() -> None:
    bar = "".join(f"\rstep {number}/9: loss: {1 / number:.3f}" for number in range(1, 10))
    assert values(bar + "\n", "loss") == [0.111]


def test_the_table_of_a_trainer_in_a_notebook_is_read() -> None:
    table = (
        "<table><thead><tr><th>Step</th><th>Training Loss</th><th>Validation Loss</th></tr></thead><tbody>"
        "<tr><td>10</td><td>0.7</td><td>0.6</td></tr><tr><td>20</td><td>No log</td><td>0.5</td></tr></tbody></table>"
    )
    assert Table.rows_of(table) == [
        {"step": 10, "training_loss": 0.7, "validation_loss": 0.6},
        {"step": 20, "validation_loss": 0.5},
    ]


def test_variables_and_settings_in_a_log_are_no_curves() -> None:
    log = "name = crf_loss/transition:0, shape = (10, 10)\nmax_grad_norm: 1.0\nstep 1 loss: 0.5 | Grad: 20.7\n"
    curves = {curve.name: curve.role for curve in read_log(log).curves if curve.role is not Role.OTHER}
    assert curves == {"loss": Role.LOSS, "grad": Role.NORM}


def rising(rates: list[float]) -> RunRecord:
    losses = [0.03, 0.01, 0.004, 0.002, 0.002, 0.002, 0.002, 0.002, 0.004, 0.008, 0.01, 0.02, 0.03, 0.05, 0.06, 0.08]
    losses += [0.1] * 4
    rows = [
        {"step": step, "loss": loss, "learning_rate": rate}
        for step, (loss, rate) in enumerate(zip(losses, rates, strict=True))
    ]
    return RunRecord("train.log", "log", curves_of(rows, STEPS))


def test_a_loss_that_rises_while_the_rate_falls_to_0_is_not_put_down_to_large_steps() -> None:
    (large,) = judge_curves(rising([1e-3] * 20))
    assert (large.name, large.page) == ("diverged", "high-learning-rate")
    (small,) = judge_curves(rising([1e-3 * (1 - step / 20) ** 2 for step in range(20)]))
    assert (small.name, small.page) == ("diverged", "")
    assert "large steps do not explain it" in small.why


@pytest.mark.parametrize(
    ("later", "expected"),
    [([0.58, 0.59, 0.5, 0.7, 0.55, 0.6, 0.56], ["overfitting"]), ([0.45, 0.38, 0.43, 0.36, 0.42, 0.39, 0.41], [])],
)
def test_a_noisy_evaluation_that_stays_above_its_best_is_overfitting(later: list[float], expected: list[str]) -> None:
    held_out = [0.6, 0.55, 0.5, 0.45, 0.42, 0.41, 0.42, 0.41, 0.31, *later]
    rows = [{"step": step, "loss": 0.6 * 0.9**step, "val_loss": value} for step, value in enumerate(held_out)]
    record = RunRecord("metrics.csv", "table", curves_of(rows, STEPS))
    assert [each.name for each in judge_curves(record)] == expected


def test_an_event_file_without_scalars_is_not_read_as_a_log(tmp_path: Path) -> None:
    file = tmp_path / "events.out.tfevents.1.host.1.0"
    file.write_bytes(b"\x00args\x00learning_rate: 5e-05\x00")
    with pytest.raises(NoRunError):
        read_run(file)


ENDS = {
    "ended-by-error": 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    loss = f(x, y)\n'
    "IndexError: Target 2 is out of bounds.",
    "killed": "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0",
    "time-limit": "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***",
    "ranks-waited": "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)",
    "shared-memory": "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error.",
    "crashed": "Segmentation fault (core dumped)",
}
SOUND_LOG = "".join(f"step {number} loss: {1 / (1 + number):.3f}\n" for number in range(12))
LONG_LOG = "".join(f"step {number} loss: {1 / (1 + number):.3f}\n" for number in range(100))


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_log_is_named(name: str) -> None:
    assert [each.name for each in judge_curves(read_log(SOUND_LOG + ENDS[name] + "\n"))] == [name]
    earlier = ENDS[name].replace("Traceback (most recent call last)", "Traceback") + "\n" + LONG_LOG
    assert [each.name for each in judge_curves(read_log(earlier))] == []


def test_a_stopped_run_says_how_far_it_came(tmp_path: Path) -> None:
    folder = FORMS["transformers"](tmp_path / "run", trained("overfitting", is_sound=True))
    state = next(folder.glob("*/trainer_state.json"))
    state.write_text(json.dumps({**json.loads(state.read_text()), "max_steps": 1000}))
    (only,) = judge_curves(read_run(folder))
    assert (only.name, only.message) == ("ended-early", "the run ended at step 160 of 1,000 (16%)")


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\xff\xfe\x00", b"{", b'{"log_history": 3}', b"a,b\n1"])
@pytest.mark.parametrize("name", ["trainer_state.json", "metrics.csv", "train.log", "train.ipynb", "run-1.wandb"])
def test_what_is_no_run_says_so(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NoRunError, match=name.partition(".")[0]):
        read_run(tmp_path / name)


def test_the_record_of_an_offline_run_of_wandb_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", dir=str(tmp_path), config={"learning_rate": 0.05, "lr_scheduler_type": "linear"})
    for row in trained("rate-ends-early", is_sound=False):
        run.log({f"train/{name}": value for name, value in row.items() if name not in ("step", "time")})
    run.finish()
    record = read_run(tmp_path)
    assert (record.kind, record.arguments["lr_scheduler_type"]) == ("W&B", "linear")
    assert [each.name for each in judge_curves(record)] == ["rate-ends-early"]
    file = next(tmp_path.rglob("*.wandb"))
    file.write_bytes(file.read_bytes()[:-100])  # as a run that died leaves it
    assert read_run(file).of(Role.RATE) is not None


def test_the_table_of_lightnings_own_logger_is_read(tmp_path: Path) -> None:
    logger = pytest.importorskip("lightning.pytorch.loggers").CSVLogger(str(tmp_path), name="logs")
    for number, row in enumerate(trained("diverged", is_sound=False)):
        logger.log_metrics({"train_loss": row["loss"], "epoch": row["epoch"]}, step=number)
    logger.save()
    assert [each.name for each in judge_curves(read_run(tmp_path))] == ["diverged"]


def test_the_report_shows_figures_curves_and_the_findings_of_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = FORMS["transformers"](tmp_path / "run", trained("overfitting", is_sound=False))
    script = tmp_path / "train.py"
    script.write_text("import torch\nfor x, y in loader:\n    model(x).sum().backward()\n    optimizer.step()\n")
    assert run_command(["doctor", str(folder), "--script", str(script)]) == 1
    out = capsys.readouterr().out
    assert "warning[overfitting] `eval_loss` rises since step 24" in out
    assert "█" in out
    assert "missing-zero-grad" in out


def test_the_other_forms_of_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = FORMS["log"](tmp_path / "run", trained("non-finite", is_sound=False))
    assert run_command(["doctor", str(folder), "--output-format", "json"]) == 1
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["judgements"]] == ["non-finite"]
    assert document["curves"]["loss"][-1][1] == "nan"
    page = tmp_path / "page.html"
    assert run_command(["doctor", str(folder), "--output-format", "html", "--output-file", str(page)]) == 1
    assert "<svg" in page.read_text()
    assert run_command(["doctor", str(FORMS["log"](tmp_path / "ok", trained("non-finite", is_sound=True)))]) == 0
    assert "nothing stands out" in capsys.readouterr().out


def test_a_log_on_stdin_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from io import StringIO

    monkeypatch.setattr(sys, "stdin", StringIO(SOUND_LOG + ENDS["killed"]))
    assert run_command(["doctor", "-"]) == 1
    assert "error[killed]" in capsys.readouterr().out
