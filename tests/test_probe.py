"""What a probe measures of a Trainer script, and how it says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import HEAD, MENDED, REST, WARM_PYTHON, Probed, path_for_lintrain, probe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm")]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, assets: Path) -> None:
    path_for_lintrain(monkeypatch)


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory, assets: Path, warm_python: str) -> Probed:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(WARM_PYTHON, warm_python)
        path_for_lintrain(patched)
        later = 'print(trainer.predict(tokenized["validation_mismatched"]))\n'
        return probe(tmp_path_factory.mktemp("mended"), MENDED + later, "--also", "overfit")


def test_a_mended_script_passes_every_stage(mended: Probed) -> None:
    assert (mended.code, mended.verdicts) == (0, [])
    assert set(mended.stages.values()) == {"passed"}
    assert list(mended.stages)[2:] == ["dataset", "batch", "forward", "backward", "step", "evaluation", "overfit"]


LOOP = """
import torch

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(3, (8,))).backward()
    optimizer.step()
"""


def test_libraries_are_intercepted_while_they_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WARM_PYTHON, raising=False)  # where they are loaded before
    assert [note for note in probe(tmp_path, LOOP).run["notes"] if "not intercepted" in note] == []


BEYOND = """
import torch
from torch.utils.data import DataLoader, TensorDataset

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(32, 4), torch.arange(32) % 4), batch_size=8):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""


def test_a_label_beyond_the_outputs_is_one_finding(tmp_path: Path) -> None:
    probed = probe(tmp_path, BEYOND)
    assert [(rule, outcome) for rule, _, outcome in probed.verdicts] == [("missing-num-labels", "confirmed")]


def test_the_places_of_the_run_are_those_of_the_script(mended: Probed) -> None:
    lines = (MENDED + "").splitlines()
    call, built = mended.run["call"], mended.run["construction"]
    assert lines[call["line"] - 1][call["column"] - 1 : call["end_column"] - 1] == "trainer.train()"
    assert lines[built["line"] - 1][built["column"] - 1 :] == "Trainer("


def test_labels_are_counted_over_the_whole_column_of_every_set(mended: Probed) -> None:
    splits = {split["argument"]: split for split in mended.run["splits"]}
    assert {name: split["rows"] for name, split in splits.items()} == {
        "train_dataset": 480,
        "eval_dataset": 96,
        "test_dataset": 96,
    }
    label = next(column for column in splits["train_dataset"]["columns"] if column["name"] == "label")
    assert label["counts"] == [[0, 160], [1, 160], [2, 160]]
    assert label["names"] == ["entailment", "neutral", "contradiction"]


def test_rows_are_decoded_with_the_names_of_their_labels(mended: Probed) -> None:
    rows = mended.run["tables"][0]["rows"]
    assert {row["label"]["name"] for row in rows} == {"entailment", "neutral", "contradiction"}
    assert all(row["texts"][0]["text"].startswith("[CLS] ") for row in rows)


def test_the_batch_is_the_runs_own(mended: Probed) -> None:
    batch = mended.run["batches"][0]
    assert batch["collator"] == "DataCollatorWithPadding"
    shapes = {tensor["name"]: tensor["shape"] for tensor in batch["tensors"]}
    assert shapes["labels"] == [8]
    assert shapes["input_ids"] == shapes["attention_mask"]
    assert batch["mask_on_padding"] == 0 < batch["padding_tokens"]


def test_the_first_loss_is_near_chance(mended: Probed) -> None:
    forward = mended.run["forward"]
    assert (forward["fresh_head"], forward["standard_loss"]) == (True, True)
    assert all(0.5 < loss / forward["chance"] < 2 for loss in forward["losses"])


def test_every_layer_has_gradients(mended: Probed) -> None:
    layers = {layer["layer"]: layer for layer in mended.run["backward"]["layers"]}
    assert list(layers) == [
        "distilbert.embeddings",
        "distilbert.transformer.layer.0",
        "distilbert.transformer.layer.1",
        "pre_classifier",
        "classifier",
    ]
    assert all(len(layer["norms"]) == 4 and min(layer["norms"]) > 0 for layer in layers.values())


def test_a_step_changes_every_tensor(mended: Probed) -> None:
    step = mended.run["step"]
    assert (step["optimizer"], step["trainable_tensors"], step["changed_tensors"]) == ("AdamW", 40, 40)
    assert {group["learning_rate"] for group in step["groups"]} == {2e-5}


def test_two_evaluation_batches_go_through_the_metric(mended: Probed) -> None:
    evaluation = mended.run["evaluation"]
    assert (evaluation["rows"], evaluation["predictions"], evaluation["predictions_shape"]) == (16, "ndarray", [16, 3])
    assert 0 <= evaluation["metrics"]["accuracy"] <= 1


def test_one_batch_of_every_label_is_learned_by_heart(mended: Probed) -> None:
    overfit = mended.run["overfit"]
    assert len(overfit["losses"]) == 21
    assert overfit["batch_classes"] == 3
    assert overfit["losses_at_ten_times"][-1] < 0.5 * overfit["losses"][0]
    assert overfit["losses"][-1] < overfit["losses_at_a_tenth"][-1] < overfit["losses"][0]


def test_a_failing_metric_is_the_answer_and_shows_its_own_line(tmp_path: Path) -> None:
    probed = probe(
        tmp_path, MENDED.replace("np.argmax(prediction.predictions, axis=-1)", "prediction.predictions.absent")
    )
    assert (probed.code, probed.stages["step"], probed.stages["evaluation"]) == (1, "passed", "failed")
    failure = next(stage["failure"] for stage in probed.run["stages"] if stage["failure"])
    assert failure["type"] == "AttributeError"
    assert failure["location"]["line"] == MENDED[: MENDED.index("prediction.predictions")].count("\n") + 1
    assert probed.document["reason"] == "training fails in its evaluation stage, and no rule explains why"


def test_stages_behind_a_failing_one_are_measured_with_a_stand_in(tmp_path: Path) -> None:
    collate = """
calls = []
def collate(rows):
    calls.append(rows)
    if len(calls) == 1:
        raise ValueError("the first batch")
    return DataCollatorWithPadding(tokenizer)(rows)
"""
    script = HEAD + collate + REST.replace("DataCollatorWithPadding(tokenizer)", "collate") + "trainer.train()\n"
    probed = probe(tmp_path, script, "--text", "--quiet")
    assert probed.code == 1
    assert "✗ batch" in probed.out
    assert "a collator that pads (stand-in)" in probed.out
    assert "✓ step" in probed.out
    assert "✓ evaluation" in probed.out


def test_stages_behind_a_failing_one_are_not_reached(tmp_path: Path) -> None:
    broken = """
import functools
@functools.wraps(model.forward)
def broken(*_, **__):
    raise RuntimeError("no answer")
model.forward = broken
"""
    probed = probe(tmp_path, HEAD + REST + broken + "trainer.train()\n", "--text", "--quiet")
    assert probed.code == 1
    assert "✗ forward" in probed.out
    assert "not reached: backward, step (the forward stage failed)" in probed.out


def test_a_test_set_without_labels_is_found_before_the_training(tmp_path: Path) -> None:
    probed = probe(tmp_path, MENDED + 'trainer.predict(tokenized["test_matched"])\n')
    stage = next(stage for stage in probed.run["stages"] if stage["name"] == "evaluation")
    assert (stage["status"], stage["reason"]) == ("failed", "on `test_dataset`")
    assert stage["failure"]["message"] == "Target -1 is out of bounds."
    assert stage["failure"]["code"] == 'trainer.predict(tokenized["test_matched"])'


def test_a_script_that_only_predicts_is_measured_there(tmp_path: Path) -> None:
    script = HEAD + REST.replace('    train_dataset=tokenized["train"],\n', "")
    probed = probe(tmp_path, script + 'trainer.predict(tokenized["validation_matched"])\n')
    assert probed.code == 0
    assert probed.stages["evaluation"] == "passed"
    assert probed.stages["forward"] == "not reached"


def test_losses_and_steps_of_a_subclass_are_its_own(tmp_path: Path) -> None:
    subclass = """
class Halved(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
        return (loss * 0 + 0.25, outputs) if return_outputs else loss * 0 + 0.25
"""
    script = HEAD + subclass + REST.replace("trainer = Trainer(", "trainer = Halved(") + "trainer.train()\n"
    probed = probe(tmp_path, script)
    assert probed.run["forward"]["losses"] == [0.25] * 4
    assert probed.run["overrides"] == ["compute_loss"]
    assert not probed.run["forward"]["standard_loss"]


def test_warm_up_is_skipped_and_told(tmp_path: Path) -> None:
    probed = probe(tmp_path, MENDED.replace("learning_rate=2e-5", "learning_rate=2e-5, warmup_steps=10"))
    groups = probed.run["step"]["groups"]
    assert {(group["learning_rate"], group["first_learning_rate"]) for group in groups} == {(2e-5, 0.0)}
    assert probed.run["step"]["changed_tensors"] == 40


def test_a_stream_of_rows_in_memory_is_read_to_its_end(tmp_path: Path) -> None:
    script = MENDED.replace(
        'train_dataset=tokenized["train"]', 'train_dataset=tokenized["train"].to_iterable_dataset()'
    )
    probed = probe(tmp_path, script.replace("learning_rate=2e-5", "max_steps=5"))
    split = probed.run["splits"][0]
    assert (probed.code, split["rows"]) == (0, None)
    assert next(column for column in split["columns"] if column["name"] == "label")["rows_read"] == 480


def test_suppressed_findings_stay_silent_and_are_not_counted(tmp_path: Path) -> None:
    lopsided = REST.replace(
        "args =",
        'tokenized = tokenized.map(lambda row, number: {"label": 0 if number % 60 else 1}, with_indices=True)\nargs =',
    )
    found = probe(tmp_path, HEAD + lopsided + "trainer.train()\n")
    assert [(rule, outcome) for rule, _, outcome in found.verdicts] == [("label-imbalance", "confirmed")]
    comment = "trainer = Trainer(  # lintrain: ignore[label-imbalance] -- meant"
    silent = probe(tmp_path, HEAD + lopsided.replace("trainer = Trainer(", comment) + "trainer.train()\n")
    assert (silent.code, silent.verdicts) == (0, [])


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="this machine has no GPU")
def test_a_second_pass_runs_on_the_gpu(tmp_path: Path) -> None:
    probed = probe(tmp_path, MENDED)
    assert [run["device"] for run in probed.document["probe"]["runs"]] == ["cpu", "cuda:0"]
