"""What an environment of Gymnasium returns is taken for something else.

`step` returns observation, reward, `terminated`, `truncated` and information, and `reset` a pair of observation and
information. Four names for the five values end the run with an error, as does the pair in place of an observation. With
`truncated` left out, an episode goes on after its time limit, for ever once the policy is good.

## Bad

    import gymnasium as gym

    env = gym.make("CartPole-v1")
    policy = nn.Linear(4, 2)
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    state, _ = env.reset()
    for _ in range(10):
        scores = policy(torch.tensor(state))
        state, reward, done, info = env.step(scores.argmax().item())  # <- misread-environment
        loss = -scores.max() * reward
        adam.zero_grad()
        loss.backward()
        adam.step()

A pair in place of the observation:

    import gymnasium as gym

    env = gym.make("CartPole-v1")
    policy = nn.Linear(4, 2)
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    state = env.reset()  # <- misread-environment
    for _ in range(10):
        scores = policy(torch.tensor(state))
        state, reward, terminated, truncated, info = env.step(scores.argmax().item())
        loss = -scores.max() * reward
        adam.zero_grad()
        loss.backward()
        adam.step()

A time limit that ends no episode:

    import gymnasium as gym

    env = gym.make("CartPole-v1")
    policy = nn.Linear(4, 2)
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(10):
        state, _ = env.reset()
        done = False
        while not done:
            scores = policy(torch.tensor(state))
            state, reward, done, _, _ = env.step(scores.argmax().item())  # <- misread-environment
            loss = -scores.max() * reward
            adam.zero_grad()
            loss.backward()
            adam.step()

## Good

    import gymnasium as gym

    env = gym.make("CartPole-v1")
    policy = nn.Linear(4, 2)
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(10):
        state, _ = env.reset()
        done = False
        while not done:
            scores = policy(torch.tensor(state))
            state, reward, terminated, truncated, _ = env.step(scores.argmax().item())
            done = terminated or truncated
            loss = -scores.max() * reward
            adam.zero_grad()
            loss.backward()
            adam.step()

## When it is fine

A limit of the script's own, and a pair that is taken apart later:

    import gymnasium as gym

    env = gym.make("CartPole-v1")
    policy = nn.Linear(4, 2)
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(10):
        state = env.reset()
        state = state[0]
        for step in range(200):
            scores = policy(torch.tensor(state))
            state, reward, done, _, _ = env.step(scores.argmax().item())
            loss = -scores.max() * reward
            adam.zero_grad()
            loss.backward()
            adam.step()
            if done:
                break

## Fix

None: what else reads the values has to change with them.

## References

Gymnasium documentation, `Env.step`, `Env.reset` and "Handling Time Limits".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import environments
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class MisreadEnvironment(Rule):
    level = Level.ERROR
    keywords = "gymnasium & .step(|.reset("
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains("gymnasium") and any(environments.misread(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(each.location, each.message, help=each.remedy)
            for each in environments.misread(pipeline.source)
        )
