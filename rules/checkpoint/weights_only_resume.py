"""A run is resumed with its weights alone, though the state of the optimizer was saved with them.

The optimizer starts with empty averages and the schedule at its warm-up, in the middle of a training: the loss jumps at
each resume, and what was learned last is partly undone. The file holds what is needed; nobody reads it.

## Bad

    start = 0
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])  # <- weights-only-resume
        start = saved["epoch"] + 1
    for epoch in range(start, epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")

A Trainer saves less where it is told so, and says nothing when it goes on from such a checkpoint: the optimizer and the
schedule begin anew at the step where the other run was:

    from transformers.trainer_utils import get_last_checkpoint

    args = TrainingArguments("out", save_only_model=True)  # <- weights-only-resume
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train(resume_from_checkpoint=get_last_checkpoint("out"))

## Good

    start = 0
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
    for epoch in range(start, epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")

With a Trainer:

    from transformers.trainer_utils import get_last_checkpoint

    args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train(resume_from_checkpoint=get_last_checkpoint("out"))

## When it is fine

Checkpoints that no run goes on from may hold the weights alone:

    args = TrainingArguments("out", save_only_model=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

A training that starts anew from weights of another one needs no more than these, and an evaluation of the best epoch
neither:

    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "best.pt")

    best = torch.load("best.pt")
    net.load_state_dict(best["net"])
    print("best epoch:", best["epoch"])

Where no state of an optimizer was saved, the script may well have none that matters:

    start = 0
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])
        start = saved["epoch"] + 1
    for epoch in range(start, epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.save({"net": net.state_dict(), "epoch": epoch}, "last.pt")

## Fix

Asks first: the state of the optimizer has to fit the one of the script. Offered where all that is saved is made above
the line that loads the weights.

## References

the_well#63; yolov5#292; torch-points3d#630; asteroid#322; DiM#5; PyTorch tutorial "Saving and loading a general
checkpoint"; `TrainingArguments.save_only_model` (transformers 5.23 loads the state of optimizer and schedule where
their files are there, and else goes on without a word).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import checkpoints
from lintrain.evidence.run import CheckpointEvidence
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.python import Constant, is_missing, is_true
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Verdict, fixes, lazy_pattern

OPTIMIZER = lazy_pattern(r"optim|\bopt\b|opt_|_opt", re.IGNORECASE)
RESTORES = lazy_pattern(r"load|resum|restor", re.IGNORECASE)
PROGRESS = ("epoch", "step", "iteration", "global_step", "iter", "epochs")


class WeightsOnlyResume(Rule):
    level = Level.WARNING
    keywords = "save|resume"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from self._loops(pipeline)
        yield from self._trainers(pipeline)

    def _loops(self, pipeline: Pipeline) -> Iterator[Finding]:
        tree, source = pipeline.source.tree, pipeline.source
        if not source.says(r"torch\s*\.\s*save"):
            return
        saved = _saved_state(source.nodes_of(ast.Call))
        if saved is None or _may_restore(tree) or checkpoints.entries_read(source, _key_of(saved)):
            return
        goes_on = _goes_on_from(source)
        loads = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _loads_weights(source, node)]
        if goes_on is None or len(loads) != 1:
            return
        yield self.finding(
            source.location(loads[0]),
            f'the run goes on with its weights alone: `"{_key_of(saved)}"` is saved, never loaded',
            related=[
                Related(source.location(saved), "saved here", "saved"),
                Related(source.location(goes_on), "the epochs go on from here", "progress"),
            ],
            help="load the state of the optimizer, and of the schedule, with the weights",
            facts={"statements": _loads_of_the_rest(pipeline, loads[0], saved)},
        )

    def _trainers(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Runs that are resumed from what they save, and save their weights alone."""
        for event in pipeline.acts(Act.TRAIN):
            run, resumed = event.subject, event.details.get("resume_from_checkpoint")
            settings = run.settings if isinstance(run, TrainerRun) else None
            is_asked = resumed is not None and not is_missing(resumed)
            if settings is None or not is_asked or (isinstance(resumed, Constant) and not resumed.value):
                continue
            location = settings.locations.get("save_only_model")
            if location is not None and is_true(settings.value("save_only_model")):
                yield self.finding(
                    location,
                    "checkpoints hold the weights alone, and the run goes on from one",
                    related=[
                        Related(event.location, "resumed here", "progress"),
                        *([Related(settings.origin, "saves less", "arguments")] if settings.origin else []),
                    ],
                    help="leave `save_only_model` out: the state of optimizer and schedule is saved too",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        resumed = evidence.checkpoint
        if resumed is None:
            return Verdict.inconclusive(evidence.unasked("checkpoint"))
        lost = len(resumed.lost_state)
        kept = f"{resumed.optimizer_state - lost} of {resumed.optimizer_state} optimizer tensors"
        if resumed.changed_weights:
            count = f"{len(resumed.changed_weights)} of {resumed.weights} weights"
            return Verdict.inconclusive(f"{count} are not what they were either, so this run does not go on")
        if lost:
            went_on, starts = resumed.losses
            losses = f"the next loss is {starts:.4g}, {went_on:.4g} without the interruption"
            return Verdict.confirmed(f"{kept} are there after a resume; {_rates(resumed)}{losses}", lost=lost)
        return Verdict.refuted(f"{kept} are there after a resume")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        resumed = evidence.checkpoint
        if resumed is None or evidence.framework != "transformers" or not resumed.resume_is_asked:
            return
        finding = self.finding(
            evidence.location,
            "the run goes on from a checkpoint that holds its weights alone",
            help="leave `save_only_model` out: the state of optimizer and schedule is saved too",
        )
        yield from self.if_confirmed(finding, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding) -> fixes.Fix | None:
        statements, calls = finding.facts.get("statements"), finding.with_role("arguments")
        if calls:
            return fixes.Fix.of(
                "save all that a run goes on with",
                fixes.RemoveArgument(calls[0].location, "save_only_model"),
                safe=False,
            )
        if not isinstance(statements, str):
            return None
        return fixes.Fix.of(
            "load the rest of what is saved", fixes.InsertAfter(finding.location, statements), safe=False
        )


def _rates(resumed: CheckpointEvidence) -> str:
    before, after = resumed.learning_rates
    return f"its rate is {after:.3g}, {before:.3g} without the interruption; " if before != after else ""


def _saved_state(calls: Sequence[ast.Call]) -> ast.Constant | None:
    """The key under which the script saves the state of an optimizer with other things."""
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func) != "torch.save":
            continue
        for argument in call.args[:1]:
            for key, value in _entries(argument):
                if OPTIMIZER.search(ast.unparse(value)) and ast.unparse(value).endswith(".state_dict()"):
                    return key
    return None


def _entries(node: ast.expr) -> Iterator[tuple[ast.Constant, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key, value


def _key_of(key: ast.Constant) -> str:
    return str(key.value)


def _may_restore(tree: ast.Module) -> bool:
    """Whether anything loads the state of an optimizer, or a function that loads something is given one."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and RESTORES.search(ast.unparse(call.func)):
            given = " ".join(
                ast.unparse(argument) for argument in [*call.args, *(each.value for each in call.keywords)]
            )
            if OPTIMIZER.search(ast.unparse(call.func)) or OPTIMIZER.search(given):
                return True
    return False


def _goes_on_from(source: Source) -> ast.Subscript | None:
    """Where the number of an epoch or step is read from the file, and given a name that a `range` starts with."""
    starts = {
        ast.unparse(call.args[0])
        for call in source.nodes_of(ast.Call)
        if len(call.args) > 1 and ast.unparse(call.func) == "range"
    }
    entries = [entry for key in PROGRESS for entry in checkpoints.entries_read(source, key)]
    for node in source.nodes_of(ast.Assign) if entries else ():
        if any(ast.unparse(target) in starts for target in node.targets):
            parts = {id(part) for part in ast.walk(node.value)}
            found = [entry for entry in entries if id(entry) in parts]
            if found:
                return found[0]
    return None


def _loads_weights(source: Source, call: ast.Call) -> bool:
    is_load = isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" and bool(call.args)
    return is_load and checkpoints.loaded_from_file(source, call.args[0]) is not None


def _loads_of_the_rest(pipeline: Pipeline, load: ast.Call, saved: ast.Constant) -> str | None:
    """The statements that load what is saved beside the weights, of objects that are made above, in the same scope."""
    source = pipeline.source
    entry = load.args[0] if len(load.args) == 1 else None
    dictionary = next((node for node in source.nodes_of(ast.Dict) if saved in node.keys), None)
    if not isinstance(entry, ast.Subscript) or not isinstance(entry.value, ast.Name) or dictionary is None:
        return None
    statements: list[str] = []
    for key, value in _entries(dictionary):
        owner, dot, _ = ast.unparse(value).rpartition(".state_dict()")
        is_read = bool(checkpoints.entries_read(source, _key_of(key)))
        if not dot or is_read or ast.unparse(load.func) == f"{owner}.load_state_dict":
            continue
        bound = [each for each in pipeline.bindings if each.name == owner and each.location < source.location(load)]
        if (
            not owner.isidentifier()
            or not bound
            or not blocks.is_one_scope(pipeline, bound[-1].location, source.location(load))
        ):
            return None
        statements.append(f'{owner}.load_state_dict({entry.value.id}["{_key_of(key)}"])')
    return "\n".join(statements) or None
