"""A model with `device_map="auto"` is trained in several processes.

`device_map="auto"` distributes the layers over all GPUs that a process finds. In a multi-process training, every
process does this on the same GPUs, and `DistributedDataParallel` either raises an error or runs out of memory.

## Bad

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
        device_map="auto",  # <- device-map-in-ddp
    )
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

The model is distributed over the devices even if it is moved afterwards:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
        device_map="auto",  # <- device-map-in-ddp
    )
    model = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Good

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

and

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased",
        num_labels=3,
    )
    model = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## When it is fine

A single process may distribute a model, and a map may name the device of the process:

    from accelerate import PartialState

    spread = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, device_map="auto"
    )
    own = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, device_map={"": PartialState().device}
    )

## Fix

Asks first: without `device_map`, the whole model has to fit in each process. Offered if the script moves the model
itself; otherwise naming the device of the process is as reasonable.

## References

Accelerate documentation, "Big model inference"; PyTorch documentation, `DistributedDataParallel`; TRL requires
`device_map=None` in distributed training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import literal
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, dataclass, fixes

SEVERAL_DEVICES = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
"""Values of `device_map` that distribute a model over the devices."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the script moves the model to a device, so that `device_map` can be removed."""

    is_moved: bool = False


class DeviceMapInDdp(Rule[Claim]):
    level = Level.ERROR
    keywords = "arallel|shard"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for event in pipeline.acts(Act.SHARE):
            how = literal(event.details["how"]) if "how" in event.details else None
            model = event.subject
            if not isinstance(how, str) or not how.startswith("torch.") or not isinstance(model, Model):
                continue
            device_map = literal(model.arguments["device_map"]) if "device_map" in model.arguments else None
            if device_map in SEVERAL_DEVICES:
                made = [Related(model.origin, "distributed over the devices here", "origin")] if model.origin else []
                yield self.finding(
                    model.argument_locations["device_map"],
                    f'`device_map="{device_map}"` uses all devices in each process of the training',
                    related=[Related(event.location, "one process per device", "wrapped"), *made],
                    help="remove `device_map`, and move the model to the device of the process",
                    claim=Claim(_is_moved(pipeline, model, event)),
                )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, made = finding.claim, finding.with_role("origin")
        if claim is None or not claim.is_moved:
            return None
        return fixes.Fix.of("remove `device_map`", fixes.RemoveArgument(made[0].location, "device_map"), safe=False)


def _is_moved(pipeline: Pipeline, model: Model, wrapped: Event) -> bool:
    """Whether the script calls `to` or `cuda` on the name of a model, at the latest where it is wrapped."""
    if model.origin is None or model.origin.path != wrapped.location.path:
        return False
    made = expressions.assignment_at(pipeline, model.origin)
    name = made.targets[0].code if made else ""
    if made is None or not name.isidentifier():
        return False
    between = "\n".join(pipeline.source_of(wrapped.location).lines[made.location.end_line : wrapped.location.end_line])
    return re.search(rf"\b{name}\.(to|cuda)\(", between) is not None
