"""A run resumes at its epoch with its weights only, without the state of the optimizer.

In the middle of training, the optimizer starts with empty averages and the schedule with its warm-up: the loss jumps at
each resume, and part of the last progress is lost. The checkpoint contains the state, but the script does not load it;
or the script never saves it.

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

With `save_only_model=True`, a Trainer saves no optimizer state, and it resumes from such a checkpoint without a
warning: the optimizer and the schedule start again at the step of the checkpoint:

    from transformers.trainer_utils import get_last_checkpoint

    args = TrainingArguments("out", save_only_model=True)  # <- weights-only-resume
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train(resume_from_checkpoint=get_last_checkpoint("out"))

A checkpoint without it resumes no better, be it the only one that a script writes:

    optimizer = torch.optim.Adam(net.parameters())
    start = 0
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])  # <- weights-only-resume
        start = saved["epoch"]
    for epoch in range(start + 1, epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.save({"net": net.state_dict(), "epoch": epoch}, "last.pt")

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

Checkpoints that are not used to resume need only the weights:

    args = TrainingArguments("out", save_only_model=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

A new training that starts from existing weights needs only these, and so does the evaluation of the best epoch:

    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "best.pt")

    best = torch.load("best.pt")
    net.load_state_dict(best["net"])
    print("best epoch:", best["epoch"])

SGD without momentum has no state:

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
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

Asks first: the saved state has to match the optimizer of the script. Offered if all saved objects are created above the
line that loads the weights.

## References

the_well#63; yolov5#292; torch-points3d#630; asteroid#322; DiM#5; PyTorch tutorial "Saving and loading a general
checkpoint"; `TrainingArguments.save_only_model` (transformers 5.23 loads the state of optimizer and schedule if their
files exist, and otherwise resumes without a warning).
"""

from __future__ import annotations

import ast  # the rule is about the dictionary that `torch.save` writes and the entries that are read
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import checkpoints, resumes
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.python import ABSENT, Constant, is_missing, is_true
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Verdict, dataclass, fixes
from lintrain.source.nodes import unparse, walk
from lintrain.text import show_number

if TYPE_CHECKING:
    from lintrain.evidence.run import CheckpointEvidence

OPTIMIZER = r"(?i)optim|\bopt\b|opt_|_opt"
OTHERS = r"(?i)sched|scaler|\bema|loss|criterion"
"""What else has a state that is loaded, and is no network."""

RESTORES = r"(?i)load|resum|restor"


@dataclass(frozen=True, slots=True)
class Claim:
    """The statements that load the rest of the checkpoint; None without a fix."""

    statements: str | None = None


class WeightsOnlyResume(Rule[Claim]):
    level = Level.WARNING
    judges_whole_script = True
    keywords = "save|resume"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from self._loops(pipeline)
        yield from self._trainers(pipeline)

    def _loops(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        source = pipeline.source
        if not source.contains(r"torch\s*\.\s*save"):
            return
        saved = _saved_state(source)
        if _may_restore(source) or (saved is not None and checkpoints.entries_read(source, _key_of(saved))):
            return
        resumed = resumes.resumed_progress(source) or (resumes.continued(source) if saved is not None else None)
        loads = [call for call in source.nodes_of(ast.Call) if _loads_weights(source, call)] if resumed else []
        if resumed is None or not loads:
            return
        if saved is None:
            progress = _saved_progress(source)
            if progress is not None and _have_state(pipeline):
                yield self._never_saved(pipeline, loads[0], progress, resumed)
            return
        yield self.finding(
            source.location(loads[0]),
            f'the run resumes with its weights only: `"{_key_of(saved)}"` is saved, but never loaded',
            related=[
                Related(source.location(saved), "saved here", "saved"),
                Related(source.location(resumed), "the epochs resume from here", "progress"),
            ],
            help="load the state of the optimizer and of the schedule with the weights",
            claim=Claim(_loads_of_the_rest(pipeline, loads[0], saved) if len(loads) == 1 else None),
        )

    def _never_saved(
        self, pipeline: Pipeline, load: ast.Call, progress: ast.Constant, resumed: ast.Subscript
    ) -> Finding[Claim]:
        source = pipeline.source
        optimizer = pipeline.optimizers[0]
        return self.finding(
            source.location(load),
            f"the run resumes with its weights only: the state of `{optimizer.name}` is never saved",
            related=[
                Related(source.location(progress), "saved here, without it", "saved"),
                Related(source.location(resumed), "the epochs resume from here", "progress"),
            ],
            help="save and load `state_dict()` of the optimizer and of the schedule with the weights",
        )

    def _trainers(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """Trainers that save only their weights and resume from a checkpoint."""
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
                    "the run resumes from a checkpoint, but checkpoints contain only the weights",
                    related=[
                        Related(event.location, "resumes here", "progress"),
                        *([Related(settings.origin, "created here", "arguments")] if settings.origin else []),
                    ],
                    help="remove `save_only_model`, so that the state of optimizer and schedule is saved too",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        resumed = evidence.checkpoint
        if resumed is None:
            return Verdict.inconclusive(evidence.unasked("checkpoint"))
        lost = len(resumed.lost_state)
        if resumed.changed_weights:
            count = f"{len(resumed.changed_weights)} of {resumed.weights} weights"
            return Verdict.inconclusive(f"{count} also differ after a restart, so this run does not resume")
        total = resumed.optimizer_state
        restored = f"the resumed run restores {total - lost} of {total} tensors of the optimizer"
        if not lost:
            return Verdict.refuted(restored)
        uninterrupted, after = (show_number(loss, ".4g") for loss in resumed.losses)
        losses = f"the next loss is {after}, without the interruption {uninterrupted}"
        return Verdict.confirmed(f"{restored}; {_rates(resumed)}{losses}", lost=lost)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        resumed = evidence.checkpoint
        if resumed is None or evidence.framework != "transformers" or not resumed.resume_is_asked:
            return
        finding = self.finding(
            evidence.location,
            "the run resumes from a checkpoint that contains only the weights",
            help="remove `save_only_model`, so that the state of optimizer and schedule is saved too",
        )
        yield from self.if_confirmed(finding, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, calls = finding.claim, finding.with_role("arguments")
        if calls:
            return fixes.Fix.of(
                "save the optimizer state too", fixes.RemoveArgument(calls[0].location, "save_only_model"), safe=False
            )
        if claim is None or claim.statements is None:
            return None
        return fixes.Fix.of(
            "load the rest of the checkpoint", fixes.InsertAfter(finding.location, claim.statements), safe=False
        )


def _rates(resumed: CheckpointEvidence) -> str:
    before, after = resumed.learning_rates
    if before == after:
        return ""
    return f"the learning rate is {after:.3g}, without the interruption {before:.3g}; "


def _saved_state(source: Source) -> ast.Constant | None:
    """The key under which the script puts the state of an optimizer into a dictionary, to save it."""
    for node in source.nodes_of(ast.Dict, ast.Assign):
        for key, value in _entries(node):
            if re.search(OPTIMIZER, unparse(value)) and unparse(value).endswith(".state_dict()"):
                return key
    return None


def _saved_progress(source: Source) -> ast.Constant | None:
    """The key of the epoch or step in a dictionary that also has the weights of a network."""
    for node in source.nodes_of(ast.Dict):
        keys = [key for key, _ in _entries(node) if _key_of(key) in resumes.PROGRESS]
        if keys and any(unparse(value).endswith(".state_dict()") for _, value in _entries(node)):
            return keys[0]
    return None


def _have_state(pipeline: Pipeline) -> bool:
    """Whether the optimizers of a script keep averages of gradients between steps: SGD does so with momentum only."""
    stateless = [
        each
        for each in pipeline.optimizers
        if each.name == "SGD" and is_missing(each.arguments.get("momentum", each.arguments.get("2", ABSENT)))
    ]
    known = [each for each in pipeline.optimizers if each.path.startswith(("torch.optim.", "transformers."))]
    return bool(known) and not stateless


def _entries(node: ast.AST) -> Iterator[tuple[ast.Constant, ast.expr]]:
    """The entries of a dictionary, or the one that `state["optimizer"] = …` sets."""
    match node:
        case ast.Dict(keys=keys, values=values):
            pairs = list(zip(keys, values, strict=True))
        case ast.Assign(targets=[ast.Subscript(slice=key)], value=value):
            pairs = [(key, value)]
        case _:
            pairs = []
    for each, entry in pairs:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each, entry


def _key_of(key: ast.Constant) -> str:
    return str(key.value)


def _may_restore(source: Source) -> bool:
    """Whether a call named after loading may restore an optimizer: it is a method of one, or gets it as argument."""
    own = {each.name: each for each in source.nodes_of(ast.FunctionDef)}
    for call in source.nodes_of(ast.Call):
        called = unparse(call.func)
        if re.search(RESTORES, called) and not _leaves_state(own.get(called)):
            arguments = " ".join(
                unparse(argument) for argument in [*call.args, *(each.value for each in call.keywords)]
            )
            if re.search(OPTIMIZER, called) or re.search(OPTIMIZER, arguments):
                return True
    return False


def _leaves_state(function: ast.FunctionDef | None) -> bool:
    """Whether a function of the script loads the weights of what it gets, and passes its optimizer to nothing."""
    calls = [each for each in walk(function) if isinstance(each, ast.Call)] if function is not None else []
    loads = [unparse(each.func) for each in calls if unparse(each.func).endswith(".load_state_dict")]
    given = (unparse(part) for each in calls for part in [*each.args, *(one.value for one in each.keywords)])
    return bool(loads) and not any(re.search(OPTIMIZER, code) for code in (*loads, *given))


def _loads_weights(source: Source, call: ast.Call) -> bool:
    is_load = isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" and bool(call.args)
    return (
        is_load
        and not re.search(OTHERS, unparse(call.func))
        and checkpoints.loaded_from_file(source, call.args[0]) is not None
    )


def _loads_of_the_rest(pipeline: Pipeline, load: ast.Call, saved: ast.Constant) -> str | None:
    """The statements that load the other saved states; None unless their objects are created above in the scope."""
    source = pipeline.source
    entry = load.args[0] if len(load.args) == 1 else None
    dictionary = next((node for node in source.nodes_of(ast.Dict) if saved in node.keys), None)
    if not isinstance(entry, ast.Subscript) or not isinstance(entry.value, ast.Name) or dictionary is None:
        return None
    statements: list[str] = []
    for key, value in _entries(dictionary):
        owner, dot, _ = unparse(value).rpartition(".state_dict()")
        is_read = bool(checkpoints.entries_read(source, _key_of(key)))
        if not dot or is_read or unparse(load.func) == f"{owner}.load_state_dict":
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
