"""Every process of a distributed training writes the same file.

The processes write at the same time and overwrite each other: the file is that of the last process, or a mixture of
several that cannot be loaded. This is rare enough to be noticed only when the checkpoint is needed.

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

Every few epochs, under conditions that are the same in all processes:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for epoch in range(2):
        for x, y in train_loader:
            adam.zero_grad()
            criterion(parallel(x), y).backward()
            adam.step()
        if epoch % 2 == 0:
            torch.save(net.state_dict(), f"epoch_{epoch}.pt")  # <- all-ranks-write

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

and

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for epoch in range(2):
        for x, y in train_loader:
            adam.zero_grad()
            criterion(parallel(x), y).backward()
            adam.step()
        if epoch % 2 == 0:
            if dist.get_rank() == 0:
                torch.save(net.state_dict(), f"epoch_{epoch}.pt")

## When it is fine

A separate file name for each process, or a condition around the call:

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

The other processes may have exited before:

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

All processes save their shards with FSDP and DeepSpeed, so the rule does not apply to them.

## Fix

Asks first: the other processes may have to wait for the file. Offered for a call on a single line.

## References

PyTorch tutorial "Getting started with distributed data parallel", "Save and load checkpoints".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import script_text, statements
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.python import literal
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

SAVES_SHARDS = r"(?i)fsdp|fullysharded|deepspeed|megatron|horovod|dist_cp|distributed\.checkpoint|torch_xla"
NAMED_BY_RANK = r"(?i)rank|proc|world|gpu|host|device"
ABOUT_PROGRESS = lazy_pattern(
    r"(?:\(|not |\s|[-+%*<>=!()\d.]|and |or |\b(?:epoch|step|global_step|iteration|iter|i|idx|it|num_\w+|best_\w+"
    r"|is_best|\w*acc\w*|\w*loss\w*|\w*score\w*"
    r"|(?:args|opt|opts|cfg|config|self|self\.args)\.\w*(?:every|freq|interval|epochs|steps|iters)\w*)\b)+"
)
"""Conditions that hold in all processes alike."""

COMPARES = lazy_pattern(r"[^<>=]+[<>]=?[^<>=]+")
BY_PROCESS = lazy_pattern(r"(?i)rank|proc|world|gpu|host|device|main|master|node|primary|leader|worker|\bor\b|\bnot\b")
"""Names of what differs between the processes: other comparisons are of losses, scores or counts."""

IS_PARALLEL = r"(?i)distributed|ddp|world_size|parallel|n_?gpus?|local_rank|multi"
COUNTED = r"epoch|step|global_step|iteration|iter|i|it|(?:args|opt|opts|cfg|config)\.\w+"
NAMED_BY_COUNT = lazy_pattern(
    rf"""(?:[fFbr]?["'](?:[^"'{{}}]|\{{(?:{COUNTED})(?::[^{{}}]*)?\}})*["']|os\.path\.join|str|format|{COUNTED}|[\s,.+%()/])+"""
)
"""File names that are made of literals, numbers of epochs and options."""

EXITS = r"(raise SystemExit|(sys\.|os\.)?_?(exit|quit)\()"
DISTRIBUTED = "torch.distributed"
RANKS = r"(?i)rank|main|master|primary|first|gpu"


@dataclass(frozen=True, slots=True)
class Claim:
    """The call under the condition of the first process; None without a fix."""

    code: str | None = None


class AllRanksWrite(Rule[Claim]):
    level = Level.WARNING
    keywords = "DistributedDataParallel & save|push_to_hub"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        wrapped = next((event for event in pipeline.acts(Act.SHARE) if _is_parallel(event)), None)
        if wrapped is None or script_text.mentions(pipeline, SAVES_SHARDS) or _may_exit_early(pipeline):
            return
        for event in pipeline.acts(Act.SAVE):
            code = pipeline.code(event.location)
            if (
                _runs_in_all(event, wrapped)
                and event.order > wrapped.order
                and not re.search(NAMED_BY_RANK, code)
                and _is_fixed(code)
            ):
                yield self.finding(
                    event.location,
                    "every process of the training writes this file",
                    related=[Related(wrapped.location, "the training has several processes", "wrapped")],
                    help="write it in a single process: `if dist.get_rank() == 0:`",
                    claim=Claim(_in_first_process(pipeline, event.location)),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for write in evidence.ranks.writes if evidence.ranks is not None else ():
            if write.location is not None and len(write.ranks) > 1:
                yield self.finding(
                    write.location,
                    f"every process writes `{write.path}`",
                    help="write it in the process of rank 0 only",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        writes = ranks.writes_at(finding.location)
        if not writes:
            return Verdict.inconclusive(f"none of {ranks.processes} processes ran this line in {ranks.steps} steps")
        by_most = max(writes, key=lambda write: len(write.ranks))
        text = f"{len(by_most.ranks)} of {ranks.processes} processes write `{by_most.path}`"
        return Verdict.confirmed(text) if len(by_most.ranks) > 1 else Verdict.refuted(text)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.code is None:
            return None
        return fixes.Fix.of("write it in the first process", fixes.Replace(finding.location, claim.code), safe=False)


def _may_exit_early(pipeline: Pipeline) -> bool:
    """Whether the script exits under a condition, possibly in all processes but one."""
    ends = [(test, end) for source in pipeline.sources.values() for test, end in statements.ends_of_branches(source)]
    return any(re.match(EXITS, end) for _, end in ends) or any(
        re.search(RANKS, test) and re.match("return|continue|raise", end) for test, end in ends
    )


def _is_parallel(event: Event) -> bool:
    how = literal(event.details["how"]) if "how" in event.details else None
    return isinstance(how, str) and how.endswith("DistributedDataParallel")


def _runs_in_all(event: Event, wrapped: Event) -> bool:
    """Whether a call runs in every process of the training: under conditions that are the same in all of them."""
    if event.uncalled != wrapped.uncalled:
        return False
    shared = [condition for condition in wrapped.conditions if condition in event.conditions]
    more = [condition for condition in event.conditions if condition not in shared]
    others = [condition for condition in wrapped.conditions if condition not in shared]
    is_alike = all(condition.code and _is_about_progress(condition.code) for condition in more)
    return is_alike and all(re.search(IS_PARALLEL, condition.code) for condition in [*others, *shared])


def _is_about_progress(code: str) -> bool:
    """Whether a condition asks how far the training is, or how well it does, and not in which process it runs."""
    if ABOUT_PROGRESS.fullmatch(code) is not None:
        return True
    return COMPARES.fullmatch(code) is not None and BY_PROCESS.search(code) is None


def _is_fixed(code: str) -> bool:
    """Whether the file name is the same in all processes: a literal, or made of numbers of epochs and options."""
    name = statements.file_named(code)
    return name is not None and NAMED_BY_COUNT.fullmatch(name) is not None


def _in_first_process(pipeline: Pipeline, location: Location) -> str | None:
    """The statement under `if dist.get_rank() == 0`, if it is on one line and `torch.distributed` has a name."""
    imports = script_text.imports_of(pipeline.source_of(location))
    name = next((each.alias for each in imports if each.name is None and each.module == DISTRIBUTED), None)
    if name is None or not statements.is_whole_statement(pipeline, location):
        return None
    code = pipeline.code(location)
    return None if "\n" in code else f"if {name}.get_rank() == 0:\n    {code}"
