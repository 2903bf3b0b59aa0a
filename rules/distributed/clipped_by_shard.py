"""Gradients of a sharded model are clipped by the norm of the shards of one process.

`FullyShardedDataParallel` leaves each process with a shard of every gradient. `nn.utils.clip_grad_norm_` computes the
norm of these shards alone: each process has another one, smaller than that of the model, and scales its shards with a
factor of its own. The result is no clipped gradient of the model.

## Bad

    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29586", rank=0, world_size=1)
    sharded = FSDP(net, device_id=torch.device("cpu"))
    adam = torch.optim.Adam(sharded.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        criterion(sharded(x), y).backward()
        torch.nn.utils.clip_grad_norm_(sharded.parameters(), 1.0)  # <- clipped-by-shard
        adam.step()

## Good

    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29586", rank=0, world_size=1)
    sharded = FSDP(net, device_id=torch.device("cpu"))
    adam = torch.optim.Adam(sharded.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        criterion(sharded(x), y).backward()
        sharded.clip_grad_norm_(1.0)
        adam.step()

## When it is fine

With `fully_shard` parameters are `DTensor`s, whose norm is that of the whole model, and every process of
`DistributedDataParallel` has all gradients:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        criterion(parallel(x), y).backward()
        torch.nn.utils.clip_grad_norm_(parallel.parameters(), 1.0)
        adam.step()

A script with `NO_SHARD` is not reported.

## Fix

Asks first: the norm grows with the number of processes, and the limit may have been tuned to the smaller one.

## References

PyTorch documentation, `FullyShardedDataParallel.clip_grad_norm_`: "this must be called on all ranks".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, script_text
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Parameters
from lintrain.pipeline.values.python import literal
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, dataclass, fixes

CLIPS = r"(?:\A|\butils\.(?:clip_grad\.)?)clip_grad_norm_\Z"
NAME = "clip_grad_norm_"
MODULES = ("torch.nn.utils", "torch.nn.utils.clip_grad")
SHARDED = "torch.distributed.fsdp.FullyShardedDataParallel"


@dataclass(frozen=True, slots=True)
class Claim:
    """The call of the wrapper's own method; None without a fix."""

    code: str | None = None


class ClippedByShard(Rule[Claim]):
    level = Level.ERROR
    keywords = "FSDP|FullyShardedDataParallel & clip_grad_norm_"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if script_text.mentions(pipeline, "NO_SHARD"):
            return
        wrapped, followed = dict(_wrapped_names(pipeline)), dict(_clips_of_sharded(pipeline))
        is_imported = any(
            each.name == NAME and each.module in MODULES for each in script_text.imports_of(pipeline.source)
        )
        for call in script_text.calls_of(pipeline.source, CLIPS) if wrapped or followed else ():
            if call.callee is not None and call.callee.code == NAME and not is_imported:
                continue
            parameters = call.arguments[0].code if call.arguments else ""
            name = parameters.removesuffix(".parameters()")
            sharded = wrapped.get(name) or followed.get(call.location)
            if sharded is None or script_text.mentions(pipeline, rf"\b{re.escape(name)}\.clip_grad_norm_\("):
                continue
            named = [f"{key}={each.code}" for key, each in reversed(call.keywords.items())]
            given = [*(each.code for each in call.arguments[1:]), *named]
            code = f"{name}.clip_grad_norm_({', '.join(given)})"
            yield self.finding(
                call.location,
                "each process clips by the norm of its own shards of the gradients",
                related=[Related(sharded, "sharded here", "sharded")],
                help=f"call `{name}.clip_grad_norm_`, which computes the norm over all processes",
                claim=Claim(code if parameters != name and None not in call.keywords else None),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or finding.claim.code is None:
            return None
        edit = fixes.Replace(finding.location, finding.claim.code)
        return fixes.Fix.of("clip by the norm over all processes", edit, safe=False)


def _wrapped_names(pipeline: Pipeline) -> Iterator[tuple[str, Location]]:
    """The names that are assigned a model sharded by FSDP in any case, and where."""
    for event in _shardings(pipeline):
        assigned = expressions.assignment_at(pipeline, event.location)
        if assigned is not None:
            yield from ((target.code, event.location) for target in assigned.targets)


def _clips_of_sharded(pipeline: Pipeline) -> Iterator[tuple[Location, Location]]:
    """The calls that clip all parameters of a model which another function may have sharded, and where it was."""
    shardings = list(_shardings(pipeline))
    for clip in pipeline.acts(Act.CLIP) if shardings else ():
        clipped = clip.subject
        for event in shardings:
            if (
                event.order < clip.order
                and isinstance(clipped, Parameters)
                and not clipped.is_part
                and any(event.subject is module for module in clipped.of)
            ):
                yield clip.location, event.location


def _shardings(pipeline: Pipeline) -> Iterator[Event]:
    """Where models are sharded by FSDP in any case."""
    for event in pipeline.acts(Act.SHARE):
        how = literal(event.details["how"]) if "how" in event.details else None
        if how == SHARDED and not event.conditions:
            yield event
