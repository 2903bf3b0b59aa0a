"""A computation is written through `.data`, where no gradient sees it.

An assignment to `.data` replaces the numbers of a tensor, and autograd does not record it. What the numbers were
computed from gets no gradient and never learns; a weight that is replaced by a function of itself in every pass changes
further each time. No error is raised.

## Bad

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 8))
            self.scale = nn.Parameter(torch.rand(1))

        def forward(self, x):
            self.weight.data = (self.weight * self.scale).data  # <- detached-parameter
            return F.linear(x, self.weight)

    scaled = Scaled()
    optimizer = torch.optim.SGD(scaled.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(scaled(x), y).backward()
        optimizer.step()

A parameter of which `forward` reads only the numbers:

    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.shift = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return self.layer(x) + self.shift.data  # <- detached-parameter

    shifted = Shifted()
    optimizer = torch.optim.SGD(shifted.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(shifted(x), y).backward()
        optimizer.step()

The weight of a layer that is never called:

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.head = nn.Linear(3, 3)

        def forward(self, x):
            return F.linear(F.linear(x, self.layer.weight), self.head.weight.data)  # <- detached-parameter

    tied = Tied()
    optimizer = torch.optim.SGD(tied.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(tied(x), y).backward()
        optimizer.step()

The output of a network as the numbers of another tensor:

    hidden = torch.zeros(16, 3, requires_grad=True)
    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        hidden.data = logits.data  # <- detached-parameter
        criterion(hidden, y).backward()
        optimizer.step()

## Good

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 8))
            self.scale = nn.Parameter(torch.rand(1))

        def forward(self, x):
            weight = self.weight * self.scale
            return F.linear(x, weight)

    scaled = Scaled()
    optimizer = torch.optim.SGD(scaled.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(scaled(x), y).backward()
        optimizer.step()

The output is used as it is:

    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        criterion(logits, y).backward()
        optimizer.step()

## When it is fine

Weights are set, clamped or averaged between two passes:

    layer, average = nn.Linear(8, 3), nn.Linear(8, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(layer(x), y).backward()
        optimizer.step()
        layer.weight.data = layer.weight.data.clamp(-1, 1)
        average.weight.data = 0.9 * average.weight.data + 0.1 * layer.weight.data

## Fix

None: the computed tensor has to replace the old one wherever that is used.

## References

PyTorch documentation, "Autograd mechanics"; `torch.nn.utils.parametrize`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import cut_layers, unseen_weights
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location


class DetachedParameter(Rule):
    level = Level.ERROR
    keywords = ".data|.detach"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(each) for each in unseen_weights.overwritten(pipeline))
        for location, name in unseen_weights.only_read_detached(pipeline.source):
            shown = name if len(name) <= 30 else "this parameter"
            yield self.finding(
                location,
                f"`{shown}` gets no gradient: only its numbers are read",
                help="use the parameter itself",
            )

        yield from map(self._report_layer, cut_layers.cut_layers(pipeline.source))

    def _report_layer(self, found: cut_layers.CutLayer) -> Finding:
        shown = f"`{found.weight}`" if len(found.weight) <= 30 else "this weight"
        return self.finding(
            found.location,
            f"{shown} gets no gradient from its network: only its numbers are read",
            related=[Related(found.made, "this layer is never called", "layer")],
            help="use the weight itself, without `.data` or `detach`",
        )

    def _report(self, found: unseen_weights.Overwritten) -> Finding:
        target, lost = (name if len(name) <= 20 else "the tensor" for name in (found.target, found.lost))
        what = (
            f"`{target}.data` is computed again from itself in each pass"
            if found.lost == found.target
            else f"`{lost}` gets no gradient through `{target}.data`"
        )
        return self.finding(found.location, what, help="use the computed tensor itself in place of the old one")

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        responses = evidence.responses
        if responses is not None and responses.rewritten:
            yield self.finding(
                responses.rewritten_at or evidence.location_of("model"),
                f"each pass of the model changes `{responses.rewritten[0]}`, which no gradient sees",
                help="compute a new tensor from the weight, and use that in place of it",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        responses, backward = evidence.responses, evidence.backward
        if responses is not None and responses.rewritten:
            names = responses.rewritten
            return Verdict.confirmed(f"one more pass, without a step, changes {len(names)} weights", weights=len(names))
        if backward is None:
            return Verdict.inconclusive(evidence.not_reached("backward"))
        lost = [name for each in backward.layers for name in each.without_gradient if name not in each.left_out]
        count = sum(layer.parameters for layer in backward.layers)
        text = f"{len(lost)} of {count} trained tensors had no gradient"
        if not lost and finding.with_role("layer"):
            return Verdict.inconclusive(f"{text}, but another term of the loss may use this layer")
        return Verdict.confirmed(text, lost=len(lost)) if lost else Verdict.refuted(text, lost=0)
