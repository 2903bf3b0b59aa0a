"""What a report says of a pass on a GPU, and how such a pass is started and read."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lintrain.evidence.run import BackwardEvidence, DeviceEvidence, Evidence, ForwardEvidence, MemoryEvidence
from lintrain.report.text.stages import device_lines
from lintrain.runtime.measure.pace import measure_device
from lintrain.runtime.parent.environment import script_environment

GIB = 2**30
CPU = Evidence(
    "train.py",
    "transformers",
    "Trainer",
    None,
    None,
    "cpu",
    {},
    forward=ForwardEvidence((0.8, 0.7), None, finite=True),
    backward=BackwardEvidence((), (4.0,), finite=True),
)
GPU = replace(
    CPU,
    device="cuda:0",
    forward=ForwardEvidence((0.816,), None, finite=True),
    backward=BackwardEvidence((), (5.0,), finite=True),
    accelerator=DeviceEvidence("Large GPU", 80 * GIB, 10 * GIB, 12 * GIB),
)


def test_a_pass_on_the_cpu_alone_has_no_line() -> None:
    assert list(device_lines([CPU])) == []


def test_a_gpu_is_told_with_its_peak_and_compared_with_the_cpu() -> None:
    assert list(device_lines([CPU, GPU])) == [
        "cuda:0, Large GPU: 10 GiB of 80 GiB allocated at the peak, 12 GiB reserved",
        "cuda:0 vs. CPU: first loss 0.816 vs. 0.8 (2.0% difference); first gradient norm 5 vs. 4 (25.0% difference)",
    ]


def test_a_loss_that_is_not_finite_has_no_share() -> None:
    lost = replace(GPU, forward=ForwardEvidence((float("nan"),), None, finite=False), backward=None)
    assert list(device_lines([CPU, lost]))[1:] == ["cuda:0 vs. CPU: first loss nan vs. 0.8"]


def test_the_projection_stands_beside_the_peak() -> None:
    memory = MemoryEvidence("projected", None, 11 * GIB, 8, None, GIB, GIB, GIB, GIB, GIB)
    first, _ = device_lines([replace(CPU, memory=memory), GPU])
    assert first.endswith("reserved; projected 11 GiB (+10%)")


def test_a_pass_that_only_a_gpu_can_make_is_compared_with_nothing() -> None:
    assert len(list(device_lines([GPU]))) == 1


@pytest.mark.parametrize("is_used", [True, False])
def test_the_peak_is_that_of_the_device_in_use(monkeypatch: pytest.MonkeyPatch, is_used: bool) -> None:
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: is_used,
        current_device=lambda: 1,
        get_device_properties=lambda index: SimpleNamespace(name=f"GPU {index}", total_memory=80 * GIB),
        max_memory_allocated=lambda index: (index + 1) * GIB,
        max_memory_reserved=lambda index: (index + 2) * GIB,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert measure_device() == (DeviceEvidence("GPU 1", 80 * GIB, 2 * GIB, 3 * GIB) if is_used else None)


def test_errors_of_kernels_are_raised_where_they_are_made(tmp_path: Path) -> None:
    assert script_environment(tmp_path / "request.json", tmp_path, "gpu")["CUDA_LAUNCH_BLOCKING"] == "1"
    assert script_environment(tmp_path / "request.json", tmp_path, "cpu")["CUDA_VISIBLE_DEVICES"] == ""
