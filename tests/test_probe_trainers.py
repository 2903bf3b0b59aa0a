"""Trainer scripts that are right although they look unusual, and mistakes that no error shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import MENDED, path_for_lintrain, probe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

LEARNED = """
import torch

model.classifier.load_state_dict({"weight": model.classifier.weight, "bias": torch.tensor([6.0, 0.0, 0.0])})
tokenized["train"] = tokenized["train"].filter(lambda row: row["label"] == 0)
"""

OWN_LOADER = """
class OwnLoader(Trainer):
    def get_train_dataloader(self):
        from torch.utils.data import DataLoader

        rows = tokenized["train"].remove_columns(["premise", "hypothesis", "idx"])
        return DataLoader(rows, batch_size=8, collate_fn=self.data_collator)
"""

ESM = """
import torch
from transformers import EsmConfig, EsmForSequenceClassification, Trainer, TrainingArguments

config = EsmConfig(vocab_size=33, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
                   max_position_embeddings=64, pad_token_id=1, mask_token_id=32, num_labels=2)
rows = [{"input_ids": torch.randint(4, 24, (20,)), "labels": number % 2} for number in range(64)]
Trainer(EsmForSequenceClassification(config), TrainingArguments("out"), train_dataset=rows).train()
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, assets: Path) -> None:
    path_for_lintrain(monkeypatch)


def before_arguments(code: str) -> str:
    """The mended script with code before its training arguments."""
    return MENDED.replace("args = TrainingArguments(", f"{code}\nargs = TrainingArguments(", 1)


def test_a_head_that_the_script_loads_is_not_held_to_chance(tmp_path: Path) -> None:
    trained = "\nsaved = model.pre_classifier.state_dict()\nmodel.pre_classifier.load_state_dict(saved)\n"
    probed = probe(tmp_path, before_arguments(LEARNED + trained))
    assert max(probed.run["forward"]["losses"]) < 0.1
    # Rows of one class are a mistake of their own.
    assert (probed.run["forward"]["fresh_head"], [rule for rule, *_ in probed.verdicts]) == (False, ["label-imbalance"])


def test_a_head_beside_a_loaded_part_is_still_new(tmp_path: Path) -> None:
    loaded = "model.distilbert.load_state_dict(model.distilbert.state_dict())"
    assert probe(tmp_path, before_arguments(loaded)).run["forward"]["fresh_head"]


def test_a_loader_of_the_trainers_own_needs_no_training_set(tmp_path: Path) -> None:
    script = before_arguments(OWN_LOADER).replace('    train_dataset=tokenized["train"],\n', "")
    script = script.replace("trainer = Trainer(", "trainer = OwnLoader(").replace("2e-5", "2e-5, max_steps=20")
    probed = probe(tmp_path, script, "--overfit", "3")
    assert set(probed.stages.values()) == {"passed"}
    assert probed.run["batches"][0]["tensors"][0]["shape"][0] == 8


def test_what_a_library_model_leaves_unused_is_no_mistake(tmp_path: Path) -> None:
    probed = probe(tmp_path, ESM)
    unused = [name for layer in probed.run["backward"]["layers"] for name in layer["without_gradient"]]
    assert [name for name in unused if "contact_head" in name]
    assert (probed.code, probed.verdicts) == (0, [])


def test_steps_of_sgd_below_float32_rounding_are_no_mistake(tmp_path: Path) -> None:
    momentum = "optimizers=(torch.optim.SGD(model.parameters(), lr=1e-5), None)"
    script = before_arguments("import torch\n").replace("    args,\n", f"    args,\n    {momentum},\n", 1)
    probed = probe(tmp_path, script.replace("learning_rate=2e-5, ", ""))  # which the optimizer would override
    assert probed.run["step"]["changed_tensors"] < 40
    assert (probed.code, probed.verdicts) == (0, [])


def test_an_evaluation_set_without_labels_is_told(tmp_path: Path) -> None:
    script = MENDED.replace(
        'tokenized["validation_matched"]', 'tokenized["validation_matched"].remove_columns("label")'
    )
    probed = probe(tmp_path, script)
    assert [(rule, outcome) for rule, _, outcome in probed.verdicts] == [("missing-labels", "confirmed")]
    verdict = probed.document["findings"][0]["verdict"]
    assert verdict["reason"] == "the metric function is never called for 16 rows of input_ids, attention_mask"


def test_a_call_behind_the_end_of_a_probe_is_said_to_be_so(tmp_path: Path) -> None:
    script = MENDED.replace('    eval_dataset=tokenized["validation_matched"],\n', "") + "trainer.evaluate()\n"
    script = script.replace(', eval_strategy="epoch"', "")
    finding = probe(tmp_path, script).document["findings"][0]
    assert (finding["rule"], finding["verdict"]["outcome"]) == ("missing-eval-dataset", "inconclusive")
    assert (
        finding["verdict"]["reason"]
        == "the trainer was created without an `eval_dataset`; a probe ends before this call"
    )


def test_the_schedule_is_played_through_to_the_last_step(tmp_path: Path) -> None:
    script = MENDED.replace("learning_rate=2e-5", "learning_rate=2e-5, max_steps=200, warmup_steps=50")
    schedule = probe(tmp_path, script).run["schedule"]
    assert schedule["steps"] == 200
    assert schedule["highest_at"] == 50
    assert schedule["highest"] == pytest.approx(2e-5)
    assert [rate for step, rate in schedule["rates"] if step in (0, 199)] == [0.0, pytest.approx(2e-5 / 150)]
