"""A return, or the target of a value, counts the rewards of the wrong states.

The value of the next state ends with the episode: without the flag, or with the flag in place of its reverse, a network
learns values of states that never come. Returns are computed from the last reward to the first one, so a list that they
are appended to has to be reversed. Training runs without an error, and the scores stay low.

## Bad

    q, slow = nn.Linear(8, 3), nn.Linear(8, 3)
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for x, y in loader:
        states, actions, rewards, next_states, dones = x, y, x[:, 0], x.flip(0), (y == 0).float()
        with torch.no_grad():
            next_q = slow(next_states).max(1)[0]
        wanted = rewards + gamma * next_q  # <- wrong-return
        loss = F.mse_loss(q(states).gather(1, actions[:, None]).squeeze(1), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()

The flag in place of its reverse:

    q, slow = nn.Linear(8, 3), nn.Linear(8, 3)
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for x, y in loader:
        done = (y == 0).float()
        with torch.no_grad():
            wanted = x[:, 0] + gamma * done * slow(x.flip(0)).max(1)[0]  # <- wrong-return
        loss = F.mse_loss(q(x).gather(1, y[:, None]).squeeze(1), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()

Returns in the order of the last step to the first one:

    from torch.distributions import Categorical

    for x, y in loader:
        policy = Categorical(logits=net(x))
        action = policy.sample()
        rewards = (action == y).float().tolist()
        returns, running = [], 0.0
        for reward in reversed(rewards):
            running = reward + 0.99 * running
            returns.append(running)  # <- wrong-return
        loss = -(policy.log_prob(action) * torch.tensor(returns)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good

    q, slow = nn.Linear(8, 3), nn.Linear(8, 3)
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for x, y in loader:
        states, actions, rewards, next_states, dones = x, y, x[:, 0], x.flip(0), (y == 0).float()
        with torch.no_grad():
            next_q = slow(next_states).max(1)[0]
        wanted = rewards + gamma * next_q * (1 - dones)
        loss = F.mse_loss(q(states).gather(1, actions[:, None]).squeeze(1), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

A flag that says that the episode goes on, values that are set to zero at the end, and a list that is reversed:

    q, slow = nn.Linear(8, 3), nn.Linear(8, 3)
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for x, y in loader:
        states, actions, rewards, next_states, dones = x, y, x[:, 0], x.flip(0), y == 0
        not_done = (y != 0).float()
        next_q = slow(next_states).max(1)[0].detach()
        next_q[dones] = 0.0
        wanted = (rewards + gamma * next_q + rewards + gamma * not_done * next_q) / 2
        loss = F.mse_loss(q(states).gather(1, actions[:, None]).squeeze(1), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()
        returns, running = [], 0.0
        for reward in rewards.tolist()[::-1]:
            running = reward + gamma * running
            returns.append(running)
        returns = returns[::-1]

## Fix

None: the flag may have to be read from the rows first.

## References

Sutton and Barto, "Reinforcement Learning", sections 3.3 and 6.1; Mnih et al., "Human-level control through deep
reinforcement learning", algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import environments
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class WrongReturn(Rule):
    level = Level.ERROR
    keywords = "reward|reversed|[::-1]|gamma|done"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(environments.REWARDED) and any(environments.wrong_returns(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(each.location, each.message, why=each.why, help=each.remedy)
            for each in environments.wrong_returns(pipeline.source)
        )
