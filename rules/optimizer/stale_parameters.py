"""The optimizer is created before the model gets new parameters, so it does not train them.

An optimizer contains the parameters that the model had when the optimizer was created. A head, an adapter or a model
that is created later is not included: its gradients are computed, but its weights never change, and the loss looks as
if the model could not learn.

## Bad

    class Classifier(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
            self.head = nn.Linear(32, classes)

        def forward(self, x):
            return self.head(self.body(x))

    classifier = Classifier(10)
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)  # <- stale-parameters
    classifier.head = nn.Linear(classifier.head.in_features, 3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

Adapters add new parameters and freeze the existing ones:

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)  # <- stale-parameters
    model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, target_modules=["q_lin", "v_lin"]))
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

A new model does not replace the old one in the optimizer:

    net = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(net.parameters())  # <- stale-parameters
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    class Classifier(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
            self.head = nn.Linear(32, classes)

        def forward(self, x):
            return self.head(self.body(x))

    classifier = Classifier(10)
    classifier.head = nn.Linear(classifier.head.in_features, 3)
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

Adapters first:

    model = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, target_modules=["q_lin", "v_lin"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

For the new model:

    net = nn.Linear(8, 3)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

The parameters of the new layer may be added to the optimizer:

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.extra = nn.Linear(3, 3)
    optimizer.add_param_group({"params": net.extra.parameters()})
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Moving a model to a device or another precision keeps its parameters, and a layer may have none:

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net = net.to(device).float()
    net[2] = nn.Identity()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

The optimizer is created again before the next training:

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net[3] = nn.Linear(32, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

Asks first: the fix trains the new parameters. Offered if nothing in between uses the optimizer.

## References

PyTorch documentation, `torch.optim`; PEFT documentation, `get_peft_model`; fairseq#4702.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, loop_verdicts, training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import ABSENT, Sequence, Value, literal, options_of
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

SHARDS = ("FullyShardedDataParallel", "fully_shard")


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the creation of the optimizer can be moved."""

    can_move: bool


class StaleParameters(Rule[Claim]):
    level = Level.ERROR
    keywords = "optim|Adam|Adafactor"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if any(optimizer.is_extended for optimizer in pipeline.optimizers):
            return
        for creation in pipeline.acts(Act.OPTIMIZER):
            if not isinstance(creation.subject, Optimizer):
                continue
            replaced = next(
                (each for each in pipeline.acts(Act.NEW_PART, Act.ADAPT) if _is_lost(pipeline, creation, each)), None
            )
            if replaced is not None:
                yield self._report(pipeline, creation, Related(replaced.location, _what(replaced), "replaced"))
            elif (newer := _newer_model(pipeline, creation) or _sharded_later(pipeline, creation)) is not None:
                yield self._report(pipeline, creation, newer)

    def _report(self, pipeline: Pipeline, creation: Event, replaced: Related) -> Finding[Claim]:
        name = next((binding.name for binding in pipeline.names_of(creation.subject)), "optimizer")
        return self.finding(
            creation.location,
            f"`{name}` is created before its model gets new parameters",
            related=[replaced],
            help="create the optimizer after the model is complete",
            claim=Claim(blocks.may_move(pipeline, creation.location, replaced.location)),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        reached = evidence.loop.reached if evidence.loop else None
        made = [use.made_at for use in evidence.loop.optimizers if use.made_at] if evidence.loop else []
        # Of several optimizers one may hold a network that this loss does not concern.
        if reached is not None and reached.stale and len(made) == 1:
            yield self.finding(
                made[0],
                "the optimizer is created before its model gets new parameters",
                help="create the optimizer after the model is complete",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        return loop_verdicts.weights_outside(evidence, "optimizers")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.can_move:
            return None
        replaced = finding.with_role("replaced")[0]
        return fixes.Fix.of(
            "create the optimizer after that", fixes.MoveAfter(finding.location, replaced.location), safe=False
        )


def _what(replaced: Event) -> str:
    return (
        "adds adapters, which it does not contain"
        if replaced.act is Act.ADAPT
        else "a new layer, which it does not contain"
    )


def _is_lost(pipeline: Pipeline, creation: Event, replaced: Event) -> bool:
    """Whether parameters that a model gets after the optimizer certainly stay outside of it, and are used."""
    optimizer, part = creation.subject, replaced.details.get("part", ABSENT)
    if not isinstance(optimizer, Optimizer) or replaced.order < creation.order:
        return False
    whole = expressions.parts_shared(pipeline, [replaced.subject])
    if whole.isdisjoint(expressions.parts_shared(pipeline, optimizer.trains)) or not _in_one_go(creation, replaced):
        return False
    others = [module for each in pipeline.optimizers if each is not optimizer for module in each.trains]
    if not (whole | expressions.parts_shared(pipeline, [part])).isdisjoint(expressions.parts_shared(pipeline, others)):
        return False
    if any(event.order > replaced.order and _freezes(pipeline, event, part) for event in pipeline.acts(Act.FREEZE)):
        return False
    return _steps_after(pipeline, optimizer, replaced)


def _freezes(pipeline: Pipeline, event: Event, part: Value) -> bool:
    """Whether an event may freeze a part: FREEZE events include those that certainly unfreeze it."""
    return literal(event.details["wanted"]) is not True and expressions.do_overlap(pipeline, event.subject, part)


def _in_one_go(creation: Event, replaced: Event) -> bool:
    """Whether both run one after the other in the same run of the script."""
    is_nested = training_loops.always_with(creation, replaced) or training_loops.always_with(replaced, creation)
    return is_nested and (not creation.uncalled or creation.function == replaced.function)


def _steps_after(pipeline: Pipeline, optimizer: Optimizer, replaced: Event) -> bool:
    """Whether the optimizer is used afterwards: by steps in a loop, or by a Trainer."""
    steps = [event for event in pipeline.acts(Act.STEP) if optimizer in options_of(event.subject)]
    if any(event.order > replaced.order for event in steps):
        return True
    return any(_is_given(run.value("optimizers"), optimizer) for run in pipeline.runs)


def _newer_model(pipeline: Pipeline, creation: Event) -> Related | None:
    """Where the model's name is bound to another model that a loop trains with this optimizer alone."""
    optimizer = creation.subject
    if not isinstance(optimizer, Optimizer) or len(pipeline.optimizers) != 1 or len(optimizer.trains) != 1:
        return None
    (old,) = optimizer.trains
    names = {binding.name for binding in pipeline.names_of(old)}
    for training in training_loops.training_loops(pipeline):
        forwards = [event for event in training.inside if event.act is Act.FORWARD and not event.without_grad]
        new = forwards[0].subject if len(forwards) == 1 else None
        if new is None or expressions.do_overlap(pipeline, new, old) or not _in_one_go(creation, forwards[0]):
            continue
        later = [each for each in pipeline.names_of(new) if each.name in names and creation.location < each.location]
        if later and all(optimizer in options_of(step.subject) for step in training.steps):
            return Related(later[0].location, "another model, which it does not contain", "replaced")
    return None


def _sharded_later(pipeline: Pipeline, creation: Event) -> Related | None:
    """Where FSDP shards the model later: it puts other parameters into it, which are the ones that are trained."""
    optimizer = creation.subject
    if not isinstance(optimizer, Optimizer):
        return None
    for event in pipeline.acts(Act.SHARE):
        how = literal(event.details["how"]) if "how" in event.details else None
        if not isinstance(how, str) or not how.endswith(SHARDS) or event.order < creation.order or event.conditions:
            continue
        is_held = any(expressions.do_overlap(pipeline, event.subject, module) for module in optimizer.trains)
        if is_held and _in_one_go(creation, event) and _steps_after(pipeline, optimizer, event):
            return Related(event.location, "sharded here, which replaces its parameters", "replaced")
    return None


def _is_given(optimizers: Value, optimizer: Optimizer) -> bool:
    return isinstance(optimizers, Sequence) and optimizer in optimizers.items
