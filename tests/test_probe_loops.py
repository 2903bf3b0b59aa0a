"""Probes of loops of the script's own: followed for a few steps, then through its evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import probe

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(4000, 6), torch.randint(3, (4000,)))
train_loader = DataLoader(rows, batch_size=8, shuffle=True)
held_out = TensorDataset(torch.randn(800, 6), torch.randint(3, (800,)))
eval_loader = DataLoader(held_out, batch_size=8)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
"""
EPOCHS = """
for epoch in range(3):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in eval_loader:
            right += (model(x).argmax(dim=1) == y).sum().item()
    print("accuracy", right / len(held_out))
"""
PASSED = ("dataset", "batch", "forward", "backward", "step", "evaluation")


@pytest.mark.turns(one_in=1)
def test_every_stage_of_a_loop_is_measured_and_it_ends_after_one_short_epoch(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + EPOCHS, "--also", "overfit")
    assert probed.code == 0
    assert [probed.stages[name] for name in (*PASSED, "overfit")] == ["passed"] * (len(PASSED) + 1)
    assert probed.run["loop"]["batches"] == probed.run["loop"]["steps"] == 4
    assert probed.run["forward"]["chance"] is not None
    assert probed.run["step"]["changed_tensors"] == 4
    assert [split["rows"] for split in probed.run["splits"]] == [4000, 800]
    overfit = probed.run["overfit"]
    assert (overfit["rows"], overfit["learning_rate"], overfit["batch_classes"]) == (8, 1e-3, 3)
    ends = [overfit[name][-1] for name in ("losses_at_ten_times", "losses", "losses_at_a_tenth")]
    assert ends == sorted(ends)  # the higher the rate, the nearer to 0
    assert len({overfit[name][0] for name in ("losses_at_ten_times", "losses", "losses_at_a_tenth")}) == 1


def test_an_evaluation_that_fails_is_found_without_an_epoch_of_training(tmp_path: Path) -> None:
    broken = EPOCHS.replace("right / len(held_out)", "right / undefined")
    probed = probe(tmp_path, HEAD + broken)
    assert probed.code == 1
    assert probed.stages["step"] == "passed"
    assert probed.stages["evaluation"] == "failed"


def test_labels_that_are_compared_with_the_first_batches_alone_are_no_error_of_the_script(tmp_path: Path) -> None:
    whole = EPOCHS.replace(
        "    right = 0\n", "    right, scores, labels = 0, [], held_out.tensors[1].numpy()\n"
    ).replace(
        "(model(x).argmax(dim=1) == y).sum().item()\n",
        "(model(x).argmax(dim=1) == y).sum().item()\n            scores.extend(model(x).argmax(dim=1).tolist())\n",
    )
    of_all = whole + "    import numpy\n    print('again', (numpy.array(scores) == labels).mean())\n"
    compared = whole + "    from sklearn.metrics import f1_score\n    print(f1_score({}, average='macro'))\n"
    for code, passes in ((compared.format("labels, scores"), True), (compared.format("labels[:90], scores"), False)):
        probed = probe(tmp_path, HEAD + code)
        assert probed.stages["evaluation"] == ("passed" if passes else "failed")
        assert probed.code == (not passes)
    assert probe(tmp_path, HEAD + of_all.replace("== labels", "+ labels")).stages["evaluation"] == "passed"


TAGS = """
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
rows = [(torch.randint(2, 40, (n,)), torch.randint(3, (n,))) for n in torch.randint(3, 12, (200,)).tolist()]


def collate(batch):
    words = pad_sequence([row[0] for row in batch], batch_first=True, padding_value=0)
    labels = pad_sequence([row[1] for row in batch], batch_first=True, padding_value=0)
    return words, labels


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        self.out = nn.Linear(16, 3)

    def forward(self, words):
        return self.out(self.embed(words))


tagger = Tagger()
optimizer = torch.optim.Adam(tagger.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
for words, labels in DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collate):
    optimizer.zero_grad()
    criterion(tagger(words).flatten(0, 1), labels.flatten()).backward()
    optimizer.step()
"""


def test_labels_that_are_padded_with_a_class_raise_no_error_and_are_confirmed_by_what_counts(tmp_path: Path) -> None:
    assert ("unmatched-ignore-index", 13, "confirmed") in probe(tmp_path, TAGS).verdicts
    assert not probe(tmp_path, TAGS.replace("value=0)\n    return", "value=-100)\n    return")).verdicts


FOLDS = """
import numpy
found = numpy.zeros(120)
for fold in range(2):
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    part = DataLoader(TensorDataset(torch.randn(60, 6)), batch_size=8)
    for epoch in range(2):
        for x, y in DataLoader(rows, batch_size=8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        scores = numpy.concatenate([model(x).argmax(dim=1).numpy() for (x,) in part])
    found[numpy.arange(60) * 2 + fold] = scores
"""


def test_predictions_of_a_fold_that_the_probe_ended_early_are_no_error_of_the_script(tmp_path: Path) -> None:
    assert probe(tmp_path, HEAD + FOLDS).code == 0
    assert probe(tmp_path, HEAD + FOLDS.replace("= scores", "= scores[1:]")).code == 1


def test_a_batch_that_does_not_fit_the_model_fails_the_forward_stage(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD.replace("nn.Linear(6, 16)", "nn.Linear(5, 16)") + EPOCHS)
    assert probed.code == 1
    assert probed.stages["batch"] == "passed"
    assert probed.stages["forward"] == "failed"
    assert probed.stages["step"] == "not reached"


def test_a_dataset_that_raises_fails_the_batch_stage(tmp_path: Path) -> None:
    collate = "def collate(rows):\n    return torch.stack([row[2] for row in rows])\n\n\n"
    script = collate + HEAD.replace("shuffle=True)", "shuffle=True, collate_fn=collate)")
    probed = probe(tmp_path, script + EPOCHS)
    assert probed.stages["batch"] == "failed"
    assert probed.run["stages"][3]["failure"]["type"] == "IndexError"


def test_batches_that_the_script_asks_for_one_by_one_never_run_out(tmp_path: Path) -> None:
    loop = """
batches = iter(train_loader)
for step in range(200):
    x, y = next(batches)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
    probed = probe(tmp_path, HEAD + loop)
    assert probed.code == 0
    assert probed.run["loop"]["steps"] == 4


def test_a_dataset_of_two_batches_is_evaluated_after_its_only_epoch(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD.replace("4000", "16") + EPOCHS.replace("len(held_out)", "undefined"))
    assert probed.stages["step"] == "passed"
    assert probed.stages["evaluation"] == "failed"


def test_a_loop_without_a_loader_ends_after_a_few_steps(tmp_path: Path) -> None:
    loop = """
while True:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(torch.randn(8, 6)), torch.zeros(8, 3)).backward()
    optimizer.step()
"""
    probed = probe(tmp_path, HEAD + loop)
    assert probed.code == 0
    assert probed.stages["batch"] == "not reached"
    assert probed.run["loop"]["steps"] == 4


@pytest.mark.parametrize(("kept", "passes"), [("loss.detach()", 0), ("loss", 2)])
def test_graphs_that_a_loop_without_a_loader_keeps_are_its_own(kept: str, passes: int, tmp_path: Path) -> None:
    loop = f"""
losses = []
for _ in range(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(8, 6)), torch.zeros(8, 3))
    loss.backward()
    optimizer.step()
    losses.append({kept})
"""
    probed = probe(tmp_path, HEAD + loop)
    assert probed.run["loop"]["kept_old_graphs"] == passes


def test_parameters_that_are_used_up_are_clipped_neither_before_nor_after_backward(tmp_path: Path) -> None:
    used = "trained = filter(torch.is_tensor, model.parameters())\noptimizer = torch.optim.Adam(trained)\n"
    clip = "        nn.utils.clip_grad_norm_(trained, 1.0)\n        optimizer.step()\n"
    probed = probe(tmp_path, HEAD + used + EPOCHS.replace("        optimizer.step()\n", clip))
    assert probed.run["loop"]["clips"] == 0
    assert [each["rule"] for each in probed.document["findings"]] == ["exhausted-iterator"]


def test_gradients_that_nobody_clears_are_counted(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + EPOCHS.replace("        optimizer.zero_grad()\n", ""))
    adam = probed.run["loop"]["optimizers"][0]
    assert (adam["steps"], adam["steps_on_used"], adam["steps_on_nothing"]) == (4, 3, 0)


def test_nothing_of_a_loop_that_a_trainer_runs_is_taken_for_the_scripts_own(tmp_path: Path) -> None:
    from tests.support.probing import MENDED

    probed = probe(tmp_path, MENDED)
    assert probed.run["framework"] == "transformers"
    assert probed.run["loop"] is None


def test_compiled_models_run_eagerly_in_the_wrapper_that_the_script_expects(tmp_path: Path) -> None:
    compiled = (
        'model = torch.compile(model, mode="max-autotune")\nassert model._orig_mod is not model\n'
        "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"
        "@torch.compile(fullgraph=True)\ndef scaled(x):\n"
        "    print('traced' if torch.compiler.is_compiling() else 'eager')\n    return 2 * x\n"
    )
    probed = probe(tmp_path, HEAD + compiled + EPOCHS.replace("model(x), y)", "scaled(model(x)), y)"))
    assert probed.code == 0
    assert "`torch.compile` was left out" in probed.run["shortcuts"]
    assert probed.run["model"]["name"] == "Sequential"
    assert set(probed.document["probe"]["ending"]["output"].split()) >= {"eager"}
    assert "traced" not in probed.document["probe"]["ending"]["output"]
