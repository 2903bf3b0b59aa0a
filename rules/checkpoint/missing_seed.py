"""Nothing in the script sets a seed, so no run of it can be repeated.

Fresh weights, dropout and the order of the batches are drawn anew each time. A change of half a point cannot be told
from luck, and a run that went wrong cannot be looked at again.

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

The Trainer of transformers seeds by itself, and a part of a larger program leaves it to its caller:

    def train(classifier, batches):
        adam = torch.optim.Adam(classifier.parameters())
        for x, y in batches:
            adam.zero_grad()
            F.cross_entropy(classifier(x), y).backward()
            adam.step()

A training whose weights nobody keeps is a trial:

    classifier = nn.Linear(8, 3)
    adam = torch.optim.Adam(classifier.parameters())
    adam.zero_grad()
    for step in range(2):
        F.cross_entropy(classifier(torch.rand(4, 8)), torch.tensor([0, 1, 2, 0])).backward()
        adam.step()
        adam.zero_grad()

## Fix

Asks first: a seed makes every run draw the same numbers, and which number it is, is yours to choose.

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


class MissingSeed(Rule):
    level = Level.NOTE
    keywords = "backward & save|push_to_hub"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if (
            not pipeline.acts(Act.SAVE)
            or not training_loops.trains_by_hand(pipeline)
            or script_text.speaks_of(pipeline, r"seed|generator|determin")
        ):
            return
        for training in training_loops.training_loops(pipeline):
            optimizer = training.steps[-1].subject
            if not isinstance(optimizer, Optimizer) or training.backward.uncalled:
                continue
            if any(modules.has_parameters(module) for module in optimizer.trains):
                yield self.finding(
                    training.backward.location,
                    "nothing in this script sets a seed: its runs cannot be repeated",
                    related=[
                        Related(made, "the first random weights", "origin") for made in _first_made(pipeline, optimizer)
                    ],
                    help="call `torch.manual_seed(0)` before the model is made",
                )
                return

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        starts = evidence.determinism
        if starts is None:
            return Verdict.inconclusive(evidence.unasked("determinism"))
        one, other = starts.first_losses
        if starts.repeats:
            return Verdict.refuted(
                f"two starts give the same {len(starts.losses[0])} losses, the first of them {one:.6g}"
            )
        different = f"; not the same: {'; '.join(starts.sources)}" if starts.sources else ""
        return Verdict.confirmed(f"the first loss is {one:.6g} in one start and {other:.6g} in another{different}")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        origins = finding.with_role("origin")
        if not origins:
            return None
        edits = fixes.InsertBefore(origins[0].location, "torch.manual_seed(0)"), fixes.AddImport("torch")
        return fixes.Fix.of("set a seed before the model is made", *edits, safe=False)


def _first_made(pipeline: Pipeline, optimizer: Optimizer) -> list[Location]:
    """Where the first of the trained modules is made, if all are made and handed over in one stretch of the script."""
    locations = [module.origin for module in optimizer.trains if module.origin is not None]
    if optimizer.origin is None or len(locations) != len(optimizer.trains):
        return []
    if not blocks.is_one_scope(pipeline, *locations, optimizer.origin):
        return []
    others = (run.model.origin for run in pipeline.runs if run.model is not None and run.train_calls)
    beside = [
        location
        for location in others
        if location is not None and blocks.is_one_scope(pipeline, location, optimizer.origin)
    ]
    return [min([*locations, *beside])]
