"""Probes of what public scripts do that no example of ours did: each of these was met in one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lintrain.runtime.child.surroundings import Line, is_behind, lines_now
from lintrain.runtime.frameworks.loop.loop_state import Bounds
from tests.support.probing import WARM_PYTHON, probe
from tests.test_probe_loops import EPOCHS, HEAD

pytestmark = pytest.mark.usefixtures("warm")
STEP = """
optimizer.zero_grad()
nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.zeros(8, dtype=torch.long)).backward()
optimizer.step()
"""


@pytest.mark.turns(one_in=3, of="file")
def test_modules_that_a_data_set_calls_row_by_row_are_not_taken_for_the_model(tmp_path: Path) -> None:
    rows = """
class Scaled(torch.utils.data.Dataset):
    scale = nn.LayerNorm(6)

    def __len__(self):
        return 4000

    def __getitem__(self, row):
        return self.scale(torch.randn(6)).detach(), row % 3


train_loader = DataLoader(Scaled(), batch_size=100)
"""
    probed = probe(tmp_path, HEAD + rows + EPOCHS)
    assert probed.run["model"]["name"] == "Sequential"
    assert probed.run["forward"]["logits_shape"] == [100, 3]


def test_of_two_models_that_train_side_by_side_each_has_its_own_loss(tmp_path: Path) -> None:
    loop = """
other = nn.Sequential(nn.Linear(6, 4))
other_optimizer = torch.optim.Adam(other.parameters(), lr=1e-3)
for x, y in train_loader:
    first, second = model(x), other(x)
    optimizer.zero_grad()
    other_optimizer.zero_grad()
    nn.functional.cross_entropy(first, y).backward()
    nn.functional.cross_entropy(second, y).backward()
    optimizer.step()
    other_optimizer.step()
"""
    probed = probe(tmp_path, HEAD + loop)
    assert probed.code == 0
    assert probed.run["forward"]["logits_shape"] == [8, 3]
    assert len(probed.run["forward"]["losses"]) == 1
    assert min(probed.run["backward"]["norms"]) > 0


@pytest.mark.turns(one_in=3, of="file")
def test_a_loop_that_trains_long_on_one_batch_is_measured_for_a_few_steps(tmp_path: Path) -> None:
    loop = "x, y = next(iter(train_loader))\nfor _ in range(200):" + STEP.replace("\n", "\n    ")
    probed = probe(tmp_path, HEAD + loop)
    assert (probed.code, probed.stages["step"]) == (0, "passed")
    assert probed.run["loop"]["steps"] == 32


def test_weights_that_are_changed_by_hand_are_the_reason_that_nothing_is_judged(tmp_path: Path) -> None:
    by_hand = """
import torch
weight = torch.zeros(3, requires_grad=True)
for _ in range(5):
    ((weight - 1) ** 2).sum().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
"""
    probed = probe(tmp_path, by_hand, "--text")
    assert probed.code == 3
    assert "the script updates its weights by hand: 5 backward passes, without an optimizer" in probed.out


@pytest.mark.turns(one_in=3, of="file")
def test_training_in_processes_of_the_scripts_own_ends_the_probe_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WARM_PYTHON)  # what a script starts there is no family of the probe, and would run on
    script = HEAD + "\ndef train():\n    while True:" + STEP.replace("\n", "\n        ")
    started = "\nimport multiprocessing\nprocess = multiprocessing.get_context('fork').Process(target=train)\n"
    probed = probe(tmp_path, script + started + "process.start()\nprocess.join()\n", "--text")
    assert probed.code == 3
    assert "the script trains in processes that it starts itself" in probed.out


@pytest.mark.turns(one_in=3, of="file")
def test_an_error_far_behind_a_single_step_is_not_one_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WARM_PYTHON)  # it starts scripts in code of its own
    probed = probe(tmp_path, HEAD + STEP + "print(iter(train_loader).next())\n", "--text")
    assert probed.code == 1
    assert "fails after an optimizer step that is in no loop: AttributeError" in probed.out
    assert "lintrain's own" not in probed.out


def test_a_slow_loop_is_not_said_to_have_no_evaluation() -> None:
    bounds = Bounds(Counter(steps=4))
    bounds.start()
    assert bounds.why_no_evaluation() == "no other loader was read after the first batches of training"
    slow = Bounds(Counter(steps=4))  # as if it had begun with the machine's clock
    assert slow.why_no_evaluation().startswith("the loop was followed for 30 s")


def test_an_error_of_a_later_round_stands_in_the_loop_of_the_step() -> None:
    steps: list[list[Line]] = []

    def train() -> None:
        for later in (False, True):
            if later:
                raise ValueError("the second round")
            steps.append(lines_now())

    with pytest.raises(ValueError, match="second") as caught:
        train()
    assert not is_behind(caught.value, steps[0])


def test_an_error_of_a_later_cell_is_behind_the_step_of_an_earlier_one(tmp_path: Path) -> None:
    text = "steps.append(lines_now())\nraise ValueError('in a later cell')\n"
    (tmp_path / "cells.py").write_text(text)
    steps: list[list[Line]] = []
    known = {"steps": steps, "lines_now": lines_now}
    first, second = text.splitlines()
    exec(compile(first, str(tmp_path / "cells.py"), "exec"), known)
    with pytest.raises(ValueError, match="later cell") as caught:
        exec(compile(f"\n{second}", str(tmp_path / "cells.py"), "exec"), known)
    assert is_behind(caught.value, [line for line in steps[0] if line[0].co_filename.endswith("cells.py")])


@pytest.mark.turns(one_in=3, of="file")
def test_an_argument_behind_the_training_call_is_not_refuted_by_it(tmp_path: Path) -> None:
    later = """
from transformers import TrainingArguments

args = TrainingArguments("out", evaluation_strategy="epoch")
"""
    probed = probe(tmp_path, HEAD + EPOCHS + later)
    assert [outcome for rule, _, outcome in probed.verdicts if rule == "removed-argument"] == ["confirmed"]


@pytest.mark.turns(one_in=3, of="file")
def test_a_pass_whose_loss_fails_is_no_evaluation(tmp_path: Path) -> None:
    dated = EPOCHS.replace("        loss.backward()", "        print(loss.data[0])\n        loss.backward()")
    probed = probe(tmp_path, HEAD + dated)
    assert probed.stages["forward"] == "failed"
    assert (probed.run["loop"]["evaluated"], probed.run["loop"]["recorded_for_nothing"]) == (0, 0)


@pytest.mark.turns(one_in=3, of="file")
def test_each_loop_is_judged_by_its_own_run(tmp_path: Path) -> None:
    leaking = EPOCHS.replace("for epoch", "kept = 0\nfor epoch").replace(
        "        loss.backward()", "        kept += loss\n        loss.backward()"
    )
    both = probe(tmp_path, HEAD + leaking + leaking)
    assert [outcome for rule, _, outcome in both.verdicts if rule == "retained-graph"] == ["confirmed", "confirmed"]
    second = probe(tmp_path, HEAD + EPOCHS + leaking)
    assert [outcome for rule, _, outcome in second.verdicts if rule == "retained-graph"] == ["confirmed"]


def test_nobody_is_asked_to_log_in(tmp_path: Path) -> None:
    probed = probe(tmp_path, "from huggingface_hub import notebook_login\n\nnotebook_login()\n" + HEAD + EPOCHS)
    assert probed.code == 0
    assert "`notebook_login` was called but not executed" in str(probed.run["notes"])


def test_a_closure_that_goes_on_for_too_long_is_stuck_only_where_no_loader_can_run_out() -> None:
    slow = Bounds(Counter(steps=1))  # as if it had begun with the machine's clock
    assert slow.is_stuck(has_loader=False)
    assert not slow.is_stuck(has_loader=True)
    slow.start()
    assert not slow.is_stuck(has_loader=False)
