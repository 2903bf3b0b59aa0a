"""Every training step runs a slow diagnostic or cleanup call.

`empty_cache` makes the device wait, and the next step allocates its memory again; `gc.collect` visits all objects of
the process; anomaly detection checks the result of every backward operation. Once per epoch, or never, is enough.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        torch.cuda.empty_cache()  # <- synchronized-every-step

Anomaly detection, left over from debugging:

    torch.autograd.set_detect_anomaly(True)  # <- synchronized-every-step
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.cuda.empty_cache()

and

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Occasional calls cost little:

    for index, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        if index % 100 == 0:
            torch.cuda.empty_cache()

A loop that measures times has to wait for the device:

    import time

    def fit(net, loader):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            torch.cuda.synchronize()
            print(time.perf_counter())

A flag may enable the detection:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true")
    torch.autograd.set_detect_anomaly(parser.parse_args().debug)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

`loss.item()` also waits for the device, but most loops need one number per step:

    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()

## Fix

None: the right frequency of the call is yours to choose.

## References

PyTorch documentation, "Performance Tuning Guide"; `torch.cuda.empty_cache`; `torch.autograd.set_detect_anomaly`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lintrain.analysis import clocks, script_text, statements, training_loops, unentered_contexts
from lintrain.pipeline import blocks
from lintrain.pipeline.record import LibraryCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass

STOPS = {
    "torch.cuda.empty_cache": "releases the cached memory",
    "torch.cuda.synchronize": "waits for the device",
    "gc.collect": "visits all objects",
}
"""Calls that slow down a step, and what each of them does."""

FOR_NOTHING = frozenset(STOPS) - {"torch.cuda.synchronize"}
"""Those that no clock needs."""
FEWEST_STEPS = 2
DETECTS = frozenset({"torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"})
"""Calls that enable anomaly detection."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the call enables anomaly detection, rather than runs in each step itself."""

    detects: bool = False


class SynchronizedEveryStep(Rule[Claim]):
    level = Level.NOTE
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        trainings = list(training_loops.training_loops(pipeline)) if training_loops.trains_by_hand(pipeline) else []
        found: dict[Location, Finding[Claim]] = {}
        run = _run_each_step(pipeline, trainings) if any(call.path in STOPS for call in pipeline.calls) else {}
        unentered = (
            {location for _, location in unentered_contexts.contexts_never_entered(pipeline.source)}
            if trainings
            else ()
        )
        for call in pipeline.calls if trainings else ():
            if call.path in STOPS:
                training = run.get(call.location)
                if training is not None and not _is_for_a_clock(pipeline, call, training):
                    found.setdefault(call.location, self._report(call, training, f"{STOPS[call.path]} in every step"))
            if (
                call.path in DETECTS
                and call.is_certain
                and call.location not in unentered
                and _is_enabled(pipeline, call)
            ):
                if all(_is_over(pipeline, training, call) for training in trainings):
                    continue
                found.setdefault(
                    call.location, self._report(call, trainings[0], "checks every backward operation for NaN")
                )
        yield from found.values()

    def _report(self, call: LibraryCall, training: training_loops.TrainingLoop, work: str) -> Finding[Claim]:
        return self.finding(
            call.location,
            f"`{call.text}` {work}",
            related=[Related(training.steps[0].location, "the optimizer steps here", "step")],
            help="call it once per epoch, or not at all",
            claim=Claim(call.path in DETECTS),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop, location = evidence.loop, evidence.first("searched_for_nan")
        if loop is None or loop.steps < FEWEST_STEPS:
            return
        if location is not None and loop.searched_for_nan == loop.backwards:
            yield self.finding(
                location,
                "every backward operation is checked for NaN",
                help="check only while you search for an error",
                claim=Claim(detects=True),
            )
        for stop in evidence.objects.stops:
            if loop.steps > FEWEST_STEPS and stop.times >= loop.steps - 1 and stop.name in FOR_NOTHING:
                yield self.finding(
                    stop.location,
                    f"`{stop.name}()` runs in every training step",
                    help="call it once per epoch, or not at all",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None or loop.steps < FEWEST_STEPS:
            return Verdict.inconclusive(evidence.without_loop if loop is None else f"the run made {loop.steps} steps")
        if finding.claim is not None and finding.claim.detects:
            text = f"{loop.searched_for_nan} of {loop.backwards} backward passes were checked for NaN"
            return (Verdict.confirmed if loop.searched_for_nan else Verdict.refuted)(text, passes=loop.searched_for_nan)
        stops = evidence.objects.stops
        times = max((each.times for each in stops if each.location.meets(finding.location)), default=0)
        text = f"{times} calls at this line in {loop.steps} steps"
        if times >= loop.steps - 1:
            return Verdict.confirmed(text, times=times)
        return Verdict.inconclusive(text, times=times) if times else Verdict.refuted(text, times=times)


def _run_each_step(
    pipeline: Pipeline, trainings: Sequence[training_loops.TrainingLoop]
) -> dict[Location, training_loops.TrainingLoop]:
    """The statements that run in each iteration of a training loop, with this loop."""
    first = {training.loop.location: training for training in reversed(trainings)}
    found = dict[Location, training_loops.TrainingLoop]()
    for training in trainings:
        if first[training.loop.location] is training and not _plays_episodes(pipeline, training):
            for location in statements.run_every_iteration(pipeline.source, training.loop.location):
                found.setdefault(location, training)
    return found


def _plays_episodes(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether each iteration runs a `while` of its own beside its step, such as a game that lasts until it is over."""
    around, step = training.loop.location, training.steps[0].location
    inside = (each.location for each in pipeline.loops if each is not training.loop and around.holds(each.location))
    return any(pipeline.code(each).startswith("while") and not each.holds(step) for each in inside)


def _is_over(pipeline: Pipeline, training: training_loops.TrainingLoop, call: LibraryCall) -> bool:
    """Whether a loop of the same function, or of the script, has ended before a call, with no later call of it."""
    loop, line = training.loop.location, call.location.line
    around, own = (blocks.scope_of(pipeline, each) for each in (loop, call.location))
    if around is own:
        return loop.end_line < line
    name, source = getattr(around, "name", ""), pipeline.source_of(loop)
    is_last = bool(name) and source is pipeline.source_of(call.location) and not getattr(own, "name", "")
    return is_last and all(use.location.line < line for use in script_text.uses_of(source, name))


def _is_for_a_clock(pipeline: Pipeline, call: LibraryCall, training: training_loops.TrainingLoop) -> bool:
    """Whether the loop waits for the device because it measures times."""
    reads = clocks.clock_reads(pipeline) if call.path == "torch.cuda.synchronize" else ()
    return any(training.loop.location.holds(read) for read in reads)


def _is_enabled(pipeline: Pipeline, call: LibraryCall) -> bool:
    """Whether anomaly detection is certainly enabled: the mode is the default, or a literal `True`."""
    mode = pipeline.code(call.location).partition("(")[2].removeprefix("mode=").split(",")[0].rstrip(")")
    return mode == "True" or (mode == "" and call.path.endswith(".detect_anomaly"))
