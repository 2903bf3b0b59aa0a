"""A clock measures a pass of a model on a GPU without waiting for it.

Calls of CUDA return before the work is done. The measured time is the time to start the kernels, which may be a small
part of what the pass takes, and the rest appears wherever the script waits next.

## Bad

    import time

    net.to("cuda" if torch.cuda.is_available() else "cpu")
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        start = time.perf_counter()
        loss = criterion(net(x), y)
        loss.backward()
        seconds = time.perf_counter() - start  # <- unsynchronized-timing
        optimizer.step()
        optimizer.zero_grad()

## Good

    import time

    net.to("cuda" if torch.cuda.is_available() else "cpu")
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        start = time.perf_counter()
        loss = criterion(net(x), y)
        loss.backward()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        optimizer.step()
        optimizer.zero_grad()

## When it is fine

The loss is read before the clock, which waits for the pass:

    import time

    net.to("cuda" if torch.cuda.is_available() else "cpu")
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        start = time.perf_counter()
        loss = criterion(net(x), y)
        loss.backward()
        total = loss.item()
        seconds = time.perf_counter() - start
        optimizer.step()
        optimizer.zero_grad()

## Fix

None: `torch.cuda.synchronize()` in each step slows training down, and events of CUDA may be better.

## References

PyTorch documentation, "CUDA semantics", asynchronous execution.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import clocks
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class UnsynchronizedTiming(Rule):
    level = Level.WARNING
    keywords = "time & cuda"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.cached(clocks.may_time)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                timing.end,
                "this time includes what is left of the previous pass"
                if timing.is_earlier
                else "the clock is read before the GPU has finished the pass",
                related=[
                    Related(timing.start, "the clock is started here", "start"),
                    Related(timing.work, "the GPU may still work on this", "work"),
                ],
                help="call `torch.cuda.synchronize()` before both reads of the clock",
            )
            for timing in clocks.unsynchronized(pipeline)
        )
