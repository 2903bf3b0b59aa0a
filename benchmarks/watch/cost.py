"""What a watch costs over 2,000 steps of a model whose step takes about 10 ms: time in pairs, memory, bits."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.watch.parts import F, nn, torch

STEPS, TURN = 2_000, 100
"""Steps of the run, and those that the watched run and the other one make by turns."""


class Training:
    """A run that can be made in parts: watched or not."""

    def __init__(self, watch: Any, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.device = device
        # On a busy machine the time of the processor is what a step costs; that of a GPU is not counted there.
        self._clock = time.process_time if device == "cpu" else time.perf_counter
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
        self.model = nn.Sequential(nn.Embedding(1_000, 128), nn.TransformerEncoder(layer, 2), nn.Linear(128, 1_000))
        self.model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.watch = watch
        self.random = self._random_states()
        self.seconds = 0.0

    def go_on(self, steps: int) -> None:
        """Make some steps."""
        self._restore_random_states()
        began = self._clock()
        for _ in range(steps):
            tokens = torch.randint(1_000, (8, 33)).to(self.device)
            loss = F.cross_entropy(self.model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
            if self.watch is not None:
                self.watch(loss, batch=tokens)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        if self.device != "cpu":
            torch.cuda.synchronize()
        self.seconds += self._clock() - began
        self.random = self._random_states()

    def _random_states(self) -> list[Any]:
        on_gpu = [torch.cuda.get_rng_state()] if self.device != "cpu" else []
        return [torch.get_rng_state(), *on_gpu]

    def _restore_random_states(self) -> None:
        torch.set_rng_state(self.random[0])
        for state in self.random[1:]:
            torch.cuda.set_rng_state(state)


def in_turns(device: str) -> tuple[float, float, bool]:
    """Seconds alone and watched, step for step in turns, and whether the weights are the same to the bit."""
    import lintrain

    # What the libraries and a GPU load at their first use counts for neither.
    Training(lintrain.watch, device).go_on(TURN)
    alone, watched = Training(None, device), Training(lintrain.watch, device)
    for turn in range(STEPS // TURN):
        for run in (alone, watched) if turn % 2 else (watched, alone):
            run.go_on(TURN)
    weights = zip(alone.model.parameters(), watched.model.parameters(), strict=True)
    same = all(torch.equal(one, other) for one, other in weights)
    return alone.seconds, watched.seconds, same


def peak_of(device: str, *, is_watched: bool) -> int:
    """The peak memory of a process that trains for 2,000 steps, in bytes."""
    code = (
        "import resource, torch, lintrain\n"
        "from benchmarks.watch.cost import Training, STEPS\n"
        f"Training(lintrain.watch if {is_watched} else None, {device!r}).go_on(STEPS)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return int(done.stdout)


def show_cost(pairs: int, device: str) -> int:
    """Print the figures; 1 if a bound is not held."""
    torch.set_num_threads(1)
    shares: list[float] = []
    same = True
    for _ in range(pairs):
        alone, watched, is_same = in_turns(device)
        same &= is_same
        shares.append(watched / alone - 1)
        print(f"{alone / STEPS * 1e3:.1f} ms a step, watched {shares[-1]:+.2%}", flush=True)
    more = peak_of(device, is_watched=True) - peak_of(device, is_watched=False)
    share = statistics.median(shares)
    print(f"{share:+.2%} of the time (median of {pairs}), {more / 1e6:+.0f} MB, weights the same: {same}")
    return int(share > 0.01 or more > 50e6 or not same)
