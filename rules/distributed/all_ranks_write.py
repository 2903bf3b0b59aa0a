"""Every process of a distributed training writes the same file.

The processes write at once, over each other: the file is that of whichever came last, or a mixture of several that no
longer loads. On shared disks it happens rarely enough to be found out only when the checkpoint is needed.

## Bad

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        criterion(parallel(x), y).backward()
        adam.step()
    torch.save(net.state_dict(), "last.pt")  # <- all-ranks-write

## Good

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        criterion(parallel(x), y).backward()
        adam.step()
    if dist.get_rank() == 0:
        torch.save(net.state_dict(), "last.pt")

## When it is fine

A name of its own for each process, and whatever condition stands around the saving:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    is_first = dist.get_rank() == 0
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        criterion(parallel(x), y).backward()
        adam.step()
    torch.save(adam.state_dict(), f"adam-{dist.get_rank()}.pt")
    if is_first:
        torch.save(net.state_dict(), "last.pt")

The other processes may have ended before:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        criterion(parallel(x), y).backward()
        adam.step()
    if dist.get_rank() != 0:
        raise SystemExit
    torch.save(net.state_dict(), "last.pt")

Saving shards is the work of all processes, so nothing is said where FSDP or DeepSpeed are used.

## Fix

Asks first: the other processes may have to wait for the file. Offered for a statement on one line.

## References

PyTorch tutorial "Getting started with distributed data parallel", "Save and load checkpoints".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import script_text
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.python import literal
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

OF_ALL_PROCESSES = r"(?i)fsdp|fullysharded|deepspeed|megatron|horovod|dist_cp|distributed\.checkpoint|torch_xla|spawn"
NAMED_BY_RANK = lazy_pattern(r"rank|proc|world|gpu|host|device", re.IGNORECASE)


ENDS = lazy_pattern(r"(raise SystemExit|(sys\.|os\.)?_?(exit|quit)\()")


class AllRanksWrite(Rule):
    level = Level.WARNING
    keywords = "DistributedDataParallel & save|push_to_hub"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        wrapped = next((event for event in pipeline.acts(Act.SHARE) if _is_parallel(event)), None)
        if wrapped is None or script_text.mentions(pipeline, OF_ALL_PROCESSES) or _some_end_early(pipeline):
            return
        for event in pipeline.acts(Act.SAVE):
            code = pipeline.code(event.location)
            is_certain = not event.conditions and not event.uncalled and not wrapped.conditions
            if is_certain and event.order > wrapped.order and not NAMED_BY_RANK.search(code) and _is_fixed(code):
                yield self.finding(
                    event.location,
                    "each process of the training writes this file",
                    related=[Related(wrapped.location, "several processes from here on", "wrapped")],
                    help="write it in one of them, as in `if dist.get_rank() == 0:`",
                    facts={"code": _by_the_first(pipeline, event.location)},
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        writes = ranks.writes_at(finding.location)
        if not writes:
            return Verdict.inconclusive(f"none of {ranks.processes} processes came to this line in {ranks.steps} steps")
        by_most = max(writes, key=lambda write: len(write.ranks))
        told = f"`{by_most.path}` is written by {len(by_most.ranks)} of {ranks.processes} processes"
        return Verdict.confirmed(told) if len(by_most.ranks) > 1 else Verdict.refuted(told)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        return fixes.Fix.of("write it in the first process", fixes.Replace(finding.location, code), safe=False)


def _some_end_early(pipeline: Pipeline) -> bool:
    """Whether a condition ends the script, perhaps for all processes but one."""
    return any(ENDS.match(ast.unparse(node.body[-1])) for node in script_text.nodes_of_kind(pipeline, ast.If))


def _is_parallel(event: Event) -> bool:
    how = literal(event.details["how"]) if "how" in event.details else None
    return isinstance(how, str) and how.endswith("DistributedDataParallel")


def _is_fixed(code: str) -> bool:
    """Whether the name of the file is written out, so that it is the same for all."""
    return re.search(r"""(?<![fFbr])["'][^"'{}]*["']\s*\)$""", code) is not None


def _by_the_first(pipeline: Pipeline, location: Location) -> str | None:
    """The statement for the first process alone, where it stands on one line and `torch.distributed` has a name."""
    source, statement = pipeline.source_of(location), blocks.statement_at(pipeline, location)
    names = [each.asname for node in source.nodes_of(ast.Import) for each in node.names if each.name == DISTRIBUTED]
    if not isinstance(statement, ast.Expr) or source.location(statement) != location or not names or names[0] is None:
        return None
    code = pipeline.code(location)
    return None if "\n" in code else f"if {names[0]}.get_rank() == 0:\n    {code}"


DISTRIBUTED = "torch.distributed"
