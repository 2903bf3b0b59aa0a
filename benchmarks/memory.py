"""The projection of a training step's memory beside its measured peak: `python -m benchmarks.memory`.

Families of models at sizes whose step holds tens to hundreds of MiB. Measured is the most that torch's own allocator
held (its profiler is told of every allocation, those inside of kernels too), and how much the process's resident memory
grew. With `--device cuda` the step runs on the GPU: the peak of its allocator without the workspaces that CUDA's
libraries keep, and as resident what the allocator had taken from the GPU. The exit code is 1 when a projection is off
by more than it says of itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.measure import ROOT
from lintrain.evidence.memory import PROJECTION_ERROR

MIB = 2**20
LARGE = 2**17
"""Larger blocks go back to the system when they are freed (glibc), so that the process grows by what it holds."""

FAMILIES = ("bert", "gpt2", "llama", "t5", "vit", "convnet", "whisper", "llama checkpointed", "llama lora")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Bytes of one family's step: projected, held by torch's allocator, and grown in the process."""

    family: str
    projected: int
    allocated: int
    resident: int

    @property
    def error(self) -> float:
        """How far the projection is off what the allocator held, as a share of this."""
        return self.projected / self.allocated - 1

    @property
    def resident_error(self) -> float:
        """How far it is off the growth of the process."""
        return self.projected / self.resident - 1


def compare(family: str, scale: float, device: str) -> Comparison:
    """One family in a process of its own, so that nothing lies in its memory from before."""
    command = [sys.executable, "-m", "benchmarks.memory_step", family, str(scale), device]
    variables = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(LARGE)}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{family}: {done.stderr[-2000:]}")
    return Comparison(**json.loads(done.stdout.splitlines()[-1]))


def line_of(each: Comparison) -> str:
    """One line of the table, sizes in MiB."""
    sizes = (each.projected / MIB, each.allocated / MIB, each.resident / MIB)
    return (
        f"{each.family:20}  {sizes[0]:9.0f}  {sizes[1]:9.0f}  {each.error:+6.1%}  "
        f"{sizes[2]:9.0f}  {each.resident_error:+6.1%}"
    )


def main() -> int:
    """Print the table; 1 for a family whose projection is off by more than the stated error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="only these")
    parser.add_argument("--scale", type=float, default=1.0, help="times the rows")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the measured step runs")
    options = parser.parse_args()
    print(f"{'':20}  {'projected':>9}  {'allocated':>9}  {'error':>6}  {'resident':>9}  {'error':>6}")
    compared: list[Comparison] = []
    for family in options.families or FAMILIES:
        compared.append(compare(family, options.scale, options.device))
        print(line_of(compared[-1]), flush=True)
    off = [each for each in compared if abs(each.error) > PROJECTION_ERROR]
    for each in off:
        print(f"missed: {each.family} is off by {each.error:+.1%}, {PROJECTION_ERROR:.0%} at most")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
