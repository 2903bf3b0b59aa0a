"""A term of the loss has the wrong sign, so training lowers what it is meant to raise, or the reverse.

An optimizer minimizes the loss. What is to grow is subtracted: the log-probabilities of good actions, the entropy of a
policy, the values that a critic gives, a similarity. What is to shrink is added, such as the divergence of a
variational autoencoder. With the other sign training raises no error, the loss falls, and the result gets worse.

## Bad

    from torch.distributions import Categorical

    for x, y in loader:
        policy = Categorical(logits=net(x))
        action = policy.sample()
        returns = (action == y).float()
        loss = (policy.log_prob(action) * returns).mean()  # <- wrong-loss-sign
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

An entropy that is added, so the policy soon takes one action only:

    from torch.distributions import Categorical

    for x, y in loader:
        policy = Categorical(logits=net(x))
        action = policy.sample()
        advantages = (action == y).float() - 0.3
        policy_loss = -(policy.log_prob(action) * advantages).mean()
        loss = policy_loss + 0.01 * policy.entropy().mean()  # <- wrong-loss-sign
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

A divergence that is rewarded:

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.mu, self.logvar, self.decoder = nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)

        def forward(self, x):
            mu, logvar = self.mu(x), self.logvar(x)
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
            return self.decoder(z), mu, logvar

    vae = VAE()
    adam = torch.optim.Adam(vae.parameters(), lr=1e-3)
    for x, _ in loader:
        decoded, mu, logvar = vae(x)
        kl = 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())  # <- wrong-loss-sign
        loss = F.mse_loss(decoded, x, reduction="sum") + kl
        adam.zero_grad()
        loss.backward()
        adam.step()

The larger of PPO's two surrogates, which limits no step:

    from torch.distributions import Categorical

    old = Categorical(logits=net(features).detach())
    action = old.sample()
    advantage = (action == targets).float() - 0.3
    for _ in range(4):
        new = Categorical(logits=net(features))
        ratio = torch.exp(new.log_prob(action) - old.log_prob(action))
        clipped = torch.clamp(ratio, 0.8, 1.2)
        loss = -torch.max(ratio * advantage, clipped * advantage).mean()  # <- wrong-loss-sign
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good

    from torch.distributions import Categorical

    for x, y in loader:
        policy = Categorical(logits=net(x))
        action = policy.sample()
        returns = (action == y).float()
        loss = -(policy.log_prob(action) * returns).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

A divergence in one of its other forms, and an entropy that is subtracted:

    from torch.distributions import Categorical

    mean, spread = nn.Linear(8, 2), nn.Linear(8, 2)
    adam = torch.optim.Adam([*net.parameters(), *mean.parameters(), *spread.parameters()], lr=1e-3)
    for x, y in loader:
        policy = Categorical(logits=net(x))
        action = policy.sample()
        returns = (action == y).float()
        mu, logvar = mean(x), spread(x)
        kl = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar).sum()
        loss = kl - (policy.log_prob(action) * returns).mean() - 0.01 * policy.entropy().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

A cost in place of a return, which is to shrink:

    from torch.distributions import Categorical

    for x, y in loader:
        policy = Categorical(logits=net(x))
        action = policy.sample()
        cost = (action != y).float()
        loss = (policy.log_prob(action) * cost).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Fix

None: the sign may be wrong in the term or in what it is made of.

## References

Sutton and Barto, "Reinforcement Learning", section 13.3; Schulman et al., "Proximal Policy Optimization Algorithms",
equation 7; Kingma and Welling, "Auto-Encoding Variational Bayes", appendix B.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loss_signs, policy_signs, preference_sides
from lintrain.analysis.loss_signs import PREFERS_REJECTED
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class WrongLossSign(Rule):
    level = Level.ERROR
    keywords = "backward|loss|Tape|kl|divergence & sigmoid|prob|exp|entropy|similarity|Cosine|parameters|relu|clamp"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(loss_signs.wrong_returns(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(each.location, each.message, why=each.why, help=each.remedy)
            for each in (*loss_signs.wrong_signs(pipeline.source), *policy_signs.wrong_signs(pipeline.source))
        )
        yield from one_per_location(
            self.finding(
                each.location,
                "minimizing this scores the rejected answer above the chosen one",
                why=PREFERS_REJECTED,
                help="subtract the rejected score from the chosen one",
            )
            for each in preference_sides.exchanged_losses(pipeline.source)
        )
