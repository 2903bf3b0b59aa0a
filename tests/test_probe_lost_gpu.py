"""An error in a kernel takes the GPU away from its process: the probe ends, and looks for the value on the CPU."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.evidence.run import Evidence, Stage, StageName
from lintrain.evidence.stages import Ending, EndingKind, Failure
from lintrain.model.location import Location
from lintrain.runtime.parent import prober
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.launcher import Bounds
from tests.support.probing import probe

LOST = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.cuda.is_available = torch.cuda.is_initialized = lambda: True
torch.cuda.synchronize = lambda *_: None
torch.cuda.get_rng_state_all = list
torch.cuda.set_rng_state_all = lambda _: None


def lost(*_):
    raise RuntimeError("CUDA error: device-side assert triggered")


def kernel(logits, labels):
    for name in ("synchronize", "get_rng_state_all", "set_rng_state_all", "current_device", "max_memory_allocated"):
        setattr(torch.cuda, name, lost)
    lost()


loader = DataLoader(TensorDataset(torch.randn(64, 10), torch.randint(0, 3, (64,))), batch_size=16)
model = nn.Linear(10, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in loader:
    optimizer.zero_grad()
    loss = kernel(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.libraries
@pytest.mark.usefixtures("warm")
def test_a_gpu_that_answers_no_more_ends_the_probe_with_its_error(tmp_path: Path) -> None:
    begins = time.monotonic()
    probed = probe(tmp_path, LOST, "--timeout", "60")
    assert time.monotonic() - begins < 50
    assert probed.code == 1
    assert (probed.stages["forward"], probed.stages["dataset"]) == ("failed", "not reached")


def evidence_with(error: Failure | None, device: str) -> Evidence:
    stage = Stage.failed(StageName.FORWARD, error) if error else Stage.passed(StageName.FORWARD)
    return Evidence(
        framework="torch",
        versions={},
        script="train.py",
        trainer="a loop",
        call=None,
        construction=None,
        device=device,
        stages=(stage,),
    )


ASSERT = Failure("AcceleratorError", "CUDA error: device-side assert triggered\nmore", Location("train.py", 9, 1, 9, 5))
TARGET = Failure("IndexError", "Target 7 is out of bounds.", Location("train.py", 9, 1, 9, 5))
OTHER = Failure("RuntimeError", "Expected all tensors to be on the same device", None)


@pytest.mark.parametrize(
    ("on_gpu", "on_cpu", "shown"),
    [
        (ASSERT, TARGET, "Target 7 is out of bounds."),
        (ASSERT, None, ASSERT.message),  # the CPU does not show it either
        (OTHER, TARGET, OTHER.message),  # no kernel: the error names what it is about
    ],
)
def test_the_cpu_names_the_value_that_a_kernel_fails_on(
    on_gpu: Failure, on_cpu: Failure | None, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[prober.Wanted] = []

    def passes(wanted: prober.Wanted, *_: Any, **__: Any) -> tuple[list[Evidence], Ending]:
        asked.append(wanted)
        return [evidence_with(on_cpu, "cpu")], Ending(EndingKind.MEASURED, "", 1.0)

    monkeypatch.setattr(prober, "_pass", passes)
    wanted = prober.Wanted(Entry.__new__(Entry), "python", Bounds(60.0))
    found = prober._shown_by_cpu([evidence_with(on_gpu, "cuda:0")], wanted, tmp_path)
    assert found[0].failure is not None
    assert found[0].failure.message == shown
    assert all(each.takes_gpu_to_cpu for each in asked)
    if shown == TARGET.message:
        assert found[0].notes[-1].startswith("on the GPU a kernel fails at train.py:9 (CUDA error")


def test_a_run_on_the_gpu_stays_also_where_the_model_had_not_moved_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        prober, "_pass", lambda *_: ([evidence_with(OTHER, "cpu")], Ending(EndingKind.MEASURED, "", 1.0))
    )
    wanted = prober.Wanted(Entry.__new__(Entry), "python", Bounds(60.0))
    needs_gpu, measured = Ending(EndingKind.CRASHED, "", 1.0), Ending(EndingKind.MEASURED, "", 1.0)
    runs, _ = prober._with_gpu_pass([], needs_gpu, wanted, tmp_path, lambda _: None)
    assert len(runs) == 1
    first = evidence_with(None, "cpu")
    runs, _ = prober._with_gpu_pass([first], measured, wanted, tmp_path, lambda _: None)
    assert [run.failure for run in runs] == [None, OTHER]
    assert "the GPU was visible" in runs[1].notes[-1]


def test_a_run_that_repeats_the_pass_on_the_cpu_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured = Ending(EndingKind.MEASURED, "", 1.0)
    monkeypatch.setattr(prober, "_pass", lambda *_: ([evidence_with(None, "cpu")], measured))
    wanted = prober.Wanted(Entry.__new__(Entry), "python", Bounds(60.0))
    first = evidence_with(None, "cpu")
    assert prober._with_gpu_pass([first], measured, wanted, tmp_path, lambda _: None)[0] == [first]


def test_the_device_of_lightning_is_where_its_trainer_moves_the_module() -> None:
    import torch

    from lintrain.runtime.frameworks.lightning.facts import root_device

    assert root_device(SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cuda:0")))) == "cuda:0"
    assert root_device(SimpleNamespace()) == "cpu"


def test_a_gpu_that_is_not_used_needs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from lintrain.runtime.child import library

    monkeypatch.setattr(library, "loaded", lambda _: None)
    assert library.gpu_answers()
