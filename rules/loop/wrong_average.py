"""A copy of the weights that is to follow the network does not: its average is the wrong way round, or never changes.

An average over the steps keeps most of what it was, such as `0.995 * target + 0.005 * net`. With the factors swapped it
is the network itself, and a target network no longer holds still. A copy that nothing updates keeps its first weights,
and a new value for the name of a loop over parameters changes no parameter. None of these raises an error.

## Bad

    import copy

    average = copy.deepcopy(net)
    tau = 0.005
    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for a, p in zip(average.parameters(), net.parameters()):
            a.data.copy_(tau * a.data + (1 - tau) * p.data)  # <- wrong-average

The name of the loop gets a new tensor, and the average stays as it is:

    import copy

    average = copy.deepcopy(net)
    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), net.parameters()):
                a = 0.99 * a + 0.01 * p  # <- wrong-average

A target network that keeps its first weights:

    q = nn.Linear(8, 3)
    target_q = nn.Linear(8, 3)  # <- wrong-average
    target_q.load_state_dict(q.state_dict())
    adam = torch.optim.Adam(q.parameters(), lr=1e-3)
    gamma = 0.99
    for state, action in loader:
        with torch.no_grad():
            wanted = state[:, 0] + gamma * target_q(state.flip(0)).max(1)[0]
        loss = F.mse_loss(q(state).gather(1, action.unsqueeze(1)).squeeze(1), wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    import copy

    average = copy.deepcopy(net)
    tau = 0.005
    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for a, p in zip(average.parameters(), net.parameters()):
            a.data.copy_((1 - tau) * a.data + tau * p.data)

## When it is fine

A new value for each weight, a target network that is updated now and again, and a teacher that stays as it is:

    import copy

    teacher = copy.deepcopy(net)
    average, target = copy.deepcopy(net), copy.deepcopy(net)
    gamma = 0.99
    for step, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) + F.mse_loss(net(x), gamma * target(x).detach() + 0.1 * teacher(x).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), net.parameters()):
                a.mul_(0.99).add_(p, alpha=0.01)
        if step % 10 == 0:
            target.load_state_dict(net.state_dict())

## Fix

None: which of the two factors was meant may be written elsewhere.

## References

Lillicrap et al., "Continuous control with deep reinforcement learning", algorithm 1; He et al., "Momentum Contrast for
Unsupervised Visual Representation Learning", equation 2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import weight_averages
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class WrongAverage(Rule):
    level = Level.ERROR
    keywords = "parameters()|state_dict() & backward|copy_|mul_|lerp_|.data"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(weight_averages.swapped(source)) or any(weight_averages.rebound(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._findings(pipeline))

    def _findings(self, pipeline: Pipeline) -> Iterator[Finding]:
        source = pipeline.source
        for each in weight_averages.swapped(source):
            yield self.finding(
                each.location,
                f"each step keeps {each.share:.2g} of `{each.name}`, so this is no average",
                why="The copy is nearly the network itself after each step: it averages nothing, and targets that it "
                "gives move with every update. Training is less stable, and no error is raised.",
                help="swap the factors: an average keeps most of what it was",
            )
        for location, name in weight_averages.rebound(source):
            yield self.finding(
                location,
                f"this binds the name `{name}` to a new tensor, and changes no weight",
                why="What the loop computes is lost, and the weights stay as they were. No error is raised.",
                help=f"change it in place: `{name}.copy_(…)` under `torch.no_grad()`",
            )
        for location, name, origin in () if source.is_partial else weight_averages.never_updated(source):
            yield self.finding(
                location,
                f"`{name}` never gets the weights of `{origin}` again while it trains",
                why="What it returns stays that of its first weights, so what the network learns from it gets no "
                "better. No error is raised.",
                help=f"call `{name}.load_state_dict({origin}.state_dict())` every few steps, or average the weights",
            )
