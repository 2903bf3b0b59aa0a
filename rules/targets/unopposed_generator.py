"""The generator is trained towards the target that its discriminator has for made rows.

The discriminator learns to give made rows a low score. The generator has to raise that score. If its loss lowers it
too, both losses fall quickly, and what the generator makes gets ever easier to tell apart from real rows. No error is
raised.

## Bad

    maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    judge = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    makes, judges = torch.optim.Adam(maker.parameters(), lr=2e-4), torch.optim.Adam(judge.parameters(), lr=2e-4)
    score = F.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
    for real, _ in DataLoader(TensorDataset(torch.randn(160, 8) + 2, torch.zeros(160)), batch_size=16):
        fake = maker(torch.randn(16, 4))
        loss = score(judge(real), ones) + score(judge(fake.detach()), zeros)
        judges.zero_grad()
        loss.backward()
        judges.step()
        loss = score(judge(fake), zeros)  # <- unopposed-generator
        makes.zero_grad()
        loss.backward()
        makes.step()

## Good

    maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    judge = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    makes, judges = torch.optim.Adam(maker.parameters(), lr=2e-4), torch.optim.Adam(judge.parameters(), lr=2e-4)
    score = F.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
    for real, _ in DataLoader(TensorDataset(torch.randn(160, 8) + 2, torch.zeros(160)), batch_size=16):
        fake = maker(torch.randn(16, 4))
        loss = score(judge(real), ones) + score(judge(fake.detach()), zeros)
        judges.zero_grad()
        loss.backward()
        judges.step()
        loss = score(judge(fake), ones)
        makes.zero_grad()
        loss.backward()
        makes.step()

## When it is fine

Critics without targets, whose generator changes the sign of the score:

    maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    judge = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    makes, judges = torch.optim.Adam(maker.parameters(), lr=2e-4), torch.optim.Adam(judge.parameters(), lr=2e-4)
    for real, _ in DataLoader(TensorDataset(torch.randn(160, 8) + 2, torch.zeros(160)), batch_size=16):
        fake = maker(torch.randn(16, 4))
        loss = judge(fake.detach()).mean() - judge(real).mean()
        judges.zero_grad()
        loss.backward()
        judges.step()
        loss = -judge(fake).mean()
        makes.zero_grad()
        loss.backward()
        makes.step()

Other games are left alone: it is confirmed only where the discriminator's own loss moves all scores of real rows one
way and all scores of made rows the other, in two steps.

## Fix

None: which of the two losses has the wrong target is not certain.

## References

Goodfellow et al., "Generative Adversarial Networks", section 3; PyTorch tutorials, "DCGAN Tutorial".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import generator_targets
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, Related, one_per_location


class UnopposedGenerator(OddCallRule):
    level = Level.ERROR
    keywords = "backward"
    odd = "same direction"
    odd_message = "the generator is trained towards its discriminator's own target"
    odd_help = "give the generator's loss the target of real rows, or change the sign of the score"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, generator_targets.same_targets(pipeline.source)))

    def _report(self, found: generator_targets.SameTarget) -> Finding:
        return self.finding(
            found.location,
            f"the generator's target is {found.target:g}, as its discriminator's for made rows",
            related=[Related(found.opponent, "the loss of the discriminator for made rows", "opponent")],
            help=self.odd_help,
        )
