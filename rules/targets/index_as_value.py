"""The number of the best action is used as its value.

The target of Q-learning is the reward plus the discounted value of the best next action. `argmax` gives the number of
that action, 0 or 1 for two of them, and so does the second part of what `max` over a dimension returns. The loss falls,
because the network learns these small numbers, and the policy learns nothing. No error is raised.

## Bad

    import copy

    q = nn.Linear(8, 3)
    frozen = copy.deepcopy(q)
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for state, action in loader:
        reward = state[:, 0]
        chosen = q(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = frozen(state.flip(0)).argmax(dim=1)  # <- index-as-value
            target = reward + gamma * best
        loss = F.mse_loss(chosen, target)
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    import copy

    q = nn.Linear(8, 3)
    frozen = copy.deepcopy(q)
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for state, action in loader:
        reward = state[:, 0]
        chosen = q(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = frozen(state.flip(0)).max(dim=1).values
            target = reward + gamma * best
        loss = F.mse_loss(chosen, target)
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

The number picks the value, as in double Q-learning:

    import copy

    q = nn.Linear(8, 3)
    frozen = copy.deepcopy(q)
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for state, action in loader:
        reward, following = state[:, 0], state.flip(0)
        chosen = q(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = q(following).argmax(dim=1, keepdim=True)
            target = reward + gamma * frozen(following).gather(1, best).squeeze(1)
        loss = F.mse_loss(chosen, target)
        adam.zero_grad()
        loss.backward()
        adam.step()

## Fix

None: the value may be the maximum, or the one that another network gives this action.

## References

PyTorch tutorial, "Reinforcement Learning (DQN)"; Sutton and Barto, "Reinforcement Learning", section 6.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import chosen_indices
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class IndexAsValue(Rule):
    level = Level.ERROR
    keywords = "gamma|discount|GAMMA|reward & argmax|argmin|indices|max(|min("
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(chosen_indices.index_values(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, chosen_indices.index_values(pipeline.source)))

    def _report(self, found: chosen_indices.IndexAsValue) -> Finding:
        return self.finding(
            found.location,
            "the number of the best action is discounted as if it were its value",
            related=[Related(found.product, "discounted here", "product")],
            help="use the value: `net(state).max(dim=1).values`, or `gather` it with this number",
        )
