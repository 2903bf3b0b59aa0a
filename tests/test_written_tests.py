"""Tests that lintrain writes of a pipeline: they pass on the script as it is, and fail on a mistake in it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lintrain.evidence.run import (
    BackwardEvidence,
    BatchEvidence,
    Evidence,
    Failure,
    ForwardEvidence,
    LayerGradient,
    Stage,
    StageName,
    TensorEvidence,
)
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.report.written_tests import NoTestsError, pipeline_tests
from lintrain.runtime.parent.record import SCHEMA, Record
from tests.support.probing import MENDED, WARM_PYTHON, probe
from tests.test_probe_loops import EPOCHS, HEAD

LABELS = TensorEvidence("labels", (8,), "int64", 0, 2)
PIXELS = TensorEvidence("pixel_values", (8, 3, 32, 32), "float32", -1, 1)
SEEN = Evidence(
    script="train.py",
    framework="transformers",
    trainer="Trainer",
    call=None,
    construction=None,
    device="cpu",
    versions={},
    stages=(Stage.passed(StageName.BATCH), Stage.passed(StageName.FORWARD)),
    batches=(BatchEvidence("train_dataset", "collate", (PIXELS, LABELS), 8),),
    forward=ForwardEvidence((1.1, 1.2), 1.0986, True, (8, 3), ("loss", "logits"), fresh_head=True, standard_loss=True),
    backward=BackwardEvidence((LayerGradient("head", (1.0,), 2.0, 2),), (1.0,), True),
)
FAILED = Stage.failed(StageName.FORWARD, Failure("IndexError", "Target 2 is out of bounds.", None))


def record(*runs: Evidence, script: str = "train.py") -> Record:
    return Record(SCHEMA, "0.1.0", script, "", "python3", Ending(EndingKind.MEASURED), runs, (), ("--lr", "1e-4"))


def names(evidence: Evidence) -> list[str]:
    lines = pipeline_tests(record(evidence), Path("test_train.py")).splitlines()
    return [line.removeprefix("def test_").removesuffix("(run):") for line in lines if line.startswith("def test_")]


def test_what_was_measured_becomes_tests() -> None:
    assert names(SEEN) == [
        "batch_has_these_tensors",
        "tensors_have_their_dimensions_and_rows",
        "rows_have_their_size",
        "labels_are_classes",
        "the_loss_is_a_finite_number",
        "initial_loss_is_at_chance_level",
        "logits_have_one_entry_per_class",
        "gradients_reach_every_weight",
    ]


def test_the_script_and_its_arguments_are_those_of_the_run(tmp_path: Path) -> None:
    text = pipeline_tests(record(SEEN, script=str(tmp_path / "train.py")), tmp_path / "tests" / "test_train.py")
    assert 'SCRIPT = Path(__file__).parent / "../train.py"\n' in text
    assert 'ARGUMENTS = ("--lr", "1e-4")\n' in text


def test_what_was_not_seen_to_hold_is_not_demanded() -> None:
    assert SEEN.forward
    trained = replace(SEEN, forward=replace(SEEN.forward, fresh_head=False))
    assert "initial_loss_is_at_chance_level" not in names(trained)
    partly = BackwardEvidence((LayerGradient("head", (1.0,), 2.0, 2, ("pooler.weight",)),), (1.0,), True)
    assert "gradients_reach_every_weight" not in names(replace(SEEN, backward=partly))
    sound = (TensorEvidence("input_values", (8, 900), "float32"), TensorEvidence("attention_mask", (8, 900), "int64"))
    assert "rows_have_their_size" not in names(
        replace(SEEN, batches=(BatchEvidence("train_dataset", "pad", sound, 8),))
    )


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ((), "no training call was reached"),
        ((replace(SEEN, stages=(Stage.passed(StageName.BATCH), FAILED)),), "the forward stage failed"),
        ((replace(SEEN, batches=()),), "no forward pass of a batch was measured"),
        ((replace(SEEN, framework="keras"),), "tests are supported for torch, not for Keras"),
    ],
)
def test_where_nothing_can_be_tested_the_reason_is_said(runs: tuple[Evidence, ...], reason: str) -> None:
    with pytest.raises(NoTestsError, match=reason):
        pipeline_tests(record(*runs), Path("test_train.py"))


def outcomes(folder: Path, script: str, mistake: str) -> list[tuple[str, str]]:
    """The outcomes of the tests that are written of a script, on it and on one with a mistake in it."""
    probed = probe(folder, script, "--write-tests", "test_right.py")
    assert probed.code == 0
    assert "wrote test_right.py" in probed.err
    (folder / "wrong.py").write_text(mistake)
    text = (folder / "test_right.py").read_text()
    (folder / "test_wrong.py").write_text(text.replace("train.py", "wrong.py"))
    before = sorted(path.name for path in folder.iterdir())
    command = [os.environ[WARM_PYTHON], "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q", "--tb=no"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == before
    lines = (line.split() for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR")))
    return sorted((words[1].replace(".py::test", ""), words[0]) for words in lines)


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_tests_of_a_trainer_pass_on_its_script_and_fail_without_the_number_of_labels(
    tmp_path: Path, assets: Path
) -> None:
    found = outcomes(tmp_path, MENDED, MENDED.replace(", num_labels=3", ""))
    right = {outcome for name, outcome in found if name.startswith("test_right")}
    wrong = {name.removeprefix("test_wrong_") for name, outcome in found if outcome == "FAILED"}
    assert right == {"PASSED"}
    assert wrong == {
        "the_loss_is_a_finite_number",
        "initial_loss_is_at_chance_level",
        "logits_have_one_entry_per_class",
        "gradients_reach_every_weight",
    }


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_tests_of_a_loop_pass_on_its_script_and_fail_with_weights_of_the_wrong_size(tmp_path: Path) -> None:
    found = outcomes(tmp_path, HEAD + EPOCHS, HEAD + "model[0].weight.data *= 1e3\n" + EPOCHS)
    failed = [name for name, outcome in found if outcome != "PASSED"]
    assert failed == ["test_wrong_initial_loss_is_at_chance_level"]
    assert len(found) == 14
