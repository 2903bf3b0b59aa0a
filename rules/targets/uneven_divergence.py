"""The loss of a variational autoencoder adds a mean and a sum over the whole batch.

The mean over all entries is thousands of times smaller than their sum. Next to a divergence that is summed over the
batch, the reconstruction hardly counts: the code holds nothing of the input, and every output is the same blur. Next to
a sum of entries, a divergence that is a mean has no effect, and samples from the prior are noise. No error is raised.

## Bad

    mean, spread, decoder = nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)
    adam = torch.optim.Adam([*mean.parameters(), *spread.parameters(), *decoder.parameters()], lr=1e-3)
    for x, _ in loader:
        mu, logvar = mean(x), spread(x)
        decoded = decoder(mu + torch.exp(0.5 * logvar) * torch.randn_like(mu))
        rebuilt = F.mse_loss(decoded, x)
        divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = rebuilt + divergence  # <- uneven-divergence
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    mean, spread, decoder = nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)
    adam = torch.optim.Adam([*mean.parameters(), *spread.parameters(), *decoder.parameters()], lr=1e-3)
    for x, _ in loader:
        mu, logvar = mean(x), spread(x)
        decoded = decoder(mu + torch.exp(0.5 * logvar) * torch.randn_like(mu))
        rebuilt = F.mse_loss(decoded, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = rebuilt + divergence
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

A weight makes up for the difference:

    mean, spread, decoder = nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)
    adam = torch.optim.Adam([*mean.parameters(), *spread.parameters(), *decoder.parameters()], lr=1e-3)
    for x, _ in loader:
        mu, logvar = mean(x), spread(x)
        decoded = decoder(mu + torch.exp(0.5 * logvar) * torch.randn_like(mu))
        divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = F.mse_loss(decoded, x) + 0.0005 * divergence
        adam.zero_grad()
        loss.backward()
        adam.step()

## Fix

None: both may be sums or means, and the learning rate depends on it.

## References

Kingma and Welling, "Auto-Encoding Variational Bayes", 2014, equation 10 and appendix B; pytorch/examples#296.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import divergence_scale
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class UnevenDivergence(Rule):
    level = Level.WARNING
    keywords = "exp & mse_loss|l1_loss|MSELoss|L1Loss|BCELoss|BCEWithLogitsLoss|binary_cross_entropy"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(divergence_scale.uneven(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, divergence_scale.uneven(pipeline.source)))

    def _report(self, uneven: divergence_scale.Uneven) -> Finding:
        if uneven.is_divergence_summed:
            return self.finding(
                uneven.location,
                "a mean over all entries is added to a divergence summed over the batch",
                help='sum both (`reduction="sum"`), or take the mean over rows of both',
            )
        return self.finding(
            uneven.location,
            "a sum over all entries is added to a divergence that is only a mean",
            help="sum the divergence as well: `torch.sum(…)`",
        )
