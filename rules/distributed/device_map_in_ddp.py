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

None: leaving `device_map` out and naming the device of the process are both reasonable, and the model has to be moved
accordingly.

## References

Accelerate documentation, "Big model inference"; PyTorch documentation, `DistributedDataParallel`; TRL's own demand of
`device_map=None` in distributed training.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import Act, Finding, Level, Model, Pipeline, Reason, Rule, literal

SPREADING = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})


class DeviceMapInDdp(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for event in pipeline.acts(Act.SHARE):
            how = literal(event.details["how"]) if "how" in event.details else None
            model = event.subject
            if not isinstance(how, str) or not how.startswith("torch.") or not isinstance(model, Model):
                continue
            spread = literal(model.arguments["device_map"]) if "device_map" in model.arguments else None
            if spread in SPREADING:
                yield self.finding(
                    model.argument_places["device_map"],
                    f'`device_map="{spread}"` takes every device in each of the processes',
                    because=[Reason(event.place, "one process per device from here on", "wrapped")],
                    help="leave `device_map` out, and move the model to the process's own device",
                )
