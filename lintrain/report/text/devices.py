"""A pass on a GPU beside the one on the CPU: what it took, and how far its numbers are from those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lintrain.evidence.run import Evidence
from lintrain.text.sizes import show_size


def device_lines(runs: Sequence[Evidence]) -> Iterator[str]:
    """One line on the memory of each GPU pass, and one on how its first loss and gradient compare with the CPU's."""
    first = next((run for run in runs if run.accelerator is None), None)
    for run in runs:
        device = run.accelerator
        if device is None:
            continue
        yield f"{run.device}, {device.name}: {_memory(run, first)}"
        if first is not None and (compared := "; ".join(_compared(first, run))):
            yield f"{run.device} beside the CPU: {compared}"


def _memory(run: Evidence, first: Evidence | None) -> str:
    device = run.accelerator
    if device is None:
        return ""
    allocated, memory = show_size(device.allocated), show_size(device.memory)
    held = f"at most {allocated} of {memory} held, {show_size(device.reserved)} reserved"
    projected = first.memory.peak if first is not None and first.memory is not None else 0
    if not projected or not device.allocated:
        return held
    return f"{held}; projected {show_size(projected)} ({projected / device.allocated - 1:+.0%})"


def _compared(cpu: Evidence, gpu: Evidence) -> Iterator[str]:
    if cpu.forward and gpu.forward and cpu.forward.losses and gpu.forward.losses:
        yield _pair("first loss", gpu.forward.losses[0], cpu.forward.losses[0])
    if cpu.backward and gpu.backward and cpu.backward.norms and gpu.backward.norms:
        yield _pair("first gradient norm", gpu.backward.norms[0], cpu.backward.norms[0])


def _pair(name: str, gpu: float, cpu: float) -> str:
    apart = f", {abs(gpu - cpu) / abs(cpu):.1%} apart" if cpu else ""
    return f"{name} {gpu:.4g} against {cpu:.4g}{apart}"
