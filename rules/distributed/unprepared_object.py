"""Accelerate prepares the model, and trains it with an optimizer or a loader that it was not given.

An optimizer that was not prepared steps on every batch of an accumulation, and on gradients that are still scaled in
float16. A loader that was not prepared gives every process all rows, so that each epoch is run as often as there are
processes.

## Bad

    accelerator = Accelerator()
    net, loader = accelerator.prepare(net, loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()  # <- unprepared-object

A loader that was left out stays on all rows:

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

Each object may be prepared by a call of its own:

    accelerator = Accelerator()
    net = accelerator.prepare_model(net)
    optimizer = accelerator.prepare_optimizer(optimizer)
    loader = accelerator.prepare_data_loader(loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

What is prepared may not be known:

    from engine import parts

    accelerator = Accelerator()
    prepared = accelerator.prepare(*parts(net, optimizer))
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

A loader may share its rows out by itself:

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

Asks first: steps and batches of a prepared object are counted differently where there are several processes. Offered
where one call prepares the others.

## References

Accelerate documentation, `Accelerator.prepare`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import training_loops
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Launcher, Optimizer
from lintrain.pipeline.values.python import Unknown, Value
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class UnpreparedObject(Rule):
    level = Level.WARNING
    keywords = "Accelerator|Fabric & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline) or len(pipeline.launchers) != 1:
            return
        found: dict[Location, Finding] = {}
        launcher = pipeline.launchers[0]
        for training in training_loops.training_loops(pipeline):
            if training.backward.subject is not launcher or not _is_understood(launcher):
                continue
            for report in (
                *self._optimizers(pipeline, training, launcher),
                *self._loaders(pipeline, training, launcher),
            ):
                found.setdefault(report.location, report)
        yield from found.values()

    def _optimizers(
        self, pipeline: Pipeline, training: training_loops.TrainingLoop, launcher: Launcher
    ) -> Iterator[Finding]:
        for step in training.steps:
            if _is_left_out(pipeline, step, launcher):
                prepared = _preparing(pipeline, step.subject, training_loops.text_of_event(step))
                yield self.finding(
                    step.location,
                    f"`{training_loops.text_of_event(step)}` was never prepared, and steps on a prepared model",
                    related=[*training_loops.origin_of(step.subject, "made here"), *_at(prepared)],
                    help="give the optimizer to `accelerator.prepare` together with the model",
                    facts={"name": training_loops.text_of_event(step), "code": prepared[1] if prepared else None},
                )

    def _loaders(
        self, pipeline: Pipeline, training: training_loops.TrainingLoop, launcher: Launcher
    ) -> Iterator[Finding]:
        prepared_names = {binding.name for value in launcher.prepared for binding in pipeline.names_of(value)}
        words = set(re.findall(r"\w+", training.loop.header)) - prepared_names
        for loader in pipeline.loaders:
            names = {binding.name for binding in pipeline.names_of(loader)} & words
            if names and loader.origin is not None and _gives_all_rows(pipeline, loader, launcher):
                prepared = _preparing(pipeline, loader, min(names))
                yield self.finding(
                    loader.origin,
                    f"`{min(names)}` is never prepared: every process trains on all of its rows",
                    related=[
                        Related(training.backward.location, "trained with accelerate here", "backward"),
                        *_at(prepared),
                    ],
                    help="give the loader to `accelerator.prepare` together with the model",
                    facts={"name": min(names), "code": prepared[1] if prepared else None},
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        steps = f"{loop.steps_past_the_launcher} of {loop.steps} steps"
        text = f"{steps} and {loop.batches_past_the_launcher} of {loop.batches} batches went past the launcher"
        if not loop.steps:
            return Verdict.inconclusive(text)
        is_past = loop.steps_past_the_launcher or loop.batches_past_the_launcher
        return (Verdict.confirmed if is_past else Verdict.refuted)(text, steps=loop.steps_past_the_launcher)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        calls, code = finding.with_role("prepare"), finding.facts.get("code")
        if not calls or not isinstance(code, str):
            return None
        return fixes.Fix.of(
            f"prepare `{finding.facts.get('name')}` too", fixes.Replace(calls[0].location, code), safe=False
        )


def _is_understood(launcher: Launcher) -> bool:
    """Whether it is known what an Accelerator prepared, and that a training was among it."""
    known = not any(isinstance(value, Unknown) and not value.name for value in launcher.prepared)
    plugins = any("plugin" in name for name in launcher.arguments)
    return bool(launcher.prepared) and known and launcher.is_accelerator and not launcher.is_open and not plugins


def _is_left_out(pipeline: Pipeline, step: Event, launcher: Launcher) -> bool:
    """Whether an optimizer trains what was prepared, and was neither prepared nor handed to other code."""
    optimizer = step.subject
    if not isinstance(optimizer, Optimizer) or any(value is optimizer for value in launcher.prepared):
        return False
    if any(
        event.subject is optimizer or training_loops.may_hide(pipeline, event, optimizer)
        for event in pipeline.acts(Act.ESCAPE)
    ):
        return False
    return any(modules.overlap(module, value) for module in optimizer.trains for value in launcher.prepared)


def _gives_all_rows(pipeline: Pipeline, loader: Loader, launcher: Launcher) -> bool:
    """Whether a loader of the training was left out, though an optimizer was prepared, and shares nothing out."""
    if not any(isinstance(value, Optimizer) for value in launcher.prepared):
        return False
    if any(isinstance(value, Unknown) for value in launcher.prepared) or loader.arguments.keys() & OWN_SHARING:
        return False
    if re.search(r"\.shard\(|split_dataset_by_node|num_processes|process_index|Iterable", pipeline.source.text):
        return False
    return not any(event.subject is loader for event in pipeline.acts(Act.ESCAPE))


OWN_SHARING = frozenset({"sampler", "batch_sampler", "**"})


def _at(prepared: tuple[Location, str] | None) -> list[Related]:
    return [Related(prepared[0], "others are prepared here", "prepare")] if prepared else []


def _preparing(pipeline: Pipeline, value: Value, name: str) -> tuple[Location, str] | None:
    """Where `a, b = accelerator.prepare(a, b)` stands, and the same with one more name that is made above it."""
    if value.origin is None or not name.isidentifier():
        return None
    calls = [node for node in pipeline.source.nodes_of(ast.Call) if ast.unparse(node.func).endswith(".prepare")]
    if len(calls) != 1 or calls[0].keywords:
        return None
    location = pipeline.source.location(calls[0])
    statement = blocks.statement_at(pipeline, location)
    if not isinstance(statement, ast.Assign) or statement.value is not calls[0] or not value.origin < location:
        return None
    if not blocks.is_one_scope(pipeline, value.origin, location):
        return None
    given = [ast.unparse(each) for each in calls[0].args]
    if name in given:
        return None
    match statement.targets:
        case [ast.Tuple(elts=targets)] if [ast.unparse(each) for each in targets] == given:
            names = ", ".join([*given, name])
            return pipeline.source.location(statement), f"{names} = {ast.unparse(calls[0].func)}({names})"
        case _:
            return None
