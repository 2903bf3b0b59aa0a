"""A categorical distribution gets logits as probabilities, or probabilities as logits.

The first argument of `Categorical` is `probs`. The output of a linear layer has negative numbers, which are refused.
Probabilities given as `logits=` are between 0 and 1, so the distribution is nearly uniform, however sure the network
is: the best of two actions is taken in at most 73 of 100 cases.

## Bad

    from torch.distributions import Categorical

    policy = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for x, y in loader:
        actions = Categorical(policy(x))  # <- logits-as-probabilities
        loss = -(actions.log_prob(y) * x[:, 0]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

    # raises ValueError: Expected parameter probs

Probabilities as logits:

    from torch.distributions import Categorical

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, x):
            return F.softmax(self.head(F.relu(self.hidden(x))), dim=-1)

    policy = Policy()
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for x, y in loader:
        actions = Categorical(logits=policy(x))  # <- logits-as-probabilities
        loss = -(actions.log_prob(y) * x[:, 0]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    from torch.distributions import Categorical

    policy = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    adam = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for x, y in loader:
        actions = Categorical(logits=policy(x))
        loss = -(actions.log_prob(y) * x[:, 0]).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

Logarithms of probabilities are logits, and probabilities are the first argument:

    from torch.distributions import Categorical

    for x, y in loader:
        actions = Categorical(logits=net(x).log_softmax(-1))
        others = Categorical(net(x).softmax(-1))
        loss = -(actions.log_prob(y) + others.log_prob(y)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Fix

None: the last layer may be wrong as well as the argument.

## References

PyTorch documentation, `torch.distributions.Categorical`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import distributions
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class LogitsAsProbabilities(Rule):
    level = Level.ERROR
    keywords = "Categorical("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(each) for each in distributions.wrong_ends(pipeline.source))

    def _report(self, found: distributions.WrongEnd) -> Finding:
        if found.is_logits:
            message, remedy = "this gets the logits of a linear layer as probabilities", "pass them as `logits=`"
        else:
            message, remedy = "this gets probabilities as `logits`, so it is nearly uniform", "pass them as `probs=`"
        related = [Related(found.last, "computed here", "made")]
        return self.finding(found.location, message, related=related, help=remedy)
