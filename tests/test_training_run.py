"""A script run up to its training in this process: what it gives, and that nothing of it stays."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from lintrain import training_run
from lintrain.runtime.in_process.training_run import NoTrainingError
from tests.test_probe_loops import EPOCHS, HEAD


def written(folder: Path, text: str) -> Path:
    (folder / "train.py").write_text(text)
    return folder / "train.py"


def test_the_model_its_batch_and_its_loss_are_those_before_the_first_step(tmp_path: Path) -> None:
    run = training_run(written(tmp_path, HEAD + EPOCHS))
    features, targets = run.batch
    assert [*run.tensors] == ["0", "1"]
    assert run.output.shape == (8, 3)
    assert run.loss.item() == pytest.approx(torch.nn.functional.cross_entropy(run.output, targets).item())
    run.loss.backward()
    assert run.model[0].weight.grad.abs().sum() > 0
    assert features.shape == (8, 6)


def test_of_batches_that_are_fetched_ahead_the_one_that_the_model_read_counts(tmp_path: Path) -> None:
    ahead = """
batches = iter(train_loader)
first, second = next(batches), next(batches)
x, y = first
loss = nn.functional.cross_entropy(model(x), y)
loss.backward()
"""
    script = HEAD.replace("nn.Dropout(0.1)", "nn.Identity()") + ahead
    run = training_run(written(tmp_path, script))
    assert torch.equal(run.model(run.batch[0]), run.output)


def test_everything_is_as_before_afterwards(tmp_path: Path) -> None:
    module, loader = torch.nn.Module.__call__, torch.utils.data.DataLoader.__iter__
    before = (torch.Tensor.backward, module, loader, dict(os.environ), list(sys.argv), list(sys.path), sys.meta_path[:])
    script = "import os, sys\nos.environ['MINE'] = str(sys.argv[1:])\n" + HEAD + EPOCHS
    training_run(written(tmp_path, script), "--lr", "1e-4")
    module, loader = torch.nn.Module.__call__, torch.utils.data.DataLoader.__iter__
    after = (torch.Tensor.backward, module, loader, dict(os.environ), list(sys.argv), list(sys.path), sys.meta_path[:])
    assert after == before


def test_an_error_of_the_script_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        training_run(written(tmp_path, HEAD.replace("nn.Linear(6, 16)", "nn.Linear(5, 16)") + EPOCHS))


def test_a_script_that_trains_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NoTrainingError, match="ended without training"):
        training_run(written(tmp_path, HEAD))
