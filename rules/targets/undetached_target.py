"""A target or a weight of a loss carries gradients, though it is meant to be a number.

In Q-learning, `reward + gamma * net(next).max(1)` is the target of the same network. With gradients, each step also
moves the target towards the prediction. In an actor-critic, an advantage with gradients makes the critic learn from the
loss of the policy. Training runs without an error, and the scores stay low or fall again.

## Bad

    q = nn.Linear(8, 3)
    q_optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for state, action in loader:
        chosen = q(state).gather(1, action.unsqueeze(1)).squeeze(1)
        target = state[:, 0] + gamma * q(state.flip(0)).max(1)[0]
        loss = F.mse_loss(chosen, target)  # <- undetached-target
        q_optimizer.zero_grad()
        loss.backward()
        q_optimizer.step()

## Good

    q = nn.Linear(8, 3)
    q_optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for state, action in loader:
        chosen = q(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            target = state[:, 0] + gamma * q(state.flip(0)).max(1)[0]
        loss = F.mse_loss(chosen, target)
        q_optimizer.zero_grad()
        loss.backward()
        q_optimizer.step()

## When it is fine

A target network of its own has no optimizer, and two views of one image shall meet:

    import copy

    q = nn.Linear(8, 3)
    frozen = copy.deepcopy(q)
    q_optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    for state, action in loader:
        target = state[:, 0] + 0.99 * frozen(state.flip(0)).max(1)[0]
        loss = F.mse_loss(q(state).gather(1, action.unsqueeze(1)).squeeze(1), target)
        loss = loss + F.mse_loss(q(state), q(state + 0.1))
        q_optimizer.zero_grad()
        loss.backward()
        q_optimizer.step()

## Fix

None: `detach`, `no_grad` and a target network are all possible.

## References

PyTorch tutorial, "Reinforcement Learning (DQN)"; Sutton and Barto, "Reinforcement Learning", section 11.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loss_cuts, undetached
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class UndetachedTarget(Rule):
    level = Level.WARNING
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report_target, undetached.targets(pipeline)))
        yield from one_per_location(map(self._report_advantage, undetached.advantages(pipeline)))
        uncut = (*loss_cuts.temperatures(pipeline.source), *loss_cuts.trained_references(pipeline.source))
        yield from one_per_location(map(self._report_uncut, uncut))

    def _report_uncut(self, uncut: loss_cuts.Uncut) -> Finding:
        related = [Related(uncut.made, "trains it", "optimizer")] if uncut.made != uncut.location else []
        return self.finding(uncut.location, uncut.message, related=related, help=uncut.remedy)

    def _report_target(self, target: undetached.Carried) -> Finding:
        shown = f"`{target.code}`" if len(target.code) <= 20 else "this target"
        return self.finding(
            target.location,
            f"{shown} carries gradients of the network that it is the target of",
            related=[Related(target.forward, "computed here, with gradients", "forward")],
            help="compute it under `torch.no_grad()`, or `detach` it",
        )

    def _report_advantage(self, weight: undetached.Carried) -> Finding:
        shown = f"`{weight.code}`" if len(weight.code) <= 20 else "this weight"
        return self.finding(
            weight.location,
            f"{shown} carries gradients, so the critic learns from the loss of the policy",
            related=[Related(weight.forward, "computed here, with gradients", "forward")],
            help=f"multiply by `{weight.code}.detach()`",
        )
