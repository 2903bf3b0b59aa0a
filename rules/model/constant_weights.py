"""All weights of several layers start from one constant.

Units of a layer that start alike get the same gradient, and stay alike forever: each layer is as good as one unit. With
zeros not even that is left, since no gradient goes through the layers. The loss stops early and no error is raised.

## Bad

    def initialize(module):
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.5)  # <- constant-weights
            nn.init.zeros_(module.bias)

    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    model.apply(initialize)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good

    def initialize(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    model.apply(initialize)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## When it is fine

Scales of norms start at one, biases at zero, and a single last layer may start at zero:

    def initialize(module):
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)

    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3))
    model.apply(initialize)
    nn.init.zeros_(model[3].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Fix

None: which initialization is right depends on the activations.

## References

Goodfellow, Bengio and Courville, "Deep Learning", section 8.4; PyTorch documentation, `torch.nn.init`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import first_weights
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict, one_per_location


class ConstantWeights(Rule):
    level = Level.ERROR
    keywords = "zeros|ones|constant_|fill_|zero_("
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(first_weights.constants(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, first_weights.constants(pipeline.source)))

    def _report(self, found: first_weights.Constant) -> Finding:
        return self.finding(
            found.location,
            "all weights of a layer start from the same number, so its units stay alike",
            related=[Related(found.spread, "done to every layer", "loop")],
            help=DRAW,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        message = "all units of a layer start from the same weights, so they stay alike"
        yield self.finding(evidence.location_of("model"), message, help=DRAW)

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None:
            return Verdict.inconclusive(evidence.not_reached("backward"))
        if not any(backward.norms):
            return Verdict.inconclusive("the loss gave all weights the gradient 0")
        if not backward.alike:
            return Verdict.refuted("the units of each layer have weights or gradients of their own", layers=0)
        name, units = backward.alike[0]
        also = f", as in {len(backward.alike) - 1} more" if len(backward.alike) > 1 else ""
        text = f"the {units} units of `{name}` have the same weights and got the same gradient{also}"
        return Verdict.confirmed(text, layers=len(backward.alike))


DRAW = "draw the weights at random: `nn.init.xavier_uniform_` or `kaiming_normal_`"
