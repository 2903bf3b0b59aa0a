"""The seed is set after random weights were made.

The weights that were made before come from another state of the generator in each run, so two runs with one seed differ
from the first step on. It looks as if training were not repeatable, and comparisons of settings compare luck.

## Bad

    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    torch.manual_seed(0)  # <- late-seed
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

A head that its checkpoint does not have is random too:

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

A seed before the model is made:

    set_seed(42)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, TrainingArguments("out"), train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A second seed, for what comes later, or weights that are all loaded:

    torch.manual_seed(0)
    classifier = nn.Linear(8, 3)
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

A language model brings all its weights:

    language_model = AutoModelForCausalLM.from_pretrained("gpt2")
    set_seed(42)
    language_model.train()
    optimizer = torch.optim.AdamW(language_model.parameters(), lr=5e-5)
    for step in range(2):
        optimizer.zero_grad()
        language_model(input_ids=torch.arange(8)[None], labels=torch.arange(8)[None]).loss.backward()
        optimizer.step()

A function of the project may have seeded before:

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

Weights may be drawn anew after the seed:

    classifier = nn.Linear(8, 3)
    torch.manual_seed(0)
    nn.init.normal_(classifier.weight)
    nn.init.zeros_(classifier.bias)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

Weights that start from zero are the same in every run; the seed is for the order of the rows:

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

Asks first: the seed moves above the model, so that the run draws other numbers. Offered where nothing in between uses
what it passes.

## References

PyTorch documentation, "Reproducibility"; Transformers documentation, `set_seed` and `Trainer(model_init=…)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import script_text, tuning
from lintrain.pipeline import blocks, callers, modules
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.model import Model, Module, Task
from lintrain.pipeline.values.python import Instance, Value
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

SEEDS = lazy_pattern(
    r"torch(\.random)?\.manual_seed|(transformers|accelerate)(\.\w+)*\.set_seed|lightning\.seed_everything"
)
OF_OTHERS = frozenset({"random.seed", "numpy.random.seed"})
"""Calls that seed what draws no weights."""

WITH_NEW_HEAD = frozenset(
    {
        Task.SEQUENCE_CLASSIFICATION,
        Task.TOKEN_CLASSIFICATION,
        Task.QUESTION_ANSWERING,
        Task.MULTIPLE_CHOICE,
    }
)


MADE_ANEW = (
    r"load_state_dict|model_init|load_weights|load_model|init_weights|initiali[sz]e|reset_parameters|\binit\.|\.apply\(|"
    r"\.(normal|uniform|zero|fill|copy|trunc_normal)_\("
)
"""Code that gives weights other values than those that they were made with."""


class LateSeed(Rule):
    level = Level.WARNING
    keywords = "seed"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seeds = [call for call in pipeline.calls if SEEDS.fullmatch(call.path)]
        if not seeds or not seeds[0].is_certain or script_text.mentions(pipeline, MADE_ANEW):
            return
        seed = seeds[0]
        ways = [location for _, location in callers.way_out(pipeline, seed.location)]
        if any(loop.location.holds(location) for loop in pipeline.loops for location in ways):
            return
        for module in _trained(pipeline):
            if module.origin is None or not _is_before(pipeline, module.origin, seed):
                continue
            if _is_random(pipeline, module) and not _may_seed_before(pipeline, module.origin, seed):
                yield self.finding(
                    seed.location,
                    "the seed comes after random weights were made: runs differ all the same",
                    related=[Related(module.origin, "random weights, made before", "origin")],
                    help="set the seed before the model is made",
                    facts={"can_move": blocks.may_move(pipeline, seed.location, module.origin)},
                )
                return

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        starts = evidence.determinism
        if starts is None:
            return Verdict.inconclusive(evidence.unasked("determinism"))
        if not starts.weights:
            return Verdict.inconclusive("no model was seen to be called: 0 weights are known by name")
        different = starts.different_weights
        if not different:
            return Verdict.refuted(f"{starts.weights} of {starts.weights} weights are the same in two starts")
        one, other = starts.first_losses
        losses = f"the first losses are {one:.6g} and {other:.6g}"
        count = f"{len(different)} of {starts.weights} weights differ between two starts"
        return Verdict.confirmed(f"{count}, `{different[0]}` among them; {losses}", different=len(different))

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        """A Trainer sets its seed when it is built, after its model was made."""
        seed = evidence.arguments.get("seed")
        if evidence.determinism is None or evidence.construction is None or seed is None:
            return
        finding = self.finding(
            evidence.construction,
            f"the seed {seed} comes after random weights were made: runs differ all the same",
            help=f"call `set_seed({seed})` before the model is made, or give the Trainer `model_init`",
        )
        yield from self.if_confirmed(finding, evidence)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        if not finding.facts.get("can_move"):
            return None
        (made,) = finding.with_role("origin")
        return fixes.Fix.of(
            "set the seed before the model is made", fixes.MoveBefore(finding.location, made.location), safe=False
        )


def _trained(pipeline: Pipeline) -> Iterator[Value]:
    """The modules that optimizers and Trainers train."""
    steps = {id(event.subject) for event in pipeline.acts(Act.STEP)}
    for optimizer in pipeline.optimizers:
        if id(optimizer) in steps:
            yield from optimizer.trains
    for run in pipeline.runs:
        if run.model is not None and run.train_calls:
            yield run.model


def _is_random(pipeline: Pipeline, module: Value) -> bool:
    """Whether some of a module's weights are certainly drawn when it is made."""
    if isinstance(module, Model):
        facts = tuning.facts_of(pipeline, module)
        is_new = module.is_pretrained and module.task in WITH_NEW_HEAD and not module.is_adapted and facts is not None
        return is_new and (facts is None or facts.head is None or not facts.head.endswith(module.name[-14:]))
    is_own = isinstance(module, Instance) or (isinstance(module, Module) and module.path.startswith("torch.nn."))
    return is_own and modules.has_parameters(module)  # those of torchvision may come with weights


def _is_before(pipeline: Pipeline, made: Location, seed: LibraryCall) -> bool:
    """Whether a module is certainly made before the seed is set, in a stretch of the script that leads to both."""
    if made.path != seed.location.path:
        return False
    leading = {id(scope): location for scope, location in callers.way_out(pipeline, made)}
    shared = [
        (leading[id(scope)], location)
        for scope, location in callers.way_out(pipeline, seed.location)
        if id(scope) in leading
    ]
    return bool(shared) and shared[0][0] < shared[0][1]


def _may_seed_before(pipeline: Pipeline, made: Location, seed: LibraryCall) -> bool:
    """Whether other code that speaks of seeds runs above the seed, or may: in functions that are called elsewhere."""
    others = {call.location for call in pipeline.calls if call.path in OF_OTHERS}
    ends = {id(scope): location for scope, location in callers.way_out(pipeline, seed.location)}
    default = seed.location if blocks.is_one_scope(pipeline, made, seed.location) else None
    calls = [
        (source.location(node), node) for source in pipeline.sources.values() for node in source.nodes_of(ast.Call)
    ]
    for location, node in calls:
        called = ast.unparse(node.func)
        if "Generator" in called or not re.search(r"seed|determin|reproduc", called, re.IGNORECASE):
            continue
        end = ends.get(id(blocks.scope_of(pipeline, location)), default)
        if location not in others and location not in ends.values() and (end is None or location.line < end.line):
            return True
    return False
