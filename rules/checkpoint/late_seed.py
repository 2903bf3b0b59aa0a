"""The seed is set after the model's weights were initialized.

The weights come from an unseeded generator, so two runs with the same seed differ from the first step on. Training
looks as if it were not reproducible, and comparisons of hyperparameters measure random differences.

## Bad

    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    torch.manual_seed(0)  # <- late-seed
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

A head that is missing in the checkpoint has random weights too:

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    set_seed(42)  # <- late-seed
    trainer = Trainer(model, TrainingArguments("out"), train_dataset=tokenized["train"], data_collator=collator)

## Good

    torch.manual_seed(0)
    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

Set the seed before the model is created:

    set_seed(42)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, TrainingArguments("out"), train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

An earlier seed, before the weights:

    torch.manual_seed(0)
    classifier = nn.Linear(8, 3)
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

The checkpoint has all weights of a language model:

    language_model = AutoModelForCausalLM.from_pretrained("gpt2")
    set_seed(42)
    language_model.train()
    optimizer = torch.optim.AdamW(language_model.parameters(), lr=5e-5)
    for step in range(2):
        optimizer.zero_grad()
        language_model(input_ids=torch.arange(8)[None], labels=torch.arange(8)[None]).loss.backward()
        optimizer.step()

A function of the project may set a seed earlier:

    def seed_everything_of_ours():
        random.seed(0)
        torch.random.default_generator.manual_seed(0)

    seed_everything_of_ours()
    classifier = nn.Linear(8, 3)
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

The weights are initialized again after the seed:

    classifier = nn.Linear(8, 3)
    torch.manual_seed(0)
    nn.init.normal_(classifier.weight)
    nn.init.zeros_(classifier.bias)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

Weights that start at zero are the same in every run; the seed is for the order of the rows:

    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 3)
            self.linear.weight.detach().zero_()
            self.linear.bias.detach().zero_()

        def forward(self, x):
            return self.linear(x)

    scores = Scores()
    optimizer = torch.optim.Adam(scores.parameters())
    torch.manual_seed(0)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(scores(x), y).backward()
        optimizer.step()

## Fix

Asks first: the seed moves above the model, so the run uses other random numbers. Offered if no code in between depends
on the order.

## References

PyTorch documentation, "Reproducibility"; Transformers documentation, `set_seed` and `Trainer(model_init=…)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import later_weights, seed_calls, tuning
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.model import Model, Module, Task
from lintrain.pipeline.values.python import Instance, Value
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes
from lintrain.text import show_number

SEEDS = r"torch(\.random)?\.manual_seed|(transformers|accelerate)(\.\w+)*\.set_seed|lightning\.seed_everything"
OF_OTHERS = frozenset({"random.seed", "numpy.random.seed"})
"""Calls that seed generators which no weights come from."""

WITH_NEW_HEAD = frozenset(
    {
        Task.SEQUENCE_CLASSIFICATION,
        Task.TOKEN_CLASSIFICATION,
        Task.QUESTION_ANSWERING,
        Task.MULTIPLE_CHOICE,
    }
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the seed can move above the model, past the statements in between."""

    can_move: bool = False


class LateSeed(Rule[Claim]):
    level = Level.WARNING
    keywords = "seed"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seeds = [call for call in pipeline.calls if re.fullmatch(SEEDS, call.path)]
        if not seeds or not seeds[0].is_certain:
            return
        seed = seeds[0]
        ways = [location for _, location in blocks.way_out(pipeline, seed.location)]
        if any(loop.location.holds(location) for loop in pipeline.loops for location in ways):
            return
        for module in _trained(pipeline, seed):
            if module.origin is None or not _is_before(pipeline, module.origin, seed):
                continue
            if _is_random(pipeline, module) and not _may_seed_before(pipeline, module.origin, seed):
                if later_weights.may_be_rewritten(pipeline, seed.location):
                    return
                yield self.finding(
                    seed.location,
                    "the seed is set after random weights were created, so runs still differ",
                    related=[Related(module.origin, "random weights, created before the seed", "origin")],
                    help="set the seed before the model is created",
                    claim=Claim(blocks.may_move(pipeline, seed.location, module.origin)),
                )
                return

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        starts = evidence.determinism
        if starts is None:
            return Verdict.inconclusive(evidence.unasked("determinism"))
        if not starts.weights:
            return Verdict.inconclusive("no model was called, so the `weights` of two runs cannot be compared")
        different = starts.different_weights
        if not different:
            return Verdict.refuted(f"all {starts.weights} weights are the same in two runs")
        one, other = (show_number(loss, ".6g") for loss in starts.first_losses)
        losses = f"the first losses are {one} and {other}"
        count = f"{len(different)} of {starts.weights} weights differ between two runs"
        return Verdict.confirmed(f"{count}, for example `{different[0]}`; {losses}", different=len(different))

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        """A Trainer sets its seed when it is created, after its model."""
        seed = evidence.arguments.get("seed")
        if evidence.determinism is None or evidence.construction is None or seed is None:
            return
        finding = self.finding(
            evidence.construction,
            f"the seed {seed} is set after random weights were created, so runs still differ",
            help=f"call `set_seed({seed})` before the model is created, or pass `model_init` to the Trainer",
        )
        yield from self.if_confirmed(finding, evidence)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.can_move:
            return None
        (made,) = finding.with_role("origin")
        return fixes.Fix.of(
            "set the seed before the model is created", fixes.MoveBefore(finding.location, made.location), safe=False
        )


def _trained(pipeline: Pipeline, seed: LibraryCall) -> Iterator[Value]:
    """The modules that Trainers train, and optimizers not only before a seed, which is for other modules then."""
    updates = [event for event in pipeline.acts(Act.STEP) if not _is_before(pipeline, event.location, seed)]
    steps = {id(event.subject) for event in updates}
    for optimizer in pipeline.optimizers:
        if id(optimizer) in steps:
            yield from optimizer.trains
    for run in pipeline.runs:
        if run.model is not None and run.train_calls:
            yield run.model


def _is_random(pipeline: Pipeline, module: Value) -> bool:
    """Whether some of a module's weights are certainly random when it is created."""
    if isinstance(module, Model):
        facts = tuning.facts_of(pipeline, module)
        is_new = module.is_pretrained and module.task in WITH_NEW_HEAD and not module.is_adapted and facts is not None
        return is_new and (facts is None or facts.head is None or not facts.head.endswith(module.name[-14:]))
    is_own = isinstance(module, Instance) or (isinstance(module, Module) and module.path.startswith("torch.nn."))
    return is_own and modules.has_parameters(module)  # models of torchvision may be pretrained


def _is_before(pipeline: Pipeline, made: Location, seed: LibraryCall) -> bool:
    """Whether a module is certainly created before the seed is set, in a scope that leads to both."""
    if made.path != seed.location.path:
        return False
    leading = {id(scope): location for scope, location in blocks.way_out(pipeline, made)}
    shared = [
        (leading[id(scope)], location)
        for scope, location in blocks.way_out(pipeline, seed.location)
        if id(scope) in leading
    ]
    return bool(shared) and shared[0][0] < shared[0][1]


def _may_seed_before(pipeline: Pipeline, made: Location, seed: LibraryCall) -> bool:
    """Whether a call named after a seed runs before the seed, or may run: in functions that are called elsewhere."""
    others = {call.location for call in pipeline.calls if call.path in OF_OTHERS}
    ends = {id(scope): location for scope, location in blocks.way_out(pipeline, seed.location)}
    default = seed.location if blocks.is_one_scope(pipeline, made, seed.location) else None
    for location in seed_calls.seed_calls(pipeline):
        end = ends.get(id(blocks.scope_of(pipeline, location)), default)
        if location not in others and location not in ends.values() and (end is None or location.line < end.line):
            return True
    return False
