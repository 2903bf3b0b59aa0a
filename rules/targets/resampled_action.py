"""The ratio of PPO takes the log-probability of an action that was sampled just now, not of the stored one.

PPO compares how likely the stored action is now with how likely it was. If the update samples actions of its own, the
two probabilities belong to different actions, so the ratio is noise and the advantage of one action is given to
another. The loss is finite, no error is raised, and the policy does not get better.

## Bad

    from torch.distributions import Categorical

    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, advantage in loader:
        with torch.no_grad():
            before = Categorical(logits=net(x))
            action = before.sample()
            stored = before.log_prob(action)
        policy = Categorical(logits=net(x))
        action = policy.sample()
        ratio = (policy.log_prob(action) - stored.detach()).exp()  # <- resampled-action
        clipped = torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
        loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    from torch.distributions import Categorical

    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, advantage in loader:
        with torch.no_grad():
            before = Categorical(logits=net(x))
            stored_action = before.sample()
            stored = before.log_prob(stored_action)
        policy = Categorical(logits=net(x))
        ratio = (policy.log_prob(stored_action) - stored.detach()).exp()
        clipped = torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
        loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

A function that samples an action only if it is passed none:

    from torch.distributions import Categorical

    adam = torch.optim.Adam(net.parameters(), lr=1e-3)

    def score(x, action=None):
        policy = Categorical(logits=net(x))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action)

    for x, advantage in loader:
        with torch.no_grad():
            stored_action, stored = score(x)
        _, now = score(x, stored_action)
        ratio = (now - stored).exp()
        clipped = torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
        loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

## Fix

None: where the stored actions are is not certain.

## References

Schulman et al., "Proximal Policy Optimization Algorithms", equation 6.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import policy_ratios
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class ResampledAction(Rule):
    level = Level.ERROR
    keywords = "log_prob & clamp|clip & sample"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(policy_ratios.resampled(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, policy_ratios.resampled(pipeline.source)))

    def _report(self, found: policy_ratios.Resampled) -> Finding:
        return self.finding(
            found.location,
            "the ratio takes the log-probability of a new action, not of the stored one",
            related=[Related(found.sampled, "sampled here, in the update", "sample")],
            help="pass the actions that were stored with the advantages to `log_prob`",
        )
