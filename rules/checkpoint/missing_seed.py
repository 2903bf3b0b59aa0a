"""The script sets no seed, so its runs are not reproducible.

New weights, dropout and the order of the batches are random in each run. A difference of half a point in a metric may
be chance, and a run that fails cannot be repeated for debugging.

## Bad

    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    adam = torch.optim.Adam(classifier.parameters())
    batches = DataLoader(TensorDataset(torch.rand(32, 8), torch.arange(32) % 3), batch_size=16, shuffle=True)
    for x, y in batches:
        adam.zero_grad()
        F.cross_entropy(classifier(x), y).backward()  # <- missing-seed
        adam.step()
    torch.save(classifier.state_dict(), "classifier.pt")

## Good

    torch.manual_seed(0)
    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    adam = torch.optim.Adam(classifier.parameters())
    batches = DataLoader(TensorDataset(torch.rand(32, 8), torch.arange(32) % 3), batch_size=16, shuffle=True)
    for x, y in batches:
        adam.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        adam.step()
    torch.save(classifier.state_dict(), "classifier.pt")

## When it is fine

The Trainer of transformers sets a seed itself, and a module of a larger program leaves it to its caller:

    def train(classifier, batches):
        adam = torch.optim.Adam(classifier.parameters())
        for x, y in batches:
            adam.zero_grad()
            F.cross_entropy(classifier(x), y).backward()
            adam.step()

A training whose weights are never saved is an experiment:

    classifier = nn.Linear(8, 3)
    adam = torch.optim.Adam(classifier.parameters())
    adam.zero_grad()
    for step in range(2):
        F.cross_entropy(classifier(torch.rand(4, 8)), torch.tensor([0, 1, 2, 0])).backward()
        adam.step()
        adam.zero_grad()

## Fix

Asks first: with a seed, every run uses the same random numbers, and the choice of the seed is yours.

## References

PyTorch documentation, "Reproducibility"; Lightning#20412.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text, training_loops
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Optimizer
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes
from lintrain.text import show_number


class MissingSeed(Rule):
    level = Level.NOTE
    judges_whole_script = True
    keywords = "backward & save|push_to_hub"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if (
            not pipeline.acts(Act.SAVE)
            or not training_loops.trains_by_hand(pipeline)
            or script_text.mentions_name(pipeline, r"seed|generator|determin")
        ):
            return
        for training in training_loops.training_loops(pipeline):
            optimizer = training.steps[-1].subject
            if not isinstance(optimizer, Optimizer) or training.backward.uncalled:
                continue
            if any(modules.has_parameters(module) for module in optimizer.trains):
                yield self.finding(
                    training.backward.location,
                    "no seed is set in this script, so its runs are not reproducible",
                    related=[
                        Related(made, "the first random weights", "origin")
                        for made in _first_module(pipeline, optimizer)
                    ],
                    help="call `torch.manual_seed(0)` before the model is created",
                )
                return

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        loop, location = evidence.loop, evidence.first("backwards")
        if (
            loop is not None
            and location is not None
            and "seed" not in loop.mentions
            and evidence.determinism is not None
        ):
            yield self.finding(
                location,
                "no seed is set in this script, so its runs are not reproducible",
                help="call `torch.manual_seed(0)` before the model is created",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        starts = evidence.determinism
        if starts is None:
            return Verdict.inconclusive(evidence.unasked("determinism"))
        one, other = (show_number(loss, ".6g") for loss in starts.first_losses)
        if starts.repeats:
            return Verdict.refuted(
                f"two runs have the same {len(starts.losses[0])} losses, of which the first is {one}"
            )
        different = f"; different: {'; '.join(starts.sources)}" if starts.sources else ""
        return Verdict.confirmed(f"the first loss is {one} in one run and {other} in another{different}")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        origins = finding.with_role("origin")
        if not origins:
            return None
        edits = fixes.InsertBefore(origins[0].location, "torch.manual_seed(0)"), fixes.AddImport("torch")
        return fixes.Fix.of("set a seed before the model is created", *edits, safe=False)


def _first_module(pipeline: Pipeline, optimizer: Optimizer) -> list[Location]:
    """Where the first of the trained modules is created, if all of them and the optimizer are created in one scope."""
    locations = [module.origin for module in optimizer.trains if module.origin is not None]
    if optimizer.origin is None or len(locations) != len(optimizer.trains):
        return []
    if not blocks.is_one_scope(pipeline, *locations, optimizer.origin):
        return []
    others = (run.model.origin for run in pipeline.runs if run.model is not None and run.train_calls)
    trained = [
        location
        for location in others
        if location is not None and blocks.is_one_scope(pipeline, location, optimizer.origin)
    ]
    return [min([*locations, *trained])]
