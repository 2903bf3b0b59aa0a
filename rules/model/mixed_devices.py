"""A tensor is made on the CPU and used together with one that is on the GPU.

Functions such as `torch.zeros` make their tensor on the CPU unless `device` says otherwise. On a GPU the operation
raises an error: all tensors have to be on the same device. On a machine without a GPU the mistake is invisible.

## Bad

    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(10, 3)

        def forward(self, x):
            padding = torch.zeros(x.shape[0], 2)  # <- mixed-devices
            return self.layer(torch.cat([x, padding], dim=1))

    network = Padded().to(device)
    for x, y in loader:
        F.cross_entropy(network(x.to(device)), y.to(device)).backward()

In a training loop:

    def train(network, loader, optimizer):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            noise = torch.randn(x.shape)  # <- mixed-devices
            optimizer.zero_grad()
            F.cross_entropy(network(x + 0.1 * noise), y).backward()
            optimizer.step()

    train(net.to(device), loader, optimizer)

## Good

    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(10, 3)

        def forward(self, x):
            padding = torch.zeros(x.shape[0], 2, device=x.device)
            return self.layer(torch.cat([x, padding], dim=1))

    network = Padded().to(device)
    for x, y in loader:
        F.cross_entropy(network(x.to(device)), y.to(device)).backward()

and

    def train(network, loader, optimizer):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            noise = torch.randn_like(x)
            optimizer.zero_grad()
            F.cross_entropy(network(x + 0.1 * noise), y).backward()
            optimizer.step()

    train(net.to(device), loader, optimizer)

## When it is fine

Indices may be on the CPU, and a single number moves by itself:

    class Picked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            order = torch.randperm(x.shape[0])
            return self.layer(x[order] * torch.tensor(2.0))

    network = Picked().to(device)
    for x, y in loader:
        F.cross_entropy(network(x.to(device)), y.to(device)).backward()

## Fix

None: `device=`, `zeros_like` and `new_zeros` are equally good.

## References

PyTorch documentation, "CUDA semantics"; the fixes in `thuml/Time-Series-Library`, commit d7c68b2bb1c1, and
`catalyst-team/catalyst`, commit 62a22096adbf.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import cpu_tensors, device_moves, left_networks, left_on_cpu, left_teachers
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    one_per_location,
)
from lintrain.source.project_search import scripts_make_on_device, uses_devices


class MixedDevices(Rule):
    level = Level.WARNING
    keywords = "torch"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(cpu_tensors.local_tensors(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found = cpu_tensors.local_tensors(pipeline.source)
        path = pipeline.source.path
        is_elsewhere = bool(found) and (scripts_make_on_device(path) or not uses_devices(pipeline.source))
        used = (each for each in found if device_moves.is_used(pipeline, each.location)) if not is_elsewhere else ()
        tensors = map(self._report, used)
        apart = map(self._report_apart, device_moves.apart(pipeline))
        left = map(self._report_left, left_on_cpu.left_behind(pipeline.source))
        networks = map(self._report_network, left_networks.left_networks(pipeline))
        teachers = map(self._report_network, left_teachers.left_teachers(pipeline))
        yield from one_per_location(chain(tensors, apart, left, networks, teachers))

    def _report_network(self, found: left_networks.LeftNetwork) -> Finding:
        name = f"`{found.name}`" if len(found.name) <= 30 else "the network"
        return self.finding(
            found.location,
            f"the batch is on the GPU, and {name} stays on the CPU",
            related=[Related(found.made, "made here", "origin")],
            help="move the network: `.to(device)`",
        )

    def _report_left(self, found: left_on_cpu.LeftBehind) -> Finding:
        return self.finding(
            found.location,
            f"`{found.name}` stays on the CPU, and is used with outputs on the GPU",
            related=[Related(found.moved, "the inputs are moved here", "move")],
            help=f"move it as well: `{found.name} = {found.name}.to(device)`",
        )

    def _report_apart(self, found: device_moves.Apart) -> Finding:
        name = f"`{found.name}`" if len(found.name) <= 30 else "the network"
        if found.is_network_moved:
            message, remedy = (
                f"{name} is on the GPU, and its batch stays on the CPU",
                "move the batch: `x = x.to(device)`",
            )
        else:
            message, remedy = f"the batch is on the GPU, and {name} stays on the CPU", "move the network: `.to(device)`"
        made = [Related(found.other, "made here", "origin")] if found.other else []
        return self.finding(found.location, message, related=made, help=remedy)

    def _report(self, found: cpu_tensors.LocalTensor) -> Finding:
        made = found.code.partition("(")[0]
        met = f"`{found.by}` uses it here" if found.by and len(found.by) <= 30 else "meets a moved tensor here"
        shown = f"`{made}` makes a tensor" if len(made) <= 30 else "a tensor is made"
        return self.finding(
            found.location,
            f"{shown} on the CPU, which may meet one on the GPU",
            related=[Related(found.used, met, "use")],
            help="pass `device=x.device`, with the tensor that it is used with as `x`",
            level=Level.NOTE,  # the text does not show where the other tensor is
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if location := evidence.failed_place(*device_moves.APART):
            yield self.finding(
                location,
                "tensors on two devices are used together",
                help="move the one that stayed behind: `.to(x.device)`, with the tensor that it is used with as `x`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        used = [finding.location, *(each.location for each in finding.with_role("use"))]
        if any(evidence.failed_at(location, *device_moves.APART) for location in used):
            stage = evidence.failed_with(*device_moves.APART)
            assert stage is not None
            assert stage.failure is not None
            return Verdict.confirmed(f"`{stage.failure.message.splitlines()[0].partition(' (when')[0]}`")
        if evidence.device == "cpu":
            return Verdict.inconclusive("a run on the CPU cannot show it")
        return Verdict.inconclusive(evidence.not_reached("forward"))

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule in LEAVE_BEHIND or super().follows_from(finding, verdict, cause)


LEAVE_BEHIND = frozenset(
    {"unregistered-tensor", "unregistered-modules", "unprepared-object", "optimizer-state-before-device"}
)
"""Rules about something that stays on the CPU when its owner moves: where it meets the GPU is their consequence."""
