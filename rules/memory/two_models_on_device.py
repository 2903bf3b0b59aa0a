"""An unused model stays on the device while another one trains.

The weights of a model that is no longer used still occupy memory: only a smaller batch fits, or the run raises `CUDA
out of memory` although the trained model alone would fit.

## Bad

    name = "distilbert-base-uncased"
    baseline = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3).to(device)
    print(baseline.num_parameters())
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3).to(device)  # <- two-models-on-device
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model.train()
    for batch in train_loader:
        model(**batch.to(device)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

In a loop, the name refers to the previous model until the next one is loaded:

    # lintrain probe train.py
    for name in ["distilbert-base-uncased", "bert-base-uncased"]:
        model = AutoModel.from_pretrained(name).to(device)  # <- two-models-on-device
        print(model.num_parameters())

## Good

    name = "distilbert-base-uncased"
    baseline = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3).to(device)
    print(baseline.num_parameters())
    del baseline
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model.train()
    for batch in train_loader:
        model(**batch.to(device)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

In a loop:

    # lintrain probe train.py
    for name in ["distilbert-base-uncased", "bert-base-uncased"]:
        model = AutoModel.from_pretrained(name).to(device)
        print(model.num_parameters())
        del model

## When it is fine

A teacher, a reference model or an ensemble is used in every step:

    teacher = AutoModelForMaskedLM.from_pretrained("bert-base-uncased").to(device)
    student = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased").to(device)
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-5)
    student.train()
    inputs = {name: batch[name].to(device) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        wanted = teacher(**inputs).logits
    F.mse_loss(student(**inputs).logits, wanted).backward()

A model that a function loads is freed when the function returns:

    def measure(name):
        model = AutoModel.from_pretrained(name).to(device)
        print(model.num_parameters())

    for name in ["distilbert-base-uncased", "bert-base-uncased"]:
        measure(name)

## Fix

None: the rest of the script determines which model is still needed.

## References

PyTorch documentation, "Frequently Asked Questions: my model reports out of memory".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from lintrain.analysis import script_text, statements
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Binding
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Constant, Either, LibraryObject, Value, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Source, Targets, Verdict
from lintrain.text import show_size

if TYPE_CHECKING:
    from lintrain.evidence.run import MovedModel

DEVICE_MAPS = frozenset({"auto", "balanced", "balanced_low_0", "sequential", "cuda", "cuda:0"})
FEWEST_STEPS = 2


class TwoModelsOnDevice(Rule):
    level = Level.WARNING
    judges_whole_script = True
    keywords = "from_pretrained"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return statements.is_written_in_a_loop(source, "from_pretrained")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        kept = [model for model in pipeline.models if _is_on_device(pipeline, model)]
        if kept and not any(model.is_adapted for model in pipeline.models):
            yield from self._idle(pipeline, kept)
            yield from self._reloaded(pipeline, kept)

    def _idle(self, pipeline: Pipeline, models: list[Model]) -> Iterator[Finding]:
        """A model whose last use is before the trained model is loaded."""
        for first, second in pairwise(models):
            binding = _only_name(pipeline, first)
            if binding is None or second.origin is None or not _is_trained(pipeline, second):
                continue
            if not _is_last_used_before(pipeline, binding, second.origin) or _is_freed(pipeline, first):
                continue
            yield self.finding(
                second.origin,
                f"`{binding.name}` stays on the device, unused, while this model trains",
                related=[Related(binding.location, "moved to the device here, and never freed", "origin")],
                help=f"`del {binding.name}` before this model is loaded, or keep it on the CPU",
            )

    def _reloaded(self, pipeline: Pipeline, models: list[Model]) -> Iterator[Finding]:
        """A model that each iteration of a loop loads while the name still refers to the previous one."""
        for model in models:
            binding, origin = _only_name(pipeline, model), model.origin
            if binding is None or origin is None or _is_freed(pipeline, model):
                continue
            if not _moves_before_binding(pipeline, model, origin):
                continue
            loop = blocks.loop_around(pipeline, origin)
            if loop is None or not blocks.is_one_scope(pipeline, loop, origin):
                continue
            if statements.keeps_value(pipeline, binding.name, binding.location, loop):
                continue
            yield self.finding(
                origin,
                f"each iteration loads a model while `{binding.name}` still refers to the last one",
                related=[Related(loop, "this loop", "loop")],
                help=f"`del {binding.name}` at the end of the loop body",
            )

    # A run suspects nothing by itself: it is followed for a few steps, after which a model may well be called again.
    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not finding.with_role("origin"):
            return _of_iterations(evidence.objects.moved_at(finding.location))
        moved = [each for reason in finding.with_role("origin") for each in evidence.objects.moved_at(reason.location)]
        if not moved:
            return Verdict.inconclusive("no model was moved to a device at this line")
        first = moved[0]
        model = f"`{first.name}` of {show_size(first.size)}"
        if not first.is_held:
            return Verdict.refuted(f"{model} was freed before the end of the run", size=first.size)
        if first.calls or first.trains:
            return Verdict.refuted(f"{model} was called {first.calls} times in {first.steps} steps", calls=first.calls)
        if first.steps < FEWEST_STEPS:
            return Verdict.inconclusive(f"{model} is in memory, but the run made only {first.steps} steps")
        return Verdict.confirmed(f"{model} is in memory, but was not called in {first.steps} steps", size=first.size)


def _of_iterations(moved: tuple[MovedModel, ...]) -> Verdict:
    known = [each for each in moved if each.beside is not None]
    if len(known) < 2:
        return Verdict.inconclusive(f"the loop loaded {len(known)} models before any training, but 2 are needed")
    previous = max(each.beside or 0 for each in known)
    loaded = f"when `{known[-1].name}` of {show_size(known[-1].size)} was loaded"
    if previous:
        text = f"{loaded}, {show_size(previous)} of the previous model were still in memory"
        return Verdict.confirmed(text, beside=previous)
    return Verdict.refuted(f"{loaded}, the previous model had been freed", beside=0)


def _is_on_device(pipeline: Pipeline, model: Model) -> bool:
    """Whether a pretrained model was certainly moved to an accelerator and not back."""
    if not model.is_pretrained or model.framework != "torch" or model.is_adapted:
        return False
    if text_of(model.arguments.get("device_map", Constant(None))) in DEVICE_MAPS:
        return True
    moves = pipeline.cached(_moves, pipeline).get(id(model), ())
    return bool(moves) and all(_goes_to_accelerator(pipeline, event) for event in moves)


def _moves_before_binding(pipeline: Pipeline, model: Model, origin: Location) -> bool:
    """Whether a model reaches the device while its name still refers to the previous one.

    `from_pretrained` loads on the CPU: a move in a later statement comes after the previous model was freed.
    """
    moves = pipeline.cached(_moves, pipeline).get(id(model), ())
    statement = blocks.statement_at(pipeline, origin)
    if not moves or statement is None:
        return not moves
    whole = pipeline.source_of(origin).location(statement)
    return any(whole.holds(move.location) for move in moves)


def _moves(pipeline: Pipeline, _: Pipeline) -> dict[int, list[Event]]:
    """The moves of each value to a device, by the identity of the value."""
    found = dict[int, list[Event]]()
    for event in pipeline.acts(Act.TO_DEVICE):
        found.setdefault(id(event.subject), []).append(event)
    return found


def _goes_to_accelerator(pipeline: Pipeline, event: Event) -> bool:
    if pipeline.code(event.location).rstrip().endswith(".cuda()"):
        return True
    return _names_accelerator(event.details.get("device", Constant(None)))


def _names_accelerator(value: Value) -> bool:
    match value:
        case Constant():
            return isinstance(value.value, str) and value.value.startswith(("cuda", "mps", "xpu"))
        case Either():
            return any(_names_accelerator(option) for option in value.options)
        case LibraryObject(path="torch.device"):
            return any(_names_accelerator(argument) for argument in value.arguments.values())
        case _:
            return False


def _only_name(pipeline: Pipeline, model: Model) -> Binding | None:
    """The binding of the only name of a model; None if it has several names, or an attribute."""
    names = pipeline.names_of(model)
    if len({binding.name for binding in names}) != 1:
        return None
    return names[0] if pipeline.code(names[0].location) == names[0].name else None


def _is_freed(pipeline: Pipeline, model: Model) -> bool:
    return id(model) in pipeline.cached(_freed, pipeline)


def _freed(pipeline: Pipeline, _: Pipeline) -> set[int]:
    return {id(event.subject) for event in pipeline.acts(Act.DELETE, Act.ESCAPE)}


def _is_trained(pipeline: Pipeline, model: Model) -> bool:
    return id(model) in pipeline.cached(_trained, pipeline)


def _trained(pipeline: Pipeline, _: Pipeline) -> set[int]:
    in_optimizers = {
        id(part) for each in pipeline.optimizers for held in each.trains for part in modules.modules_in(held)
    }
    return in_optimizers | {id(run.value("model")) for run in pipeline.runs}


def _is_last_used_before(pipeline: Pipeline, binding: Binding, other: Location) -> bool:
    """Whether a name is bound once, and all its uses are above a location, in one scope."""
    source = pipeline.source_of(binding.location)
    if other.path != source.path:
        return False
    uses = script_text.uses_of(source, binding.name)
    is_bound_once = len([use for use in uses if not use.is_read]) == 1
    if any(_is_returned(pipeline, use.location) for use in uses if use.is_read):
        return False  # the caller uses it, and what follows does not run then
    in_one_scope = all(blocks.is_one_scope(pipeline, binding.location, use.location) for use in uses)
    return is_bound_once and in_one_scope and all(use.location.line < other.line for use in uses)


def _is_returned(pipeline: Pipeline, location: Location) -> bool:
    statement, source = blocks.statement_at(pipeline, location), pipeline.source_of(location)
    return statement is not None and source.code(source.location(statement)).startswith("return")
