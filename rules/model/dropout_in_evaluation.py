"""Dropout by a function stays active in eval mode.

`nn.Dropout` follows `train()` and `eval()`. `F.dropout` does not: it drops unless it is given `training=False`, and
fused attention drops with whatever `dropout_p` it gets. Without `self.training` the network also drops values in
evaluation, so its metrics are lower and differ from run to run.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 16)
            self.last = nn.Linear(16, 3)

        def forward(self, x):
            x = F.relu(self.hidden(x))
            x = F.dropout(x, p=0.5)  # <- dropout-in-evaluation
            return self.last(x)

    network = Net()
    for x, y in loader:
        F.cross_entropy(network(x), y).backward()

In a training that evaluates:

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 3)

        def forward(self, x):
            return self.last(F.dropout(x, 0.2))  # <- dropout-in-evaluation

    scorer = Scorer()
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(scorer(x), y).backward()
        optimizer.step()
    scorer.eval()
    with torch.no_grad():
        scorer(x)

The probability of fused attention:

    class Attention(nn.Module):
        def __init__(self, rate=0.1):
            super().__init__()
            self.rate = rate
            self.project = nn.Linear(8, 24)

        def forward(self, x):
            q, k, v = self.project(x).chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate)  # <- dropout-in-evaluation

    attention = Attention()
    attention(torch.zeros(2, 5, 8)).sum().backward()

A layer that draws its own mask:

    class EdgeDropout(nn.Module):
        def __init__(self, rate):
            super().__init__()
            self.kept = 1 - rate

        def forward(self, values):
            mask = torch.rand(values.size()) < self.kept  # <- dropout-in-evaluation
            return values * mask / self.kept

    EdgeDropout(0.2)(torch.ones(4, requires_grad=True)).sum().backward()

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 16)
            self.last = nn.Linear(16, 3)

        def forward(self, x):
            x = F.relu(self.hidden(x))
            x = F.dropout(x, p=0.5, training=self.training)
            return self.last(x)

    network = Net()
    for x, y in loader:
        F.cross_entropy(network(x), y).backward()

and

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 3)

        def forward(self, x):
            return self.last(F.dropout(x, 0.2, training=self.training))

    scorer = Scorer()
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(scorer(x), y).backward()
        optimizer.step()
    scorer.eval()
    with torch.no_grad():
        scorer(x)

and

    class Attention(nn.Module):
        def __init__(self, rate=0.1):
            super().__init__()
            self.rate = rate
            self.project = nn.Linear(8, 24)

        def forward(self, x):
            q, k, v = self.project(x).chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate if self.training else 0.0)

    attention = Attention()
    attention(torch.zeros(2, 5, 8)).sum().backward()

## When it is fine

A condition asks for the mode, or the code says that it drops on purpose:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 3)

        def forward(self, x):
            if self.training:
                x = F.dropout(x, 0.2)
            return self.last(x)

    class MCDropoutNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 3)

        def forward(self, x):
            return self.last(F.dropout(x, 0.2))

    class Prenet(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 3)

        def forward(self, x):
            return self.last(F.dropout(x, 0.5, training=True))

    for network in (Net(), MCDropoutNet(), Prenet()):
        network(torch.zeros(4, 8)).sum().backward()

The caller or the mode chooses the probability, or it is 0:

    class Attention(nn.Module):
        def forward(self, q, k, v, dropout_p):
            rate = 0.0
            if self.training:
                rate = 0.1
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)
            x = F.scaled_dot_product_attention(x, k, v, dropout_p=rate)
            return F.scaled_dot_product_attention(x, k, v, dropout_p=0.0)

    x = torch.zeros(2, 5, 8, requires_grad=True)
    Attention()(x, x, x, 0.1).sum().backward()

## Fix

Asks first: the metrics of evaluation change. Only calls that take `training` have a fix.

## References

PyTorch documentation, `torch.nn.functional.dropout` and `scaled_dot_product_attention`; the fixes in
`rixwew/pytorch-fm`, commit 8ac848dca873, and `huggingface/pytorch-image-models`, commit 056fca2418f9.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import dropouts
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, Source, Targets, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the call has an argument for the mode."""

    takes_mode: bool


class DropoutInEvaluation(OddCallRule[Claim]):
    level = Level.WARNING
    odd = "dropout in eval mode"
    odd_message = "this call drops values in eval mode too"
    odd_help = "pass `training=self.training`"
    keywords = "ropout|drop_path|attn & forward|self"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(dropouts.dropouts_in_every_mode(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in dropouts.dropouts_in_every_mode(pipeline.source):
            mode = "pass `training=self.training`" if found.takes_mode else "drop only `if self.training`"
            name = f"`{found.code}`" if len(found.code) <= 32 else "this call"
            yield self.finding(
                found.location,
                f"{name} drops values in eval mode too",
                help=mode,
                claim=Claim(found.takes_mode),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.takes_mode:
            return None
        edit = fixes.AddArgument(finding.location, "training", "self.training")
        return fixes.Fix.of("pass `training=self.training`", edit, safe=False)
