"""A target network has weights of its own, not those of the network that learns.

The estimate of the next state comes from a copy of the network that learns. A target network that nothing writes to
keeps its random first weights, so the targets are noise for the whole training. One that is only moved by a small share
in each step starts from other random weights, and gives wrong targets until it has reached the other: that is a note.
No error is raised.

## Bad

    q_target = nn.Sequential(nn.Linear(4, 2))  # <- stale-target-network
    q_online = nn.Sequential(nn.Linear(4, 2))
    adam = torch.optim.Adam(q_online.parameters(), lr=1e-3)
    for _ in range(4):
        state, following, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            wanted = reward + 0.99 * q_target(following).max(1).values
        loss = F.mse_loss(q_online(state).max(1).values, wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    q_target = nn.Sequential(nn.Linear(4, 2))
    q_online = nn.Sequential(nn.Linear(4, 2))
    q_target.load_state_dict(q_online.state_dict())
    adam = torch.optim.Adam(q_online.parameters(), lr=1e-3)
    for step in range(4):
        state, following, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            wanted = reward + 0.99 * q_target(following).max(1).values
        loss = F.mse_loss(q_online(state).max(1).values, wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 2 == 0:
            q_target.load_state_dict(q_online.state_dict())

## When it is fine

A copy, which a share of the weights follows:

    import copy

    q_online = nn.Sequential(nn.Linear(4, 2))
    q_target = copy.deepcopy(q_online)
    adam = torch.optim.Adam(q_online.parameters(), lr=1e-3)
    for _ in range(4):
        state, following, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            wanted = reward + 0.99 * q_target(following).max(1).values
        loss = F.mse_loss(q_online(state).max(1).values, wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            for kept, weight in zip(q_target.parameters(), q_online.parameters()):
                kept.lerp_(weight, 0.005)

## Fix

None: where the weights are copied depends on the rest of the script.

## References

Mnih et al., "Human-level control through deep reinforcement learning", 2015; Lillicrap et al., "Continuous control
with deep reinforcement learning", 2016, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import target_networks
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class StaleTargetNetwork(Rule):
    level = Level.ERROR
    keywords = "target|Target|tgt & Adam|RMSprop|SGD|RAdam|NAdam|Adagrad|Lion"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(target_networks.stale_targets(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, target_networks.stale_targets(pipeline.source)))

    def _report(self, target: target_networks.Target) -> Finding:
        if target.state is target_networks.State.FOLLOWS:
            return self.finding(
                target.location,
                f"`{target.name}` does not start with the weights of `{target.learner}`",
                help=f"add `{target.name}.load_state_dict({target.learner}.state_dict())`",
                level=Level.NOTE,
            )
        later = "no later" if target.state is target_networks.State.STARTS else "no"
        return self.finding(
            target.location,
            f"{later} weights of `{target.learner}` are ever written into `{target.name}`",
            help=f"call `{target.name}.load_state_dict({target.learner}.state_dict())` in the training as well",
        )
