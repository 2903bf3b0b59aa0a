"""A model that is spread over all devices is trained in several processes.

`device_map="auto"` gives one process every card that it finds. In a multi-process training each process does so, all of
them put their layers on the same cards, and `DistributedDataParallel` either refuses the model or runs out of memory.

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

A model that is moved afterwards is spread all the same:

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

One process may spread a model as it likes, and a map that names the process's own device is no spreading:

    from accelerate import PartialState

    spread = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, device_map="auto"
    )
    own = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", num_labels=3, device_map={"": PartialState().device}
    )

## Fix

Asks first: without `device_map` each process has to hold all of the model. Offered where the script moves the model
itself; else naming the device of the process is as reasonable.

## References

Accelerate documentation, "Big model inference"; PyTorch documentation, `DistributedDataParallel`; TRL's own demand of
`device_map=None` in distributed training.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import literal
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, fixes

SPREADING = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})


class DeviceMapInDdp(Rule):
    level = Level.ERROR
    keywords = "arallel|shard"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for event in pipeline.acts(Act.SHARE):
            how = literal(event.details["how"]) if "how" in event.details else None
            model = event.subject
            if not isinstance(how, str) or not how.startswith("torch.") or not isinstance(model, Model):
                continue
            spread = literal(model.arguments["device_map"]) if "device_map" in model.arguments else None
            if spread in SPREADING:
                made = [Related(model.origin, "spread here", "origin")] if model.origin else []
                yield self.finding(
                    model.argument_locations["device_map"],
                    f'`device_map="{spread}"` takes every device in each of the processes',
                    related=[Related(event.location, "one process per device from here on", "wrapped"), *made],
                    help="leave `device_map` out, and move the model to the process's own device",
                    facts={"is_moved": _is_moved(pipeline, model, event)},
                )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        made = finding.with_role("origin")
        if not finding.facts.get("is_moved"):
            return None
        return fixes.Fix.of("leave out `device_map`", fixes.RemoveArgument(made[0].location, "device_map"), safe=False)


def _is_moved(pipeline: Pipeline, model: Model, wrapped: Event) -> bool:
    """Whether the script moves a model to one device by its name, before or where it is wrapped."""
    if model.origin is None or model.origin.path != wrapped.location.path:
        return False
    made = blocks.statement_at(pipeline, model.origin)
    if not isinstance(made, ast.Assign) or not isinstance(made.targets[0], ast.Name):
        return False
    source = pipeline.source_of(wrapped.location)
    between = "\n".join(source.lines[source.location(made).end_line : wrapped.location.end_line])
    return re.search(rf"\b{made.targets[0].id}\.(to|cuda)\(", between) is not None
