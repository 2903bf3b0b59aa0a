"""A network keeps a tensor as a plain attribute, neither as a parameter nor as a buffer.

A module moves, saves and trains what is registered in it. A plain tensor stays on the CPU when the module is moved, so
the first forward pass on a GPU raises an error about devices; one that should be trained is given to no optimizer.

## Bad

    class Coordinates(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = torch.linspace(0, 1, 8)  # <- unregistered-tensor
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x + self.positions)

    network = Coordinates().to(device)
    for x, y in loader:
        F.cross_entropy(network(x.to(device)), y.to(device)).backward()

A weight that no optimizer gets:

    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.zeros(8, requires_grad=True)  # <- unregistered-tensor
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x + self.shift)

    network = Shifted()
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

and

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(8, requires_grad=True)  # <- unregistered-tensor
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x * self.scale)

    network = Scaled()
    for x, y in loader:
        F.cross_entropy(network(x), y).backward()

## Good

    class Coordinates(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("positions", torch.linspace(0, 1, 8))
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x + self.positions)

    network = Coordinates().to(device)
    for x, y in loader:
        F.cross_entropy(network(x.to(device)), y.to(device)).backward()

and

    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(8))
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x + self.shift)

    network = Shifted()
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

and

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x * self.scale)

    network = Scaled()
    for x, y in loader:
        F.cross_entropy(network(x), y).backward()

## When it is fine

The forward pass moves the tensor itself, or only reads numbers from it:

    class Coordinates(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = torch.linspace(0, 1, 8)
            self.sizes = torch.arange(3)
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            scale = self.sizes.numel()
            return self.layer(x + self.positions.to(x.device)) * scale

    network = Coordinates()
    for x, y in loader:
        F.cross_entropy(network(x), y).backward()

Where the scripts of a project train and move no network, a tensor that needs no gradient is left alone too.

## Fix

None: a buffer may or may not belong into checkpoints (`persistent=False`), and old ones lack it.

## References

PyTorch documentation, `torch.nn.Module.register_buffer`; the fixes in `qfgaohao/pytorch-ssd`, commit e0108bcb56e9, and
`vwxyzjn/cleanrl`, commit 91d19a763fab.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import device_moves, plain_tensors
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict
from lintrain.source.project_search import uses_devices

RAISED = "to be on the same device"


class UnregisteredTensor(Rule):
    level = Level.WARNING
    keywords = "torch & self. & forward|Parameter"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(plain_tensors.plain_tensors(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        tensors = plain_tensors.plain_tensors(pipeline.source)
        is_on_cpu = bool(tensors) and not uses_devices(pipeline.source, by_modules=True)
        for found in tensors:
            is_left = not is_on_cpu or found.needs_grad
            if is_left and (found.code or not device_moves.may_stay(pipeline.source, found.owner, found.location)):
                yield self._report(found)

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        reached = evidence.loop.reached if evidence.loop is not None else None
        if reached is not None and reached.loose_at is not None:
            yield self.finding(
                reached.loose_at,
                "this tensor gets a gradient and is no parameter, so no optimizer trains it",
                help="wrap it in `nn.Parameter`",
                level=Level.ERROR,
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if any(evidence.failed_at(each.location, RAISED) for each in finding.with_role("use")):
            return Verdict.confirmed(f"its use raises an error: all tensors have {RAISED}")
        reached = evidence.loop.reached if evidence.loop is not None else None
        if reached is None:
            return Verdict.inconclusive(evidence.without_loop)
        if reached.loose_at is not None and reached.loose_at.meets(finding.location):
            return Verdict.confirmed("a loss reaches it, and 0 optimizers hold it")
        if finding.level is Level.ERROR and reached.loose_at is None:
            return Verdict.refuted(f"the loss reaches {reached.tensors} tensors, and all of them are parameters")
        return Verdict.inconclusive("on 1 device no tensor stays behind")

    def _report(self, found: plain_tensors.PlainTensor) -> Finding:
        name = f"`self.{found.name}`" if len(found.name) <= 24 else "this tensor"
        if found.needs_grad:
            message = f"{name} is no parameter, so no optimizer trains it"
            advice = "wrap it in `nn.Parameter`"
        else:
            message = f"{name} is no buffer, so it stays behind when the module is moved"
            advice = f'`self.register_buffer("{found.name}", …)`'
        related = [Related(found.used, "meets the inputs here", "use")] if found.used else []
        return self.finding(found.location, message, related=related, help=advice, level=_level(found))


def _level(found: plain_tensors.PlainTensor) -> Level:
    return Level.ERROR if found.needs_grad else Level.NOTE  # whether the module is moved is decided elsewhere
