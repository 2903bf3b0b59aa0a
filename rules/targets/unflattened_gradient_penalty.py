"""A gradient penalty takes the norm of the gradients of images over one axis.

The penalty of WGAN-GP asks for a norm of 1 of the whole gradient of each row. Over dimension 1 of `[rows, channels,
height, width]` the norm is that of each pixel, and the penalty pulls each of them to 1: for images of 32 by 32 pixels
the critic is held at a slope of 32, and not of 1. No error is raised.

## Bad

    critic = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 1))
    adam = torch.optim.Adam(critic.parameters(), lr=1e-4)
    for real, fake in DataLoader(TensorDataset(torch.rand(32, 3, 8, 8), torch.rand(32, 3, 8, 8)), batch_size=8):
        share = torch.rand(real.size(0), 1, 1, 1)
        mixed = (share * real + (1 - share) * fake).requires_grad_(True)
        scores = critic(mixed)
        gradients = torch.autograd.grad(scores.sum(), mixed, create_graph=True)[0]
        penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean()  # <- unflattened-gradient-penalty
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    critic = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 1))
    adam = torch.optim.Adam(critic.parameters(), lr=1e-4)
    for real, fake in DataLoader(TensorDataset(torch.rand(32, 3, 8, 8), torch.rand(32, 3, 8, 8)), batch_size=8):
        share = torch.rand(real.size(0), 1, 1, 1)
        mixed = (share * real + (1 - share) * fake).requires_grad_(True)
        scores = critic(mixed)
        gradients = torch.autograd.grad(scores.sum(), mixed, create_graph=True)[0]
        penalty = ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

Rows that are vectors have one axis besides that of the batch:

    critic = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    adam = torch.optim.Adam(critic.parameters(), lr=1e-4)
    for x, y in loader:
        share = torch.rand(len(x), 1)
        mixed = (share * x + (1 - share) * x.flip(0)).requires_grad_(True)
        gradients = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
        loss = ((gradients.norm(2, dim=1) - 1) ** 2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

## Fix

Asks first: a critic that was tuned with the penalty of each pixel may need another weight for it.

## References

Gulrajani et al. 2017, *Improved Training of Wasserstein GANs*, section 4; PyTorch documentation, `torch.Tensor.norm`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradient_penalties
from lintrain.rule import (
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    dataclass,
    fixes,
    one_per_location,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The tensor whose norm is taken, and the call with the rows flattened before."""

    gradients: str
    flattened: str


class UnflattenedGradientPenalty(Rule[Claim]):
    level = Level.WARNING
    keywords = "grad( & norm("
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(gradient_penalties.unflattened(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(
            self._report(pipeline, each) for each in gradient_penalties.unflattened(pipeline.source)
        )

    def _report(self, pipeline: Pipeline, found: gradient_penalties.WrongNorm) -> Finding[Claim]:
        flattened = pipeline.code(found.location).replace(found.text, f"{found.text}.flatten(1)", 1)
        return self.finding(
            found.location,
            "this is the norm of each position, and the penalty needs that of each row",
            related=[Related(found.gradients, "gradients of inputs with more than two axes", "gradients")],
            help=f"flatten the rows first: `{found.text}.flatten(1)`" if found.text.isidentifier() else "flatten them",
            claim=Claim(found.text, flattened) if found.text.isidentifier() else None,
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, finding.claim.flattened)
        return fixes.Fix.of("take the norm of each row", edit, safe=False)
