"""`set_epoch` is never called on a `DistributedSampler`, so all epochs have the same order.

The sampler shuffles with its seed plus the epoch number, which stays 0 unless `set_epoch` is called. Every epoch then
has the same batches in the same order, and each process always gets the same part of the data.

## Bad

    from torch.utils.data.distributed import DistributedSampler

    rows = TensorDataset(features, targets)
    sampler = DistributedSampler(rows, num_replicas=2, rank=0)  # <- missing-set-epoch
    loader = DataLoader(rows, batch_size=16, sampler=sampler)
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## Good

    from torch.utils.data.distributed import DistributedSampler

    rows = TensorDataset(features, targets)
    sampler = DistributedSampler(rows, num_replicas=2, rank=0)
    loader = DataLoader(rows, batch_size=16, sampler=sampler)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## When it is fine

A single epoch, or an evaluation:

    from torch.utils.data.distributed import DistributedSampler

    rows = TensorDataset(features, targets)
    loader = DataLoader(rows, batch_size=16, sampler=DistributedSampler(rows, num_replicas=2, rank=0))
    held_out = DataLoader(rows, sampler=DistributedSampler(rows, num_replicas=2, rank=0, shuffle=False))
    for epoch in range(1):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for x, y in held_out:
                net(x)

Accelerate and Fabric call `set_epoch` themselves:

    from torch.utils.data.distributed import DistributedSampler

    accelerator = Accelerator(cpu=True)
    rows = TensorDataset(features, targets)
    loader = DataLoader(rows, batch_size=16, sampler=DistributedSampler(rows, num_replicas=2, rank=0))
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(criterion(net(x), y))
            optimizer.step()

## Fix

Safe: without `set_epoch`, shuffling has no effect after the first epoch, which is never intended.

## References

pytorch#31771; transformers#4398; Lightning#4509; SimCLR#26; PyTorch documentation,
`torch.utils.data.distributed.DistributedSampler`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import loaders, lr_schedules, run_data, script_text
from lintrain.pipeline.events import Act, Loop
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import LibraryObject, literal, options_of
from lintrain.pipeline.values.python import Sequence as Items
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

EPOCH_LOOP = r"for (\w+) in range\("
EPOCH_CALL = lazy_pattern(r"set_epoch\b(?!\(\s*\d+\s*\))")
"""A call of `set_epoch` with another argument than one number, or its name in other code."""

COUNTING = lazy_pattern(r"\b(range|count|trange)\(")


@dataclass(frozen=True, slots=True)
class Claim:
    """The missing call of `set_epoch`; None without a fix."""

    statement: str | None = None


class MissingSetEpoch(Rule[Claim]):
    level = Level.ERROR
    keywords = "DistributedSampler"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if script_text.mentions(pipeline, EPOCH_CALL) or script_text.runs_by_launcher(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        for use in _uses(pipeline):
            epochs = _epochs_around(pipeline, use)
            sampler = _shuffling_sampler(use.loader)
            if epochs is None or sampler is None or sampler.origin is None:
                continue
            if not _gets_other_rows(epochs, use.loader, sampler.origin):
                found.setdefault(sampler.origin, self._report(pipeline, use.loader, sampler, sampler.origin, epochs))
        for loader, restart in loaders.cycled(pipeline):
            sampler = _shuffling_sampler(loader)
            if sampler is not None and sampler.origin is not None:
                found.setdefault(sampler.origin, self._report(pipeline, loader, sampler, sampler.origin, restart))
        yield from found.values()

    def _report(
        self, pipeline: Pipeline, loader: Loader, sampler: LibraryObject, location: Location, epochs: Loop
    ) -> Finding[Claim]:
        names = [
            each for each in pipeline.names_of(sampler) if run_data.is_visible(pipeline, each.location, epochs.location)
        ]
        name = names[-1].name if names else None
        variable = re.match(EPOCH_LOOP, pipeline.code(epochs.location))
        is_certain = loader.value("sampler") is sampler and name is not None and variable is not None
        statement = f"{name}.set_epoch({variable[1]})" if variable and name else "sampler.set_epoch(epoch)"
        return self.finding(
            location,
            f"`{name or 'DistributedSampler'}` has the same order in each epoch without `set_epoch`",
            related=[Related(epochs.location, "repeated here", "epochs")],
            help=f"call `{statement}` at the start of each epoch",
            claim=Claim(statement if is_certain else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loader = evidence.loop.loader if evidence.loop is not None else None
        if loader is None or not loader.shuffles or loader.sampler_at is None:
            return
        if loader.sampler == "DistributedSampler":
            yield self.finding(
                loader.sampler_at,
                "`set_epoch` is never called on the sampler, so all epochs have the same order",
                help="call `set_epoch(epoch)` of the sampler at the start of each epoch",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        epochs = loop.loader.epochs_told if loop.loader else ()
        if len(epochs) < 2:
            return Verdict.inconclusive(f"the run iterated {len(epochs)} times over the loader, but 2 are needed")
        text = f"in {len(epochs)} iterations over the loader, its sampler had the epochs {', '.join(map(str, epochs))}"
        return (Verdict.confirmed if len(set(epochs)) == 1 else Verdict.refuted)(text, rounds=len(epochs))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.statement is None:
            return None
        (epochs,) = finding.with_role("epochs")
        edit = fixes.InsertAtTop(epochs.location, claim.statement)
        return fixes.Fix.of(f"insert `{claim.statement}`", edit, safe=True)


@dataclass(frozen=True, slots=True)
class Use:
    """A loop over the batches of a loader, and the loops around it, outermost first."""

    loader: Loader
    loop: Loop
    around: Sequence[Loop]


def _uses(pipeline: Pipeline) -> Iterator[Use]:
    """The loops that train on the batches of a loader, or hand each of them to code of another file."""
    for feeding in loaders.feedings(pipeline):
        yield Use(feeding.loader, feeding.loop, feeding.training.backward.loops)
    if pipeline.source.is_partial:
        return  # code that is not shown may call `set_epoch` where it gets the batches
    seen = set[int]()
    for event in pipeline.acts(Act.ESCAPE):
        for loop in event.loops[1:]:
            given = list(loaders.loaders_in(loop.each)) if id(loop) not in seen else []
            seen.add(id(loop))
            if len(given) == 1 and loaders.is_named_for_training(pipeline, given[0]):
                yield Use(given[0], loop, event.loops)


def _epochs_around(pipeline: Pipeline, use: Use) -> Loop | None:
    """The loop that repeats the one over batches, whatever it is called, unless it runs only once."""
    for loop in reversed(use.around[: use.around.index(use.loop)]):
        is_once = isinstance(loop.over, Items) and loop.over.is_complete and len(loop.over.items) < 2
        if not is_once and (lr_schedules.counts_epochs(pipeline, loop) or _repeats(pipeline, loop, use.loader)):
            return loop
    return None


def _gets_other_rows(epochs: Loop, loader: Loader, made: Location) -> bool:
    """Whether each epoch makes its sampler and its data set: the rows are others, in whatever order."""
    rows = loader.dataset.origin
    return rows is not None and epochs.location.holds(rows) and epochs.location.holds(made)


def _repeats(pipeline: Pipeline, loop: Loop, loader: Loader) -> bool:
    """Whether a loop counts, and iterates over a loader that was made before it."""
    made = loader.origin
    is_counting = COUNTING.search(loop.header) or pipeline.code(loop.location).startswith("while ")
    is_counting = is_counting or _is_named_counter(pipeline, loop)
    return bool(is_counting) and made is not None and not loop.location.holds(made)


def _is_named_counter(pipeline: Pipeline, loop: Loop) -> bool:
    """Whether a loop iterates over a name that is bound to a range: `train_iterator = trange(3)`."""
    source, name = pipeline.source_of(loop.location), loop.header.strip()
    return name.isidentifier() and source.contains(rf"\b{name} = (?:\w+\.)*t?range\(")


def _shuffling_sampler(loader: Loader) -> LibraryObject | None:
    """The distributed sampler of a loader, perhaps in one branch only, unless it certainly does not shuffle."""
    for option in options_of(loader.value("sampler")):
        if isinstance(option, LibraryObject) and option.path == "torch.utils.data.DistributedSampler":
            given = option.arguments
            shuffles = "3" not in given and ("shuffle" not in given or literal(given["shuffle"]) is not False)
            # A seed that may be another one in each epoch is given to a sampler that is made in each.
            return option if shuffles and "**" not in given else None
    return None
