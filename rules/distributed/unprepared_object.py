"""Accelerate prepares the model, but not its optimizer or its data loader.

An optimizer that is not prepared steps on every batch of a gradient accumulation, and in float16 on gradients that are
still scaled. A loader that is not prepared returns all rows in every process, so each epoch is repeated as often as
there are processes.

## Bad

    accelerator = Accelerator()
    net, loader = accelerator.prepare(net, loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()  # <- unprepared-object

A loader that is not prepared returns all rows:

    accelerator = Accelerator()
    rows = DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True)  # <- unprepared-object
    net, optimizer = accelerator.prepare(net, optimizer)
    for x, y in rows:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

## Good

    accelerator = Accelerator()
    net, loader, optimizer = accelerator.prepare(net, loader, optimizer)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

With the loader:

    accelerator = Accelerator()
    rows = DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True)
    net, optimizer, rows = accelerator.prepare(net, optimizer, rows)
    for x, y in rows:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

## When it is fine

Each object may be prepared by a separate call:

    accelerator = Accelerator()
    net = accelerator.prepare_model(net)
    optimizer = accelerator.prepare_optimizer(optimizer)
    loader = accelerator.prepare_data_loader(loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

The prepared objects may be unknown:

    from engine import parts

    accelerator = Accelerator()
    prepared = accelerator.prepare(*parts(net, optimizer))
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

A loader may have a sampler that divides its rows:

    from torch.utils.data import DistributedSampler

    accelerator = Accelerator()
    dataset = TensorDataset(features, targets)
    sampler = DistributedSampler(dataset, num_replicas=accelerator.num_processes, rank=accelerator.process_index)
    rows = DataLoader(dataset, batch_size=16, sampler=sampler)
    net, optimizer = accelerator.prepare(net, optimizer)
    for x, y in rows:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

## Fix

Asks first: with several processes, prepared objects count steps and batches differently. Offered if a single call
prepares the other objects.

## References

Accelerate documentation, `Accelerator.prepare`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import device_moves, expressions, script_text, training_loops, unprepared_optimizers
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Launcher, Optimizer
from lintrain.pipeline.values.python import Unknown, Value
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

PLAIN_SAMPLERS = frozenset({"RandomSampler", "SequentialSampler"})
"""Samplers that give every process all rows."""
OWN_SAMPLING = frozenset({"sampler", "batch_sampler", "**"})
"""Arguments of a loader that may divide its rows among the processes."""

MOVES = r"\.to\(|\.cuda\(|device"
"""Code that may bring a batch to where the model is."""
HELD_OUT = "evaluation"
"""What a finding is about whose loader only gives the batches of an evaluation."""


TRAINS = "trains a prepared model, but is not prepared itself"


@dataclass(frozen=True, slots=True)
class Claim:
    """The name of the object, and the statement that prepares it with the others; None without a fix."""

    name: str
    statement: str | None = None


class UnpreparedObject(Rule[Claim]):
    level = Level.WARNING
    keywords = "Accelerator|accelerator|Fabric & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from self._turned(pipeline)
        found = self._followed(pipeline)
        yield from found.values()
        # Where both the accelerator and the optimizer are known, so is whether it prepares it.
        if not found and not _is_settled(pipeline):
            yield from self._by_name(pipeline)

    def _followed(self, pipeline: Pipeline) -> dict[Location, Finding[Claim]]:
        """What the loops of the script use unprepared, by its location."""
        found: dict[Location, Finding[Claim]] = {}
        if not training_loops.trains_by_hand(pipeline) or len(pipeline.launchers) != 1:
            return found
        launcher = pipeline.launchers[0]
        for training in training_loops.training_loops(pipeline):
            if training.backward.subject is not launcher or not _is_understood(launcher):
                continue
            for report in (
                *self._optimizers(pipeline, training, launcher),
                *self._loaders(pipeline, training, launcher),
            ):
                found.setdefault(report.location, report)
        for report in self._held_out(pipeline, launcher) if _is_understood(launcher) else ():
            found.setdefault(report.location, report)
        return found

    def _held_out(self, pipeline: Pipeline, launcher: Launcher) -> Iterator[Finding[Claim]]:
        """Loaders of an evaluation whose batches nothing moves to where the prepared model is."""
        if any(name in launcher.arguments for name in ("cpu", "device_placement")):
            return
        trained = {event.loops[-1].location for event in pipeline.acts(Act.BACKWARD) if event.loops}
        for event in pipeline.acts(Act.FORWARD):
            loop = event.loops[-1] if event.loops and event.loops[-1].location not in trained else None
            loader = loop.over if loop is not None else None
            if loop is None or not isinstance(loader, Loader) or loader.origin is None:
                continue
            names = {binding.name for binding in pipeline.names_of(loader)}
            is_open = any(loader is value for value in launcher.prepared) or loader.arguments.keys() & OWN_SAMPLING
            if is_open or not names or not any(modules.overlap(event.subject, value) for value in launcher.prepared):
                continue
            made = pipeline.code(loader.dataset.origin) if loader.dataset.origin is not None else ""
            if re.search(MOVES, pipeline.code(loop.location) + made) or _escapes(pipeline, loader):
                continue
            prepared = _preparing(pipeline, loader, min(names))
            yield self.finding(
                loader.origin,
                f"`{min(names)}` is not prepared, so nothing moves its batches to the model's device",
                related=[
                    Related(event.location, "the prepared model gets its batches here", "use"),
                    *_related(prepared),
                ],
                help="pass the loader to `accelerator.prepare` together with the model",
                subject=HELD_OUT,
                claim=Claim(min(names), prepared[1] if prepared else None),
            )

    def _by_name(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """Optimizers of a file whose accelerator, an attribute or a parameter, prepares the model without them."""
        for each in unprepared_optimizers.unprepared_optimizers(pipeline.source):
            yield self.finding(
                each.location,
                f"`{each.name}` {TRAINS}",
                related=[Related(each.prepared, "other objects are prepared here", "prepare")],
                help="pass the optimizer to `accelerator.prepare` together with the model",
                claim=Claim(each.name, None),
            )

    def _turned(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The objects of `a, b = accelerator.prepare(b, a)`: they come back in the order in which they were given."""
        for call in script_text.calls_of(pipeline.source, r"\.prepare\Z") if pipeline.launchers else ():
            assigned = expressions.assignment_at(pipeline, call.location)
            given = [each.code for each in call.arguments]
            if assigned is None or call.keywords or assigned.value.location != call.location:
                continue
            names = [each.code for each in assigned.targets[0].items]
            if names != given and sorted(names) == sorted(given):
                name, other = next((one, two) for one, two in zip(names, given, strict=True) if one != two)
                yield self.finding(
                    call.location,
                    f"`{name}` becomes the prepared `{other}`: they come back in the order given",
                    help=f"write the names in one order: `prepare({', '.join(names)})`",
                    level=Level.ERROR,
                )

    def _optimizers(
        self, pipeline: Pipeline, training: training_loops.TrainingLoop, launcher: Launcher
    ) -> Iterator[Finding[Claim]]:
        for step in training.steps:
            if _is_unprepared(pipeline, step, launcher):
                name = training_loops.text_of_event(step)
                prepared = _preparing(pipeline, step.subject, name)
                yield self.finding(
                    step.location,
                    f"`{name}` {TRAINS}",
                    related=[*training_loops.origin_of(step.subject, "created here"), *_related(prepared)],
                    help="pass the optimizer to `accelerator.prepare` together with the model",
                    claim=Claim(name, prepared[1] if prepared else None),
                )

    def _loaders(
        self, pipeline: Pipeline, training: training_loops.TrainingLoop, launcher: Launcher
    ) -> Iterator[Finding[Claim]]:
        prepared_names = {binding.name for value in launcher.prepared for binding in pipeline.names_of(value)}
        words = set(re.findall(r"\w+", training.loop.header)) - prepared_names
        for loader in pipeline.loaders:
            names = {binding.name for binding in pipeline.names_of(loader)} & words
            if names and loader.origin is not None and _returns_all_rows(pipeline, loader, launcher):
                prepared = _preparing(pipeline, loader, min(names))
                yield self.finding(
                    loader.origin,
                    f"`{min(names)}` is not prepared, so every process trains on all its rows",
                    related=[
                        Related(training.backward.location, "trained with Accelerate here", "backward"),
                        *_related(prepared),
                    ],
                    help="pass the loader to `accelerator.prepare` together with the model",
                    claim=Claim(min(names), prepared[1] if prepared else None),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop = evidence.loop
        if loop is None or evidence.framework != "accelerate" or loop.past_the_launcher or not loop.steps:
            return
        stepped, loader = evidence.first("steps_past_the_launcher"), loop.loader
        if stepped is not None and loop.steps_past_the_launcher == loop.steps:
            yield self.finding(
                stepped,
                "the optimizer is not prepared, but `accelerator` trains its model",
                help="pass it to `accelerator.prepare`",
            )
        is_plain = loader is not None and loader.sampler in PLAIN_SAMPLERS
        if loader is not None and is_plain and loader.made_at and loop.batches_past_the_launcher == loop.batches:
            yield self.finding(
                loader.made_at,
                "the loader is not prepared, so every process gets all of its rows",
                help="pass it to `accelerator.prepare`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.subject == HELD_OUT:
            return self._of_held_out(finding, evidence)
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        steps = f"{loop.steps_past_the_launcher} of {loop.steps} steps"
        text = f"{steps} and {loop.batches_past_the_launcher} of {loop.batches} batches bypassed the launcher"
        if not loop.steps:
            return Verdict.inconclusive(text)
        is_bypassed = loop.steps_past_the_launcher or loop.batches_past_the_launcher
        return (Verdict.confirmed if is_bypassed else Verdict.refuted)(text, steps=loop.steps_past_the_launcher)

    def _of_held_out(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if any(evidence.failed_at(each.location, *device_moves.APART) for each in finding.with_role("use")):
            return Verdict.confirmed("the model and a batch of it are on two devices")
        if evidence.device == "cpu":
            return Verdict.inconclusive("a run on the CPU cannot show it")
        return Verdict.inconclusive(evidence.not_reached("evaluation"))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, calls = finding.claim, finding.with_role("prepare")
        if claim is None or claim.statement is None or not calls:
            return None
        edit = fixes.Replace(calls[0].location, claim.statement)
        return fixes.Fix.of(f"prepare `{claim.name}` too", edit, safe=False)


def _is_settled(pipeline: Pipeline) -> bool:
    """Whether a loop steps a known optimizer after the backward pass of a known accelerator."""
    runs = training_loops.training_loops(pipeline) if pipeline.launchers else ()
    return any(
        run.backward.subject is launcher and isinstance(step.subject, Optimizer)
        for run in runs
        for launcher in pipeline.launchers
        for step in run.steps
    )


def _is_understood(launcher: Launcher) -> bool:
    """Whether all prepared objects of an Accelerator without plugins are known."""
    known = not any(isinstance(value, Unknown) and not value.name for value in launcher.prepared)
    plugins = any("plugin" in name for name in launcher.arguments)
    return bool(launcher.prepared) and known and launcher.is_accelerator and not launcher.is_open and not plugins


def _is_unprepared(pipeline: Pipeline, step: Event, launcher: Launcher) -> bool:
    """Whether an optimizer of a prepared module was neither prepared nor passed to unknown code."""
    optimizer = step.subject
    if not isinstance(optimizer, Optimizer) or any(value is optimizer for value in launcher.prepared):
        return False
    if any(
        event.subject is optimizer or training_loops.may_hide(pipeline, event, optimizer)
        for event in pipeline.acts(Act.ESCAPE)
    ):
        return False
    return any(modules.overlap(module, value) for module in optimizer.trains for value in launcher.prepared)


def _returns_all_rows(pipeline: Pipeline, loader: Loader, launcher: Launcher) -> bool:
    """Whether a loader was not prepared, although an optimizer was, and does not divide its rows itself."""
    if not any(isinstance(value, Optimizer) for value in launcher.prepared):
        return False
    if any(isinstance(value, Unknown) for value in launcher.prepared) or loader.arguments.keys() & OWN_SAMPLING:
        return False
    if pipeline.source.contains(r"\.shard\(|split_dataset_by_node|num_processes|process_index|Iterable"):
        return False
    return not _escapes(pipeline, loader)


def _escapes(pipeline: Pipeline, loader: Loader) -> bool:
    """Whether unknown code gets a loader."""
    return any(event.subject is loader for event in pipeline.acts(Act.ESCAPE))


def _related(prepared: tuple[Location, str] | None) -> list[Related]:
    return [Related(prepared[0], "other objects are prepared here", "prepare")] if prepared else []


def _preparing(pipeline: Pipeline, value: Value, name: str) -> tuple[Location, str] | None:
    """The location of `a, b = accelerator.prepare(a, b)`, and the same statement with `name`, if created above."""
    if value.origin is None or not name.isidentifier():
        return None
    calls = script_text.calls_of(pipeline.source, r"\.prepare\Z")
    if len(calls) != 1 or calls[0].keywords:
        return None
    call, arguments = calls[0], [each.code for each in calls[0].arguments]
    assigned = expressions.assignment_at(pipeline, call.location)
    if assigned is None or assigned.value.location != call.location or not value.origin < call.location:
        return None
    if not blocks.is_one_scope(pipeline, value.origin, call.location) or not call.callee:
        return None
    if not arguments or name in arguments:
        return None
    if [each.code for each in assigned.targets] != [expressions.parsed(f"({','.join(arguments)},)").code]:
        return None
    names = ", ".join([*arguments, name])
    return assigned.location, f"{names} = {call.callee.code}({names})"
