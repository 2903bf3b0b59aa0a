"""`net.module` is read whether or not the network was wrapped.

`DataParallel` and `DistributedDataParallel` keep the network as their `module`. Where the wrapping depends on the
number of devices, the network has no such attribute on one device: the run ends with an AttributeError, often where
the weights are saved after the first epoch.

## Bad

    net = nn.Linear(8, 3)
    if torch.cuda.device_count() > 1:
        net = nn.DataParallel(net)
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.save(net.module.state_dict(), "net.pt")  # <- conditional-wrapper
    # raises AttributeError: 'Linear' object has no attribute 'module'

## Good

    net = plain = nn.Linear(8, 3)
    if torch.cuda.device_count() > 1:
        net = nn.DataParallel(net)
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.save(plain.state_dict(), "net.pt")

## When it is fine

The attribute is read under the same condition:

    several = torch.cuda.device_count() > 1
    net = nn.Linear(8, 3)
    if several:
        net = nn.DataParallel(net)
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.save(net.module.state_dict() if several else net.state_dict(), "net.pt")

## Fix

None: a second name for the network, or the same condition, may be better.

## References

PyTorch documentation, `torch.nn.DataParallel`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.conditional_wrappers import Unwrapped, unwrapped_reads
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class ConditionalWrapper(Rule):
    level = Level.ERROR
    keywords = "module & Parallel|DDP"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, unwrapped_reads(pipeline.source)))

    def _report(self, found: Unwrapped) -> Finding:
        condition = f"`{found.condition}`" if len(found.condition) <= 40 else "a condition"
        return self.finding(
            found.location,
            f"`{found.name}` has no `module` where it is not wrapped",
            related=[Related(found.wrapped, f"wrapped here, if {condition} is true", "origin")],
            help=f"keep the network under another name, or read `{found.name}.module` under the same condition",
        )
