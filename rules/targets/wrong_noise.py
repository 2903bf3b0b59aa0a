"""The noise of a generative model is of the wrong kind, or the loss compares it with the wrong tensor.

A network that learns to remove noise gets the noisy input and returns the noise, or the clean input. If the loss
compares its output with another tensor, or the noise is not what the model expects, the model learns something else. No
error is raised.

Variational autoencoders and diffusion models expect normal noise: `rand` has a mean of 0.5. The noise of an autoencoder
is scaled by the standard deviation, `exp(0.5 * logvar)`, and not by the variance. Each row needs noise, and a time, of
its own: `torch.randn(1)` moves all of them alike. What is left of an image after some steps is the product of what each
step leaves, `cumprod(1 - betas)`: a sum exceeds 1. A sampler begins with noise, and goes from the last step to the
first.

## Bad

    denoiser = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    adam = torch.optim.Adam(denoiser.parameters(), lr=1e-3)
    for x, _ in loader:
        noise = torch.randn_like(x)
        noisy = 0.8 * x + 0.6 * noise
        predicted = denoiser(noisy)
        loss = F.mse_loss(predicted, noisy)  # <- wrong-noise
        adam.zero_grad()
        loss.backward()
        adam.step()

A network that gets the clean input, and cannot know the noise:

    denoiser = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    adam = torch.optim.Adam(denoiser.parameters(), lr=1e-3)
    for x, _ in loader:
        noise = torch.randn_like(x)
        noisy = 0.8 * x + 0.6 * noise
        loss = F.mse_loss(denoiser(x), noise)  # <- wrong-noise
        adam.zero_grad()
        loss.backward()
        adam.step()

Uniform noise in a variational autoencoder:

    mean, spread, decoder = nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)
    adam = torch.optim.Adam([*mean.parameters(), *spread.parameters(), *decoder.parameters()], lr=1e-3)
    for x, _ in loader:
        mu, logvar = mean(x), spread(x)
        std = torch.exp(0.5 * logvar)
        eps = torch.rand_like(std)  # <- wrong-noise
        decoded = decoder(mu + eps * std)
        loss = F.mse_loss(decoded, x, reduction="sum") - 0.5 * torch.sum(1 + logvar - mu**2 - logvar.exp())
        adam.zero_grad()
        loss.backward()
        adam.step()

One number of noise for all rows:

    mean, spread, decoder = nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)
    adam = torch.optim.Adam([*mean.parameters(), *spread.parameters(), *decoder.parameters()], lr=1e-3)
    for x, _ in loader:
        mu, logvar = mean(x), spread(x)
        std = torch.exp(0.5 * logvar)
        eps = torch.randn(1)  # <- wrong-noise
        decoded = decoder(mu + eps * std)
        loss = F.mse_loss(decoded, x, reduction="sum") - 0.5 * torch.sum(1 + logvar - mu**2 - logvar.exp())
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    denoiser = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    adam = torch.optim.Adam(denoiser.parameters(), lr=1e-3)
    for x, _ in loader:
        noise = torch.randn_like(x)
        noisy = 0.8 * x + 0.6 * noise
        predicted = denoiser(noisy)
        loss = F.mse_loss(predicted, noise)
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

An autoencoder that returns its input, one that removes noise, and uniform numbers for anything else:

    denoiser = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    adam = torch.optim.Adam(denoiser.parameters(), lr=1e-3)
    for x, _ in loader:
        loss = F.mse_loss(denoiser(x), x)
        noisy = x + 0.1 * torch.randn_like(x)
        loss = loss + F.mse_loss(denoiser(noisy), x)
        mask = torch.rand_like(x) > 0.1
        share = torch.rand(len(x), 1)
        loss = loss + F.mse_loss(denoiser(x * mask), x) + F.mse_loss(denoiser(share * x), share * x)
        adam.zero_grad()
        loss.backward()
        adam.step()

## Fix

None: the network may be meant to predict the noise, the clean input or the velocity.

## References

Ho et al., "Denoising Diffusion Probabilistic Models", algorithm 1; Kingma and Welling, "Auto-Encoding Variational
Bayes", section 2.4; diffusers documentation, `prediction_type`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import denoising_steps, noise, noise_schedules, shared_draws
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class WrongNoise(Rule):
    level = Level.ERROR
    keywords = "rand|random|sample & add_noise|exp|sqrt|loss|Loss|q_sample|softplus"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        if any(noise_schedules.wrong_shares(source)) or any(
            each.is_ascending for each in denoising_steps.denoising(source)
        ):
            return True
        return any(noise.wrong_noise(source)) or any(shared_draws.shared_draws(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(each.location, each.message, why=each.why, help=each.remedy)
            for each in noise.wrong_noise(pipeline.source)
        )
        yield from one_per_location(map(self._report_share, noise_schedules.wrong_shares(pipeline.source)))
        yield from one_per_location(map(self._report_shared, shared_draws.shared_draws(pipeline.source)))

        for sampler in denoising_steps.denoising(pipeline.source):
            if sampler.is_ascending:
                yield self.finding(
                    sampler.loop,
                    "noise is taken off from the first step to the last, the wrong way round",
                    related=[Related(sampler.step, "the noise is taken off here", "step")],
                    why="A sampler starts with pure noise, which belongs to the last step. At the first step the "
                    "network expects hardly any, so the samples are wrong even if it is well trained. No error is "
                    "raised.",
                    help="go through the steps backwards: `reversed(range(steps))`",
                )

    def _report_share(self, wrong: noise_schedules.WrongShare) -> Finding:
        steps = f"`{wrong.steps}`" if len(wrong.steps) <= 24 else "what each step leaves"
        if wrong.function == "cumprod":
            return self.finding(
                wrong.location,
                "a product of the rates of noise is nearly 0 after a few steps",
                why="Almost nothing is left of the image at any later time, so the network gets noise alone and cannot "
                "learn to restore an image. No error is raised.",
                help="multiply what each step leaves: `torch.cumprod(1 - betas, dim=0)`",
            )
        return self.finding(
            wrong.location,
            f"the sum of {steps} exceeds 1 after two steps, so the share of noise is nan",
            why="The noisy input of all later times is nan, and so is the loss. A single such batch makes the weights "
            "nan. No error is raised.",
            help="multiply them: `torch.cumprod`",
        )

    def _report_shared(self, draw: shared_draws.SharedDraw) -> Finding:
        if draw.is_time:
            return self.finding(
                draw.location,
                f"`{draw.code}` draws one time, which all rows of the batch share",
                why="The gradient of each update depends on the time of its batch, so training is noisier and slower. "
                "No error is raised.",
                help="draw one for each row: `(len(x),)`",
                level=Level.WARNING,
            )
        return self.finding(
            draw.location,
            f"`{draw.code}` draws one number, which is the noise of every entry",
            why="The loss assumes that the noise of each entry is independent. With one number for all, the model "
            "never sees most of the samples that it may get later. No error is raised.",
            help="draw as many as there are: `torch.randn_like(std)`",
        )
