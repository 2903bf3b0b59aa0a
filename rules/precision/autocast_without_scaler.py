"""Training in float16 runs without a gradient scaler.

Gradients of float16 activations below 6e-8 become zero. A scaler multiplies the loss to keep them larger; without one,
layers with small gradients stop learning. No error appears.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(net(x), y)
        loss.backward()  # <- autocast-without-scaler
        optimizer.step()

## Good

With bfloat16, which has the range of float32, no scaler is needed:

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

In float16, the loss is scaled:

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

## When it is fine

Autocast may be off:

    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=False):
            loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

The user may choose the format:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="bfloat16")
    dtype = getattr(torch, parser.parse_args().dtype)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

Evaluation computes no gradients:

    for x, y in loader:
        optimizer.zero_grad()
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
            shown = net(x).argmax(dim=-1)
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

Asks first: it casts to bfloat16, which is slow on GPUs before Ampere; those need a scaler instead. Offered if the call
contains `torch.float16`, or no format.

## References

PyTorch documentation, "Automatic Mixed Precision package", section "Gradient Scaling".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import iterations, script_text, training_loops, unused_scalers
from lintrain.pipeline.events import Event
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.python import Constant, Library, Value
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

OF_CUDA = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})
AUTOCASTS = OF_CUDA | {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"}
HALVES = frozenset({"torch.float16", "torch.half"})

LONGEST = 30
MESSAGE = "gradients of a float16 forward pass are computed without a scaler"
HELP = 'scale the loss with `torch.amp.GradScaler("cuda")`, or cast to `torch.bfloat16`'


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the call of autocast has no `dtype` and one can be added."""

    adds_dtype: bool


class AutocastWithoutScaler(Rule[Claim]):
    level = Level.WARNING
    keywords = "autocast & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found = {each.location: self._report_unused(each) for each in unused_scalers.unscaled(pipeline.source)}
        casts = [call for call in pipeline.calls if call.path in AUTOCASTS]
        is_judged = casts and training_loops.trains_by_hand(pipeline) and not pipeline.launchers
        if is_judged and not _mentions_scaling(pipeline):
            for training in training_loops.training_loops(pipeline):
                cast = next((call for call in casts if _casts_forward(pipeline, training, call)), None)
                if cast is not None and not iterations.hides_gradients(pipeline, training):
                    found.setdefault(training.backward.location, self._report(pipeline, training.backward, cast))
        yield from found.values()

    def _report_unused(self, unused: unused_scalers.Unscaled) -> Finding[Claim]:
        name = f"`{unused.scaler}`" if len(unused.scaler) <= LONGEST else "the scaler"
        return self.finding(
            unused.location,
            f"the loss is not scaled: nothing uses {name}",
            related=[Related(unused.origin, "the scaler", "scaler")],
            help="`scaler.scale(loss).backward()`, `scaler.step(optimizer)` and `scaler.update()`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        location = evidence.first("unscaled_halves")
        if location is not None:
            yield self.finding(location, MESSAGE, help=HELP)

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        halves = loop.unscaled_halves + loop.scaled_halves
        text = f"no scaler multiplied the loss of {loop.unscaled_halves} of {halves} passes in float16"
        numbers = {"unscaled": loop.unscaled_halves, "halves": halves, "others": loop.other_casts}
        if loop.unscaled_halves and not loop.scaled_halves:
            return Verdict.confirmed(text, **numbers)
        if halves:
            return Verdict.refuted(text, **numbers)
        if loop.other_casts:
            return Verdict.refuted(f"{loop.other_casts} passes asked for another format than float16", **numbers)
        return Verdict.inconclusive(f"{loop.backwards} backward passes ran, 0 of them after autocast on a GPU")

    def _report(self, pipeline: Pipeline, backward: Event, cast: LibraryCall) -> Finding[Claim]:
        written = cast.arguments.get("dtype")
        is_written = written is not None and cast.location.holds(written.location) and written.text in HALVES
        return self.finding(
            backward.location,
            MESSAGE,
            related=[
                Related(cast.location, "computes in float16 here", "autocast"),
                *([Related(written.location, "the format", "format", written.text)] if written and is_written else []),
            ],
            help=HELP,
            claim=Claim(written is None and "torch" in _modules(pipeline)),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        casts, formats = finding.with_role("autocast"), finding.with_role("format")
        title = "compute in bfloat16"
        if formats:
            return fixes.Fix.of(title, fixes.Replace(formats[0].location, "torch.bfloat16"), safe=False)
        if not casts or finding.claim is None or not finding.claim.adds_dtype:
            return None
        return fixes.Fix.of(title, fixes.AddArgument(casts[0].location, "dtype", "torch.bfloat16"), safe=False)


def _modules(pipeline: Pipeline) -> set[str]:
    """The modules that the script imports without an alias."""
    imports = script_text.imports_of(pipeline.source)
    return {each.module for each in imports if each.name is None and each.alias is None}


SCALES = lazy_pattern("scal|set_autocast", re.IGNORECASE)


def _mentions_scaling(pipeline: Pipeline) -> bool:
    """Whether a name in the script or its modules may refer to a scaler, or set the format elsewhere."""
    nodes = (node for source in pipeline.sources.values() if source.contains(SCALES) for node in source.nodes)
    # A function may get the scaler as a parameter, whose name a call may spell out.
    names = (getattr(node, field, "") for node in nodes for field in ("attr", "id", "name", "arg"))
    return any(isinstance(name, str) and SCALES.search(name) for name in names)


def _casts_forward(pipeline: Pipeline, training: training_loops.TrainingLoop, call: LibraryCall) -> bool:
    """Whether a call enables float16 on a GPU for the forward pass of the loop's backward call."""
    if not training.loop.location.holds(call.location) or not _is_float16(call):
        return False
    passes = iterations.passes_of(pipeline, training.backward)
    following = [event for event in passes if call.location < event.location < training.backward.location]
    on_gpu = call.path in OF_CUDA or re.search(r"""\(\s*(device_type=)?["']cuda["']""", pipeline.code(call.location))
    return len(passes) == 1 and len(following) == 1 and bool(on_gpu)


def _is_float16(call: LibraryCall) -> bool:
    """Whether autocast is enabled and its format is float16, the default on CUDA."""
    dtype, enabled = call.arguments.get("dtype"), call.arguments.get("enabled")
    on: Value = enabled.value if enabled else Constant(True)
    is_on = isinstance(on, Constant) and on.value is True and not on.may_differ
    is_half = isinstance(dtype.value, Library) and dtype.value.path in HALVES if dtype else True
    return is_on and is_half and not call.is_open and call.positional <= (call.path not in OF_CUDA)
