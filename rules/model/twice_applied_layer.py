"""A network applies one of its layers twice, and never the layer that was built for the second time.

`self.conv1(self.conv1(x))` after `self.conv1` and `self.conv2` runs without an error if both have the same sizes. The
network has fewer weights than it seems, and the weights of the other layer keep their random values.

## Bad

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(8, 8)
            self.fc2 = nn.Linear(8, 8)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            x = F.relu(self.fc1(x))
            x = F.relu(self.fc1(x))  # <- twice-applied-layer
            return self.head(x)

    model = Block()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(8, 8)
            self.fc2 = nn.Linear(8, 8)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            x = F.relu(self.fc1(x))
            x = F.relu(self.fc2(x))
            return self.head(x)

    model = Block()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## When it is fine

A layer without a twin may be applied several times, as in a recurrent or siamese network:

    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(8, 8)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            one, other = self.fc1(x), self.fc1(-x)
            return self.head(torch.cat([one, other], dim=1))

    model = Siamese()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Fix

None: which of the calls is meant for the other layer is not certain.

## References

PyTorch documentation, `torch.nn.Module`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import twin_layers
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict, dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """The name of the layer that is never applied."""

    layer: str


class TwiceAppliedLayer(Rule[Claim]):
    level = Level.WARNING
    keywords = "forward & Linear|Conv|Norm|Embedding|LSTM|GRU|RNN|MultiheadAttention"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return twin_layers.may_have_twins(source)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        source = pipeline.source
        for twin in twin_layers.unapplied_twins(source):
            shown = f"`self.{twin.used}` is applied twice, and `self.{twin.name}` never"
            yield self.finding(
                source.location(twin.use),
                shown if len(shown) <= 80 else "this layer is applied twice, and the one built like it never",
                related=[Related(source.location(twin.made), "built here, never applied", "origin")],
                help=f"call `self.{twin.name}` in one of the places, or do not build it",
                claim=Claim(twin.name),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None or finding.claim is None:
            return Verdict.inconclusive(evidence.not_reached("backward"))
        unused = [name for layer in backward.layers for name in layer.without_gradient]
        total = sum(layer.parameters for layer in backward.layers)
        own = [name for name in unused if finding.claim.layer in name.split(".")]
        if own:
            text = f"{len(unused)} of {total} tensors have no gradient, among them `{own[0]}`"
            return Verdict.confirmed(text, parameters=[*own[:20]])
        return Verdict.refuted(f"{len(unused)} of {total} tensors have no gradient, none of them of this layer")
